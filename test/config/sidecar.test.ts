/** The file of the sidecar: contract, "Resource server enforcement point" and "Authorized call". */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { faultsOf, SIDECAR_OWNER, sidecarFiles } from '../support/config-files.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'

const { folder, fileOf } = sidecarFiles()
mkdirSync(join(folder, 'directory'))

interface Given {
  [member: string]: unknown
  owners: Record<string, unknown>[]
}

describe('The file of the sidecar', () => {
  const tool = {
    tool: 'portfolio_read',
    resource_id: 'alice/portfolio',
    scopes: ['read'],
    consequence: 'reversible',
  }
  const alice = { ...SIDECAR_OWNER, tools: [tool] }
  const good = (): Given => ({ ...fileOf([alice]), owners: [alice] })
  const read = (given: unknown, environment = {}) => {
    const file = join(folder, 'sidecar.yaml')
    writeFileSync(file, typeof given === 'string' ? given : stringify(given))
    return readSidecarConfig(file, environment)
  }

  test('signatures and published keys say EdDSA, or the newer name where the setting says so', () => {
    const algOf = (environment = {}) => read(good(), environment).keys.map(({ alg }) => alg)
    expect(algOf()).toEqual(['EdDSA'])
    expect(algOf({ UMA_SIGNING_ALG: 'Ed25519' })).toEqual(['Ed25519'])
  })

  test('defaults fail closed, and the path is /mcp/<owner>', () => {
    expect(read(good())).toMatchObject({
      owners: [{ path: '/mcp/alice', credential: { kind: 'secret', secret: 'shh' } }],
      listen: { check: { host: '127.0.0.1', port: 9191 } },
      network_trusted: false,
      require_content_digest: false,
      keep_credentials: false,
      open_methods: [],
      challenges_per_minute: 60,
      body_bytes_max: 1_048_576,
      keys: [{ thumbprint: expect.any(String) }],
    })
  })

  test('a plain API stands at /api/<owner>, each method and path one of its tools', () => {
    const api = [{ method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' }]
    expect(read({ ...good(), owners: [{ ...alice, api }] }).owners).toMatchObject([
      { path: '/api/alice', api },
    ])
  })

  const acme = { issuer: 'https://org.example', credential: 'c'.repeat(32), resources: ['alice/work-*'] }
  const under = (organization: unknown, more = {}) =>
    read({ ...good(), owners: [{ ...alice, organization }], ...more })

  test('the organization above an owner is asked about the named resources, with the credential that it provisioned', () => {
    expect(read(good()).owners[0]!.organization).toBeUndefined()
    expect(under(acme).owners[0]!.organization).toEqual({
      issuer: 'https://org.example',
      resources: ['alice/work-*'],
      credential: { kind: 'secret', secret: 'c'.repeat(32) },
    })
    const { credential: _told, ...bare } = acme
    expect(under({ ...bare, signature: true }).owners[0]!.organization).toMatchObject({
      credential: { kind: 'signature' },
    })
  })

  test.each<[string, object, string]>([
    ['no proof', { credential: undefined }, 'exactly one of credential, credential_file and signature: true'],
    ['two proofs', { signature: true }, 'exactly one of credential, credential_file and signature: true'],
    ['a credential that no header carries', { credential: 'a b' }, 'characters A-Z'],
    ['an unreadable file', { credential: undefined, credential_file: '/nowhere' }, 'credential_file'],
    ['another owner’s resources', { resources: ['bob/x'] }, 'must start with alice/'],
    ['resources of everybody', { resources: ['*/x'] }, 'must start with alice/'],
    ['no pattern', { resources: ['alice//x'] }, 'without empty segments'],
    ['no resources', { resources: [] }, 'resources'],
    ['an issuer that is not https', { issuer: 'http://org.example' }, 'is not https'],
    ['her authority as its issuer', { issuer: alice.authority }, 'cannot be the authority'],
    ['an unknown member', { issuers: [] }, 'unknown member'],
  ])('refuses an organization with %s', (_what, changes, fault) => {
    expect(() => under({ ...acme, ...changes })).toThrow(fault)
  })

  test.each<[string, { method?: string; path?: string; tool?: string }[], string]>([
    [
      'a tool that is not listed',
      [{}, { path: '/x', tool: 'other' }],
      'GET /x names other, which is none of tools',
    ],
    ['a tool that nothing calls', [{ tool: 'other' }], 'no method and path is portfolio_read'],
    [
      'two templates for one path',
      [{ path: '/accounts/{account}' }, { path: '/Accounts/{id}' }],
      'GET /accounts/{} is listed twice',
    ],
    ['no table', [], 'api'],
    ['a template without a slash', [{ path: 'accounts' }], 'give a path such as'],
    ['a template with an escape', [{ path: '/a%20b' }], 'give a path such as'],
    ['a template with dot segments', [{ path: '/a/../b' }], 'give a path such as'],
    ['a template with an empty segment', [{ path: '/a//b' }], 'give a path such as'],
    ['a parameter that is part of a segment', [{ path: '/a{b}' }], 'give a path such as'],
    ['a parameter named twice', [{ path: '/{a}/{a}' }], 'give a path such as'],
    ['a method in small letters', [{ method: 'get' }], 'method'],
  ])('refuses an API with %s', (_what, lines, fault) => {
    const api = lines.map(line => ({ method: 'GET', path: '/accounts', tool: 'portfolio_read', ...line }))
    expect(() => read({ ...good(), owners: [{ ...alice, api }] })).toThrow(fault)
  })

  const byHttp = { check: '127.0.0.1:9191', check_http: 'unix:/run/check.sock', http: '127.0.0.1:9192' }
  const throughHttp = (check_http: object) => read({ ...good(), listen: byHttp, check_http })
  const forwardAuth = { method_header: 'X-Original-Method', uri_header: 'X-Original-URI' }

  test('the HTTP door is shut unless it is configured', () => {
    expect(read(good())).not.toHaveProperty('listen.check_http')
    expect(throughHttp(forwardAuth)).toMatchObject({
      listen: { check_http: { path: '/run/check.sock' } },
      check_http: { method_header: 'x-original-method', uri_header: 'x-original-uri' },
    })
  })

  test.each<[string, object, number]>([
    ['to callers that ask as Envoy does, so that no setting of it lets the call pass,', {}, 424],
    ['to forward-auth', forwardAuth, 503],
    ['where the file says so', { outage_status: 503 }, 503],
  ])('an outage is answered %s with the status for it', (_to, asks, status) => {
    expect(throughHttp(asks).check_http?.outage_status).toBe(status)
  })

  test.each<[string, object, string]>([
    ['a method header without a URI header', { method_header: 'x-m' }, 'both method_header and uri_header'],
    ['a URI header without a method header', { uri_header: 'x-u' }, 'both method_header and uri_header'],
    ['one header for two things', { length_header: 'x-a', peer_header: 'X-A' }, 'x-a is listed twice'],
    ['a header of the call itself', { length_header: 'content-length' }, 'begins with x-'],
    ['another outage status', { outage_status: 403 }, 'check_http.outage_status'],
  ])('refuses an HTTP door with %s', (_what, asks, fault) => {
    expect(() => throughHttp(asks)).toThrow(fault)
  })

  test('refuses an HTTP door that others can reach, and settings of one that is shut', () => {
    const listen = { check: '127.0.0.1:9191', check_http: '0.0.0.0:9193', http: '127.0.0.1:9192' }
    expect(() => read({ ...good(), listen })).toThrow('listen.check_http: 0.0.0.0:9193 can be reached')
    expect(() => read({ ...good(), check_http: {} })).toThrow('give listen.check_http')
  })

  test('a resource may stand below a namespace listed for its owner', () => {
    const tools = [{ ...tool, resource_id: 'treasury/payments' }]
    const { owners } = read({ ...good(), owners: [{ ...alice, namespaces: ['treasury'], tools }] })
    expect(owners[0]!.tools[0]!.resource_id).toBe('treasury/payments')
  })

  test('a secret may stand in a file of its own', () => {
    const client_secret_file = join(folder, 'secret')
    writeFileSync(client_secret_file, 'from the file\n', { mode: 0o600 })
    const { client_secret: _secret, ...rest } = alice
    expect(read({ ...good(), owners: [{ ...rest, client_secret_file }] }).owners[0]?.credential).toEqual({
      kind: 'secret',
      secret: 'from the file',
    })
    expect(read({ ...good(), owners: [{ ...rest, signature: true }] }).owners[0]?.credential).toEqual({
      kind: 'signature',
    })
  })

  test('one that registers itself is known by its resource, and by nothing else', () => {
    const { client_id: _id, client_secret: _secret, ...rest } = alice
    const self = { ...rest, signature: true, register: true }
    expect(read({ ...good(), owners: [self] }).owners[0]).toMatchObject({
      client_id: 'https://tools.example.com/mcp/alice',
      credential: { kind: 'signature' },
      register: { name: undefined },
    })
    const named = { ...self, path: '/tools', name: 'The broker' }
    expect(read({ ...good(), owners: [named] }).owners[0]).toMatchObject({
      client_id: 'https://tools.example.com/tools',
      register: { name: 'The broker' },
    })
    expect(read(good()).owners[0]).toMatchObject({ client_id: 'demo-tools', register: undefined })
  })

  test('UMA_PEP_REQUIRE_CONTENT_DIGEST makes the digest mandatory whatever the file says', () => {
    expect(read(good(), { UMA_PEP_REQUIRE_CONTENT_DIGEST: 'true' }).require_content_digest).toBe(true)
  })

  test.each<[string, (given: Given) => unknown, string]>([
    ['an unknown member', given => ({ ...given, public_uri: 'x' }), 'unknown member "public_uri"'],
    [
      'an unknown member of a tool',
      given => ({ ...given, owners: [{ ...alice, tools: [{ ...tool, scope: 'read' }] }] }),
      'owners[0].tools[0]: unknown member "scope"',
    ],
    ['no owner', given => ({ ...given, owners: [] }), 'owners'],
    [
      'a public URL with a path',
      given => ({ ...given, public_url: 'https://tools.example.com/x' }),
      'public_url',
    ],
    [
      'a public URL without TLS',
      given => ({ ...given, public_url: 'http://tools.example.com' }),
      'not https',
    ],
    [
      'an authority without TLS',
      given => ({ ...given, owners: [{ ...alice, authority: 'http://as.example.com' }] }),
      'not https',
    ],
    [
      'no credential',
      given => ({ ...given, owners: [{ ...alice, client_secret: undefined }] }),
      'exactly one of',
    ],
    [
      'no client_id for one that does not register itself',
      given => ({ ...given, owners: [{ ...alice, client_id: undefined }] }),
      'give the client_id, or register: true',
    ],
    [
      'a secret for one that registers itself',
      given => ({ ...given, owners: [{ ...alice, client_id: undefined, register: true }] }),
      'register: true needs signature: true',
    ],
    [
      'another client_id for one that registers itself',
      given => ({
        ...given,
        owners: [{ ...alice, client_secret: undefined, signature: true, register: true }],
      }),
      'with register: true the client_id is https://tools.example.com/mcp/alice',
    ],
    ['two credentials', given => ({ ...given, owners: [{ ...alice, signature: true }] }), 'exactly one of'],
    [
      'a secret file that is not there',
      given => ({
        ...given,
        owners: [{ ...alice, client_secret: undefined, client_secret_file: '/nowhere' }],
      }),
      '/nowhere',
    ],
    [
      'one owner twice',
      given => ({ ...given, owners: [alice, { ...alice, path: '/mcp/x' }] }),
      'alice is listed twice',
    ],
    [
      'one path twice',
      given => ({
        ...given,
        owners: [
          alice,
          { ...alice, owner: 'bea', path: '/mcp/alice', tools: [{ ...tool, resource_id: 'bea/x' }] },
        ],
      }),
      'the path /mcp/alice',
    ],
    [
      'one tool twice',
      given => ({ ...given, owners: [{ ...alice, tools: [tool, tool] }] }),
      'portfolio_read is listed twice',
    ],
    [
      "another owner's resource",
      given => ({ ...given, owners: [{ ...alice, tools: [{ ...tool, resource_id: 'bea/portfolio' }] }] }),
      'must start with alice/',
    ],
    [
      'a resource below a namespace that is not hers',
      given => ({ ...given, owners: [{ ...alice, tools: [{ ...tool, resource_id: 'treasury/a' }] }] }),
      'must start with alice/ or one of her namespaces',
    ],
    [
      'a namespace of two owners',
      given => ({
        ...given,
        owners: [
          { ...alice, namespaces: ['treasury'] },
          { ...alice, owner: 'bea', namespaces: ['treasury'], tools: [{ ...tool, resource_id: 'bea/x' }] },
        ],
      }),
      'treasury is listed for alice and for bea',
    ],
    [
      'a namespace that is an owner’s name',
      given => ({ ...given, owners: [{ ...alice, namespaces: ['alice'] }] }),
      'namespaces of alice: alice is the name of an owner',
    ],
    [
      'an authority with a path that has addresses',
      given => ({
        ...given,
        owners: [{ ...alice, authority: 'https://as.example.com/alice' }],
        authorities: [
          {
            issuer: 'https://as.example.com/alice',
            addresses: ['https://as-1.internal'],
            rpt_types: ['rpt+jwt'],
          },
        ],
      }),
      'authorities: https://as.example.com/alice has a path: leave addresses out',
    ],
    [
      'an unknown consequence',
      given => ({ ...given, owners: [{ ...alice, tools: [{ ...tool, consequence: 'bad' }] }] }),
      'consequence',
    ],
    ['no scope', given => ({ ...given, owners: [{ ...alice, tools: [{ ...tool, scopes: [] }] }] }), 'scopes'],
    [
      'a path with dot segments',
      given => ({ ...given, owners: [{ ...alice, path: '/mcp/../alice' }] }),
      'dot segments',
    ],
    [
      'a path that ends in a slash',
      given => ({ ...given, owners: [{ ...alice, path: '/mcp/alice/' }] }),
      'trailing slash',
    ],
    [
      'a check address others can reach',
      given => ({ ...given, listen: { check: '0.0.0.0:9191', http: '127.0.0.1:9192' } }),
      'can spend',
    ],
    ['a quote in the realm', given => ({ ...given, realm: 'a"b' }), 'realm'],
    ['keys that are none', given => ({ ...given, keys_file: join(folder, 'directory') }), 'keys_file'],
    ['a number as text', given => ({ ...given, deadline_ms: '2000' }), 'deadline_ms'],
    ['another liveness', given => ({ ...given, liveness: 'cached' }), 'liveness'],
    ['no time for any check', given => ({ ...given, deadline_ms: 100 }), 'more than deadline_margin_ms'],
    ['YAML with a member twice', () => 'realm: a\nrealm: b\n', 'no usable YAML'],
    ['YAML that is no object', () => '- a\n', 'the file'],
  ])('%s is refused with the reason', (_what, change, reason) => {
    const faults = faultsOf(() => read(change(good())))
    expect(faults.join('\n')).toContain(reason)
  })

  test.each([
    ['mutual TLS', { check_tls: { cert_file: 'cert', key_file: 'key', client_ca_file: 'ca' } }],
    ['the word that the network is trusted', { network_trusted: true }],
  ])('a check address others can reach needs %s', async (_what, change) => {
    const ca = await makeCa()
    const { cert, key } = await issueCertificate(ca, 'check')
    for (const [name, pem] of Object.entries({ cert, key, ca: ca.cert }))
      writeFileSync(join(folder, name), pem, { mode: 0o600 })
    const tls =
      'check_tls' in change
        ? {
            check_tls: {
              cert_file: join(folder, 'cert'),
              key_file: join(folder, 'key'),
              client_ca_file: join(folder, 'ca'),
            },
          }
        : change
    expect(
      faultsOf(() => read({ ...good(), ...tls, listen: { check: '0.0.0.0:9191', http: '0.0.0.0:9192' } })),
    ).toEqual([])
  })

  test.each([
    ['none', []],
    ['a wildcard', ['*.example.com']],
    ['two in one', ['gateway.example.com, other.example.com']],
  ])('names of gateways that are %s are refused', (_what, client_names) => {
    const check_tls = { cert_file: 'cert', key_file: 'key', client_ca_file: 'ca', client_names }
    const faults = faultsOf(() => read({ ...good(), check_tls }))
    expect(faults.join('\n')).toContain('check_tls.client_names')
  })

  test('a Unix socket is local', () => {
    expect(
      faultsOf(() => read({ ...good(), listen: { check: 'unix:/run/usher.sock', http: '127.0.0.1:0' } })),
    ).toEqual([])
  })
})
