/**
 * contract, "The organization's authority" (join by identity-provider vouching): when an assertion says who
 * somebody is, to us.
 */
import { describe, expect, it } from 'vitest'
import { assertionFault } from '../../src/rules/identity-assertion.ts'
import type { JsonObject } from '../../src/wire/json.ts'

const NOW = 1_790_000_000
const EXPECTED = { issuer: 'https://idp.example', audience: 'https://org.example', subject: 'sub-b' }
const HEADER: JsonObject = { typ: 'oauth-id-jag+jwt', alg: 'RS256' }
const PAYLOAD: JsonObject = {
  iss: EXPECTED.issuer,
  aud: EXPECTED.audience,
  sub: 'sub-b',
  jti: 'a',
  iat: NOW,
  exp: NOW + 300,
}
const fault = (payload: object = {}, header: object = {}) =>
  assertionFault(
    {
      header: JSON.parse(JSON.stringify({ ...HEADER, ...header })) as JsonObject,
      payload: JSON.parse(JSON.stringify({ ...PAYLOAD, ...payload })) as JsonObject,
    },
    EXPECTED,
    NOW,
  )

describe('An identity assertion', () => {
  it.each<[string, object, object]>([
    ['as it should be', {}, {}],
    ['whose audience is a list of one', { aud: [EXPECTED.audience] }, {}],
    ['whose typ is written as a media type', {}, { typ: 'application/oauth-id-jag+JWT' }],
    ['of a clock that is a minute ahead', { iat: NOW + 60 }, {}],
    ['that lasts an hour', { exp: NOW + 3_600 }, {}],
    ['signed with Ed25519', {}, { alg: 'Ed25519' }],
  ])('is taken %s', (_what, payload, header) => expect(fault(payload, header)).toBeUndefined())

  it.each<[string, object, object]>([
    ['of another provider', { iss: 'https://idp.example/' }, {}],
    ['to another', { aud: 'https://as.example' }, {}],
    ['to us and another', { aud: [EXPECTED.audience, 'https://as.example'] }, {}],
    ['to nobody', { aud: [] }, {}],
    ['of somebody else', { sub: 'sub-c' }, {}],
    ['of nobody', { sub: undefined }, {}],
    ['without an id', { jti: undefined }, {}],
    ['that has expired', { exp: NOW }, {}],
    ['that lasts longer than an hour', { exp: NOW + 3_601 }, {}],
    ['without an end', { exp: undefined }, {}],
    ['without a beginning', { iat: undefined }, {}],
    ['from the future', { iat: NOW + 61 }, {}],
    ['that is not good yet', { nbf: NOW + 61 }, {}],
    ['whose times are text', { exp: String(NOW + 300) }, {}],
    ['of another kind', {}, { typ: 'at+jwt' }],
    ['of no kind', {}, { typ: undefined }],
    ['that nobody signed', {}, { alg: 'none' }],
    ['under a shared secret', {}, { alg: 'HS256' }],
  ])('is refused %s', (_what, payload, header) => expect(fault(payload, header)).toMatch(/^[A-Z].*\.$/))
})
