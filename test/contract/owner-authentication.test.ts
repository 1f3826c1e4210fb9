/**
 * Contract, "Authentication": the owner at the owner API, against the started authority and a real OpenID
 * provider.
 */
import { describe, expect } from 'vitest'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { startRealmAuthority } from '../support/realm-authority.ts'
import { startedOnce } from '../support/started.ts'

const both = startedOnce(() => startRealmAuthority({ logins: { alice: 'sub-a' } }))

const PENDING = { target: '/owner/pending' }

describe('Authentication', () => {
  row('auth-owner', async () => {
    const { authority, realm } = both
    const { alice } = authority
    const { access_token, id_token } = await realm.login('sub-a')
    const byKey = async () => (await authority.call(alice, PENDING)).status
    const byToken = async (token = access_token) => (await both.bearing(token, PENDING)).status
    // Each is enough by itself.
    expect([await byKey(), await byToken()]).toEqual([200, 200])
    // Neither is a fallback: a bad one of either kind is refused, and both together are no credential.
    expect(await byToken(id_token)).toBe(401)
    const headers = { authorization: `Bearer ${access_token}` }
    expect((await authority.call(alice, { ...PENDING, headers })).status).toBe(400)
    // A body goes under a signature only with its digest.
    const phone = importPrivateJwk(generatePrivateJwk())
    const json = { name: 'phone', jwk: publicJwk(phone) }
    const addKey = { method: 'POST', target: '/owner/device-keys', json } as const
    const components = ['@method', '@authority', '@path']
    expect((await authority.call(alice, { ...addKey, sign: { components } })).status).toBe(401)
    // Each is revoked on its own, at once.
    expect((await both.bearing(access_token, addKey)).status).toBe(201)
    const target = `/owner/device-keys/${alice.key.thumbprint}`
    expect((await both.bearing(access_token, { method: 'DELETE', target })).status).toBe(200)
    expect([await byKey(), await byToken()]).toEqual([401, 200])
    const withPhone = { ...alice, key: phone }
    const [login] = (await authority.call(withPhone, { target: '/owner/logins' })).body as { id: string }[]
    const removal = { method: 'DELETE', target: `/owner/logins/${login!.id}` } as const
    expect((await authority.call(withPhone, removal)).status).toBe(200)
    expect(await byToken()).toBe(401)
    expect((await authority.call(withPhone, PENDING)).status).toBe(200)
    // The public path refuses the owner API, whatever the credential.
    const prepared = authority.prepare(withPhone, PENDING)
    const { headers: signed } = prepared
    expect((await authority.request('GET', PENDING.target, { headers: signed })).status).toBe(404)
  })
})
