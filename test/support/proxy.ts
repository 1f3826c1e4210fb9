/**
 * Owns a real Envoy for tests with listeners of their making: each asks the same check server and forwards to
 * the same tool, and they differ in how ext_authz is set. The product's own configuration is run elsewhere
 * (test/support/stack.ts).
 */
import { writeFile } from 'node:fs/promises'
import { request, type OutgoingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import type { Envoy } from '../../src/dev/stack/envoy-binary.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'

/** How one listener asks. Left out: what the defaults below say. */
export interface ProxyListener {
  /** Members of the ext_authz filter. */
  authorization: Record<string, unknown>
  /** `context_extensions` of the route; none if undefined. */
  context?: Record<string, string> | undefined
  /** The port of the check server, or the path of its socket. */
  check: number | string
  /** It is asked by http_service, which `authorization` then holds. */
  byHttp?: boolean | undefined
  /** How much of a request it holds back. */
  bufferBytes?: number | undefined
  /** It is at the edge of a network: it takes its peer for the client, and adds it to x-forwarded-for. */
  isEdge?: boolean | undefined
}

export interface Proxy {
  /** The port of a listener. */
  port(name: string): number
  child: Child
  stop(): Promise<void>
}

export interface ProxyOptions {
  envoy: Envoy
  /** Where its files go. */
  directory: string
  /** The port of the tool. */
  tool: number
  listeners: Record<string, ProxyListener>
  /**
   * `common_http_protocol_options` of the connections to check servers; Envoy's own defaults when left out.
   */
  checkConnections?: Record<string, unknown> | undefined
}

/** Starts it, and waits until every listener accepts. */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { envoy, directory, listeners } = options
  const names = Object.keys(listeners)
  const free = await freePorts(names.length)
  const ports = new Map(names.map((name, at) => [name, free[at]!]))
  const configFile = join(directory, `envoy-${free[0]}.json`)
  await writeFile(configFile, JSON.stringify(bootstrap(options, ports)))
  const child = startChild({
    name: 'Envoy',
    command: [...envoy.command(configFile, directory), '--disable-hot-restart', '--concurrency', '1'],
    logFile: join(directory, `envoy-${free[0]}.log`),
  })
  await untilReady(child, async () => (await Promise.all(free.map(accepts))).every(Boolean))
  return { port: name => ports.get(name)!, child, stop: () => child.stop() }
}

const type = (name: string) => ({ '@type': `type.googleapis.com/${name}` })
const FILTER = 'envoy.extensions.filters.http'
const PROXY_PROTOCOL = 'envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol'

const clusterOf = (name: string, at: number | string, more: object = {}) => ({
  name,
  connect_timeout: '2s',
  load_assignment: {
    cluster_name: name,
    endpoints: [
      {
        lb_endpoints: [
          {
            endpoint: {
              address:
                typeof at === 'string'
                  ? { pipe: { path: at } }
                  : { socket_address: { address: '127.0.0.1', port_value: at } },
            },
          },
        ],
      },
    ],
  },
  ...more,
})

/** The name of the cluster becomes the :authority of the check, so it must be fit for that. */
export const checkCluster = (check: number | string): string =>
  `check-${typeof check === 'string' ? 'socket' : check}`

const http2 = (connections: ProxyOptions['checkConnections']) => ({
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      ...type('envoy.extensions.upstreams.http.v3.HttpProtocolOptions'),
      explicit_http_config: { http2_protocol_options: {} },
      ...(connections && { common_http_protocol_options: connections }),
    },
  },
})

function bootstrap(
  { listeners, tool, checkConnections }: ProxyOptions,
  ports: ReadonlyMap<string, number>,
): object {
  const entries = Object.entries(listeners)
  return {
    static_resources: {
      listeners: entries.map(([name, listener]) => listenerOf(name, ports.get(name)!, listener)),
      clusters: [
        ...[...new Map(entries.map(([, listener]) => [listener.check, listener])).values()].map(
          ({ check, byHttp }) => clusterOf(checkCluster(check), check, byHttp ? {} : http2(checkConnections)),
        ),
        clusterOf('tool', tool),
      ],
    },
  }
}

function listenerOf(
  name: string,
  port: number,
  { authorization, context, check, byHttp, bufferBytes = 16_777_216, isEdge = false }: ProxyListener,
): object {
  const filter = {
    ...type(`${FILTER}.ext_authz.v3.ExtAuthz`),
    transport_api_version: 'V3',
    ...(!byHttp && {
      grpc_service: { envoy_grpc: { cluster_name: checkCluster(check) }, timeout: '3s' },
    }),
    ...authorization,
  }
  const route = {
    match: { prefix: '/' },
    route: { cluster: 'tool' },
    ...(context && {
      typed_per_filter_config: {
        'envoy.filters.http.ext_authz': {
          ...type(`${FILTER}.ext_authz.v3.ExtAuthzPerRoute`),
          check_settings: { context_extensions: context },
        },
      },
    }),
  }
  const manager = {
    ...type('envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'),
    stat_prefix: name,
    common_http_protocol_options: { headers_with_underscores_action: 'ALLOW' },
    http_filters: [
      { name: 'envoy.filters.http.ext_authz', typed_config: filter },
      { name: 'router', typed_config: type(`${FILTER}.router.v3.Router`) },
    ],
    route_config: { virtual_hosts: [{ name, domains: ['*'], routes: [route] }] },
    use_remote_address: isEdge,
  }
  return {
    name,
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
    per_connection_buffer_limit_bytes: bufferBytes,
    // Who the peer is, a question says: on loopback Envoy would add an address of its own in its place.
    listener_filters: isEdge ? [{ name: 'proxy_protocol', typed_config: type(PROXY_PROTOCOL) }] : [],
    filter_chains: [{ filters: [{ name: 'http', typed_config: manager }] }],
  }
}

export interface ProxyAnswer {
  status: number
  headers: Record<string, unknown>
  body: string
}

export interface ProxyQuestion {
  method?: string
  path?: string
  headers?: OutgoingHttpHeaders
  /** Several parts are sent without a content-length. */
  body?: Buffer | Buffer[]
  /** Whom a listener at the edge takes for its peer. */
  peer?: string
}

/** Sends a request as it is: `fetch` would normalize its path and join its lines. */
export function askProxy(
  port: number,
  { method = 'POST', path = '/mcp/alice', headers = {}, body = Buffer.from('{}'), peer }: ProxyQuestion = {},
): Promise<ProxyAnswer> {
  return new Promise((resolve, reject) => {
    const connecting = peer === undefined ? { agent: false as const } : { createConnection: from(peer, port) }
    const target = { host: '127.0.0.1', port, method, path, headers, ...connecting }
    const outgoing = request(target, response => {
      let text = ''
      response.on('data', chunk => (text += String(chunk)))
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: text }),
      )
      response.on('error', reject)
    })
    outgoing.on('error', reject)
    const parts = [body].flat()
    for (const part of parts.slice(0, -1)) outgoing.write(part)
    if (Array.isArray(body)) outgoing.write(parts.at(-1))
    outgoing.end(Array.isArray(body) ? undefined : parts[0])
  })
}

/** Makes connections that say by the PROXY protocol who the peer is. */
const from = (peer: string, port: number) => (): Socket => {
  const connection = connect(port, '127.0.0.1')
  connection.write(`PROXY TCP4 ${peer} 127.0.0.1 40000 ${port}\r\n`)
  return connection
}
