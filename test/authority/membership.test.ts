/**
 * Membership at the member's own authority: contract, "Organization membership, on the member's authorization
 * server".
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sql } from 'kysely'
import type { Cut } from '../../src/rules/organization/tier-ceiling.ts'
import type { Tier } from '../../src/wire/owner/owner-api.ts'
import { row } from '../support/contract-row.ts'
import { holdLease } from '../support/lease-holder.ts'
import { membershipCalls, startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startedOnce } from '../support/started.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startMembershipStand({ authority: { owners: ['alice', 'bea', 'cleo'] } }))
const own: MembershipStand['own'] = (...sent) => stand.own(...sent)
const tier = async (id: string) => {
  const { body } = await stand.authority.call(stand.alice, { target: '/owner/policies' })
  return (body.tiers as Tier[]).find(one => one.id === id)!
}
const ledger = async (kind: string) =>
  (await stand.authority.call(stand.alice, { target: `/owner/ledger?kind=${kind}` })).body.entries.reverse()
/** Whether a grant of hers counts, or why not. */
const introspected = async (token: string): Promise<unknown> => {
  const { body } = await protectionCall(stand.authority, '/introspect', { token })
  return body.active === true ? 'active' : body.reason
}
/** How the organization lists its members. */
const members = async () =>
  ((await stand.organization.admin({ target: '/admin/members' })).body as { owner: string }[]).map(
    ({ owner }) => owner,
  )

beforeEach(async () => {
  const terms = { expires_in: 3600, prohibited: [] }
  await stand.authority.call(stand.alice, {
    method: 'PUT',
    target: '/owner/policies/reading',
    json: { terms },
  })
})
afterEach(async () => {
  await own('DELETE')
  await until(async () => !(await members()).includes('alice'))
})

describe("Organization membership, on the member's authorization server", () => {
  row('organization-get', async () => {
    const asNobody = { enrolled: false, available: [stand.issuer], invitation: null, unreachable: [] }
    const { bea } = stand.authority.owners
    const target = '/owner/organization'
    expect((await stand.authority.call(bea!, { target })).body).toEqual(asNobody)
    const json = { owner: 'alice', as_uri: stand.authority.issuer, note: 'Welcome' }
    const sent = await stand.organization.admin({ method: 'POST', target: '/admin/invites', json })
    const { code, expires_at } = sent.body as { code: string; expires_at: string }
    const invited_at = expect.any(String) as string
    const invitation = { issuer: stand.issuer, code, note: 'Welcome', invited_at, expires_at }
    expect((await own('GET')).body).toEqual({ ...asNobody, invitation })
    // By that code she joins.
    expect((await own('POST', '', await stand.agreeing(code))).status).toBe(200)
    const { status, body } = await own('GET')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      enrolled: true,
      issuer: stand.issuer,
      org: 'acme',
      role: 'staff',
      grants: ['alice/portfolio', 'alice/account'],
      agreed_version: body.charter_version,
      waiting: null,
      stale: false,
      governed_resources: ['alice/account', 'alice/portfolio', 'alice/trades'],
      conflicts: [],
      administrators_may: ['approve', 'revoke', 'restore', 'block', 'unblock'],
    })
    expect(body.tiers.reading).toContainEqual({ field: 'expires_in', yours: 900, ceiling: 900 })
    expect(Object.keys(body.tiers)).toEqual(['reading', 'trading'])
    // By which she joined, it waits no more, also once she has left.
    await own('DELETE')
    expect((await own('GET')).body).toEqual(asNobody)
  })

  row('organization-preview', async () => {
    const before = await tier('reading')
    const { status, body } = await own('POST', '/preview', { code: await stand.invited() })
    expect([status, body.role, body.governed_resources]).toEqual([
      200,
      'staff',
      ['alice/account', 'alice/portfolio', 'alice/trades'],
    ])
    expect(body.summary).toContain('Access to them lasts at most 900 seconds.')
    expect(body.changes[0]).toEqual({
      tier: 'reading',
      tier_name: 'The reading tier',
      field: 'expires_in',
      was: 3600,
      now: 900,
      text: 'Grants last at most 900 seconds, not 3600.',
      own_resources: [],
    })
    expect(await tier('reading')).toEqual(before)
    expect((await own('GET')).body.enrolled).toBe(false)
    expect(await members()).not.toContain('alice')
  })

  row('organization-join', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    const { status, body } = await own('POST', '', agreeing)
    expect([status, body.enrolled]).toEqual([200, true])
    expect(await members()).toContain('alice')
    expect((await ledger('org_joined'))[0]).toMatchObject({
      by: 'owner',
      issuer: stand.issuer,
      binds_s256: agreeing['binds_s256'],
      actor: { kind: 'owner', credential: 'device_key' },
    })
  })

  row('error-agreed-missing', async () => {
    const { agreed: _agreed, ...without } = await stand.agreeing(await stand.invited())
    const refused = await own('POST', '', without)
    expect([refused.status, refused.body.reason]).toEqual([400, 'agreement_required'])
    expect(await members()).not.toContain('alice')
    expect((await own('GET')).body.enrolled).toBe(false)
  })

  row('organization-decline', async () => {
    // Cleo, because what an organization said of an invitation is kept for a minute.
    const cleo = stand.authority.owners['cleo']!
    const hers = membershipCalls(stand.authority, cleo)
    const asked = { owner: 'cleo', as_uri: stand.authority.issuer }
    const sent = await stand.organization.admin({ method: 'POST', target: '/admin/invites', json: asked })
    const { code } = sent.body as { code: string }
    expect((await hers('GET')).body.invitation).toMatchObject({ code })
    const { charter_version, binds_s256 } = (await hers('POST', '/preview', { code })).body
    const { status, body } = await hers('POST', '/decline', {})
    expect([status, body]).toEqual([200, { declined: true }])
    const { entries } = (await stand.authority.call(cleo, { target: '/owner/ledger?kind=org_declined' })).body
    expect(entries).toMatchObject([{ by: 'owner', issuer: stand.issuer }])
    // It is shown no more, whether the organization has been told or not.
    expect((await hers('GET')).body).toMatchObject({ enrolled: false, invitation: null })
    const atOrganization = async (target: string) => (await stand.organization.admin({ target })).body
    const waiting = async () => (await atOrganization('/admin/invites?limit=1000')) as { owner: string }[]
    await until(async () => !(await waiting()).some(({ owner }) => owner === 'cleo'))
    const joining = { code, agreed: true, charter_version, binds_s256 }
    for (const refused of [await hers('POST', '/preview', { code }), await hers('POST', '', joining)])
      expect([refused.status, refused.body.reason]).toEqual([403, 'invalid_code'])
    expect(await members()).not.toContain('cleo')
    expect((await atOrganization('/admin/activity?limit=1000')).entries).toContainEqual(
      expect.objectContaining({ kind: 'declined', owner: 'cleo' }),
    )
  })

  row('organization-leave', async () => {
    await stand.joined()
    const agent = testAgent(stand.authority)
    const { rpt: governed } = await agent.granted('portfolio_read')
    const { rpt: hers } = await agent.granted('statement_read')
    for (const grant of [governed, hers]) expect(await introspected(grant)).toBe('active')
    const { status, body } = await own('DELETE')
    expect([status, body]).toEqual([200, { left: true }])
    expect((await own('GET')).body.enrolled).toBe(false)
    expect(await introspected(governed)).toBe('organization_revoked')
    expect(await introspected(hers)).toBe('active')
    expect((await tier('reading')).terms.expires_in).toBe(900)
    await until(async () => !(await members()).includes('alice'))
    expect((await own('DELETE')).status).toBe(404)
  })
})

describe('Joining', () => {
  it('is refused with a word for each reason, and without effect', async () => {
    const wrong = await own('POST', '/preview', { code: 'nobody-has-this-code' })
    expect([wrong.status, wrong.body.reason]).toEqual([403, 'invalid_code'])
    const agreeing = await stand.agreeing(await stand.invited())
    const other = await own('POST', '', { ...agreeing, binds_s256: 's256:of-something-else' })
    expect([other.status, other.body.reason]).toEqual([409, 'charter_moved'])
    expect(other.body.preview.binds_s256).toBe(agreeing['binds_s256'])
    expect((await own('POST', '', { ...agreeing, issuer: 'https://elsewhere.example' })).status).toBe(403)
    expect((await own('GET')).body.enrolled).toBe(false)
    expect((await own('POST', '', agreeing)).status).toBe(200)
    const again = await own('POST', '', agreeing)
    expect([again.status, again.body.reason]).toEqual([409, 'already_member'])
  })

  it('again, or agreeing again, waits for sidecars all the same: the first answer may have been lost', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    expect((await own('POST', '', agreeing)).status).toBe(200)
    const holder = await holdLease(stand.authority)
    expect((await own('POST', '', agreeing)).status).toBe(409)
    expect(holder.asked()).toBe(1)
    const { charter_version, binds_s256 } = agreeing
    expect((await own('POST', '', { agreed: true, charter_version, binds_s256 })).status).toBe(200)
    expect(holder.asked()).toBe(2)
    await holder.say({ end: true })
  })

  it('that she leaves is answered with the sidecars that were waited for', async () => {
    expect((await own('POST', '', await stand.agreeing(await stand.invited()))).status).toBe(200)
    const holder = await holdLease(stand.authority)
    const leases = { holders: 1, acknowledged: 1, waited_ms: expect.any(Number) as number }
    expect((await own('DELETE')).body).toEqual({ left: true, leases })
    expect(holder.asked()).toBe(1)
    await holder.say({ end: true })
  })

  it('is one at a time: a join that is under way is join_in_progress, and is taken back when it was left open', async () => {
    const { db } = stand.authority.database
    await sql`INSERT INTO organization_calls (owner, id, kind, issuer) VALUES ('alice', 'left-open-00000000', 'join', ${stand.issuer})`.execute(
      db,
    )
    const agreeing = await stand.agreeing(await stand.invited())
    const refused = await own('POST', '', agreeing)
    expect([refused.status, refused.body.reason]).toEqual([409, 'join_in_progress'])
    await sql`UPDATE organization_calls SET since = now() - interval '61 seconds' WHERE owner = 'alice'`.execute(
      db,
    )
    await sql`INSERT INTO due (owner, kind) VALUES ('alice', 'tell')
      ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = now()`.execute(db)
    await until(async () => (await sql`SELECT 1 FROM organization_calls`.execute(db)).rows.length === 0)
    expect((await own('POST', '', agreeing)).status).toBe(200)
  })

  it('cuts her tiers as new versions, and tells her of each', async () => {
    const before = (await tier('reading')).terms.template_id
    const { body } = await own('POST', '/preview', { code: await stand.invited() })
    const changes = body.changes.filter((one: { tier: string }) => one.tier === 'reading')
    expect((changes as Cut[]).map(({ field, was, now }) => ['reading', field, was, now])).toEqual([
      ['reading', 'expires_in', 3600, 900],
      ['reading', 'prohibited', [], ['passing it on']],
    ])
    await stand.joined()
    const { terms } = await tier('reading')
    expect(terms).toMatchObject({ expires_in: 900, prohibited: ['passing it on'] })
    expect(terms.template_id).not.toBe(before)
    expect((await ledger('org_clamped'))[0]).toMatchObject({
      tier: 'reading',
      was: before,
      template_id: terms.template_id,
      by: 'owner',
    })
  })

  it('leaves her administrators the powers that she names, and what she takes away cannot be given back', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    const { body } = await own('POST', '', { ...agreeing, administrators_may: ['revoke', 'block'] })
    expect(body.administrators_may).toEqual(['revoke', 'block'])
    expect((await own('PUT', '', { administrators_may: ['revoke', 'approve'] })).status).toBe(400)
    const less = await own('PUT', '', { administrators_may: ['revoke'] })
    expect([less.status, less.body.administrators_may]).toEqual([200, ['revoke']])
    expect((await own('PUT', '', { administrators_may: ['revoke', 'block'] })).status).toBe(400)
  })
})
