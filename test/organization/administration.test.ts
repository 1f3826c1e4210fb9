/**
 * The administration of an organization: contract, "The organization's authority" (`/admin/...`),
 * "Authentication", "Versioning".
 */
import { describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { charterOf, MEMBER_AS, startTestOrganization } from '../support/organization.ts'
import { AUDIENCE, startRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'

const organization = startedOnce(() => startTestOrganization())
const CHARTER = { target: '/admin/charter' }
const inForce = async (): Promise<number> => (await organization.admin(CHARTER)).body.version as number
const put = (charter: unknown, base_version: number) => ({
  method: 'PUT' as const,
  target: '/admin/charter',
  json: { charter, base_version },
})

describe("The organization's authority", () => {
  row('org-admin-console', async () => {
    const console = ['charter', 'charter/versions', 'roles', 'members', 'invites', 'activity']
    for (const what of console) {
      const target = `/admin/${what}`
      expect((await organization.admin({ target })).status).toBe(200)
      expect((await organization.admin({ target, sign: false })).status).toBe(401)
      expect((await organization.request(target)).status).toBe(404)
    }
  })
})

describe('Errors', () => {
  row('error-group-beyond-charter', async () => {
    const base_version = await inForce()
    const grant = async (grants: string[]) => {
      const json = { name: 'Others', grants, delegation: 'none', base_version }
      return (await organization.admin({ method: 'PUT', target: '/admin/roles/others', json })).status
    }
    for (const beyond of ['bea/mail', 'acme', 'acme/*/*/*', '*/mail']) expect(await grant([beyond])).toBe(400)
    expect(await inForce()).toBe(base_version)
    expect(await grant(['acme/mail'])).toBe(200)
  })
})

describe('The charter', () => {
  it('of the provisioning file is the first version, and is published once, whatever starts later', async () => {
    const second = await startTestOrganization({ beside: organization })
    const { body } = await second.admin({ target: '/admin/charter/versions' })
    await second.close()
    expect(body.versions.filter(({ by }: { by: string }) => by === 'provisioning')).toHaveLength(1)
    expect(body.versions[0]).toMatchObject({ version: 1, by: 'provisioning' })
  })

  it('is published under the next number, with what it leaves out filled in, and the one before stays', async () => {
    const before = await inForce()
    const { status, body } = await organization.admin(put(charterOf({ name: 'Second' }), before))
    expect([status, body.version, body.by]).toEqual([200, before + 1, 'ines'])
    expect(body.charter).toMatchObject({ rules: [], conditions: { min_binding: 0 }, identity_provider: null })
    const earlier = await organization.admin({ target: `/admin/charter/versions/${before}` })
    expect(earlier.body.charter.name).not.toBe('Second')
    expect((await organization.admin({ target: '/admin/charter/versions/0' })).status).toBe(404)
    expect((await organization.admin({ target: '/admin/charter/versions/4711' })).status).toBe(404)
  })

  it('is refused to who read another version, and the answer names the one in force', async () => {
    const version = await inForce()
    for (const base of [0, version - 1, version + 1]) {
      const { status, body } = await organization.admin(put(charterOf(), base))
      expect([status, body.error, body.version]).toEqual([409, 'conflict', version])
    }
    const bare = { method: 'PUT', target: '/admin/charter', json: { charter: charterOf() } } as const
    expect((await organization.admin(bare)).status).toBe(400)
  })

  it.each([
    ['a claim that is not literal first', { claims: ['*/mail'] }, 'charter.claims[0]'],
    [
      'a role beyond the claims',
      { roles: { staff: { name: 'S', grants: ['b/x'], delegation: 'none' } } },
      'charter.roles.staff.grants[0]',
    ],
    ['an unknown default role', { default_role: 'nobody' }, 'charter.default_role'],
    [
      'a lifetime above 30 days',
      { envelope: { max_expires_in: 2_592_001 } },
      'charter.envelope.max_expires_in',
    ],
    [
      'an always_ask outside',
      { envelope: { max_expires_in: 60, always_ask: ['b/*'] } },
      'charter.envelope.always_ask[0]',
    ],
    [
      'an invoker that is no bare origin',
      { break_glass: { invokers: ['https://a.example/x'] } },
      'charter.break_glass.invokers[0]',
    ],
    [
      'a rule of what it is never told',
      { rules: [{ when: ['standing.never_revoked'], then: 'ask', resources: [] }] },
      'charter.rules[0].when[0]',
    ],
    ['an unknown member', { extra: true }, 'charter."extra"'],
    ['a member of another type', { claims: 'acme/*' }, 'charter.claims'],
  ])('with %s is refused, naming the path', async (_what, changes, path) => {
    const { status, body } = await organization.admin(put(charterOf(changes), await inForce()))
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    expect(body.error_description).toContain(path)
  })
})

describe('An administrator', () => {
  it('is known by a device key of the file, and by no other', async () => {
    const stranger = importPrivateJwk(generatePrivateJwk())
    expect((await organization.admin({ ...CHARTER, sign: { key: stranger } })).status).toBe(401)
    const bare = await organization.admin({ ...CHARTER, sign: false })
    expect([bare.status, bare.body.error]).toEqual([401, 'invalid_credential'])
    expect(bare.headers.get('www-authenticate')).toBe('Signature realm="admin"')
  })

  it('is not found at the public listener, whatever the credential', async () => {
    const { headers } = organization.prepare(CHARTER)
    expect((await organization.request('/admin/charter', { headers })).status).toBe(404)
  })

  it('has a change accepted once: the same request again changes nothing', async () => {
    const prepared = organization.prepare({ method: 'POST', target: '/admin/join-code/rotate' })
    const all = await Promise.all(Array.from({ length: 8 }, () => organization.send(prepared)))
    expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(401)])
  })

  it('may come with an access token of the realm whose subject the file names', async () => {
    const realm = await startRealm()
    const taking = await startTestOrganization({
      administrators: [{ name: 'otto', subjects: ['sub-o'] }],
      environment: {
        UMA_ORG_ADMIN_AUTH: 'device-key,oidc',
        UMA_ORG_OIDC_ISSUER: realm.issuer,
        UMA_ORG_OIDC_AUDIENCE: AUDIENCE,
        UMA_DEV_LOOPBACK: 'true',
      },
    })
    const bearing = async (subject: string, call: Parameters<typeof taking.admin>[0]) => {
      const { access_token } = await realm.login(subject)
      return taking.admin({ ...call, sign: false, headers: { authorization: `Bearer ${access_token}` } })
    }
    expect((await bearing('sub-x', CHARTER)).status).toBe(401)
    expect((await bearing('sub-o', put(charterOf(), 1))).body.by).toBe('otto')
    await taking.close()
    await realm.close()
  })
})

describe('An invitation', () => {
  const invite = (json: object) => organization.admin({ method: 'POST', target: '/admin/invites', json })

  it('names a person at an authority that may send members; its code is shown once', async () => {
    const { status, body } = await invite({ owner: 'bea', as_uri: MEMBER_AS, note: 'Welcome' })
    expect([status, body.code]).toEqual([201, expect.stringMatching(/^inv_/)])
    const listed = await organization.admin({ target: '/admin/invites' })
    expect(listed.body).toContainEqual(
      expect.objectContaining({ code_id: body.code_id, owner: 'bea', note: 'Welcome' }),
    )
    expect(listed.text).not.toContain(body.code)
    expect((await invite({ owner: 'bea', as_uri: 'https://elsewhere.example' })).status).toBe(400)
    expect((await invite({ owner: '../bea', as_uri: MEMBER_AS })).status).toBe(400)
  })

  it('that is withdrawn waits no more, and is not withdrawn again', async () => {
    const { code_id } = (await invite({ owner: 'carl', as_uri: MEMBER_AS })).body as { code_id: string }
    const withdraw = { method: 'DELETE', target: `/admin/invites/${code_id}` } as const
    expect((await organization.admin(withdraw)).status).toBe(200)
    expect((await organization.admin(withdraw)).status).toBe(404)
    expect((await organization.admin({ target: '/admin/invites' })).text).not.toContain(code_id)
  })
})

describe('The record', () => {
  it('has each change in order, under the name of who made it, and no code', async () => {
    const rotated = await organization.admin({ method: 'POST', target: '/admin/join-code/rotate' })
    const { body, text } = await organization.admin({ target: '/admin/activity?limit=1000' })
    const seqs = (body.entries as { seq: number }[]).map(({ seq }) => seq)
    expect(seqs).toEqual(seqs.map((_, at) => at + 1))
    expect(body.entries.at(-1)).toMatchObject({ kind: 'join_code_rotated', admin: 'ines' })
    expect(text).not.toContain(rotated.body.code)
    const page = await organization.admin({ target: '/admin/activity?after=1&limit=2' })
    expect(page.body).toMatchObject({ entries: [{ seq: 2 }, { seq: 3 }], next: 3 })
  })
})

describe('Each listener', () => {
  it('tells of its health and of itself, and the numbers name no member', async () => {
    expect((await organization.request('/health')).body).toEqual({ status: 'ok' })
    expect((await organization.request('/ready')).status).toBe(200)
    expect((await organization.request('/openapi.json')).body.paths).toHaveProperty('/jwks')
    const metrics = await (await fetch(`${organization.metricsUrl}/metrics`)).text()
    expect(metrics).toContain('party="organization"')
    expect(metrics).toContain('usher_database_connections{pool="all"')
  })
})

describe('The name of other software for the address of discovery', () => {
  const ALIAS = '/.well-known/u4a-organization'

  it('is not served unless the operator lists it, and then says the same', async () => {
    expect((await organization.request(ALIAS)).status).toBe(404)
    const aliased = await startTestOrganization({ environment: { UMA_ORG_ALIASES: ALIAS } })
    const { status, body } = await aliased.request(ALIAS)
    expect([status, body]).toEqual([200, (await aliased.request('/.well-known/ext-organization')).body])
    await aliased.close()
  })
})
