/** Contract, "Authentication" (owner at the owner API): each of her credentials against the started authority and a real realm. */
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/keys.ts'
import type { OwnerCall } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'

let both: RealmAuthority
beforeAll(async () => {
  both = await startRealmAuthority({ logins: { alice: 'sub-a' } })
})
afterAll(() => both?.close())

describe('Authentication', () => {
  const PENDING: OwnerCall = { target: '/owner/pending' }
  const status = async (call: Promise<{ status: number }>) => (await call).status

  row('auth-owner', async () => {
    const { authority, realm } = both
    const bearing = (credential: string, call: OwnerCall) => both.bearing(credential, call)
    const { alice } = authority
    const phone = importPrivateJwk(generatePrivateJwk())
    const byPhone = (call: OwnerCall) => authority.call(alice, { ...call, sign: { key: phone } })
    const token = (await realm.login('sub-a')).access_token
    const enrol = { method: 'POST', target: '/owner/device-keys' } as const

    // Each suffices; nothing of hers and nothing static does.
    expect(await status(authority.call(alice, PENDING))).toBe(200)
    expect(await status(bearing(token, PENDING))).toBe(200)
    expect(await status(authority.call(alice, { ...PENDING, sign: false }))).toBe(401)
    expect(await status(bearing(alice.clientSecret, PENDING))).toBe(401)
    expect(await status(bearing(await authority.pat(), PENDING))).toBe(401)

    // A body needs its digest.
    const json = { name: 'phone', jwk: publicJwk(phone) }
    const bare = { components: ['@method', '@authority', '@path'] }
    expect(await status(authority.call(alice, { ...enrol, json, sign: bare }))).toBe(401)
    expect(await status(bearing(token, { ...enrol, json }))).toBe(201)
    expect(await status(byPhone(PENDING))).toBe(200)

    // Each is revoked on its own, and neither stands in for the other.
    const phones = `/owner/device-keys/${phone.thumbprint}`
    expect(await status(authority.call(alice, { method: 'DELETE', target: phones }))).toBe(200)
    expect(await status(byPhone(PENDING))).toBe(401)
    expect(await status(bearing(token, PENDING))).toBe(200)
    const [login] = (await authority.call(alice, { target: '/owner/logins' })).body as { id: string }[]
    const target = `/owner/logins/${login!.id}`
    expect(await status(authority.call(alice, { method: 'DELETE', target }))).toBe(200)
    expect(await status(bearing(token, PENDING))).toBe(401)
    expect(await status(authority.call(alice, PENDING))).toBe(200)

    // The public listener knows nothing of it, whatever is presented.
    for (const path of ['/owner/pending', '/owner/policies', '/owner/events'])
      expect(
        await status(authority.request('GET', path, { headers: { authorization: `Bearer ${token}` } })),
      ).toBe(404)
  })
})
