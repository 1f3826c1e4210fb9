/** What anybody may know of the authority: contract, "Owner's authorization server: public" and "Health". */
import { describe, expect, it } from 'vitest'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand()

describe('Discovery', () => {
  it('serves one document at its well-known paths: of this profile, of UMA 2.0, of OAuth (RFC 8414)', async () => {
    const [ours, uma, oauth] = await Promise.all([
      authority.request('GET', '/.well-known/agents-configuration'),
      authority.request('GET', '/.well-known/uma2-configuration'),
      authority.request('GET', '/.well-known/oauth-authorization-server'),
    ])
    expect(ours.status).toBe(200)
    expect(uma.text).toBe(ours.text)
    expect(oauth.text).toBe(ours.text)
    expect(ours.body).toMatchObject({
      authorization_endpoint: 'https://as.example/authorize',
      response_types_supported: [],
      introspection_endpoint_auth_methods_supported: ['Bearer'],
    })
    expect(ours.headers.get('cache-control')).toBe('public, max-age=300')
  })

  it('has an authorization endpoint, which signs nobody in, and says what a client of OAuth alone can do', async () => {
    const query = '?response_type=code&client_id=x&redirect_uri=http%3A%2F%2F127.0.0.1%2F&state=s'
    const { status, body, headers } = await authority.request('GET', `/authorize${query}`)
    expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_request' })
    expect(body.error_description).toContain('usher agent bridge <resource>')
    expect(headers.get('location')).toBeNull()
  })

  it('names issuer, endpoints, jwks_uri, the accepted claim format and the signature algorithms', async () => {
    const { body } = await authority.request('GET', '/.well-known/agents-configuration')
    expect(body).toMatchObject({
      issuer: 'https://as.example',
      token_endpoint: 'https://as.example/token',
      jwks_uri: 'https://as.example/jwks',
      permission_endpoint: 'https://as.example/perm',
      introspection_endpoint: 'https://as.example/introspect',
      rs_registration_endpoint: 'https://as.example/rs/register',
      owner_endpoint: 'https://as.example/owner',
      claim_token_formats_supported: ['https://u4a.ai/spec/terms/1.0#myterms-agreement-v1+jws'],
      signing_alg_values_supported: ['Ed25519', 'EdDSA'],
      http_message_signature_alg_values_supported: ['ed25519'],
    })
  })

  it('leaves out the members of parts that are not served', async () => {
    const { body } = await authority.request('GET', '/.well-known/agents-configuration')
    for (const name of [
      'org_notice_endpoint',
      'org_admin_endpoint',
      'joint_quote_endpoint',
      'joint_verdict_endpoint',
      'ext_tally',
    ])
      expect(body).not.toHaveProperty(name)
  })

  it('publishes every signing key in order, each with its alg, and no private member', async () => {
    const { body } = await authority.request('GET', '/jwks')
    expect(body.keys.map((key: { kid: string }) => key.kid)).toEqual(
      authority.config.keys.map(key => key.kid),
    )
    for (const key of body.keys) {
      expect(key).toMatchObject({ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig' })
      expect(key).not.toHaveProperty('d')
    }
  })
})

describe('Health', () => {
  it('/health is liveness alone', async () => {
    expect(await authority.request('GET', '/health')).toMatchObject({ status: 200, body: { status: 'ok' } })
  })

  it('/health/registry says that provisioned resources have landed, and names nobody', async () => {
    const { status, body, headers } = await authority.request('GET', '/health/registry')
    expect({ status, body }).toEqual({
      status: 200,
      body: { landed: true, resource_servers: 1, waiting: 0, sources: [{ state: 'landed', count: 1 }] },
    })
    expect(headers.get('cache-control')).toBe('no-store')
  })
})

describe('The public listener', () => {
  it.each(['/owner/pending', '/owner/events', '/owner/device-keys', '/org/admin/alice/pending', '/owner'])(
    'refuses the owner API: %s is 404, signed or not',
    async target => {
      const unsigned = await authority.request('GET', target)
      const signed = authority.prepare(authority.alice, { target })
      const reply = await authority.send({ ...signed, url: authority.publicUrl + target })
      for (const { status, body } of [unsigned, reply]) {
        expect(status).toBe(404)
        expect(body.error).toBe('not_found')
      }
    },
  )

  it('answers a wrong method with 405 and the methods there are', async () => {
    const reply = await authority.request('DELETE', '/jwks')
    expect(reply.status).toBe(405)
    expect(reply.headers.get('allow')).toBe('GET')
  })
})
