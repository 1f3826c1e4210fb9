/**
 * An organization that is hostile or stolen: contract, "What the service does" (nothing above the owner can
 * widen).
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { bindingDigest, type MemberView } from '../../src/rules/organization/member-view.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { AllowanceCeiling } from '../../src/wire/organization/charter.ts'
import type { Notice, NoticeClaims } from '../../src/wire/organization/notice.ts'
import { startTestAuthority } from '../support/authority.ts'
import { authorityUnder, startHostile, viewOf } from '../support/hostile-organization.ts'
import { membershipCalls, noticeBy } from '../support/membership.ts'
import { testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

describe('An organization that answers a join with other terms than were agreed', () => {
  it('makes nobody a member, and is told that she left', async () => {
    const hostile = await startHostile()
    const authority = await authorityUnder(hostile)
    const own = membershipCalls(authority)
    const { body } = await own('POST', '/preview', { code: 'any' })
    hostile.answers['/join'] = viewOf(hostile.issuer, { claims: ['alice/*'] })
    const { binds_s256, charter_version } = body
    const joined = await own('POST', '', { code: 'any', agreed: true, binds_s256, charter_version })
    expect([joined.status, joined.body.reason]).toEqual([409, 'charter_moved'])
    expect((await own('GET', '')).body.enrolled).toBe(false)
    await until(() => hostile.asked.includes('/leave'))
  })

  it.each([401, 429])(
    'and refuses what it may have granted with %i, its answer lost: the join is taken back, not forgotten',
    async status => {
      const hostile = await startHostile()
      const authority = await authorityUnder(hostile)
      const own = membershipCalls(authority)
      const { body } = await own('POST', '/preview', { code: 'any' })
      const { binds_s256, charter_version } = body
      hostile.next['/join'] = ['cut', status]
      const joined = await own('POST', '', { code: 'any', agreed: true, binds_s256, charter_version })
      expect([joined.status, joined.body.error]).toEqual([503, 'temporarily_unavailable'])
      const { rows } = await authority.database.pool.query('SELECT kind FROM organization_calls')
      expect(rows).toEqual([{ kind: 'join' }])
    },
  )
})

/** With the digest of what it says, so that nothing else speaks against it. */
function saying(changes: Partial<MemberView>): object {
  return { ...changes, binds_s256: bindingDigest({ ...viewOf(''), ...changes }) }
}

function emergencies(changes: Partial<MemberView['break_glass']>): object {
  return saying({ break_glass: { ...viewOf('').break_glass, ...changes } })
}

function many(count: number, prefix: string): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`)
}

const EUROS: AllowanceCeiling = { unit: 'EUR', per: 'day', max: '200' }
const ZONED = { ...EUROS, zone: 'UTC' }

function bounds(count: number): AllowanceCeiling[] {
  return many(count, 'x').map(unit => ({ ...EUROS, unit }))
}

/** A kibibyte with what separates it, and how many of them fit into 256 KiB beside the rest of a view. */
const [KIBIBYTE, SENTENCES] = ['x'.repeat(1_021), 250]

describe('What an organization says that no charter could', () => {
  it.each<[string, object]>([
    ['another digest than that of what it says', { binds_s256: 's256:of-something-milder' }],
    ['a ceiling of another digest', { max_expires_in: 9 }],
    ['another organization’s name', { issuer: 'https://elsewhere.example' }],
    ['a claim of everything', { claims: ['*/*'] }],
    [
      'more claims than a charter holds',
      saying({ claims: many(201, 'alice/x'), grants: [], always_ask: [] }),
    ],
    ['a lifetime of more than 30 days', saying({ max_expires_in: 2_592_001 })],
    ['emergencies of more than an hour', emergencies({ max_expires_in: 3_601 })],
    ['emergencies of no time', emergencies({ max_expires_in: 0 })],
    ['an invoker in capitals', emergencies({ invokers: ['https://Agents.example'] })],
    ['an invoker of no https', emergencies({ invokers: ['http://agents.example'] })],
    ['more prohibitions than a charter holds', saying({ require_prohibited: many(201, 'x') })],
    ['more scopes than a charter holds', saying({ allowed_scopes: many(201, 'x') })],
    ['more values of a fact than a charter holds', saying({ require_clearance: { x: many(201, 'x') } })],
    ['two bounds of allowances of one unit and span', saying({ max_allowance: [EUROS, EUROS] })],
    ['a bound of allowances that is no decimal', saying({ max_allowance: [{ ...EUROS, max: '1e9' }] })],
    [
      'a bound of allowances of a longer unit than any',
      saying({ max_allowance: [{ ...EUROS, unit: 'x'.repeat(65) }] }),
    ],
    ['a bound of allowances that says more than is known', saying({ max_allowance: [ZONED] })],
    ['more bounds of allowances than a charter holds', saying({ max_allowance: bounds(201) })],
    ['a name longer than any organization has', { name: 'x'.repeat(201) }],
    ['more than 256 KiB', { summary: Array.from({ length: SENTENCES + 10 }, () => KIBIBYTE) }],
    ['control characters', { summary: ['\u001b[2J'] }],
  ])('is no answer: %s', async (_, previews) => {
    const hostile = await startHostile()
    hostile.answers['/preview'] = previews
    const authority = await authorityUnder(hostile)
    const target = '/owner/organization/preview'
    const reply = await authority.call(authority.alice, { method: 'POST', target, json: { code: 'any' } })
    expect([reply.status, reply.body.error]).toEqual([503, 'temporarily_unavailable'])
  })

  it.each<[string, object]>([
    ['a lifetime of 30 days', saying({ max_expires_in: 2_592_000 })],
    [
      'emergencies of an hour, by 200 invokers',
      emergencies({
        max_expires_in: 3_600,
        invokers: many(200, 'https://agents.example:1'),
      }),
    ],
    [
      'as many entries of each list',
      saying({ require_prohibited: many(200, 'x'), allowed_scopes: many(200, 'x') }),
    ],
    ['200 bounds of allowances', saying({ max_allowance: bounds(200) })],
    ['a name of 200 characters', { name: 'x'.repeat(200) }],
    ['almost 256 KiB', { summary: Array.from({ length: SENTENCES }, () => KIBIBYTE) }],
  ])('is read to its last bound: %s', async (_, previews) => {
    const hostile = await startHostile()
    hostile.answers['/preview'] = previews
    const authority = await authorityUnder(hostile)
    const target = '/owner/organization/preview'
    const reply = await authority.call(authority.alice, { method: 'POST', target, json: { code: 'any' } })
    expect(reply.status).toBe(200)
  })
})

/**
 * That it is due again: soon if the answer was useless or it was asked a moment ago, otherwise in about a
 * minute; before that it is due now, or taken for half a minute.
 */
const SETTLED = `SELECT 1 FROM due WHERE kind = 'view' AND at > now()
  AND (at < now() + interval '12 seconds' OR at > now() + interval '35 seconds')`

/** Alice, a member of it under the terms of an honest one; bea is none. */
async function member() {
  const hostile = await startHostile()
  const authority = await authorityUnder(hostile, { owners: ['alice', 'bea'] })
  const own = membershipCalls(authority)
  const { body } = await own('POST', '/preview', { code: 'any' })
  const { binds_s256, charter_version } = body
  await own('POST', '', { code: 'any', agreed: true, binds_s256, charter_version })
  const standing = async () => (await own('GET')).body as Record<string, unknown> & { view: number }
  /** Makes it ask how she stands, and waits for the answer. */
  const asks = async () => {
    const before = hostile.asked.length
    await dueAtOnce(authority.database, 'view')
    await until(() => hostile.asked.slice(before).includes('/envelope'))
    await until(async () => (await authority.database.pool.query(SETTLED)).rows.length > 0)
  }
  const post = async (notice: Notice, claims?: Partial<NoticeClaims>) =>
    bring(await noticeBy(hostile, authority, notice, claims))
  const bring = (notice: string) =>
    authority.request('POST', '/org/notice', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ notice }),
    })
  const tiers = async () =>
    (await authority.call(authority.alice, { target: '/owner/policies' })).body as object
  return { hostile, authority, own, standing, asks, post, bring, tiers }
}

const WIDEST = {
  claims: ['alice/*', 'bea/*'],
  roles: { staff: { name: 'Staff', grants: ['alice/*'], delegation: 'any-agent' } },
  envelope: { max_expires_in: 2_592_000, allowed_scopes: null, require_prohibited: [], always_ask: [] },
  break_glass: {
    enabled: true,
    resources: ['alice/*'],
    max_expires_in: 3600,
    require_reason: false,
    invokers: [],
  },
}

describe('An organization of which she is a member, and that turns hostile', () => {
  it('enlarges its charter: her tiers, what it governs and what it may in an emergency are as she agreed', async () => {
    const { hostile, standing, asks, tiers, own, post } = await member()
    const [before, policies] = [await standing(), await tiers()]
    hostile.answers['/envelope'] = viewOf(hostile.issuer, WIDEST, { view: 7, charter_version: 9 })
    await asks()
    const after = await standing()
    expect([after.view, after['governed_resources']]).toEqual([7, before['governed_resources']])
    expect(after['agreed_version']).toBe(before['agreed_version'])
    expect(after['waiting']).toMatchObject({ version: 9 })
    expect(await tiers()).toEqual(policies)
    const grant = {
      jti: 'rpt_hostile',
      resource_id: 'alice/statements',
      scopes: ['read'],
      cnf_jkt: hostile.key.thumbprint,
      operation: { tool: 'statement_read', params_s256: 's256:x' },
      exp: Math.floor(Date.now() / 1000) + 60,
    }
    const emergency = await post({ kind: 'break_glass', grant, reason: 'x', authorised_by: 'x' })
    expect([emergency.status, emergency.body.accepted]).toEqual([403, undefined])
    await own('DELETE')
    expect(await tiers()).toEqual(policies)
  })

  it.each<[string, (issuer: string) => MemberView]>([
    ['an earlier view', issuer => viewOf(issuer, {}, { view: 4 })],
    [
      'another view of the same number',
      issuer => viewOf(issuer, { envelope: { max_expires_in: 60 } }, { view: 5 }),
    ],
  ])('serves %s: it is dropped, and confirms nothing', async (_, served) => {
    const { hostile, authority, standing, asks } = await member()
    hostile.answers['/envelope'] = viewOf(hostile.issuer, {}, { view: 5 })
    await asks()
    await authority.database.pool.query("UPDATE memberships SET read_at = now() - interval '700 seconds'")
    const before = await standing()
    expect([before.view, before['stale']]).toEqual([5, true])
    hostile.answers['/envelope'] = served(hostile.issuer)
    await asks()
    expect(await standing()).toEqual(before)
  })

  it('numbers the same view again and again: she is told of none, and of the one that says more', async () => {
    const { hostile, authority, standing, asks } = await member()
    const told = async () =>
      (
        await authority.database.pool.query(
          "SELECT data->>'charter_version' AS version FROM ledger WHERE kind IN ('org_acted', 'org_role')",
        )
      ).rows as object[]
    for (const view of [2, 3]) {
      const numbered = { view, charter_version: view, published_at: `2026-11-2${view}T09:00:00.000Z` }
      hostile.answers['/envelope'] = viewOf(hostile.issuer, {}, numbered)
      await asks()
      expect([(await standing()).view, await told()]).toEqual([view, []])
    }
    hostile.answers['/envelope'] = viewOf(hostile.issuer, WIDEST, { view: 4, charter_version: 4 })
    await asks()
    expect(await told()).toEqual([{ version: '4' }])
  })

  it.each<[string, (issuer: string) => MemberView, string]>([
    ['it has just answered', issuer => viewOf(issuer), '0 seconds'],
    ['its last answer was no use', issuer => viewOf(issuer, {}, { view: 0 }), '700 seconds'],
  ])('sends notice upon notice where %s: it is not asked each time', async (_, served, readAgo) => {
    const { hostile, authority, post, asks } = await member()
    const { pool } = authority.database
    hostile.answers['/envelope'] = served(hostile.issuer)
    await asks()
    const epoch = async () =>
      (await pool.query('SELECT org_epoch FROM memberships')).rows[0].org_epoch as number
    const before = { asked: hostile.asked.length, epoch: await epoch() }
    for (let notice = 0; notice < 5; notice++) {
      await pool.query('UPDATE memberships SET read_at = clock_timestamp() - $1::interval', [readAgo])
      expect((await post({ kind: 'role_changed', role: 'staff' })).status).toBe(200)
      await until(async () => (await pool.query(SETTLED)).rows.length > 0)
    }
    expect(hostile.asked.slice(before.asked)).not.toContain('/envelope')
    expect(await epoch()).toBe(before.epoch + 5)
    await until(() => hostile.asked.slice(before.asked).includes('/envelope'))
  })

  it('replays what it told, and tells of others: nothing comes of it', async () => {
    const { hostile, authority, post, bring, standing } = await member()
    const epochs = async () =>
      (await authority.database.pool.query('SELECT owner, org_epoch FROM memberships ORDER BY owner'))
        .rows as object[]
    const moved: Notice = { kind: 'role_changed', role: 'staff' }
    const notice = await noticeBy(hostile, authority, moved)
    expect((await bring(notice)).status).toBe(200)
    const before = await epochs()
    expect((await bring(notice)).status).toBe(409)
    const ended: Notice = { kind: 'membership_ended', by: 'administrator' }
    expect((await post(ended, { sub: asOwner('bea') })).status).toBe(403)
    expect((await post(ended, { sub: asOwner('nobody') })).status).toBe(404)
    expect((await post(ended, { sub: asOwner('ali\u0000ce') })).status).toBe(404)
    expect((await post(ended, { membership: 'another-join-of-hers' })).status).toBe(409)
    expect((await post(ended, { iss: authority.issuer })).status).toBe(401)
    expect([await epochs(), (await standing())['enrolled']]).toEqual([before, true])
  })

  it('allows everything: what she refuses is refused, and what she is asked about waits for her', async () => {
    const { authority } = await member()
    const agent = testAgent(authority)
    const trade = await agent.present(await agent.ticket('place_trade'))
    expect([trade.status, trade.body.error]).toEqual([403, 'request_denied'])
    const account = await agent.present(await agent.ticket('close_account'))
    expect([account.status, account.body.error]).toEqual([403, 'request_denied'])
    const read = await agent.ask('portfolio_read')
    expect([read.status, read.body.error]).toEqual([403, 'request_submitted'])
  })
})

describe('An authority for which no organization is listed', () => {
  it('asks nobody, and says that there is none', async () => {
    const authority = await startTestAuthority()
    onTestFinished(() => authority.close())
    const target = '/owner/organization'
    expect((await authority.call(authority.alice, { target })).body).toEqual({
      enrolled: false,
      available: [],
      invitation: null,
      unreachable: [],
    })
    const json = { issuer: 'https://org.example', code: 'any' }
    const asked = await authority.call(authority.alice, { method: 'POST', target: `${target}/preview`, json })
    expect([asked.status, asked.body.error]).toEqual([403, 'request_denied'])
  })
})
