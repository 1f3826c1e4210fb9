import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import {
  parseResourceMetadata,
  resourceMetadata,
  resourceMetadataUrl,
  verifySignedMetadata,
} from '../../src/wire/resources/resource-metadata.ts'
import {
  authorizationServerMetadata,
  parseAuthorizationServerMetadata,
} from '../../src/wire/resources/authorization-server-metadata.ts'
import { DEFAULT_SPEC_NS, TYP } from '../../src/wire/names.ts'
import { refusalOf } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'
import { ISSUER, newKey, RESOURCE } from '../support/wire-samples.ts'

const key = newKey()
const description = {
  resource: RESOURCE,
  authorization_servers: [ISSUER],
  scopes_supported: ['read', 'trade'],
  jwks_uri: 'https://tools.example.com/jwks',
  tool_surfaces: [
    { tool: 'portfolio_read', resource_scopes: ['read'], consequence: 'reversible' },
    { tool: 'statement_read', resource_scopes: ['read'] },
  ],
  owner_resources_endpoint: 'https://tools.example.com/owner-resources/bea',
}
const document = resourceMetadata(description, key)
const sent = (value: unknown) => JSON.parse(JSON.stringify(value)) as JsonObject

describeVectors<{ cases: { resource: string; metadata_url: string }[]; must_reject_resource: string[] }>(
  'rfc9728-url.json',
  'the metadata URL of RFC 9728 §3.1',
  ({ cases, must_reject_resource }) => {
    it.each(cases)('of $resource is $metadata_url', ({ resource, metadata_url }) => {
      expect(resourceMetadataUrl(resource)).toBe(metadata_url)
    })
    it.each(must_reject_resource)('is not formed from %s', resource => {
      expect(refusalOf(() => resourceMetadataUrl(resource)).code).toBe('invalid_request')
    })
  },
)

describe('the metadata URL', () => {
  it.each([
    [
      'https://tools.example.com/mcp/bea',
      'https://tools.example.com/.well-known/oauth-protected-resource/mcp/bea',
    ],
    [
      'https://Tools.example.com//a/../b',
      'https://Tools.example.com/.well-known/oauth-protected-resource//a/../b',
    ],
    ['http://127.0.0.1:10000/mcp/bea', 'http://127.0.0.1:10000/.well-known/oauth-protected-resource/mcp/bea'],
    ['http://[::1]:1/a', 'http://[::1]:1/.well-known/oauth-protected-resource/a'],
  ])('of %s is %s: nothing is normalised', (resource, url) => {
    expect(resourceMetadataUrl(resource)).toBe(url)
  })

  it.each([
    '',
    'https://',
    'https:///a',
    'ftp://h/a',
    'https://h#',
    'https://u:p@h/a',
    'https://h/a b',
    'https://h\\a',
    'https://h/a\n',
    'https://é/a',
    'http://127.0.0.1.evil.example/a',
    'http://localhost/a',
    'http://localhost.evil.example/a',
    'http://127.0.0.1@evil.example/a',
    'HTTPS://h/a',
  ])('is not formed from %j', resource => {
    expect(refusalOf(() => resourceMetadataUrl(resource)).code).toBe('invalid_request')
  })
})

describe('resource metadata', () => {
  it('has the members of the contract, and reads back as sent', () => {
    expect(document).toEqual({
      ...description,
      bearer_methods_supported: ['header'],
      resource_signing_alg_values_supported: ['Ed25519', 'EdDSA'],
      signed_metadata: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
    })
    expect(parseResourceMetadata(sent(document), RESOURCE)).toEqual(document)
  })

  it('leaves out lists that would be empty, and owner_resources_endpoint if it is no owner’s', () => {
    const bare = resourceMetadata(
      {
        resource: 'https://h/mcp',
        authorization_servers: [],
        scopes_supported: [],
        jwks_uri: 'https://h/jwks',
        tool_surfaces: [],
      },
      key,
    )
    expect(Object.keys(bare)).toEqual([
      'resource',
      'jwks_uri',
      'bearer_methods_supported',
      'resource_signing_alg_values_supported',
      'signed_metadata',
    ])
  })

  it('is refused for another resource, compared character by character', () => {
    for (const resource of [
      `${RESOURCE}/`,
      RESOURCE.toUpperCase(),
      RESOURCE.replace('mcp', '%6dcp'),
      'https://evil.example',
    ]) {
      expect(refusalOf(() => parseResourceMetadata(sent(document), resource)).code).toBe('invalid_request')
      expect(refusalOf(() => parseResourceMetadata({ ...sent(document), resource }, RESOURCE)).code).toBe(
        'invalid_request',
      )
    }
  })

  it.each([
    'scopes_supported',
    'bearer_methods_supported',
    'tool_surfaces',
    'jwks_uri',
    'owner_resources_endpoint',
    'signed_metadata',
    'resource_name',
  ])('is read as if %s were left out, where it is null', name => {
    const { [name]: _absent, ...rest } = sent(document) as Record<string, unknown>
    expect(parseResourceMetadata({ ...rest, [name]: null }, RESOURCE)).toEqual(
      parseResourceMetadata(rest, RESOURCE),
    )
  })

  it.each<[string, object]>([
    ['authorization_servers as text', { authorization_servers: ISSUER }],
    ['an authorization server of another type', { authorization_servers: [7] }],
    ['a jwks_uri on http', { jwks_uri: 'http://tools.example.com/jwks' }],
    ['tool_surfaces as an object', { tool_surfaces: {} }],
    ['a tool without a name', { tool_surfaces: [{ resource_scopes: [] }] }],
    ['a tool with scopes as text', { tool_surfaces: [{ tool: 't', resource_scopes: 'read' }] }],
    ['signed_metadata that is no JWS', { signed_metadata: 'x' }],
  ])('is refused with %s', (_what, changes) => {
    expect(refusalOf(() => parseResourceMetadata({ ...sent(document), ...changes }, RESOURCE)).code).toBe(
      'invalid_request',
    )
  })

  it('is read without the members that nobody knows', () => {
    expect(parseResourceMetadata({ ...sent(document), extra: 1 }, RESOURCE)).toEqual(document)
  })
})

describe('signed_metadata', () => {
  const { signed_metadata: signed, ...claims } = document

  it('has the same claims under the key of the resource, which is its issuer', () => {
    expect(verifySignedMetadata(signed!, [key], RESOURCE)).toEqual(claims)
  })

  it('may leave out typ, and may not name another kind', () => {
    const payload = { iss: RESOURCE, ...claims }
    expect(verifySignedMetadata(signJws({ payload }, key), [key], RESOURCE)).toEqual(claims)
    for (const typ of Object.values(TYP).filter(one => one !== TYP.signedMetadata)) {
      expect(
        refusalOf(() => verifySignedMetadata(signJws({ typ, payload }, key), [key], RESOURCE)).code,
      ).toBe('invalid_request')
    }
  })

  it.each<[string, object]>([
    ['another issuer', { iss: 'https://tools.example.com' }],
    ['no issuer', { iss: undefined }],
    ['another resource', { resource: 'https://tools.example.com/mcp/joe' }],
    ['signed metadata inside', { signed_metadata: signed }],
  ])('is refused with %s', (_what, changes) => {
    const nested = signJws(
      { typ: TYP.signedMetadata, payload: { iss: RESOURCE, ...claims, ...changes } },
      key,
    )
    expect(refusalOf(() => verifySignedMetadata(nested, [key], RESOURCE)).code).toBe('invalid_request')
  })

  it('is refused under another key', () => {
    expect(refusalOf(() => verifySignedMetadata(signed!, [newKey()], RESOURCE)).code).toBe('invalid_request')
  })

  it('may be long: a resource has many tools', () => {
    const tool_surfaces = Array.from({ length: 150 }, (_, n) => ({
      tool: `tool_${n}`,
      resource_scopes: ['read', 'write'],
    }))
    const large = resourceMetadata({ ...description, tool_surfaces }, key)
    expect(parseResourceMetadata(sent(large), RESOURCE)).toEqual(large)
    expect(verifySignedMetadata(large.signed_metadata!, [key], RESOURCE).tool_surfaces).toHaveLength(150)
  })
})

describe('authorization server metadata', () => {
  const metadata = authorizationServerMetadata({ issuer: ISSUER, specNs: DEFAULT_SPEC_NS })

  it('names issuer, endpoints, keys, claim formats, profiles and algorithms', () => {
    expect(metadata).toEqual({
      issuer: ISSUER,
      token_endpoint: `${ISSUER}/token`,
      jwks_uri: `${ISSUER}/jwks`,
      permission_endpoint: `${ISSUER}/perm`,
      introspection_endpoint: `${ISSUER}/introspect`,
      introspection_tokens_max: 64,
      consume_tokens_max: 64,
      consume_endpoint: `${ISSUER}/consume`,
      audit_endpoint: `${ISSUER}/audit/access`,
      terms_endpoint: `${ISSUER}/terms`,
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:uma-ticket', 'client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
      claim_token_formats_supported: [`${DEFAULT_SPEC_NS}/terms/1.0#myterms-agreement-v1+jws`],
      authorization_endpoint: `${ISSUER}/authorize`,
      response_types_supported: [],
      introspection_endpoint_auth_methods_supported: ['Bearer'],
      uma_profiles_supported: [`${DEFAULT_SPEC_NS}/core/1.0`, `${DEFAULT_SPEC_NS}/terms/1.0`],
      signing_alg_values_supported: ['Ed25519', 'EdDSA'],
      http_message_signature_alg_values_supported: ['ed25519'],
    })
  })

  it('offers leases where holders may use its answers again', () => {
    expect(metadata).not.toHaveProperty('introspection_lease_ms_max')
    expect(
      authorizationServerMetadata({ issuer: ISSUER, specNs: DEFAULT_SPEC_NS, leases: true }),
    ).toMatchObject({ introspection_lease_ms_max: 1_900 })
  })

  it('leaves out the members of parts that are not served, and has them if they are', () => {
    expect(JSON.stringify(metadata)).not.toMatch(
      /org_|joint_|ext_tally|rs_registration|owner_endpoint|resource_registration/,
    )
    const more = authorizationServerMetadata({
      issuer: ISSUER,
      specNs: DEFAULT_SPEC_NS,
      owner_endpoint: `${ISSUER}/owner`,
      registration: true,
    })
    expect(more).toMatchObject({
      owner_endpoint: `${ISSUER}/owner`,
      rs_registration_endpoint: `${ISSUER}/rs/register`,
    })
  })

  it('is read by its endpoints', () => {
    expect(parseAuthorizationServerMetadata(metadata, ISSUER)).toEqual({
      issuer: ISSUER,
      token_endpoint: `${ISSUER}/token`,
      jwks_uri: `${ISSUER}/jwks`,
      permission_endpoint: `${ISSUER}/perm`,
      introspection_endpoint: `${ISSUER}/introspect`,
      consume_endpoint: `${ISSUER}/consume`,
      audit_endpoint: `${ISSUER}/audit/access`,
      terms_endpoint: `${ISSUER}/terms`,
    })
  })

  it.each(['introspection_endpoint', 'consume_endpoint', 'terms_endpoint', 'scopes_supported'])(
    'is read as if %s were left out, if it is null',
    name => {
      const { [name]: _absent, ...rest } = sent(metadata) as Record<string, unknown>
      const parsed = parseAuthorizationServerMetadata(rest, ISSUER)
      expect(parseAuthorizationServerMetadata({ ...rest, [name]: null }, ISSUER)).toEqual(parsed)
    },
  )

  it.each<[string, unknown]>([
    ['another issuer', { ...metadata, issuer: `${ISSUER}/` }],
    ['no token endpoint', { ...metadata, token_endpoint: undefined }],
    ['a token endpoint on http', { ...metadata, token_endpoint: 'http://as.example.com/token' }],
    ['a jwks_uri of another type', { ...metadata, jwks_uri: ['x'] }],
    ['nothing', null],
  ])('is refused with %s', (_what, broken) => {
    expect(refusalOf(() => parseAuthorizationServerMetadata(sent(broken), ISSUER)).code).toBe(
      'invalid_request',
    )
  })
})
