/**
 * Tokens as providers write them, by the shapes of their documents: what is an access token there is taken,
 * what is an ID or a refresh token is refused. Contract: "Authentication" (owner at the owner API).
 */
import { describe, expect, it } from 'vitest'
import { ownerTokenFault, type RealmPolicy } from '../../src/rules/owner-token.ts'
import type { JsonObject } from '../../src/wire/json.ts'

const NOW = 1_800_000_000
const times = { iat: NOW - 10, exp: NOW + 300 }
const API = 'https://as.example.com/owner'
/** A client that operators also name as the audience, where a realm addresses tokens to nothing else. */
const CLIENT = 'portal'

interface Shape {
  header: JsonObject
  payload: JsonObject
  audience?: string
}
const policyOf = (payload: JsonObject, audience: string): RealmPolicy => ({
  issuer: payload['iss'] as string,
  audience,
  authorizedParties: [],
  algorithms: ['RS256', 'ES256', 'EdDSA'],
  types: ['at+jwt', 'JWT'],
})
const judge = ({ header, payload, audience = API }: Shape) =>
  ownerTokenFault({ header, payload }, policyOf(payload, audience), NOW)

const plain = { alg: 'RS256', typ: 'JWT', kid: 'k' }
const rfc9068 = { alg: 'RS256', typ: 'at+jwt', kid: 'k' }
const untyped = { alg: 'RS256', kid: 'k' }

const keycloak = {
  ...times,
  jti: 'onrtac:5f3c',
  iss: 'https://kc.example.com/realms/people',
  sub: 'f3b1',
  azp: CLIENT,
  sid: 's-1',
  acr: '1',
  auth_time: NOW - 20,
}
const keycloakAccess = {
  ...keycloak,
  aud: [API, 'account'],
  typ: 'Bearer',
  'allowed-origins': ['https://portal.example.com'],
  realm_access: { roles: ['user'] },
  scope: 'openid profile',
  preferred_username: 'alice',
  email: 'alice@example.com',
}
const entra = {
  ...times,
  nbf: NOW - 10,
  iss: 'https://login.microsoftonline.com/9188/v2.0',
  sub: 'AAAA-x',
  oid: '0000-1',
  tid: '9188',
  ver: '2.0',
  rh: '0.A',
  uti: 'u',
  preferred_username: 'alice@example.com',
  name: 'Alice',
}
const okta = {
  ...times,
  ver: 1,
  iss: 'https://org.okta.example/oauth2/default',
  sub: 'alice@example.com',
  auth_time: NOW - 20,
}
const auth0 = { ...times, iss: 'https://tenant.auth0.example/', sub: 'auth0|5f3c' }
const zitadel = {
  ...times,
  nbf: NOW - 10,
  iss: 'https://zitadel.example.com',
  sub: '1637',
  aud: ['2891@people', API],
}
const authentik = {
  ...times,
  iss: 'https://ak.example.com/application/o/portal/',
  sub: '9c2f',
  aud: CLIENT,
  auth_time: NOW - 20,
  acr: 'goauthentik.io/providers/oauth2/default',
  amr: ['pwd'],
  email: 'alice@example.com',
  name: 'Alice',
  nonce: 'n-1',
  sid: 's-1',
}
const dex = {
  ...times,
  iss: 'https://dex.example.com',
  sub: 'CgVhbGljZQ',
  aud: API,
  email: 'alice@example.com',
  name: 'alice',
}
const google = {
  ...times,
  iss: 'https://accounts.google.com',
  sub: '1076',
  azp: '7.apps.googleusercontent.com',
  aud: '7.apps.googleusercontent.com',
  email: 'alice@example.com',
  email_verified: true,
}

describe('An access token is taken', () => {
  const TAKEN: [string, Shape][] = [
    [
      'of Keycloak 22 and 23, which repeat the nonce',
      { header: plain, payload: { ...keycloakAccess, nonce: 'n-1', session_state: 's-1' } },
    ],
    ['of Keycloak 24 to 26', { header: plain, payload: keycloakAccess }],
    ['of Keycloak with the header of RFC 9068', { header: rfc9068, payload: keycloakAccess }],
    [
      'of Keycloak with that header and a nonce',
      { header: rfc9068, payload: { ...keycloakAccess, nonce: 'n-1' } },
    ],
    [
      'of Keycloak, a lightweight one',
      {
        header: plain,
        payload: {
          ...times,
          jti: 'j',
          iss: keycloak.iss,
          sub: 'f3b1',
          aud: API,
          typ: 'Bearer',
          azp: CLIENT,
          sid: 's',
          scope: '',
        },
      },
    ],
    [
      'of Entra ID v2.0',
      { header: plain, payload: { ...entra, aud: API, azp: 'c-1', azpacr: '1', scp: 'owner.use' } },
    ],
    [
      'of Entra ID v1.0',
      {
        header: { ...plain, x5t: 'x' },
        payload: {
          ...entra,
          iss: 'https://sts.windows.net/9188/',
          ver: '1.0',
          aud: API,
          appid: 'c-1',
          appidacr: '1',
          scp: 'owner.use',
          amr: ['pwd'],
        },
      },
    ],
    [
      'of Okta',
      {
        header: untyped,
        payload: { ...okta, jti: 'AT.x', aud: API, cid: '0oa1', uid: '00u1', scp: ['owner'] },
      },
    ],
    [
      'of Auth0, its own profile',
      {
        header: plain,
        payload: {
          ...auth0,
          aud: [API, `${auth0.iss}userinfo`],
          azp: 'c-1',
          scope: 'openid owner',
          permissions: [],
        },
      },
    ],
    [
      'of Auth0, the profile of RFC 9068',
      { header: rfc9068, payload: { ...auth0, aud: [API], client_id: 'c-1', jti: 'j', scope: 'owner' } },
    ],
    [
      'of Zitadel, which names no scope',
      { header: untyped, payload: { ...zitadel, jti: 'at_1', client_id: '2891@people' } },
    ],
    [
      'of Zitadel with azp and a type',
      { header: plain, payload: { ...zitadel, jti: 'V2_1-at_1', azp: '2891@people' } },
    ],
    [
      'of Authentik, which repeats the whole login',
      {
        header: plain,
        payload: { ...authentik, azp: CLIENT, uid: 'u-1', scope: 'openid email owner' },
        audience: CLIENT,
      },
    ],
  ]
  it.each(TAKEN)('%s', (_token, shape) => {
    expect(judge(shape)).toBeUndefined()
  })
})

describe('A token of another kind is refused, even if it is addressed to us', () => {
  const ID: [string, Shape][] = [
    [
      'an ID token of Keycloak',
      { header: plain, payload: { ...keycloak, aud: API, typ: 'ID', nonce: 'n-1', at_hash: 'h' } },
    ],
    [
      'an ID token of Keycloak without nonce',
      { header: plain, payload: { ...keycloak, aud: [API, CLIENT], typ: 'ID', scope: 'openid' } },
    ],
    [
      'a refresh token of Keycloak',
      {
        header: { ...plain },
        payload: { ...keycloak, aud: API, typ: 'Refresh', scope: 'openid', nonce: 'n-1' },
      },
    ],
    [
      'an offline token of Keycloak',
      { header: plain, payload: { ...keycloak, aud: API, typ: 'Offline', scope: 'offline_access' } },
    ],
    [
      'a logout token of Keycloak',
      {
        header: { ...plain, typ: 'logout+jwt' },
        payload: { ...keycloak, aud: API, typ: 'Logout', events: {} },
      },
    ],
    [
      'a DPoP-bound token of Keycloak',
      { header: plain, payload: { ...keycloakAccess, typ: 'DPoP', cnf: { jkt: 'x' } } },
    ],
    ['an ID token of Entra ID', { header: plain, payload: { ...entra, aud: API, nonce: 'n-1' } }],
    ['an ID token of Entra ID without nonce', { header: plain, payload: { ...entra, aud: API } }],
    [
      'an ID token of Okta',
      {
        header: untyped,
        payload: { ...okta, jti: 'ID.x', aud: API, amr: ['pwd'], idp: '00o1', nonce: 'n-1', at_hash: 'h' },
      },
    ],
    [
      'an ID token of Okta without nonce',
      { header: untyped, payload: { ...okta, jti: 'ID.x', aud: API, amr: ['pwd'], idp: '00o1' } },
    ],
    [
      'an ID token of Auth0',
      { header: plain, payload: { ...auth0, aud: API, sid: 's', nonce: 'n-1', email: 'a@example.com' } },
    ],
    [
      'an ID token of Google',
      { header: plain, payload: { ...google, at_hash: 'h', nonce: 'n-1' }, audience: google.aud },
    ],
    [
      'an ID token of Google, from its sign-in',
      {
        header: plain,
        payload: { ...google, jti: 'j', name: 'Alice', picture: 'https://x.example/p' },
        audience: google.aud,
      },
    ],
    [
      'an ID token of Google without a person',
      {
        header: plain,
        payload: { ...times, iss: google.iss, sub: '1', azp: google.azp, aud: google.aud, jti: 'j' },
        audience: google.aud,
      },
    ],
    [
      'an ID token of Zitadel',
      {
        header: untyped,
        payload: {
          ...zitadel,
          azp: '2891@people',
          client_id: '2891@people',
          auth_time: NOW - 20,
          amr: ['pwd'],
          at_hash: 'h',
          nonce: 'n-1',
        },
      },
    ],
    [
      'an ID token of Zitadel of a login alone',
      {
        header: untyped,
        payload: { ...zitadel, jti: 'j', azp: '2891@people', auth_time: NOW - 20, acr: '0', sid: 'V1_1' },
      },
    ],
    [
      'an ID token of Authentik',
      { header: plain, payload: { ...authentik, at_hash: 'h' }, audience: CLIENT },
    ],
    [
      'an ID token of Authentik of an implicit login',
      { header: plain, payload: authentik, audience: CLIENT },
    ],
    // Dex writes both with the same claims, at_hash included: neither can be told from the other.
    ['an ID token of Dex', { header: untyped, payload: { ...dex, at_hash: 'h', nonce: 'n-1' } }],
    [
      'an access token of Dex, which looks like its ID tokens',
      { header: untyped, payload: { ...dex, at_hash: 'h' } },
    ],
  ]
  it.each(ID)('%s', (_token, shape) => {
    expect(judge(shape)).toMatch(/^Send (?:an access token|a plain bearer token)/)
  })
})
