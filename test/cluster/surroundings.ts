/**
 * Owns the surroundings of usher in the cluster, as in a deployment: a real Postgres, and a real Envoy as the
 * gateway. Both run as strictly as the release itself. contract, "Resource server enforcement point".
 */
import { parse } from 'yaml'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { apply, kubectl, secret } from './kubernetes.ts'

const STAGE = 'localhost/stage:lab'
/** The address that agents call, by the name in the gateway's certificate. */
export const GATEWAY = 'gateway.tools.svc.cluster.local'
/** The address that the gateway asks, by the name in the certificate of a sidecar. */
export const CHECK = 'usher-check.usher.svc.cluster.local'
export const DATABASE_URL = 'postgres://usher@postgres.data.svc.cluster.local:5432/postgres'

const RESTRICTED = 'pod-security.kubernetes.io/enforce'

/** Namespaces in which the strictest of Kubernetes' own standards is enforced. */
export const restricted = (...names: string[]): object[] =>
  names.map(name => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { [RESTRICTED]: 'restricted' } },
  }))

interface Program {
  namespace: string
  name: string
  command: string[]
  port: number
  /** What Services give it as. */
  servicePort?: number
  volumes?: object[]
  volumeMounts?: object[]
  readinessProbe: object
}

/** One replica of a program of the stage, and its Service. */
function deployment(program: Program): object[] {
  const { namespace, name, port } = program
  const metadata = { namespace, name }
  const labels = { app: name }
  const container = {
    name,
    image: STAGE,
    imagePullPolicy: 'Never',
    command: program.command,
    ports: [{ containerPort: port }],
    readinessProbe: { periodSeconds: 1, ...program.readinessProbe },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [{ name: 'scratch', mountPath: '/tmp' }, ...(program.volumeMounts ?? [])],
  }
  const spec = {
    automountServiceAccountToken: false,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 1000,
      fsGroup: 1000,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [container],
    volumes: [{ name: 'scratch', emptyDir: {} }, ...(program.volumes ?? [])],
  }
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { selector: labels, ports: [{ port: program.servicePort ?? port, targetPort: port }] },
    },
  ]
}

/** An empty Postgres, which every pod may reach. */
export function postgres(): object[] {
  const data = '/data/pg'
  const script = [
    'export LD_LIBRARY_PATH=/opt/postgres/lib',
    `/opt/postgres/bin/initdb -D ${data} -U usher --auth=trust --encoding=UTF8 --locale=C --no-sync > /dev/null`,
    `echo 'host all all all trust' >> ${data}/pg_hba.conf`,
    `exec /opt/postgres/bin/postgres -D ${data} -c 'listen_addresses=*' -c unix_socket_directories= -c fsync=off`,
  ].join(' && ')
  return deployment({
    namespace: 'data',
    name: 'postgres',
    command: ['/bin/sh', '-c', script],
    port: 5432,
    volumes: [{ name: 'data', emptyDir: {} }],
    volumeMounts: [{ name: 'data', mountPath: '/data' }],
    readinessProbe: { tcpSocket: { port: 5432 } },
  })
}

interface Cluster {
  name: string
  type: string
  typed_extension_protocol_options?: object
  health_checks?: { timeout: string }[]
  load_assignment: { endpoints: [{ lb_endpoints: { endpoint: { address: object } }[] }] }
}

/** The connection manager, one of whose filters asks usher. */
interface Listener {
  address: { socket_address: { address: string } }
  filter_chains: [
    {
      filters: [
        {
          typed_config: {
            http_filters: { name: string; typed_config: { grpc_service: { timeout: string } } }[]
          }
        },
      ]
    },
  ]
}

interface Bootstrap {
  static_resources: {
    listeners: [Listener]
    clusters: Cluster[]
  }
}

const IDLE_FOR_2_S = {
  'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
    '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    common_http_protocol_options: { idle_timeout: '2s' },
    explicit_http_config: { http_protocol_options: {} },
  },
}

/** envoy/envoy.yaml with envoy/tls.yaml, and the names of this cluster for its addresses. */
async function gatewayConfig(tools: { host: string; port: number }): Promise<object> {
  const ports = { envoy: 10000, checks: [9191], documents: [9192], tool: tools.port }
  const tls = { directory: '/etc/envoy/tls', sidecarName: CHECK }
  const config = parse(await envoyConfig(ports, tls)) as Bootstrap
  const { listeners, clusters } = config.static_resources
  listeners[0].address.socket_address.address = '0.0.0.0'
  const places: Record<string, [type: string, host: string, port: number]> = {
    usher_check: ['STRICT_DNS', CHECK, 9191],
    usher_documents: ['STRICT_DNS', 'usher-documents.usher.svc.cluster.local', 9192],
    tool_server: ['STATIC', tools.host, tools.port],
  }
  // What a machine that is busy with something else holds up is not lost.
  const { http_filters } = listeners[0].filter_chains[0].filters[0].typed_config
  const filter = http_filters.find(({ name }) => name === 'envoy.filters.http.ext_authz')!
  filter.typed_config.grpc_service.timeout = '10s'
  for (const cluster of clusters) {
    for (const check of cluster.health_checks ?? []) check.timeout = '5s'
    const [type, address, port_value] = places[cluster.name]!
    cluster.type = type
    const endpoint = { address: { socket_address: { address, port_value } } }
    cluster.load_assignment.endpoints[0].lb_endpoints = [{ endpoint }]
    // Node's server ends an idle connection after 5 s, perhaps as a call is on its way.
    if (cluster.name === 'tool_server') cluster.typed_extension_protocol_options = IDLE_FOR_2_S
  }
  return config
}

/** A real Envoy, with its certificate (`ca.pem`, `cert.pem`, `key.pem`), in front of the tool server. */
export async function gateway(
  certificate: Record<string, string>,
  tools: { host: string; port: number },
): Promise<object[]> {
  const namespace = 'tools'
  const files = secret(namespace, 'gateway', {
    'envoy.json': JSON.stringify(await gatewayConfig(tools)),
    ...certificate,
  })
  const parts = deployment({
    namespace,
    name: 'gateway',
    command:
      '/usr/local/bin/envoy --config-path /etc/envoy/tls/envoy.json --concurrency 1 --disable-hot-restart'.split(
        ' ',
      ),
    port: 10000,
    servicePort: 443,
    readinessProbe: { tcpSocket: { port: 10000 } },
    volumes: [{ name: 'files', secret: { secretName: 'gateway', defaultMode: 0o440 } }],
    volumeMounts: [{ name: 'files', mountPath: '/etc/envoy/tls', readOnly: true }],
  })
  return [files, ...parts]
}

/** Puts them there, and waits until they are ready. */
export async function bringUp(namespace: string, name: string, objects: object[]): Promise<void> {
  await apply(objects)
  await kubectl('-n', namespace, 'rollout', 'status', `deployment/${name}`, '--timeout=120s')
}
