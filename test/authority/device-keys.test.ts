/** An owner's device keys: contract, "Authentication" (each sufficient, each revocable on its own). */
import { describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import type { OwnerCall } from '../support/authority.ts'
import { addKey, newcomer, newcomerStand, PENDING, removeKey } from '../support/owner-credentials.ts'

const { both, alice, as, call } = newcomerStand()
const newKey = () => importPrivateJwk(generatePrivateJwk())

describe('Device keys', () => {
  it('are many, each named; a key added by another one suffices at once', async () => {
    const phone = newKey()
    const added = await call(alice, addKey(phone))
    expect(added).toMatchObject({ status: 201, body: { kid: phone.thumbprint, name: 'phone' } })
    expect((await call(as(phone), PENDING)).status).toBe(200)
    const { body } = await call(alice, { target: '/owner/device-keys' })
    const expected = [
      { kid: alice.key.thumbprint, name: 'laptop', jwk: publicJwk(alice.key), revoked_at: null },
      { kid: phone.thumbprint, name: 'phone', jwk: publicJwk(phone), revoked_at: null },
    ]
    expect(body).toEqual(
      expected
        .sort((a, b) => (a.kid < b.kid ? -1 : 1))
        .map(key => ({ ...key, enrolled_at: expect.any(String) })),
    )
  })

  it('that were made in a served page are listed so, in the form in which a resource that pins one is warned', async () => {
    const inPage = async (surface: unknown) => {
      const key = newKey()
      const json = { name: 'browser', jwk: { ...publicJwk(key), surface } }
      expect((await call(alice, { method: 'POST', target: '/owner/device-keys', json })).status).toBe(201)
      const { body } = await call(alice, { target: '/owner/device-keys' })
      const { thumbprint: kid } = key
      return { key, listed: (body as { kid: string; jwk: object }[]).find(one => one.kid === kid)! }
    }
    const { key, listed } = await inPage('served')
    expect(listed).toMatchObject({ surface: 'served', jwk: { ...publicJwk(key), surface: 'served' } })
    expect(parsePinnedKeys(JSON.stringify({ keys: [listed.jwk] })).served).toEqual([key.thumbprint])
    // It decides for her like any other key.
    expect((await call(as(key), PENDING)).status).toBe(200)
    for (const other of ['own', '', 7, null, undefined]) {
      const plain = await inPage(other)
      expect(plain.listed.jwk).toEqual(publicJwk(plain.key))
      expect(plain.listed).not.toHaveProperty('surface')
    }
  })

  it('are each revocable: the key is refused at once, stays listed, and the others go on', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    const removed = await call(as(phone), removeKey(alice.key))
    expect(removed).toMatchObject({ status: 200, body: { deleted: alice.key.thumbprint } })
    expect((await call(alice, PENDING)).status).toBe(401)
    const { body } = await call(as(phone), { target: '/owner/device-keys' })
    const listed = body as { kid: string; revoked_at: string | null }[]
    expect(listed.find(({ kid }) => kid === alice.key.thumbprint)?.revoked_at).toEqual(expect.any(String))
  })

  it('say to who signs with a removed one that it was removed, and when; to anybody else nothing', async () => {
    const [phone, thief] = [newKey(), newKey()]
    await call(alice, addKey(phone))
    await call(alice, removeKey(phone))
    const { body } = await call(alice, { target: '/owner/device-keys' })
    const listed = (body as { kid: string; revoked_at: string }[]).find(
      ({ kid }) => kid === phone.thumbprint,
    )!
    const told = (await call(as(phone), PENDING)).body as { error_description: string }
    expect(told.error_description).toContain(
      `"phone" may no longer decide for ${alice.owner} (removed ${listed.revoked_at})`,
    )
    // Another key that names itself so signs nothing that the removed one would.
    const named = { ...thief, thumbprint: phone.thumbprint }
    const forged = await call(as(named), PENDING)
    expect(forged.status).toBe(401)
    expect(forged.text).not.toContain('(removed')
    const unknown = await call(as(thief), PENDING)
    expect(unknown.text).not.toContain('no longer')
  })

  it('may be named by what they are called; if several are called so it is 409 naming each, and none is revoked', async () => {
    const [phone, other] = [newKey(), newKey()]
    await call(alice, addKey(phone))
    const byName: OwnerCall = { method: 'DELETE', target: '/owner/device-keys/phone' }
    await call(alice, addKey(other))
    const unclear = await call(alice, byName)
    expect([unclear.status, (unclear.body as { error: string }).error]).toEqual([409, 'conflict'])
    expect(unclear.text).toContain(phone.thumbprint)
    expect(unclear.text).toContain(other.thumbprint)
    expect((await call(as(phone), PENDING)).status).toBe(200)
    // A revoked key has no name, so the name is unambiguous.
    expect((await call(alice, removeKey(other))).status).toBe(200)
    expect(await call(alice, byName)).toMatchObject({ status: 200, body: { deleted: phone.thumbprint } })
    expect((await call(as(phone), PENDING)).status).toBe(401)
    expect((await call(alice, byName)).status).toBe(404)
  })

  it('the kid of a key goes before the name of another', async () => {
    const [phone, other] = [newKey(), newKey()]
    await call(alice, addKey(phone))
    const json = { name: phone.thumbprint, jwk: publicJwk(other) }
    expect((await call(alice, { method: 'POST', target: '/owner/device-keys', json })).status).toBe(201)
    expect((await call(alice, removeKey(phone))).status).toBe(200)
    expect((await call(as(other), PENDING)).status).toBe(200)
  })

  it('may revoke themselves if another credential stands', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    expect((await call(as(phone), removeKey(phone))).status).toBe(200)
    expect((await call(as(phone), PENDING)).status).toBe(401)
  })

  it('are enrolled once, ever: hers, revoked or another’s is the same 409', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    await call(alice, removeKey(phone))
    const revoked = await call(alice, addKey(phone))
    const hers = await call(alice, addKey(alice.key))
    const another = await call(alice, addKey((await newcomer(both)).key))
    expect(revoked).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect([hers.text, another.text]).toEqual([revoked.text, revoked.text])
  })

  const BAD: [string, unknown][] = [
    ['without a name', { jwk: publicJwk(newKey()) }],
    ['with a name that shows nothing', { name: ' ', jwk: publicJwk(newKey()) }],
    ['with a control character in its name', { name: 'a\u001b', jwk: publicJwk(newKey()) }],
    ['with a private key', { name: 'phone', jwk: generatePrivateJwk() }],
    ['with a key of another kind', { name: 'phone', jwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' } }],
    ['with a small-order point', { name: 'phone', jwk: { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } }],
    ['with an unknown member', { name: 'phone', jwk: publicJwk(newKey()), owner: 'bea' }],
  ]
  it.each(BAD)('are not enrolled %s: 400', async (_case, json) => {
    const reply = await call(alice, { method: 'POST', target: '/owner/device-keys', json })
    expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  it('page by kid', async () => {
    for (const name of ['a', 'b', 'c']) await call(alice, addKey(newKey(), name))
    const first = await call(alice, { target: '/owner/device-keys?limit=3' })
    expect(first.body).toHaveLength(3)
    const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link')!)![1]!
    const second = await call(alice, { target: next })
    expect(second.body).toHaveLength(1)
    expect(second.headers.get('link')).toBeNull()
  })

  it('that are not hers cannot be revoked: foreign and unknown are the same 404', async () => {
    const bea = await newcomer(both)
    const foreign = await call(alice, removeKey(bea.key))
    const unknown = await call(alice, removeKey(newKey()))
    expect(foreign.status).toBe(404)
    expect(foreign.text).toBe(unknown.text)
    expect((await call(bea, PENDING)).status).toBe(200)
    expect((await call(alice, { method: 'DELETE', target: '/owner/device-keys/%00' })).status).toBe(404)
  })
})
