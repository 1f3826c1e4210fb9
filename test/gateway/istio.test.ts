/**
 * Istio's own control plane, reading envoy/istio out of a real API server, feeds a real Envoy: what it makes
 * of our manifests asks usher, and the story of the demo holds through it. contract, "Resource server
 * enforcement point". Plain http on loopback; of Istio's own build of Envoy and its agent nothing is here.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import type { Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import { startEmbeddedPostgres, type PostgresServer } from '../../src/dev/stack/embedded-postgres.ts'
import { findEnvoy } from '../../src/dev/stack/envoy-binary.ts'
import { accepts } from '../../src/dev/stack/ports.ts'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import { startStack, type Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { apply, kubectl } from '../cluster/kubernetes.ts'
import { NODE, openRelay } from '../cluster/relay.ts'

const ISTIO = join(import.meta.dirname, '..', '..', 'envoy', 'istio')
const DIRECTORY = join(process.env['LAB_DIR']!, 'istio')
const CRDS = process.env['LAB_CRDS']!
/** Whose pages may call, by virtual-service.yaml. */
const PAGE = 'https://app.example.com'
const PORTS = { envoy: 10000, check: 9191, documents: 9192, tool: 9300 }
/** Of pilot-discovery, where Envoys ask for their configuration. */
const DISCOVERY = 15010

const manifestsIn = (file: string): object[] =>
  parseAllDocuments(readFileSync(join(ISTIO, file), 'utf8')).map(one => one.toJS() as object)

let postgres: PostgresServer
let pilot: Child
let stack: Stack
let scene: Scene
const relays: Server[] = []

beforeAll(async () => {
  await mkdir(DIRECTORY, { recursive: true })
  for (const file of readdirSync(CRDS)) await kubectl('apply', '--server-side', '-f', join(CRDS, file))
  await kubectl('wait', '--for=condition=Established', '--all', 'crd', '--timeout=120s')
  await apply(
    ['istio-system', 'usher', 'tools'].map(name => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    })),
  )
  await apply([
    ...service('usher', 'usher-check', 'grpc-check', PORTS.check),
    ...service('usher', 'usher-documents', 'http-documents', PORTS.documents),
    ...service('tools', 'brokerage', 'http-tools', PORTS.tool),
    ...routes(),
    ...manifestsIn('authorization-policy.yaml'),
    ...manifestsIn('envoy-filter.yaml'),
  ])
  pilot = await startPilot()
  for (const port of [PORTS.check, PORTS.documents, PORTS.tool]) relays.push(await openRelay(port, port))
  postgres = await startEmbeddedPostgres({ maxConnections: 60 })
  stack = await startStack({
    directory: join(DIRECTORY, 'stack'),
    databaseUrl: postgres.url,
    envoy: await findEnvoy({ fetch: false }),
    preferredPorts: PORTS,
    changeEnvoy: () => bootstrap(),
    changeSidecar: async yaml => `${yaml}\nallowed_origins: ['${PAGE}']\n`,
  })
  scene = await openScene(stack)
})
afterAll(async () => {
  await scene?.close()
  await stack?.stop()
  await pilot?.stop()
  await postgres?.stop()
  for (const relay of relays) relay.close()
})

/** A Service without pods: what answers is beside the cluster. */
function service(namespace: string, name: string, portName: string, port: number): object[] {
  const ports = [{ name: portName, port, targetPort: port }]
  return [
    { apiVersion: 'v1', kind: 'Service', metadata: { namespace, name }, spec: { ports } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace, name, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: portName, port, protocol: 'TCP' }],
      endpoints: [{ addresses: [NODE], conditions: { ready: true } }],
    },
  ]
}

/** The gateway's port, as whoever runs Istio writes it, and where each path goes. */
function routes(): object[] {
  return [
    {
      apiVersion: 'networking.istio.io/v1',
      kind: 'Gateway',
      metadata: { namespace: 'tools', name: 'agents' },
      spec: {
        selector: { istio: 'ingressgateway' },
        servers: [{ port: { number: PORTS.envoy, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
      },
    },
    ...manifestsIn('virtual-service.yaml'),
  ]
}

async function startPilot(): Promise<Child> {
  const mesh = join(DIRECTORY, 'mesh.yaml')
  // No istio-agent serves certificates here: clusters would warm for ever.
  await writeFile(mesh, `${readFileSync(join(ISTIO, 'mesh-config.yaml'), 'utf8')}\nenableAutoMtls: false\n`)
  const child = startChild({
    name: 'pilot-discovery',
    logFile: join(process.env['LAB_DIR']!, 'log', 'pilot-discovery.log'),
    command: [
      'pilot-discovery',
      'discovery',
      ...'--registries Kubernetes --clusterID Kubernetes --domain cluster.local'.split(' '),
      ...`--grpcAddr 127.0.0.1:${DISCOVERY} --secureGRPCAddr= --httpsAddr=`.split(' '),
      ...'--httpAddr 127.0.0.1:18080 --monitoringAddr 127.0.0.1:15014'.split(' '),
      `--kubeconfig=${process.env['KUBECONFIG']!}`,
      `--meshConfig=${mesh}`,
    ],
    environment: {
      PATH: process.env['PATH']!,
      HOME: DIRECTORY,
      POD_NAMESPACE: 'istio-system',
      POD_NAME: 'istiod',
      ENABLE_CA_SERVER: 'false',
      PILOT_CERT_PROVIDER: 'none',
      VALIDATION_WEBHOOK_CONFIG_NAME: '',
      INJECTION_WEBHOOK_CONFIG_NAME: '',
      // What only Istio's own build of Envoy has in it.
      PILOT_ENABLE_METADATA_EXCHANGE: 'false',
      PILOT_ENABLE_ALPN_FILTER: 'false',
    },
  })
  await untilReady(child, () => accepts(DISCOVERY))
  return child
}

/** An Envoy that says who it is, and has all else told to it. */
function bootstrap(): string {
  const labels = { istio: 'ingressgateway' }
  const metadata = { NAMESPACE: 'tools', LABELS: labels, CLUSTER_ID: 'Kubernetes', ISTIO_VERSION: '1.31.0' }
  const ads = { resource_api_version: 'V3', ads: {} }
  return stringify({
    node: { id: `router~${NODE}~gateway.tools~tools.svc.cluster.local`, cluster: 'gateway', metadata },
    admin: { address: { socket_address: { address: '127.0.0.1', port_value: 15000 } } },
    dynamic_resources: {
      lds_config: ads,
      cds_config: ads,
      ads_config: {
        api_type: 'GRPC',
        transport_api_version: 'V3',
        grpc_services: [{ envoy_grpc: { cluster_name: 'pilot' } }],
      },
    },
    static_resources: {
      clusters: [
        {
          name: 'pilot',
          type: 'STATIC',
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
              '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
              explicit_http_config: { http2_protocol_options: {} },
            },
          },
          load_assignment: {
            cluster_name: 'pilot',
            endpoints: [
              {
                lb_endpoints: [
                  {
                    endpoint: {
                      address: { socket_address: { address: '127.0.0.1', port_value: DISCOVERY } },
                    },
                  },
                ],
              },
            ],
          },
        },
      ],
    },
  })
}

test('Istio makes of the provider a filter that asks usher as envoy/istio says', async () => {
  const dump = await (await fetch('http://127.0.0.1:15000/config_dump?resource=dynamic_listeners')).text()
  const filter = filtersIn(parse(dump)).find(({ name }) => name === 'envoy.filters.http.ext_authz')
  expect(filter?.typed_config).toMatchObject({
    grpc_service: {
      timeout: '3s',
      envoy_grpc: { cluster_name: expect.stringContaining('usher-check.usher') },
    },
    with_request_body: { max_request_bytes: 1_048_576, allow_partial_message: true, pack_as_bytes: true },
    status_on_error: { code: 'ServiceUnavailable' },
  })
  expect(filter?.typed_config).not.toHaveProperty('failure_mode_allow', true)
  expect(dump).toContain('"path_with_escaped_slashes_action": "REJECT_REQUEST"')
})

/** Every member `http_filters`, however deep. */
function filtersIn(value: unknown): { name: string; typed_config: Record<string, unknown> }[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) =>
    name === 'http_filters' ? (member as ReturnType<typeof filtersIn>) : filtersIn(member),
  )
}

describe('The story of the demo, through an Envoy that Istio feeds,', () => {
  test.each(STORY)('$title', async step => {
    await expect(step.walk(scene)).resolves.not.toEqual([])
  })
})

describe('A page of another origin', () => {
  const asks = (headers: Record<string, string>) => fetch(stack.resource, { method: 'OPTIONS', headers })
  const question = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'signature' }
  const list = (origin: string) =>
    fetch(stack.resource, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'portfolio_read' },
      }),
    })

  test('that may call is told so before usher is asked', async () => {
    const answer = await asks({ origin: PAGE, ...question })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE)
    expect(answer.headers.get('access-control-allow-headers')).toContain('signature-input')
  })

  test.each([
    ['of another origin', { origin: 'https://other.example', ...question }, 403],
    ['without an origin', question, 405],
    ['that is no question of a browser', { origin: PAGE }, 405],
  ])('an OPTIONS %s is judged, and reaches no tool', async (_what, headers, status) => {
    const answer = await asks(headers)
    expect(answer.status).toBe(status)
    expect(await answer.text()).toMatch(status === 403 ? /invalid_origin/ : /method_not_allowed/)
  })

  test('reads the challenge if it may call, and is refused if it may not', async () => {
    const challenge = await list(PAGE)
    expect(challenge.status).toBe(401)
    expect(challenge.headers.get('access-control-allow-origin')).toBe(PAGE)
    expect(challenge.headers.get('access-control-expose-headers')).toContain('WWW-Authenticate')
    const refused = await list('https://other.example')
    expect(refused.status).toBe(403)
    expect(refused.headers.get('access-control-allow-origin')).toBeNull()
  })
})

test('without a sidecar nothing passes', async () => {
  await stack.children.find(({ name }) => name === 'sidecar')!.stop()
  const answer = await fetch(stack.resource, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  expect(answer.status).toBe(503)
})
