/**
 * The keys that a realm publishes, kept and looked for again: contract, "Authentication", "Limits"; OIDC
 * Discovery §4.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose'
import { isSigned } from '../../src/credentials/oidc.ts'
import { createRealmKeys, RealmUnreachable, type RealmKeys } from '../../src/credentials/realm-keys.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import type { ReadToken } from '../../src/rules/owner-token.ts'
import { startRealm, type TestRealm } from '../support/realm.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'

const ALGORITHMS = ['RS256', 'ES256']
let now: number
let outbound: Outbound
beforeEach(() => {
  now = 1_800_000_000_000
  outbound = createOutbound({ devLoopback: true })
})
afterEach(() => outbound.close())

const keysOf = (issuer: string) => createRealmKeys({ issuer, outbound, clock: () => now })
const asks = (keys: RealmKeys, token: string) => keys.signed(token, decodeProtectedHeader(token), ALGORITHMS)

describe('The keys of a real provider', () => {
  let realm: TestRealm
  let keys: RealmKeys
  beforeEach(async () => {
    realm = await startRealm()
    keys = keysOf(realm.issuer)
  })
  afterEach(() => realm.close())
  const token = (how?: Parameters<TestRealm['sign']>[1]) => realm.sign(realm.claims('sub-a'), how)

  it('are fetched once for any number of tokens at once, and kept for 300 s', async () => {
    const several = await Promise.all(Array.from({ length: 8 }, () => token()))
    expect(await Promise.all(several.map(one => asks(keys, one)))).toEqual(several.map(() => true))
    now += 299_999
    expect(await asks(keys, await token())).toBe(true)
    expect(realm.keyFetches()).toBe(1)
    now += 1
    expect(await asks(keys, await token())).toBe(true)
    expect(realm.keyFetches()).toBe(2)
  })

  it('are looked at once more for a kid that is not among them', async () => {
    expect(await asks(keys, await token())).toBe(true)
    await realm.rotate()
    expect(await asks(keys, await token())).toBe(true)
    expect(realm.keyFetches()).toBe(2)
  })

  it('are not fetched again and again for kids that nobody published', async () => {
    expect(await asks(keys, await token())).toBe(true)
    for (let n = 0; n < 5; n++)
      expect(await asks(keys, await token({ header: { kid: `made-up-${n}` } }))).toBe(false)
    expect(realm.keyFetches()).toBe(2)
    now += 10_000
    expect(await asks(keys, await token({ header: { kid: 'made-up' } }))).toBe(false)
    expect(realm.keyFetches()).toBe(3)
  })

  it('are fetched once for a first token whose kid nobody published', async () => {
    expect(await asks(keys, await token({ header: { kid: 'made-up' } }))).toBe(false)
    expect(realm.keyFetches()).toBe(1)
  })

  it('are each tried for a token without a kid', async () => {
    expect(await asks(keys, await token({ header: { kid: undefined } }))).toBe(true)
    expect(await asks(keys, await token({ alg: 'ES256', header: { kid: undefined } }))).toBe(true)
  })

  it('are looked at once more for a token without a kid that none of them signed', async () => {
    const kidless = { header: { kid: undefined } }
    expect(await asks(keys, await token(kidless))).toBe(true)
    await realm.rotate()
    expect(await asks(keys, await token(kidless))).toBe(true)
  })

  it('serve only algorithms that are admitted', async () => {
    expect(await asks(keys, await token({ alg: 'PS256' }))).toBe(false)
  })

  it('that cannot be fetched decide nothing about a token, neither that it is good nor that it is bad', async () => {
    const first = await token()
    await realm.goAway()
    await expect(asks(keys, first)).rejects.toBeInstanceOf(RealmUnreachable)
    await realm.comeBack()
    // Remembered for a moment, so that a flood of tokens is no flood of fetches.
    await expect(asks(keys, first)).rejects.toBeInstanceOf(RealmUnreachable)
    now += 5_000
    expect(await asks(keys, first)).toBe(true)
  })

  it('once known go on while the realm is away; an unknown kid then gets no verdict', async () => {
    const known = await token()
    expect(await asks(keys, known)).toBe(true)
    await realm.rotate()
    const rotatedIn = await token()
    await realm.goAway()
    expect(await asks(keys, known)).toBe(true)
    await expect(asks(keys, rotatedIn)).rejects.toBeInstanceOf(RealmUnreachable)
    now += 300_000
    await expect(asks(keys, known)).rejects.toBeInstanceOf(RealmUnreachable)
  })
})

describe('A realm’s documents', () => {
  let server: ScriptedServer
  let discovery: object
  let keySet: unknown
  let token: string
  let jwk: JWK
  beforeEach(async () => {
    const pair = await generateKeyPair('ES256', { extractable: true })
    jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1' }
    token = await new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid: 'k1' }).sign(pair.privateKey)
    keySet = { keys: [jwk] }
    server = await startScriptedServer(({ path }) => {
      if (path === '/realm/.well-known/openid-configuration') return { body: discovery }
      return path === '/keys' ? { body: keySet } : { status: 404, body: {} }
    })
    discovery = { issuer: `${server.origin}/realm`, jwks_uri: `${server.origin}/keys` }
  })
  afterEach(() => server.close())
  const fails = (issuer = `${server.origin}/realm`) =>
    expect(asks(keysOf(issuer), token)).rejects.toBeInstanceOf(RealmUnreachable)

  it('are found below an issuer with a path', async () => {
    expect(await asks(keysOf(`${server.origin}/realm`), token)).toBe(true)
  })

  it.each([null, 'key', 7])('may be key sets in which something is no key: %s', async odd => {
    keySet = { keys: [odd, jwk] }
    expect(await asks(keysOf(`${server.origin}/realm`), token)).toBe(true)
  })

  /** A set with certificates, as realms publish them, of so many bytes. */
  const ofBytes = (bytes: number) => ({ keys: [{ ...jwk, x5c: ['M'.repeat(bytes)] }] })

  it.each([70 * 1_024, 300 * 1_024, 500 * 1_024])('may be key sets of %d bytes', async bytes => {
    keySet = ofBytes(bytes)
    expect(await asks(keysOf(`${server.origin}/realm`), token)).toBe(true)
  })

  it('that are larger than any that is read are told as that, and never as an outage', async () => {
    keySet = ofBytes(600 * 1_024)
    const keys = keysOf(`${server.origin}/realm`)
    await expect(asks(keys, token)).rejects.toMatchObject({ isTooLarge: true })
    const read = { header: decodeProtectedHeader(token), payload: {} } as ReadToken
    await expect(isSigned(keys, token, read, ALGORITHMS)).rejects.toMatchObject({
      code: 'server_error',
      detail: expect.stringContaining('larger than 524288 bytes') as string,
    })
    await server.close()
    await expect(isSigned(keysOf(`${server.origin}/realm`), token, read, ALGORITHMS)).rejects.toMatchObject({
      code: 'temporarily_unavailable',
    })
  })

  it('are those of RFC 8414 if there is no OpenID document, and only there', async () => {
    const { origin } = server
    const metadata = { ...discovery, token_endpoint: `${origin}/token` }
    let openid: { status: number; body: object } = { status: 404, body: {} }
    const oauth = await startScriptedServer(({ path }) => {
      if (path === '/realm/.well-known/openid-configuration') return openid
      if (path !== '/.well-known/oauth-authorization-server/realm') return { status: 404, body: {} }
      return { body: { ...metadata, issuer: `${oauth.origin}/realm` } }
    })
    const issuer = `${oauth.origin}/realm`
    expect(await asks(keysOf(issuer), token)).toBe(true)
    expect(await keysOf(issuer).tokenEndpoint()).toBe(`${origin}/token`)
    openid = { status: 503, body: {} }
    await fails(issuer)
    // Named by neither, it cannot be told to anybody.
    await expect(keysOf(`${origin}/realm`).tokenEndpoint()).rejects.toBeInstanceOf(RealmUnreachable)
    await oauth.close()
  })

  it('are found below an issuer that ends in a slash, which the document must then have too', async () => {
    await fails(`${server.origin}/realm/`)
    discovery = { ...discovery, issuer: `${server.origin}/realm/` }
    expect(await asks(keysOf(`${server.origin}/realm/`), token)).toBe(true)
  })

  it('are not used if they name another issuer', async () => {
    discovery = { ...discovery, issuer: `${server.origin}/other` }
    await fails()
  })

  it.each([
    ['no jwks_uri', { jwks_uri: undefined }],
    ['a jwks_uri that is not there', { jwks_uri: '/nowhere' }],
    ['a jwks_uri over http elsewhere', { jwks_uri: 'http://keys.example/keys' }],
  ])('are not used with %s', async (_case, change) => {
    discovery = { ...discovery, ...change }
    await fails()
  })

  it.each([
    ['a list', []],
    ['keys that are no list', { keys: {} }],
    ['nothing', null],
  ])('are not used where the key set is %s', async (_case, given) => {
    keySet = given
    await fails()
  })

  it('may hold keys that we cannot use beside those that we can', async () => {
    keySet = { keys: [{ kty: 'oct', k: 'AAAA', kid: 'k1' }, { kty: 'new' }, { ...jwk, use: 'enc' }, jwk] }
    expect(await asks(keysOf(`${server.origin}/realm`), token)).toBe(true)
  })

  it('verify nothing by a key published for something else', async () => {
    for (const change of [{ use: 'enc' }, { alg: 'RS256' }, { key_ops: ['encrypt'] }]) {
      keySet = { keys: [{ ...jwk, ...change }] }
      expect(await asks(keysOf(`${server.origin}/realm`), token)).toBe(false)
    }
  })
})
