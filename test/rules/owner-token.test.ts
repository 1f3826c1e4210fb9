/** Which token of her realm may speak for an owner: contract, "Authentication" (owner at the owner API). */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ownerTokenFault, type ReadToken, type RealmPolicy } from '../../src/rules/owner-token.ts'

const NOW = 1_800_000_000
const policy: RealmPolicy = {
  issuer: 'https://realm.example/',
  audience: 'https://owner-api.example',
  authorizedParties: ['portal'],
  algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
  types: ['at+jwt', 'JWT'],
}
const header = { alg: 'RS256', typ: 'at+jwt', kid: 'k' }
const payload = {
  iss: policy.issuer,
  sub: 'f3b1',
  aud: policy.audience,
  client_id: 'portal',
  scope: 'owner',
  iat: NOW - 10,
  exp: NOW + 300,
}
const judge = (change: Partial<ReadToken>, by: Partial<RealmPolicy> = {}) =>
  ownerTokenFault({ header, payload, ...change }, { ...policy, ...by }, NOW)
const claims = (change: Record<string, unknown>) => {
  const changed = Object.entries({ ...payload, ...change }).filter(([, value]) => value !== undefined)
  return { payload: Object.fromEntries(changed) as ReadToken['payload'] }
}
const headers = (change: Record<string, unknown>) => {
  const changed = Object.entries({ ...header, ...change }).filter(([, value]) => value !== undefined)
  return { header: Object.fromEntries(changed) as ReadToken['header'] }
}

describe('An access token of her realm', () => {
  const TAKEN: [string, Partial<ReadToken>][] = [
    ['of RFC 9068', {}],
    ['of the type’s long spelling', headers({ typ: 'application/AT+JWT' })],
    ['signed with the newer name of EdDSA', headers({ alg: 'Ed25519' })],
    ['for several audiences, ours among them', claims({ aud: ['other', policy.audience] })],
    ['that begins within the clock window', claims({ nbf: NOW + 60, iat: NOW + 60 })],
    ['in its last second', claims({ exp: NOW + 1 })],
    ['of a plain type that says Bearer', { ...headers({ typ: 'JWT' }), ...claims({ typ: 'Bearer' }) }],
    ['of no type that says what it is for', { ...headers({ typ: undefined }), ...claims({ scope: 'x' }) }],
    [
      'of a plain type whose scopes are called scp',
      { ...headers({ typ: 'JWT' }), ...claims({ scope: undefined, scp: ['x'] }) },
    ],
    ['without an audience, of a listed party (azp)', claims({ aud: undefined, azp: 'portal' })],
    ['without an audience, of a listed party (client_id)', claims({ aud: undefined })],
    ['for us, whatever its authorized party', claims({ azp: 'stranger', client_id: 'stranger' })],
  ]
  it.each(TAKEN)('is taken: %s', (_case, change) => {
    expect(judge(change)).toBeUndefined()
  })

  const REFUSED: [string, Partial<ReadToken>, RegExp][] = [
    ['none', headers({ alg: 'none' }), /signed with one of/],
    ['an HMAC', headers({ alg: 'HS256' }), /signed with one of/],
    ['an algorithm that is not listed', headers({ alg: 'RS384' }), /signed with one of/],
    ['no algorithm', headers({ alg: undefined }), /signed with one of/],
    ['an algorithm that is no text', headers({ alg: ['RS256'] }), /signed with one of/],
    ['another issuer', claims({ iss: 'https://other.example/' }), /realm that this authority trusts/],
    ['the issuer in another spelling', claims({ iss: 'https://realm.example' }), /realm that this authority/],
    ['no issuer', claims({ iss: undefined }), /realm that this authority trusts/],
    ['another audience', claims({ aud: 'https://other.example' }), /audience is https:\/\/owner-api/],
    ['an audience that only contains ours', claims({ aud: `${policy.audience}/x` }), /audience is/],
    ['an empty list of audiences, of a listed party', claims({ aud: [], azp: 'portal' }), /audience is/],
    ['another audience, of a listed party', claims({ aud: 'other', azp: 'portal' }), /audience is/],
    ['no audience and another party', claims({ aud: undefined, client_id: 'stranger' }), /has none/],
    ['no audience and no party', claims({ aud: undefined, client_id: undefined }), /has none/],
    ['no audience and two parties', claims({ aud: undefined, azp: 'portal', client_id: 'x' }), /has none/],
    ['its end reached', claims({ exp: NOW }), /has expired/],
    ['no end', claims({ exp: undefined }), /that expires/],
    ['an end that is no number', claims({ exp: `${NOW + 300}` }), /times are numbers/],
    ['a beginning beyond the clock window', claims({ nbf: NOW + 61 }), /once its time has begun/],
    ['a time of issue beyond the clock window', claims({ iat: NOW + 61 }), /once its time has begun/],
    ['a beginning that is no number', claims({ nbf: 'now' }), /times are numbers/],
    ['no subject', claims({ sub: undefined }), /names its subject/],
    ['an empty subject', claims({ sub: '' }), /names its subject/],
    ['a subject that is no text', claims({ sub: 7 }), /names its subject/],
    ['a NUL in its subject', claims({ sub: 'a\0' }), /names its subject/],
    ['a subject of 256 characters', claims({ sub: 'a'.repeat(256) }), /names its subject/],
  ]
  it.each(REFUSED)('is refused with %s', (_case, change, fault) => {
    expect(judge(change)).toMatch(fault)
  })
})

describe('A token of another kind is refused', () => {
  const plain = headers({ typ: 'JWT' })
  const bare = claims({ scope: undefined, client_id: undefined, azp: 'portal' })
  const KINDS: [string, Partial<ReadToken>][] = [
    ['an ID token by its nonce', claims({ nonce: 'n' })],
    ['an ID token by its at_hash', claims({ at_hash: 'h' })],
    ['an ID token by its c_hash', claims({ c_hash: 'h' })],
    ['an ID token by its payload typ', { ...plain, ...claims({ typ: 'ID' }) }],
    ['an ID token by its token_use', { ...plain, ...claims({ token_use: 'id' }) }],
    ['an ID token that shows nothing, by what it lacks', { ...plain, ...bare }],
    ['an ID token without a type, by what it lacks', { ...headers({ typ: undefined }), ...bare }],
    ['a refresh token', { ...plain, ...claims({ typ: 'Refresh' }) }],
    ['an offline token', { ...plain, ...claims({ typ: 'Offline' }) }],
    ['a logout token', { ...headers({ typ: 'logout+jwt' }), ...claims({ events: {} }) }],
    ['a logout token of the plain type', { ...plain, ...claims({ events: {} }) }],
    ['a PAT', headers({ typ: 'pat+jwt' })],
    ['an agent token', headers({ typ: 'aa-agent+jwt' })],
    ['one of a type that is no text', headers({ typ: 7 })],
    ['an RPT, bound to a key', claims({ cnf: { jwk: {} } })],
    ['a sender-constrained token, as nothing here checks its proof', claims({ cnf: { jkt: 'x' } })],
  ]
  it.each(KINDS)('%s', (_case, change) => {
    expect(judge(change)).toMatch(/^Send /)
  })

  it('the plain type if the deployment wants RFC 9068’s alone', () => {
    const change = { ...plain, ...claims({ typ: 'Bearer' }) }
    expect(judge(change, { types: ['at+jwt'] })).toMatch(/whose header typ is at\+jwt/)
    expect(judge({}, { types: ['JWT'] })).toMatch(/whose header typ is JWT/)
  })
})

describe('For any token', () => {
  const json = fc.jsonValue() as fc.Arbitrary<ReadToken['payload'][string]>
  const member = fc.constantFrom(
    'typ',
    'nonce',
    'aud',
    'azp',
    'exp',
    'nbf',
    'iat',
    'sub',
    'iss',
    'cnf',
    'scope',
  )

  it('the rule gives an answer, and none that is taken lacks issuer, audience or end', () => {
    fc.assert(
      fc.property(fc.dictionary(member, json), fc.dictionary(fc.constantFrom('alg', 'typ'), json), (p, h) => {
        const token = { header: { ...header, ...h }, payload: { ...payload, ...p } }
        if (ownerTokenFault(token, policy, NOW) !== undefined) return
        expect(token.payload.iss).toBe(policy.issuer)
        expect([token.payload.aud].flat()).toContain(policy.audience)
        expect(token.payload.exp).toBeGreaterThan(NOW)
        const { typ } = token.payload as ReadToken['payload']
        expect(Object.hasOwn(token.payload, 'nonce') && typ !== 'Bearer').toBe(false)
      }),
    )
  })

  it('a listed party helps only where there is no audience at all', () => {
    fc.assert(
      fc.property(json, aud => {
        const named = Array.isArray(aud) ? aud.includes(policy.audience) : aud === policy.audience
        expect(judge(claims({ aud, azp: 'portal', client_id: undefined })) === undefined).toBe(named)
      }),
    )
  })
})
