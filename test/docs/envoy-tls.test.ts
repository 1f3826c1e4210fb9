/**
 * docs/examples/envoy-tls.mjs: what it writes for the servers, names and files that it is told, and that an
 * Envoy takes it. How one serves with it is shown by test/docs/pages/tls.full.test.ts. Contract: "Parties" (a
 * gateway in front).
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { parse } from 'yaml'
import { envoy } from '../support/envoy.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

interface WrittenRoute {
  name: string
  match: {
    path_match_policy?: { typed_config: { path_template: string } }
    headers?: [{ name: string; string_match: { exact: string } }]
  }
  route: {
    cluster: string
    timeout: string
    regex_rewrite?: { pattern: { regex: string }; substitution: string }
  }
}
interface TlsBlock {
  typed_config: { sni?: string; common_tls_context: object }
}
interface WrittenCluster {
  name: string
  type: string
  dns_lookup_family?: string
  transport_socket?: TlsBlock
  load_assignment: { endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: object } } }] }] }
}

function run(args: string[]) {
  const script = join(ROOT, 'docs/examples/envoy-tls.mjs')
  return spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' })
}

function written(servers: string[], options: string[] = [], at = ['10000', '9191', '9192']) {
  const { stdout, stderr } = run([...options, '/certificates', ...at, ...servers])
  expect(stderr).toBe('')
  const { listeners, clusters } = (parse(stdout) as { static_resources: Record<string, never[]> })
    .static_resources as unknown as {
    listeners: [
      {
        address: { socket_address: object }
        filter_chains: [
          {
            transport_socket: TlsBlock
            filters: [{ typed_config: { route_config: { virtual_hosts: [{ routes: WrittenRoute[] }] } } }]
          },
        ]
      },
    ]
    clusters: WrittenCluster[]
  }
  const [{ address, filter_chains }] = listeners
  const [{ filters, transport_socket: shown }] = filter_chains
  const { routes } = filters[0].typed_config.route_config.virtual_hosts[0]
  return { address, shown, clusters, routes: routes.slice(3) }
}

const addressOf = (clusters: WrittenCluster[], name: string) => {
  const { type, load_assignment } = clusters.find(one => one.name === name)!
  return { type, ...load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address }
}

it('a server with a path of its own gets that path, of whichever owner the call is', () => {
  const { routes } = written(['/mcp/{owner}=9701/mcp'])
  const rewrites = routes.map(({ route }) => route.regex_rewrite)
  const toItsOwn = { pattern: { regex: '^/mcp/[^/?]+' }, substitution: '/mcp' }
  expect(rewrites).toEqual([toItsOwn, toItsOwn])
  expect('/mcp/alice'.replace(new RegExp(rewrites[0]!.pattern.regex), rewrites[0]!.substitution)).toBe('/mcp')
})

it('a server without a path gets the one that the agent called', () => {
  const { routes } = written(['/diary/{owner}=9301'])
  const toNoOther = ['server_9301', undefined]
  expect(routes.map(({ route }) => [route.cluster, route.regex_rewrite])).toEqual([toNoOther, toNoOther])
})

it('before the route of each server stands one for GET, which ends after a minute', () => {
  const { routes } = written(['/mcp/{owner}=9300/mcp', '/diary/{owner}=9301/mcp'])
  const seen = routes.map(({ match, route }) => [
    match.path_match_policy!.typed_config.path_template,
    match.headers?.[0].string_match.exact,
    route.cluster,
    route.timeout,
  ])
  expect(seen).toEqual([
    ['/mcp/{owner}', 'GET', 'server_9300', '60s'],
    ['/mcp/{owner}', undefined, 'server_9300', '300s'],
    ['/diary/{owner}', 'GET', 'server_9301', '60s'],
    ['/diary/{owner}', undefined, 'server_9301', '300s'],
  ])
})

it('two paths may lead to one server, whose cluster is written once', () => {
  const { clusters } = written(['/mcp/{owner}=9300/mcp', '/diary/{owner}=9300/diary'])
  expect(clusters.map(({ name }) => name)).toEqual(['usher_check', 'usher_documents', 'server_9300'])
})

it('names, files and hosts are those that it is told, and those of a laptop otherwise', () => {
  const laptop = written(['/mcp/{owner}=9300'])
  expect(laptop.clusters[0]!.transport_socket!.typed_config.sni).toBe('localhost')
  expect(JSON.stringify(laptop.shown)).toContain('"/certificates/cert.pem"')
  expect(addressOf(laptop.clusters, 'usher_check')).toEqual({
    type: 'STATIC',
    address: '127.0.0.1',
    port_value: 9191,
  })
  const told = [
    '--sidecar-name=sidecar.example.com',
    '--ca=company.pem',
    '--cert=tools.pem',
    '--key=/run/secrets/tools-key.pem',
    '--check-cert=gateway.pem',
    '--check-key=gateway-key.pem',
  ]
  const at = ['0.0.0.0:443', 'sidecar.example.com:9191', 'sidecar.example.com:9192']
  const { address, shown, clusters } = written(['/mcp/{owner}=files.example.com:8080/mcp'], told, at)
  expect(address).toEqual({ socket_address: { address: '0.0.0.0', port_value: 443 } })
  expect(shown.typed_config.common_tls_context).toMatchObject({
    tls_certificates: [
      {
        certificate_chain: { filename: '/certificates/tools.pem' },
        private_key: { filename: '/run/secrets/tools-key.pem' },
      },
    ],
  })
  const trusted = {
    trusted_ca: { filename: '/certificates/company.pem' },
    match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: 'sidecar.example.com' } }],
  }
  const [check, documents] = clusters.map(one => one.transport_socket?.typed_config)
  expect([check!.sni, documents!.sni]).toEqual(['sidecar.example.com', 'sidecar.example.com'])
  expect(documents!.common_tls_context).toMatchObject({ validation_context: trusted })
  expect(check!.common_tls_context).toMatchObject({
    validation_context: trusted,
    tls_certificates: [
      {
        certificate_chain: { filename: '/certificates/gateway.pem' },
        private_key: { filename: '/certificates/gateway-key.pem' },
      },
    ],
  })
  for (const [name, host, port_value] of [
    ['usher_check', 'sidecar.example.com', 9191],
    ['usher_documents', 'sidecar.example.com', 9192],
    ['server_files.example.com:8080', 'files.example.com', 8080],
  ] as const)
    expect(addressOf(clusters, name)).toEqual({ type: 'STRICT_DNS', address: host, port_value })
})

const SERVERS = ['/mcp/{owner}=9300']

it('a name is looked up for IPv4 first, and an address is not looked up', () => {
  const { clusters } = written(
    ['/mcp/{owner}=[2001:db8::2]:9300/mcp'],
    [],
    ['[::]:443', 'sidecar.example.com:9191', '192.0.2.1:9192'],
  )
  expect(clusters.map(({ dns_lookup_family }) => dns_lookup_family)).toEqual([
    'V4_PREFERRED',
    undefined,
    undefined,
  ])
  const places = ['usher_documents', 'server_[2001:db8::2]:9300'].map(name => addressOf(clusters, name))
  expect(places).toEqual([
    { type: 'STATIC', address: '192.0.2.1', port_value: 9192 },
    { type: 'STATIC', address: '2001:db8::2', port_value: 9300 },
  ])
})

it('the sidecar must show the name by which its checks are reached, unless another one is told', () => {
  const { clusters } = written(SERVERS, [], ['10000', 'sidecar.example.com:9191', '9192'])
  const [check, documents] = clusters.map(one => one.transport_socket?.typed_config)
  const matched = {
    validation_context: {
      match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: 'sidecar.example.com' } }],
    },
  }
  expect([check!.sni, documents!.sni]).toEqual(['sidecar.example.com', 'sidecar.example.com'])
  expect([check!.common_tls_context, documents!.common_tls_context]).toMatchObject([matched, matched])
})

it('a name to listen at is refused, because an Envoy listens at addresses', () => {
  const { status, stdout, stderr } = run([
    '/certificates',
    'tools.example.com:443',
    '9191',
    '9192',
    ...SERVERS,
  ])
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toContain('listens at an address, not at a name. Give a port, or address:port.')
})

describeWith(await envoy(), 'an Envoy', found => {
  const folder = temporaryFolder('envoy-tls')
  beforeAll(async () => {
    const ca = await makeCa()
    const { cert, key } = await issueCertificate(ca, 'gateway')
    for (const [name, text] of [
      ['ca.pem', ca.cert],
      ['cert.pem', cert],
      ['key.pem', key],
    ] as const)
      writeFileSync(join(folder, name), text)
  })

  it.each<[string, string[], string[]]>([
    ['ports', ['10000', '9191', '9192'], ['/mcp/{owner}=9300/mcp', '/diary/{owner}=9301']],
    [
      'addresses',
      ['0.0.0.0:443', '192.0.2.1:9191', '[2001:db8::1]:9192'],
      ['/mcp/{owner}=192.0.2.2:8080/mcp', '/diary/{owner}=[2001:db8::2]:8080'],
    ],
    [
      'names',
      ['[::]:443', 'sidecar.example.com:9191', 'sidecar.example.com:9192'],
      ['/mcp/{owner}=files.example.com:8080/mcp', '/diary/{owner}=files.example.com:8081'],
    ],
  ])('takes what is written for %s', (what, at, servers) => {
    const configuration = join(folder, `${what}.yaml`)
    writeFileSync(configuration, run([folder, ...at, ...servers]).stdout)
    const [program, ...args] = found.command(configuration, folder)
    const { status, stderr } = spawnSync(program!, [...args, '--mode', 'validate'], { encoding: 'utf8' })
    expect(status, stderr).toBe(0)
  })
})

it.each(['/mcp/{owner}', '9300', '/mcp/{owner}=http://127.0.0.1:9300/mcp'])(
  'a server that cannot be read as one is refused: %s',
  server => {
    const { status, stdout, stderr } = run(['/certificates', '10000', '9191', '9192', server])
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/is no server|is neither a port/)
  },
)
