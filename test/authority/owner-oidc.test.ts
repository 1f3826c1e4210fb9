/**
 * An owner who logs in at her realm, a real OpenID provider: contract, "Authentication" (owner at the owner
 * API).
 */
import { sql } from 'kysely'
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { testAgent } from '../support/test-agent.ts'
import { startTestAuthority, type OwnerCall, type Reply } from '../support/authority.ts'
import { AUDIENCE, PORTAL, type RealmTokens, startRealm } from '../support/realm.ts'
import { realmEnvironment, startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'
import { asOwner, type Handle } from '../../src/wire/identifiers.ts'

let both: RealmAuthority
let tokens: RealmTokens
beforeAll(async () => {
  both = await startRealmAuthority({
    owners: ['alice', 'bea', 'carol'],
    logins: { alice: 'sub-a', bea: 'sub-b' },
  })
  tokens = await both.realm.login('sub-a')
})
afterAll(() => both.close())

const PENDING = { target: '/owner/pending' }
const revoke = (handle: Handle): OwnerCall => ({
  method: 'POST',
  target: '/owner/connections/revoke',
  json: { handle },
})
const refused = (reply: Reply) => {
  expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
  expect(reply.body.error_description).toMatch(/\.$/)
  expect(reply.headers.get('www-authenticate')).toBe('Bearer realm="owner", error="invalid_token"')
  expect(reply.headers.get('cache-control')).toBe('no-store')
}

describe('An access token of her realm', () => {
  it('is accepted by itself, without any signature, as the provider issued it', async () => {
    expect(await both.bearing(tokens.access_token, PENDING)).toMatchObject({ status: 200, body: [] })
  })

  it('makes changes, on the owner to whom its login is bound and on nobody else', async () => {
    const { db } = both.authority.database
    const handle = seed.name('jkt:')
    await seed.seedConnection(db, asOwner('alice'), handle)
    const { access_token } = await both.realm.login('sub-b')
    expect((await both.bearing(access_token, revoke(handle))).status).toBe(404)
    expect((await both.bearing(tokens.access_token, revoke(handle))).status).toBe(200)
  })

  it('names its login, and no device key, as who decided: in the answer, the ledger and the events', async () => {
    const { db } = both.authority.database
    const { family } = await seed.seedWaiting(db, asOwner('alice'), seed.name('jkt:'))
    const decide = {
      method: 'POST',
      target: `/owner/pending/${family}/decision`,
      json: { decision: 'denied' },
    }
    const { body } = await both.bearing(tokens.access_token, decide as OwnerCall)
    const { body: logins } = await both.bearing(tokens.access_token, { target: '/owner/logins' })
    const [{ id }] = logins.filter(({ subject }: { subject: string }) => subject === 'sub-a')
    const actor = { kind: 'owner', credential: 'login', id }
    expect(body).toEqual({ family, decision: 'denied', by: 'owner', actor })
    const { body: told } = await both.bearing(tokens.access_token, { target: '/owner/ledger?kind=denied' })
    expect(told.entries).toMatchObject([{ family, by: 'owner', actor }])
    const { rows } = await sql<{ data: unknown }>`
      SELECT data FROM events WHERE owner = 'alice' AND event = 'decided'`.execute(db)
    expect(rows).toEqual([{ data: { family, decision: 'denied', by: 'owner', actor } }])
  })

  it('may be presented again and again: it is no signature, which is accepted once', async () => {
    const block: OwnerCall = {
      method: 'POST',
      target: '/owner/operators/block',
      json: { origin: 'https://twice.example' },
    }
    expect((await both.bearing(tokens.access_token, block)).status).toBe(200)
    expect((await both.bearing(tokens.access_token, block)).status).toBe(200)
  })

  it('may carry its scheme in any case', async () => {
    const headers = { authorization: `bEARER ${tokens.access_token}` }
    expect((await both.bearing('', { ...PENDING, headers })).status).toBe(200)
  })

  it.each(['RS256', 'PS256', 'ES256', 'EdDSA'] as const)('is accepted signed with %s', async alg => {
    const token = await both.realm.sign(both.realm.claims('sub-a'), { alg })
    expect((await both.bearing(token, PENDING)).status).toBe(200)
  })

  it('of a realm that writes `typ: JWT` is accepted if its claims say what it is', async () => {
    const claims = { ...both.realm.claims('sub-a'), typ: 'Bearer', azp: PORTAL }
    const token = await both.realm.sign(claims, { header: { typ: 'JWT' } })
    expect((await both.bearing(token, PENDING)).status).toBe(200)
  })

  it('names nobody by what a person may edit: an address or a name in it binds nothing', async () => {
    const claims = { ...both.realm.claims('somebody'), email: 'alice', preferred_username: 'alice' }
    refused(await both.bearing(await both.realm.sign({ ...claims, owner: 'alice' }), PENDING))
  })

  it('of a login that is bound to nobody is 401, also for an owner of that name', async () => {
    refused(await both.bearing((await both.realm.login('carol')).access_token, PENDING))
    refused(await both.bearing((await both.realm.login('nobody')).access_token, PENDING))
  })
})

describe('A token of another kind is refused', () => {
  it('an ID token of the provider', async () => {
    refused(await both.bearing(tokens.id_token, PENDING))
  })

  it('a refresh token of the provider', async () => {
    refused(await both.bearing(tokens.refresh_token, PENDING))
  })

  it('an RPT of ours', async () => {
    const { rpt } = await testAgent(both.authority).granted()
    refused(await both.bearing(rpt, PENDING))
  })

  it('a PAT of ours', async () => {
    refused(await both.bearing(await both.authority.pat(), PENDING))
  })

  const realmMade: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ['an ID token for our own audience, by its nonce', { nonce: 'n' }, {}],
    ['an ID token for our own audience, by its at_hash', { at_hash: 'h' }, {}],
    ['an ID token that shows nothing', { scope: undefined, client_id: undefined }, { typ: undefined }],
    ['an ID token by its payload typ', { typ: 'ID' }, { typ: 'JWT' }],
    ['a refresh token by its payload typ', { typ: 'Refresh' }, { typ: 'JWT' }],
    ['one of another header typ', {}, { typ: 'logout+jwt' }],
    ['one bound to a key, whose proof nobody checks', { cnf: { jkt: 'x' } }, {}],
    ['one for another audience', { aud: 'https://elsewhere.example' }, {}],
    ['one for the client that logged her in', { aud: PORTAL }, {}],
    ['one without an audience, of a party that is not listed', { aud: undefined }, {}],
    ['one of another issuer', { iss: 'https://elsewhere.example' }, {}],
    ['one that has expired', { exp: 1 }, {}],
    ['one that never expires', { exp: undefined }, {}],
    ['one that begins later', { nbf: 4_000_000_000 }, {}],
    ['one without a subject', { sub: undefined }, {}],
  ]
  it.each(realmMade)('%s, though the realm signed it', async (_case, claims, header) => {
    const token = await both.realm.sign({ ...both.realm.claims('sub-a'), ...claims }, { header })
    refused(await both.bearing(token, PENDING))
  })

  it('an unsigned one', async () => {
    refused(await both.bearing(new UnsecuredJWT(both.realm.claims('sub-a')).encode(), PENDING))
  })

  it('one by an HMAC under a published key', async () => {
    const jwks = (await (await fetch(`${both.realm.issuer}/jwks`)).json()) as { keys: { kid: string }[] }
    for (const key of [JSON.stringify(jwks.keys[0]), 'a secret']) {
      const token = await new SignJWT(both.realm.claims('sub-a'))
        .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: jwks.keys[0]!.kid })
        .sign(Buffer.from(key))
      refused(await both.bearing(token, PENDING))
    }
  })

  it('one that another key signed under a published kid', async () => {
    const published = (await (await fetch(`${both.realm.issuer}/jwks`)).json()) as {
      keys: { kid: string; alg: string }[]
    }
    const { privateKey } = await generateKeyPair('RS256')
    const { kid } = published.keys.find(({ alg }) => alg === 'RS256')!
    const token = await new SignJWT(both.realm.claims('sub-a'))
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid })
      .sign(privateKey)
    refused(await both.bearing(token, PENDING))
  })

  it('one whose claims were changed after it was signed', async () => {
    const [header, , signature] = tokens.access_token.split('.')
    const claims = Buffer.from(JSON.stringify(both.realm.claims('sub-b'))).toString('base64url')
    refused(await both.bearing(`${header}.${claims}.${signature}`, PENDING))
  })

  it.each([
    ['no token', 'Bearer'],
    ['two tokens', 'Bearer a, Bearer b'],
    ['something that is no JWT', 'Bearer abc'],
    ['three parts of nothing', 'Bearer a.b.c'],
    ['five parts, as an encrypted one has', 'Bearer a.b.c.d.e'],
  ])('%s', async (_case, authorization) => {
    refused(await both.bearing('', { ...PENDING, headers: { authorization } }))
  })
})

describe('A request has one credential', () => {
  it('a signature and a bearer token together are ambiguous: 400, whoever’s they are', async () => {
    const { alice, owners } = both.authority
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    for (const owner of [alice, owners['bea']!]) {
      const reply = await both.authority.call(owner, { ...PENDING, headers })
      expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    }
  })

  it('without any, the answer names both ways', async () => {
    const reply = await both.authority.call(both.authority.alice, { ...PENDING, sign: false })
    expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect(reply.headers.get('www-authenticate')).toBe('Signature realm="owner", Bearer realm="owner"')
    expect(reply.body.error_description).toMatch(/device key .* access token/)
  })
})

describe('UMA_AS_OWNER_AUTH', () => {
  it('with both, a good one of either kind suffices and the other kind is no fallback for a bad one', async () => {
    const { authority } = both
    expect((await authority.call(authority.alice, PENDING)).status).toBe(200)
    const stranger = importPrivateJwk(generatePrivateJwk())
    expect((await authority.call(authority.alice, { ...PENDING, sign: { key: stranger } })).status).toBe(401)
    expect((await both.bearing(`${tokens.access_token}x`, PENDING)).status).toBe(401)
  })

  it('oidc alone refuses the signature of an enrolled device key, and says what to send', async () => {
    const environment = { ...realmEnvironment(both.realm.issuer), UMA_AS_OWNER_AUTH: 'oidc' }
    const replica = await startTestAuthority({ beside: both.authority, environment })
    const reply = await replica.call(both.authority.alice, PENDING)
    expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect(reply.headers.get('www-authenticate')).toBe('Bearer realm="owner"')
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    expect((await replica.call(both.authority.alice, { ...PENDING, headers, sign: false })).status).toBe(200)
    await replica.close()
  })

  it('device-key alone refuses the access token of a bound login, and asks no realm', async () => {
    const environment = { UMA_AS_OWNER_AUTH: 'device-key' }
    const replica = await startTestAuthority({ beside: both.authority, environment })
    const fetches = both.realm.keyFetches()
    const headers = { authorization: `Bearer ${tokens.access_token}` }
    const reply = await replica.call(both.authority.alice, { ...PENDING, headers, sign: false })
    expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect(reply.headers.get('www-authenticate')).toBe('Signature realm="owner"')
    expect((await replica.call(both.authority.alice, PENDING)).status).toBe(200)
    expect(both.realm.keyFetches()).toBe(fetches)
    await replica.close()
  })
})

describe('A realm without audiences', () => {
  it('has its tokens taken of the parties that are listed, and of no others', async () => {
    const environment = {
      ...realmEnvironment(both.realm.issuer),
      UMA_AS_OIDC_AUTHORIZED_PARTIES: `other, ${PORTAL}`,
    }
    const replica = await startTestAuthority({ beside: both.authority, environment })
    const ask = async (claims: object) => {
      const token = await both.realm.sign({ ...both.realm.claims('sub-a'), ...claims })
      const headers = { authorization: `Bearer ${token}` }
      return (await replica.call(both.authority.alice, { ...PENDING, headers, sign: false })).status
    }
    expect(await ask({ aud: undefined })).toBe(200)
    expect(await ask({ aud: undefined, client_id: 'stranger' })).toBe(401)
    expect(await ask({ aud: 'https://elsewhere.example' })).toBe(401)
    expect(await ask({ aud: AUDIENCE, client_id: 'stranger' })).toBe(200)
    await replica.close()
  })
})

describe('The keys of the realm', () => {
  it('may be rotated: a key just published is found, and one withdrawn is refused', async () => {
    const realm = await startRealm()
    const environment = realmEnvironment(realm.issuer)
    const authority = await startTestAuthority({
      environment,
      provision: document => ({
        owners: document.owners.map(owner => ({
          ...owner,
          logins: [{ name: 'realm', issuer: realm.issuer, subject: 'sub-a' }],
        })),
      }),
    })
    const ask = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return (await authority.call(authority.alice, { ...PENDING, headers, sign: false })).status
    }
    const before = (await realm.login('sub-a')).access_token
    expect(await ask(before)).toBe(200)
    await realm.rotate()
    expect(await ask((await realm.login('sub-a')).access_token)).toBe(200)
    expect(await ask(before)).toBe(401)
    await authority.close()
    await realm.close()
  })

  it('that cannot be had make the answer 503, never 401; device keys go on', async () => {
    const realm = await startRealm()
    const { access_token } = await realm.login('sub-a')
    const expired = await realm.sign({ ...realm.claims('sub-a'), exp: 1 })
    await realm.goAway()
    const authority = await startTestAuthority({ environment: realmEnvironment(realm.issuer) })
    const ask = (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return authority.call(authority.alice, { ...PENDING, headers, sign: false })
    }
    const reply = await ask(access_token)
    expect(reply).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect(reply.headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await authority.call(authority.alice, PENDING)).status).toBe(200)
    // What its claims alone rule out needs no key.
    refused(await ask(expired))
    await realm.comeBack()
    await until(async () => (await ask(access_token)).status === 401)
    await authority.close()
    await realm.close()
  })
})
