import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/wire/json.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { isAgentIssuer, issuerInHandles } from '../../src/wire/agents/agent-identity.ts'
import {
  directoryThumbprints,
  directoryUrl,
  issuerDocumentUrl,
  readClientDocument,
  readIssuerDocument,
} from '../../src/wire/agents/operator-documents.ts'
import { refusalOf } from '../support/refusals.ts'
import { newKey, NOW } from '../support/wire-samples.ts'

const CLIENT_ID = 'https://bots.example/client.json'
const WELL_KNOWN_PATH = '/.well-known/http-message-signatures-directory'

describe('a client document', () => {
  it('claims the URL it was found at', () => {
    expect(readClientDocument({ client_id: CLIENT_ID, client_name: ' Bots ' }, CLIENT_ID)).toEqual({
      client_id: CLIENT_ID,
      name: 'Bots',
    })
    const publicClient = { client_id: CLIENT_ID, token_endpoint_auth_method: 'none' }
    expect(readClientDocument(publicClient, CLIENT_ID).name).toBeUndefined()
  })

  it.each<[string, Json]>([
    ['no object', 'x'],
    ['null', null],
    ['no client_id', {}],
    ['a client_id of another type', { client_id: [CLIENT_ID] }],
    ['another client_id', { client_id: 'https://bots.example/other.json' }],
    ['the same URL in another spelling', { client_id: 'https://bots.example:443/client.json' }],
    ['a secret', { client_id: CLIENT_ID, client_secret: null }],
    ['the expiry of a secret', { client_id: CLIENT_ID, client_secret_expires_at: 0 }],
    ['client_secret_basic', { client_id: CLIENT_ID, token_endpoint_auth_method: 'client_secret_basic' }],
    ['client_secret_post', { client_id: CLIENT_ID, token_endpoint_auth_method: 'client_secret_post' }],
    ['client_secret_jwt', { client_id: CLIENT_ID, token_endpoint_auth_method: 'client_secret_jwt' }],
  ])('with %s is refused', (_what, document) => {
    expect(refusalOf(() => readClientDocument(document, CLIENT_ID)).code).toBe('invalid_request')
  })

  it('gives a name that is text of at most 100 characters, without NUL, and whole characters', () => {
    const named = (client_name: Json) =>
      readClientDocument({ client_id: CLIENT_ID, client_name }, CLIENT_ID).name
    expect(named(7)).toBeUndefined()
    expect(named('  ')).toBeUndefined()
    expect(named('a\0b')).toBe('ab')
    expect(named('😀'.repeat(120))).toBe('😀'.repeat(100))
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), text => {
        expect(Array.from(named(text) ?? '').length).toBeLessThanOrEqual(100)
      }),
    )
  })
})

describe("an operator's key directory", () => {
  it.each<[string, string | undefined, string | undefined]>([
    ['absent', undefined, `https://bots.example${WELL_KNOWN_PATH}`],
    ['the origin', 'https://bots.example', `https://bots.example${WELL_KNOWN_PATH}`],
    ['the origin with a slash', 'https://bots.example/', `https://bots.example${WELL_KNOWN_PATH}`],
    ['a path of the origin', 'https://bots.example/keys', 'https://bots.example/keys'],
    ['the origin with a query', 'https://bots.example/?x', 'https://bots.example/?x'],
    ['another host', 'https://keys.example', undefined],
    ['a subdomain', 'https://keys.bots.example', undefined],
    ['another port', 'https://bots.example:8443', undefined],
    ['another scheme', 'http://bots.example', undefined],
    ['no URL', 'bots', undefined],
  ])('is, where signature_agent is %s, at its own origin or nowhere', (_what, signature_agent, url) => {
    expect(directoryUrl(CLIENT_ID, signature_agent)).toBe(url)
  })

  it('is nowhere without an operator', () => {
    expect(directoryUrl('bots', undefined)).toBeUndefined()
  })

  it('lists keys by their thumbprints', () => {
    const [one, two] = [newKey(), newKey()]
    const keys: Json[] = [{ ...publicJwk(one) }, { ...two.jwk, kid: 'x' }]
    const listed = directoryThumbprints({ keys }, NOW)
    expect([...listed]).toEqual([one.thumbprint, two.thumbprint])
  })

  const key = newKey()
  it.each<[string, object, boolean]>([
    ['plain', {}, true],
    ['in force', { nbf: NOW, exp: NOW + 1 }, true],
    ['expired', { exp: NOW }, false],
    ['of tomorrow', { nbf: NOW + 1 }, false],
    ['with bounds that are no numbers', { nbf: null }, false],
    ['for signatures', { use: 'sig' }, true],
    ['for encryption', { use: 'enc' }, false],
    ['of EdDSA', { alg: 'EdDSA' }, true],
    ['of another algorithm', { alg: 'ES256' }, false],
    ['of another type', { kty: 'EC' }, false],
    ['of another curve', { crv: 'X25519' }, false],
    ['with its private half', { d: 'x' }, false],
    ['with a padded x', { x: `${key.x}=` }, false],
    ['without x', { x: undefined }, false],
  ])('a member %s', (_what, changes, counts) => {
    const jwk = { ...publicJwk(key), ...changes } as unknown as Json
    expect(directoryThumbprints({ keys: ['x', null, [], jwk] }, NOW).has(key.thumbprint)).toBe(counts)
  })

  it.each<[string, Json]>([
    ['an array', [{ ...publicJwk(key) }]],
    ['no keys', {}],
    ['keys that are no array', { keys: { ...publicJwk(key) } }],
    ['null', null],
  ])('that is %s is refused', (_what, json) => {
    expect(refusalOf(() => directoryThumbprints(json, NOW)).code).toBe('invalid_request')
  })
})

describe('an issuer of agent tokens', () => {
  const iss = 'https://agents.example'
  it('publishes its document at its well-known path, with or without a trailing slash, below its own path', () => {
    expect(issuerDocumentUrl(iss)).toBe(`${iss}/.well-known/aauth-agent.json`)
    expect(issuerDocumentUrl(`${iss}/`)).toBe(`${iss}/.well-known/aauth-agent.json`)
    expect(issuerDocumentUrl(`${iss}/tenant`)).toBe(`${iss}/tenant/.well-known/aauth-agent.json`)
  })

  it('names itself and its keys', () => {
    expect(readIssuerDocument({ issuer: iss, jwks_uri: `${iss}/jwks` }, iss)).toBe(`${iss}/jwks`)
  })

  it.each<[string, Json]>([
    ['another issuer', { issuer: 'https://other.example', jwks_uri: `${iss}/jwks` }],
    ['itself with a slash', { issuer: `${iss}/`, jwks_uri: `${iss}/jwks` }],
    ['no issuer', { jwks_uri: `${iss}/jwks` }],
    ['no keys', { issuer: iss }],
    ['keys under http', { issuer: iss, jwks_uri: 'http://agents.example/jwks' }],
    ['keys with a user', { issuer: iss, jwks_uri: 'https://a:b@agents.example/jwks' }],
    ['keys that are no URL', { issuer: iss, jwks_uri: 'jwks' }],
    ['nothing', null],
  ])('is refused where its document names %s', (_what, document) => {
    expect(refusalOf(() => readIssuerDocument(document, iss)).code).toBe('invalid_request')
  })

  it.each([
    ['http://127.0.0.1:9000', true],
    ['http://[::1]:9000', true],
    ['http://agents.example', false],
    ['https://127.0.0.1:9000', true],
  ])('under %s: %s, http being for loopback hosts alone', (text, usable) => {
    expect(isAgentIssuer(text)).toBe(usable)
  })

  it('is spelt without scheme and trailing slash in handles', () => {
    expect(issuerInHandles('https://agents.example/tenant/')).toBe('agents.example/tenant')
    expect(issuerInHandles('http://127.0.0.1:9000')).toBe('127.0.0.1:9000')
  })
})
