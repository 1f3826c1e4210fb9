/**
 * An emergency of her organization at the member's authority: contract, "Organization membership, on the
 * member's authorization server" (`/org/notice`), "The organization's authority" (`/break-glass`), "Events".
 */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { tellUnmetEmergencies } from '../../src/authority/organization/emergency-faults.ts'
import { verifyBreakGlassAcceptance } from '../../src/wire/organization/break-glass.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { importPublicJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { BreakGlassGrant, Notice } from '../../src/wire/organization/notice.ts'
import { exchange, prepare, startTestAuthority } from '../support/authority.ts'
import { startMembershipStand } from '../support/membership.ts'
import { newKey } from '../support/operators.ts'
import * as seed from '../support/seed.ts'
import { startedForEach } from '../support/started.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

const RESOURCE = 'https://tools.example/mcp/alice'
const CREDENTIAL = randomBytes(24).toString('base64url')
const INVOKER = 'https://ops.example'
const clause = (changes: object = {}) => ({
  enabled: true,
  resources: ['alice/trades'],
  max_expires_in: 300,
  require_reason: true,
  invokers: [INVOKER],
  ...changes,
})
const stand = startedForEach(async () => {
  const started = await startMembershipStand({
    charter: { break_glass: clause() },
    file: { enforcement_points: [{ id: 'own', resources: [RESOURCE], credential: CREDENTIAL }] },
  })
  await started.joined()
  return started
})

const ledger = async () => {
  const { body } = await stand.authority.call(stand.alice, { target: '/owner/ledger?kind=break_glass' })
  return body.entries as (Record<string, unknown> & { what: string })[]
}
const whats = async () => (await ledger()).map(({ what }) => what)
const events = async () => {
  const { rows } = await stand.authority.database.pool.query<{ data: { what: string } }>(
    "SELECT data FROM events WHERE event = 'break_glass' ORDER BY id",
  )
  return rows.map(({ data }) => data.what)
}
const open = async () => {
  const json = { owner: 'alice', reason: 'the market burns', window_s: 600 }
  const { body } = await stand.organization.admin({ method: 'POST', target: '/admin/break-glass', json })
  return body.voucher as string
}
const redeem = (voucher: string, key = newKey()) =>
  exchange(
    prepare(
      stand.organization.publicUrl,
      stand.issuer,
      { key },
      {
        method: 'POST',
        target: '/break-glass',
        json: {
          owner: 'alice',
          resource: RESOURCE,
          resource_id: 'alice/trades',
          scopes: ['trade'],
          reason: 'fire',
          agent_jwk: publicJwk(key),
          operation: { tool: 'place_trade', params: { sell: 'all' } },
          voucher,
        },
      },
    ),
  )
const asking = ({
  authorised_by = 'ines',
  ...changes
}: Partial<BreakGlassGrant> & { authorised_by?: string } = {}): Notice => ({
  kind: 'break_glass',
  grant: {
    jti: `rpt_${randomBytes(8).toString('hex')}`,
    resource_id: 'alice/trades',
    scopes: ['trade'],
    cnf_jkt: newKey().thumbprint,
    operation: { tool: 'place_trade', params_s256: 's256:x' },
    exp: Math.floor(Date.now() / 1000) + 200,
    ...changes,
  },
  reason: 'fire',
  authorised_by,
})
const told = async (notice: Notice) => stand.post(await stand.noticeOf(notice))
const act = (target: string, json: object) =>
  stand.authority.call(stand.alice, { method: 'POST', target, json })

describe('An emergency window of an organization of ours', () => {
  it('is accepted by her authority, and she sees its opening, its yes and its use at once', async () => {
    const key = newKey()
    const { status, body } = await redeem(await open(), key)
    expect(status).toBe(200)
    const { payload } = parseJws(body.access_token as string)
    expect(payload['break_glass']).toMatchObject({ accepted: expect.any(String), authorised_by: 'ines' })
    expect((await events()).includes('accepted')).toBe(true)
    const accepted = (await ledger()).find(({ what }) => what === 'accepted')
    expect(accepted).toMatchObject({
      jti: payload['jti'],
      issuer: stand.issuer,
      resource_id: 'alice/trades',
      scopes: ['trade'],
      handle: `jkt:${key.thumbprint}`,
      operation: payload['operation'],
      expires_at: payload['exp'],
      reason: 'fire',
      authorised_by: 'ines',
      by: 'organization',
      actor: { kind: 'organization', org: 'acme', name: 'Acme', admin: 'ines' },
    })
    const consumed = await stand.organization.request('/consume', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${CREDENTIAL}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: String(new URLSearchParams({ token: body.access_token as string })),
    })
    expect(consumed.body.consumed).toBe(true)
    await until(async () => (await whats()).length === 3)
    const entries = await ledger()
    expect(entries.map(({ what }) => what)).toEqual(['opened', 'accepted', 'used'])
    expect(entries.find(({ what }) => what === 'opened')).toMatchObject({
      resources: ['alice/trades'],
      reason: 'the market burns',
      window_s: 600,
      authorised_by: 'ines',
    })
    expect(entries.find(({ what }) => what === 'used')).toMatchObject({ jti: payload['jti'] })
    expect(await events()).toEqual(['opened', 'accepted', 'used'])
  })

  it('is refused to a key whose connection she revoked: 403, and she sees that it was tried', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('portfolio_read')
    expect((await act('/owner/connections/revoke', { handle: agent.handle })).status).toBe(200)
    const refused = await redeem(await open(), agent.key)
    expect([refused.status, refused.body.reason]).toEqual([403, 'not_accepted'])
    expect(refused.text).not.toContain('revoked')
    await until(async () => (await whats()).length === 2)
    const entry = (await ledger()).find(({ what }) => what === 'refused')
    expect(entry).toMatchObject({ because: ['key_revoked'], handle: agent.handle })
  })
})

describe('A break_glass notice', () => {
  it('is answered with a yes to exactly its grant, signed by her authority, once', async () => {
    const asked = asking()
    const notice = await stand.noticeOf(asked)
    const { status, body } = await stand.post(notice)
    expect([status, body]).toEqual([200, { received: 'break_glass', accepted: expect.any(String) }])
    const { body: jwks } = await stand.authority.request('GET', '/jwks')
    const keys = (jwks.keys as Record<string, unknown>[]).map(jwk => ({
      ...importPublicJwk(jwk),
      kid: jwk['kid'] as string,
    }))
    const accepted = verifyBreakGlassAcceptance(body.accepted as string, keys, {
      authority: stand.authority.issuer,
      organization: stand.issuer,
      now: Math.floor(Date.now() / 1000),
    })
    const { grant } = asked as Extract<Notice, { kind: 'break_glass' }>
    expect(accepted).toEqual({ iss: stand.authority.issuer, aud: stand.issuer, owner: 'alice', ...grant })
    const again = await stand.post(notice)
    expect([again.status, again.body.accepted]).toEqual([409, undefined])
    // The same grant under another notice, whatever else it says.
    expect((await told(asking({ jti: grant.jti }))).status).toBe(409)
    expect(await whats()).toEqual(['accepted'])
  })

  it('is refused if it asks for what only a later charter allows, which she has not agreed to', async () => {
    await stand.publish({ break_glass: clause({ resources: ['alice/trades', 'alice/portfolio'] }) })
    await dueAtOnce(stand.authority.database, 'view')
    await until(async () => (await stand.own('GET')).body.waiting !== null)
    expect((await told(asking({ resource_id: 'alice/portfolio', scopes: ['read'] }))).status).toBe(403)
    const { body } = await stand.own('GET')
    const { charter_version, binds_s256 } = body
    await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
    expect((await told(asking({ resource_id: 'alice/portfolio', scopes: ['read'] }))).status).toBe(200)
    const [refused] = await ledger()
    expect(refused).toMatchObject({ what: 'refused', because: ['outside_clause'] })
  })

  it.each<[string, Parameters<typeof asking>[0], string]>([
    [
      'a resource of hers that the clause does not name',
      { resource_id: 'alice/portfolio' },
      'outside_clause',
    ],
    ['a scope that the resource is not registered with', { scopes: ['trade', 'read'] }, 'scope'],
    ['no scope at all', { scopes: [] }, 'scope'],
    ['an invoker that the clause does not name', { authorised_by: 'https://bots.example' }, 'invoker'],
    ['more seconds than the clause allows', { exp: Math.floor(Date.now() / 1000) + 4_000 }, 'lifetime'],
  ])('is refused for %s', async (_, changes, because) => {
    const notice = await stand.noticeOf(asking(changes))
    const { status, body } = await stand.post(notice)
    expect([status, body.error, body.accepted]).toEqual([403, 'request_denied', undefined])
    expect(await ledger()).toMatchObject([{ what: 'refused', because: [because] }])
    expect((await stand.post(notice)).status).toBe(409)
  })

  it('is refused if she blocked the invoker, or an operator beside the agent of the key', async () => {
    const key = newKey()
    const db = stand.authority.database.db
    const handle = testAgent(stand.authority, { key }).handle
    await seed.seedConnection(db, stand.alice.owner, handle, { operator: 'https://bots.example' })
    expect((await told(asking({ cnf_jkt: key.thumbprint }))).status).toBe(200)
    expect((await told(asking({ authorised_by: INVOKER }))).status).toBe(200)
    for (const origin of ['https://bots.example', INVOKER]) await act('/owner/operators/block', { origin })
    expect((await told(asking({ cnf_jkt: key.thumbprint }))).status).toBe(403)
    expect((await told(asking({ authorised_by: INVOKER }))).status).toBe(403)
    const refused = (await ledger()).filter(({ what }) => what === 'refused')
    expect(refused.map(({ because }) => because)).toEqual([['operator_blocked'], ['operator_blocked']])
  })

  it('is refused for a resource that is not registered for her, and once she has left', async () => {
    await stand.authority.database.pool.query("DELETE FROM tier_resources WHERE resource_id = 'alice/trades'")
    await stand.authority.database.pool.query("DELETE FROM resources WHERE resource_id = 'alice/trades'")
    expect((await told(asking())).status).toBe(403)
    const notice = await stand.noticeOf(asking())
    await stand.own('DELETE')
    expect((await stand.post(notice)).status).toBe(403)
    expect(await whats()).toEqual(['refused'])
  })

  it('that names no key, or says NUL, is refused 400 and changes nothing', async () => {
    expect((await told(asking({ cnf_jkt: 'short' }))).status).toBe(400)
    expect((await told(asking({ resource_id: 'alice/\0' }))).status).toBe(400)
    expect((await told(asking({ authorised_by: 'ines\0' }))).status).toBe(400)
    expect(await whats()).toEqual([])
  })

  it('whose grant came to nothing is told as void', async () => {
    const asked = asking({ jti: 'rpt_1' })
    expect((await told(asked)).status).toBe(200)
    expect((await told({ kind: 'break_glass_void', grant: { jti: 'rpt_1' } })).status).toBe(200)
    expect((await ledger()).at(-1)).toMatchObject({ what: 'void', jti: 'rpt_1', by: 'organization' })
    expect(await events()).toEqual(['accepted', 'void'])
  })
})

describe('What becomes of an accepted emergency', () => {
  const accepted = async () => {
    const asked = asking()
    expect((await told(asked)).status).toBe(200)
    return (asked as Extract<Notice, { kind: 'break_glass' }>).grant.jti
  }
  const used = (jti: string) => told({ kind: 'break_glass_used', grant: { jti } })
  const isVoid = (jti: string) => told({ kind: 'break_glass_void', grant: { jti } })
  const report = async (jti: string, id: string) =>
    (
      await protectionCall(stand.authority, '/audit/access', {
        id,
        family: 'bg_1',
        jti,
        tool: 'place_trade',
        summary: '{}',
      })
    ).body as Record<string, unknown>
  const compared = async () => {
    const { db } = stand.authority.database
    await sql`UPDATE accepted_emergencies SET expires_at = now() - interval '1 hour'`.execute(db)
    await tellUnmetEmergencies(db, stand.alice.owner, 100)
  }

  it('is told once, and of none that was never accepted: no notice fills her ledger with others', async () => {
    const jti = await accepted()
    for (let times = 0; times < 5; times++) expect((await used(jti)).status).toBe(200)
    expect((await isVoid(jti)).status).toBe(200)
    expect((await used('rpt_never')).status).toBe(200)
    expect((await isVoid('rpt_never')).status).toBe(200)
    expect(await whats()).toEqual(['accepted', 'used'])
    const another = await accepted()
    for (let times = 0; times < 5; times++) expect((await isVoid(another)).status).toBe(200)
    expect((await whats()).filter(what => what === 'void')).toHaveLength(1)
  })

  it('is told of whole, however much the clause of a charter may name', async () => {
    const name = (of: string) => (_: unknown, n: number) => `alice/${of}-${String(n).padStart(240, 'x')}`
    // What the charter in force names, and what the one that she agreed to does.
    const resources = ['now', 'then'].flatMap(of => Array.from({ length: 200 }, name(of)))
    const opened = { kind: 'break_glass_opened', resources, reason: 'x', by: 'ines', window_s: 300 } as const
    const { status, text } = await told(opened)
    expect([status, text]).toEqual([200, '{"received":"break_glass_opened"}'])
    expect((await ledger()).find(({ what }) => what === 'opened')?.['resources']).toEqual(resources)
  })

  it('is told of sixty times an hour at most, and what is beyond is told again later: 429', async () => {
    const said = () =>
      told({
        kind: 'break_glass_opened',
        resources: ['alice/trades'],
        reason: 'x',
        by: 'ines',
        window_s: 300,
      })
    for (let times = 0; times < 60; times++) expect((await said()).status).toBe(200)
    const opened: Notice = {
      kind: 'break_glass_opened',
      resources: [],
      reason: null,
      by: 'ines',
      window_s: 1,
    }
    const more = await stand.noticeOf(opened)
    const refused = await stand.post(more)
    expect([refused.status, refused.body.error]).toEqual([429, 'temporarily_unavailable'])
    expect(refused.headers.get('retry-after')).toBe('600')
    // What asks for a yes is counted by itself.
    for (let times = 0; times < 60; times++) await told(asking())
    expect((await told(asking())).status).toBe(429)
    // Her access ends at once, however many were told.
    expect((await told({ kind: 'role_changed', role: 'traders' })).status).toBe(200)
    await sql`UPDATE memberships SET emergencies_since = now() - interval '61 minutes'`.execute(
      stand.authority.database.db,
    )
    expect((await stand.post(more)).status).toBe(200)
  })

  it('is one call: its report is in her ledger, once, and more than one call under it is told to her', async () => {
    const jti = await accepted()
    expect(await report(jti, 'call-1')).toMatchObject({ recorded: 1 })
    expect(await report(jti, 'call-1')).toMatchObject({ recorded: 0 })
    expect(await report('rpt_never', 'call-2')).toMatchObject({ recorded: 0, error: 'unknown_token' })
    const { body } = await stand.authority.call(stand.alice, { target: '/owner/ledger?kind=touched' })
    expect(body.entries).toMatchObject([
      { break_glass: true, jti, family: 'bg_1', tool: 'place_trade', handle: expect.stringMatching(/^jkt:/) },
    ])
    expect(await whats()).toEqual(['accepted'])
    expect(await report(jti, 'call-3')).toMatchObject({ recorded: 1 })
    expect((await ledger()).at(-1)).toMatchObject({ what: 'used_again', jti, resource_id: 'alice/trades' })
    expect(await events()).toEqual(['accepted', 'used_again'])
  })

  it('is compared when it is over: she is told where a use was told of and no call reported, and the reverse', async () => {
    const jtis = [await accepted(), await accepted(), await accepted(), await accepted()] as const
    const [both, , unreported, unannounced] = jtis
    for (const jti of [both, unreported]) await used(jti)
    for (const jti of [both, unannounced]) await report(jti, `call-${jti}`)
    await compared()
    const found = (await ledger()).filter(({ what }) => what.startsWith('un'))
    expect(found.map(({ what, jti }) => [what, jti]).sort()).toEqual([
      ['unannounced', unannounced],
      ['unreported', unreported],
    ])
    await compared()
    expect((await whats()).filter(what => what.startsWith('un'))).toHaveLength(2)
  })
})

describe.each([30, -30])('A replica of her authority whose clock is off by %d s', seconds => {
  it('says no yes and spends nothing, while what ends something is taken', async () => {
    const wrong = await startTestAuthority({
      beside: stand.authority,
      localClock: () => Date.now() + seconds * 1_000,
      environment: { UMA_AS_LISTEN: '127.0.0.1:0' },
    })
    onTestFinished(() => wrong.close())
    const atWrong = (notice: string) =>
      wrong.request('POST', '/org/notice', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ notice }),
      })
    const notice = await stand.noticeOf(asking())
    const refused = await atWrong(notice)
    expect([refused.status, refused.body.error, refused.body.accepted]).toEqual([
      503,
      'temporarily_unavailable',
      undefined,
    ])
    expect(await whats()).toEqual([])
    // Another replica takes the same notice.
    expect((await stand.post(notice)).body.accepted).toEqual(expect.any(String))
    const ended = await stand.noticeOf({ kind: 'membership_ended', by: 'administrator' })
    expect((await atWrong(ended)).status).toBe(200)
    expect((await stand.own('GET')).body.enrolled).toBe(false)
  })

  it('or which is her organization’s: its longest grant is accepted, until it ends', async () => {
    const iat = Math.floor(Date.now() / 1_000) + seconds
    const asked = asking({ exp: iat + 300 })
    const { status, body } = await stand.post(await stand.noticeOf(asked, { iat, exp: iat + 60 }))
    expect([status, typeof body.accepted]).toEqual([200, 'string'])
    const longer = asking({ exp: iat + 301 })
    expect((await stand.post(await stand.noticeOf(longer, { iat, exp: iat + 60 }))).status).toBe(403)
  })
})
