/**
 * Other names of what an organization signs, which are accepted only if the operator lists them
 * (`UMA_AS_ALIASES`). Contract: "Organization membership, on the member's authorization server".
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { freePorts } from '../../src/dev/ports.ts'
import { signJws } from '../../src/wire/jws.ts'
import { importPrivateJwk, type PrivateJwk } from '../../src/wire/keys.ts'
import { ALIAS, TYP } from '../../src/wire/names.ts'
import { exchange } from '../support/authority.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startOrganizationDoor, type OrganizationDoor } from '../support/organization-door.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

/** With a door in front of the organization, which can say of a member what a test makes it say. */
async function start(environment: Record<string, string>): Promise<AliasStand> {
  const [port] = await freePorts(1)
  const stand = await startMembershipStand({
    listen: `127.0.0.1:${port}`,
    authority: { environment },
  })
  const at = Number(new URL(stand.issuer).port)
  const door = await startOrganizationDoor(at, () => `http://127.0.0.1:${port}`)
  const close = async (): Promise<void> => {
    door.close()
    await stand.close()
  }
  return { ...stand, door, close }
}
type AliasStand = MembershipStand & { door: OrganizationDoor }

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
async function cleared(stand: AliasStand, typ: string): Promise<string> {
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
