/**
 * Contract, "The organization's authority": what it serves to anybody, and how groups are managed, against a
 * started one.
 */
import { describe, expect } from 'vitest'
import { row } from '../support/contract-row.ts'
import { ORG_ISSUER, startTestOrganization } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'

const organization = startedOnce(() => startTestOrganization())
const role = (changes: object = {}) => ({
  name: 'Staff',
  grants: ['acme/mail-*'],
  delegation: 'any-agent',
  ...changes,
})
const version = async (): Promise<number> =>
  (await organization.admin({ target: '/admin/roles' })).body.version as number

describe("The organization's authority", () => {
  row('org-discovery', async () => {
    const { status, body } = await organization.request('/.well-known/ext-organization')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      issuer: ORG_ISSUER,
      organization: { id: 'acme', name: 'Acme' },
      jwks_uri: `${ORG_ISSUER}/jwks`,
      charter_version: await version(),
      claims: ['acme/*', 'acme/*/*'],
      break_glass: false,
      identity_provider: null,
    })
    // Whatever it names is at its own origin.
    const named = Object.entries(body as Record<string, unknown>).filter(([name]) =>
      /_(?:uri|endpoint)$/.test(name),
    )
    expect(named.filter(([, url]) => !String(url).startsWith(`${ORG_ISSUER}/`))).toEqual([])
  })

  row('org-jwks', async () => {
    const { status, body } = await organization.request('/jwks')
    expect(status).toBe(200)
    expect(body.keys).toHaveLength(2)
    expect(JSON.stringify(body)).not.toContain('"d"')
  })

  row('org-roles-get', async () => {
    const { status, body } = await organization.admin({ target: '/admin/roles' })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      roles: { guests: { delegation: 'none' } },
      default_role: 'staff',
      members: {},
    })
  })

  row('org-roles-put', async () => {
    const put = async (changes: object, base_version: number) =>
      organization.admin({
        method: 'PUT',
        target: '/admin/roles/night-shift',
        json: { ...role(changes), base_version },
      })
    const before = await version()
    const beyond = await put({ grants: ['acme/calendar', 'other/calendar'] }, before)
    expect([beyond.status, beyond.body.error_description]).toEqual([
      400,
      expect.stringContaining('role.grants[1]'),
    ])
    expect(await version()).toBe(before)
    const made = await put({ grants: ['acme/calendar'] }, before)
    expect([made.status, made.body.version]).toEqual([200, before + 1])
    // The version before stands as it was.
    const earlier = await organization.admin({ target: `/admin/charter/versions/${before}` })
    expect(earlier.body.charter.roles['night-shift']).toBeUndefined()
    expect(earlier.body.s256).not.toBe(made.body.s256)
  })

  row('org-roles-delete', async () => {
    const target = '/admin/roles/guests'
    const remove = async (headers: Record<string, string>) =>
      (await organization.admin({ method: 'DELETE', target, headers })).status
    const ifMatch = { 'if-match': `"${await version()}"` }
    expect([await remove({}), await remove({ 'if-match': '"999"' }), await remove(ifMatch)]).toEqual([
      428, 409, 200,
    ])
    expect(await remove({ 'if-match': `"${await version()}"` })).toBe(404)
    // Joiners come into the default one.
    const byDefault = { method: 'DELETE', target: '/admin/roles/staff' } as const
    const headers = { 'if-match': `"${await version()}"` }
    expect((await organization.admin({ ...byDefault, headers })).status).toBe(409)
  })

  row('org-roles-default', async () => {
    const post = async (given: string | null) => {
      const json = { role: given, base_version: await version() }
      return (await organization.admin({ method: 'POST', target: '/admin/roles/default', json })).status
    }
    expect([await post('nobody'), await post(null)]).toEqual([400, 200])
    expect((await organization.admin({ target: '/admin/roles' })).body.default_role).toBeNull()
  })
})
