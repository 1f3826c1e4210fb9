/**
 * What her organization changes while she is a member: contract, "Organization membership, on the member's
 * authorization server", "Events".
 */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, it } from 'vitest'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateJwk } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { Notice } from '../../src/wire/organization/notice.ts'
import { row } from '../support/contract-row.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startedForEach } from '../support/started.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

const stand = startedForEach(() => startMembershipStand())
const membership = async () => (await stand.own('GET')).body
const introspect = async (token: string) =>
  (await protectionCall(stand.authority, '/introspect', { token })).body.reason as string | undefined
const asksNow = () => dueAtOnce(stand.authority.database, 'view')
const roleChanged: Notice = { kind: 'role_changed', role: 'traders' }

const noticeOf: MembershipStand['noticeOf'] = (...given) => stand.noticeOf(...given)
const post: MembershipStand['post'] = notice => stand.post(notice)

beforeEach(async () => {
  await stand.joined()
})

describe("Organization membership, on the member's authorization server", () => {
  row('organization-notice', async () => {
    const { body: metadata } = await stand.authority.request('GET', '/.well-known/agents-configuration')
    expect(metadata.org_notice_endpoint).toBe(`${stand.authority.issuer}/org/notice`)
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const notice = await noticeOf(roleChanged)
    const { status, body } = await post(notice)
    expect([status, body]).toEqual([200, { received: 'role_changed' }])
    expect(await introspect(rpt)).toBe('organization_revoked')
    expect((await post(notice)).status).toBe(409)
    expect((await post(await noticeOf(roleChanged, { aud: 'https://elsewhere.example' }))).status).toBe(401)
    expect((await post(await noticeOf(roleChanged, { sub: asOwner('nobody') }))).status).toBe(404)
    expect((await post(await noticeOf(roleChanged, { membership: 'another-join-of-hers' }))).status).toBe(409)
    expect((await post('no.notice.at-all')).status).toBe(400)
  })

  row('auth-organization-notice', async () => {
    expect((await post(await noticeOf(roleChanged, {}, generatePrivateJwk()))).status).toBe(401)
    expect((await post(await noticeOf(roleChanged, { iss: 'https://elsewhere.example' }))).status).toBe(401)
    // Signed by her organization, but as something else.
    const file = readFileSync(stand.organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
    const key = importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
    const { payload } = parseJws(await noticeOf(roleChanged))
    for (const typ of [TYP.membership, TYP.organizationAdmin])
      expect((await post(signJws({ typ, payload }, key))).status).toBe(401)
    expect((await post(signJws({ typ: TYP.notice, payload }, key))).status).toBe(200)
  })
})

describe('A later view', () => {
  it('of another group ends what was granted, and shares what that group is shared', async () => {
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const json = { role: 'traders' }
    const moved = await stand.organization.admin({
      method: 'POST',
      target: '/admin/members/alice/role',
      json,
    })
    expect(moved.status).toBe(200)
    await asksNow()
    await until(async () => (await membership()).role === 'traders')
    expect(await introspect(rpt)).toBe('organization_revoked')
    const agent = testAgent(stand.authority)
    expect((await agent.present(await agent.ticket('place_trade'))).body.error).toBe('need_info')
  })

  it('that shares no more what one before claimed no more ends what was granted while it was shared', async () => {
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const roles = {
      staff: { name: 'Staff', grants: ['alice/account'], delegation: 'any-agent' },
      traders: { name: 'Traders', grants: ['alice/trades'], delegation: 'any-agent' },
    }
    const governs = async (changes: object, has: boolean) => {
      await stand.publish({ ...changes, roles })
      await asksNow()
      await until(async () => (await membership()).governed_resources.includes('alice/portfolio') === has)
    }
    await governs({ claims: ['alice/account', 'alice/trades'] }, false)
    expect(await introspect(rpt)).toBeUndefined()
    await governs({}, true)
    expect(await introspect(rpt)).toBe('organization_revoked')
  })

  it('that claims again what one before claimed no more ends for good what was granted meanwhile', async () => {
    const governs = async (claims: string[], has: boolean) => {
      await stand.publish({
        claims,
        roles: { staff: { name: 'Staff', grants: [], delegation: 'any-agent' } },
      })
      await asksNow()
      await until(async () => (await membership()).governed_resources.includes('alice/portfolio') === has)
    }
    await governs(['alice/account', 'alice/trades'], false)
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    expect(await introspect(rpt)).toBeUndefined()
    await governs(['alice/account', 'alice/trades', 'alice/portfolio'], true)
    expect(await introspect(rpt)).toBe('organization_revoked')
    await governs(['alice/account', 'alice/trades'], false)
    expect(await introspect(rpt)).toBe('revoked')
  })

  it('narrows her tiers at once, and widens none when it allows more again', async () => {
    await stand.publish({ envelope: { max_expires_in: 120 } })
    await asksNow()
    await until(async () => (await membership()).max_expires_in === 120)
    const terms = async () =>
      (await stand.authority.call(stand.alice, { target: '/owner/policies' })).body.tiers[0].terms
    expect((await terms()).expires_in).toBe(120)
    await stand.publish({ envelope: { max_expires_in: 3600 } })
    await asksNow()
    await until(async () => (await membership()).max_expires_in === 3600)
    expect((await terms()).expires_in).toBe(120)
  })

  it('of as many claims as a charter may have is read, and governs all that she agreed to', async () => {
    const others = Array.from({ length: 197 }, (_, i) => `alice/${'long-name-'.repeat(8)}${i}`)
    await stand.publish({ claims: ['alice/account', 'alice/trades', 'alice/portfolio', ...others] })
    await asksNow()
    await until(async () => (await membership()).waiting !== null)
    const { charter_version, binds_s256, waiting } = await membership()
    expect(waiting.changes.join(' ')).toContain(others[196])
    const { status, body } = await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
    expect([status, body.agreed_version, body.waiting]).toEqual([200, charter_version, null])
  })

  it('claims no more than she agreed to before she has agreed again', async () => {
    await stand.publish({ claims: ['alice/*'] })
    await asksNow()
    await until(async () => (await membership()).waiting !== null)
    const { waiting, governed_resources, charter_version, binds_s256 } = await membership()
    expect(waiting).toEqual({ version: charter_version, changes: ['It would govern alice/*, too.'] })
    expect(governed_resources).not.toContain('alice/statements')
    const agreed = { agreed: true, charter_version, binds_s256 }
    const stale = await stand.own('POST', '', { ...agreed, binds_s256: 's256:of-something-else' })
    expect([stale.status, stale.body.reason]).toEqual([409, 'charter_moved'])
    const { body } = await stand.own('POST', '', agreed)
    expect([body.waiting, body.agreed_version]).toEqual([null, charter_version])
    expect(body.governed_resources).toContain('alice/statements')
  })
})

describe('A membership that its organization ends', () => {
  it('is ended here by its notice, with every grant under it, and never told as what she did', async () => {
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    expect((await post(await noticeOf({ kind: 'membership_ended', by: 'owner' }))).status).toBe(200)
    const told = await stand.authority.call(stand.alice, { target: '/owner/ledger?kind=org_left' })
    expect(told.body.entries.at(-1).by).toBe('organization')
    expect((await membership()).enrolled).toBe(false)
    expect(await introspect(rpt)).toBe('organization_revoked')
  })
})
