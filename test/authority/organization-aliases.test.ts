/**
 * Other names of what an organization signs, which are accepted only if the operator lists them
 * (`UMA_AS_ALIASES`). Contract: "Organization membership, on the member's authorization server".
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { importPrivateJwk, type PrivateJwk } from '../../src/wire/signatures/keys.ts'
import { ALIAS, TYP, WELL_KNOWN } from '../../src/wire/names.ts'
import { exchange, startTestAuthority } from '../support/authority.ts'
import { startDoorStand, type DoorStand } from '../support/door-stand.ts'
import { discoveryOf, startHostile, type HostileOrganization } from '../support/hostile-organization.ts'
import type { MembershipStand } from '../support/membership.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const start = (
  environment: Record<string, string>,
  organization: Record<string, string> = {},
): Promise<DoorStand> => startDoorStand({ organization, authority: { environment } })

const { noticeTyp, organizationAdminTyp, clearanceTyp } = ALIAS
const plain = startedOnce(() => start({}))
const aliased = startedOnce(() =>
  start({ UMA_AS_ALIASES: [noticeTyp, organizationAdminTyp, clearanceTyp].join(',') }),
)
beforeAll(async () => {
  await plain.joined()
  await aliased.joined()
})

/** Signed by the organization under a `typ` of the test's choice. */
async function signed(stand: MembershipStand, typ: string, claims: object): Promise<string> {
  const { rows } = await stand.authority.database.pool.query<{ join_id: string }>(
    'SELECT join_id FROM memberships',
  )
  const file = readFileSync(stand.organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
  const iat = Math.floor(Date.now() / 1_000)
  const common = {
    iss: stand.issuer,
    aud: stand.authority.issuer,
    sub: 'alice',
    membership: rows[0]!.join_id,
    jti: randomBytes(12).toString('hex'),
    iat,
    exp: iat + 60,
  }
  const key = importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
  return signJws({ typ, payload: { ...common, ...claims } }, key)
}

const notice = async (stand: MembershipStand, typ: string) =>
  (await stand.post(await signed(stand, typ, { kind: 'charter_changed', charter_version: 1 }))).status

async function administering(stand: MembershipStand, typ: string): Promise<number> {
  const target = '/org/admin/alice/pending'
  const { body } = await stand.authority.request('GET', '/.well-known/agents-configuration')
  const { origin } = new URL(body.org_admin_endpoint as string)
  const token = await signed(stand, typ, { admin: 'ines', htm: 'GET', htu: origin + target })
  const headers = { authorization: `Bearer ${token}` }
  const url = stand.authority.ownerUrl + target
  return (await exchange({ url, method: 'GET', headers, body: undefined })).status
}

/** What an agent is told of her own resource that asks for a clearance, attested under this `typ`. */
async function cleared(stand: DoorStand, typ: string): Promise<string> {
  const json = { clearance: { level: ['high'] } }
  await stand.authority.call(stand.alice, { method: 'PUT', target: '/owner/policies/statements', json })
  const clearance = await signed(stand, typ, { org: 'acme', clearance: { level: 'high' } })
  stand.door.instead('/member/clearance', () => ({ status: 200, body: { clearance, expires_in: 60 } }))
  // What was attested before is not asked for again in the same state of the membership.
  await stand.authority.database.pool.query('UPDATE memberships SET org_epoch = org_epoch + 1')
  const agent = testAgent(stand.authority)
  const { body } = await agent.present(await agent.ticket('statement_read'))
  return (body.reason ?? body.error) as string
}

describe('Without UMA_AS_ALIASES', () => {
  it('an organization is heard under the names of the contract alone', async () => {
    expect([await notice(plain, TYP.notice), await notice(plain, ALIAS.noticeTyp)]).toEqual([200, 401])
    expect([
      await administering(plain, TYP.organizationAdmin),
      await administering(plain, ALIAS.organizationAdminTyp),
    ]).toEqual([200, 401])
    expect([await cleared(plain, TYP.clearance), await cleared(plain, clearanceTyp)]).toEqual([
      'need_info',
      'clearance_unmet',
    ])
  })
})

describe('With UMA_AS_ALIASES', () => {
  it('it is heard under both names, and one kind passes for no other', async () => {
    for (const typ of [TYP.notice, ALIAS.noticeTyp]) expect(await notice(aliased, typ)).toBe(200)
    for (const typ of [TYP.organizationAdmin, ALIAS.organizationAdminTyp])
      expect(await administering(aliased, typ)).toBe(200)
    for (const typ of [TYP.clearance, clearanceTyp]) expect(await cleared(aliased, typ)).toBe('need_info')
    for (const typ of [organizationAdminTyp, clearanceTyp]) expect(await notice(aliased, typ)).toBe(401)
    for (const typ of [noticeTyp, clearanceTyp]) expect(await administering(aliased, typ)).toBe(401)
    for (const typ of [noticeTyp, organizationAdminTyp])
      expect(await cleared(aliased, typ)).toBe('clearance_unmet')
  })
})

const ABSENT = { status: 404, body: { error: 'not_found' } }

/** What becomes of a preview by a code at an authority that lists this organization. */
async function previewed(
  { issuer }: HostileOrganization,
  environment: Record<string, string> = { UMA_AS_ALIASES: ALIAS.organizationDiscovery },
): Promise<number> {
  const listing = { UMA_DEV_LOOPBACK: 'true', UMA_AS_ORGANIZATIONS: issuer, ...environment }
  const authority = await startTestAuthority({ environment: listing })
  onTestFinished(() => authority.close())
  const target = '/owner/organization/preview'
  const call = { method: 'POST', target, json: { code: 'any' } } as const
  return (await authority.call(authority.alice, call)).status
}

/** One that answers this at the contract's path of discovery, and has its document at the other. */
async function publishing(status: number | undefined, document: object = {}): Promise<HostileOrganization> {
  const organization = await startHostile()
  const { issuer } = organization
  if (status !== undefined) organization.next[WELL_KNOWN.organization] = [status, status]
  organization.answers[ALIAS.organizationDiscovery] = { ...discoveryOf(issuer), ...document }
  return organization
}
const isAskedForOther = ({ asked }: HostileOrganization) => asked.includes(ALIAS.organizationDiscovery)

describe('An organization that publishes its discovery under the other name alone', () => {
  it('is joined, asked and left if that name is listed', async () => {
    const { organizationDiscovery: other } = ALIAS
    const stand = await start({ UMA_AS_ALIASES: other }, { UMA_ORG_ALIASES: other })
    onTestFinished(() => stand.close())
    stand.door.instead(WELL_KNOWN.organization, () => ABSENT)
    const joined = await stand.joined()
    expect([joined.status, joined.body.org]).toEqual([200, 'acme'])
    await testAgent(stand.authority).granted('portfolio_read')
    expect(stand.door.count('/decision')).toBeGreaterThan(0)
    expect((await stand.own('DELETE')).status).toBe(200)
    await until(() => stand.door.count('/member/leave') > 0)
    // Its document is kept, unlike the word that there is none at the other path.
    expect(stand.door.count(other)).toBe(1)
  })

  it.each([404, 410])('is found there if it answers %i under the name of the contract', async status => {
    const organization = await publishing(status)
    expect(await previewed(organization)).toBe(200)
    expect(isAskedForOther(organization)).toBe(true)
  })

  it('is away if that name is not listed', async () => {
    const organization = await publishing(404)
    expect(await previewed(organization, {})).toBe(503)
    expect(await previewed(organization, { UMA_AS_ALIASES: noticeTyp })).toBe(503)
    expect(isAskedForOther(organization)).toBe(false)
  })

  it.each([
    ['of another issuer', { issuer: 'https://org.example' }],
    ['with an endpoint elsewhere', { preview_endpoint: 'https://elsewhere.example/preview' }],
  ])('is not believed in a document %s', async (_, document) => {
    const organization = await publishing(404, document)
    expect(await previewed(organization)).toBe(503)
    expect(organization.asked).not.toContain('/preview')
  })
})

describe('An organization with both names', () => {
  it('is found under the name of the contract, and an outage there is no absence', async () => {
    const both = await publishing(undefined)
    expect([await previewed(both), isAskedForOther(both)]).toEqual([200, false])
    for (const status of [500, 503, 403]) {
      const failing = await publishing(status)
      expect([await previewed(failing), isAskedForOther(failing)]).toEqual([503, false])
    }
  })
})
