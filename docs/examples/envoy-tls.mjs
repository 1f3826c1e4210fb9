// Prints an Envoy configuration with TLS: envoy/envoy.yaml with the blocks of envoy/tls.yaml put in, and for each MCP
// server a cluster, a route, and a route for the stream of a session (GET), which ends after a minute. Run it with:
//   node envoy-tls.mjs <folder of the certificates> <listen> <check> <documents> '/mcp/{owner}=9300/mcp' …
// <listen> is where agents call, <check> and <documents> are `listen.check` and `listen.http` of the sidecar. Each of
// them, and each server, is a port on this machine, or host:port; <listen> has no name there, but an address, such as
// '[::]:443'. After `=` comes the server, with the path at which it listens (servers of the MCP SDKs at /mcp). Without a
// path it gets the one that the agent called.
// These options change what is not as on a laptop; a file is in that folder, unless its path begins with `/`:
//   --sidecar-name             the DNS name in the sidecar's certificate (that in <check>, or else localhost)
//   --ca                       the CA of that certificate (ca.pem)
//   --cert, --key              what agents are shown (cert.pem, key.pem)
//   --check-cert, --check-key  what the sidecar is shown: the same, unless you say otherwise
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parse, stringify } from 'yaml'

const { values: options, positionals } = parseArgs({
  options: {
    'sidecar-name': { type: 'string' },
    ca: { type: 'string', default: 'ca.pem' },
    cert: { type: 'string', default: 'cert.pem' },
    key: { type: 'string', default: 'key.pem' },
    'check-cert': { type: 'string' },
    'check-key': { type: 'string' },
  },
  allowPositionals: true,
})
const { ca, cert, key, 'check-cert': checkCert = cert, 'check-key': checkKey = key } = options
const [folder, listen, check, documents, ...servers] = positionals
if (servers.length === 0)
  throw new Error('Give a folder, three ports and a server: the head of this file says how.')

function template(file, values) {
  const text = readFileSync(new URL(`../../envoy/${file}`, import.meta.url), 'utf8')
  return parse(text.replace(/\$\{(\w+)\}/g, (whole, name) => values[name] ?? whole))
}

/** Gives a socket its port, and its host if there is one. Returns the host. */
function place(socket, text) {
  const [, written, port] = /^(?:(.+):)?(\d+)$/.exec(text) ?? []
  if (port === undefined) throw new Error(`${text} is neither a port nor host:port.`)
  // Before a port, an address of IPv6 is written in brackets, which Envoy does not take.
  const host = written?.replace(/^\[(.*)\]$/, '$1')
  if (host !== undefined) socket.address = host
  socket.port_value = Number(port)
  return host
}

const isName = host => host !== undefined && isIP(host) === 0

/** Gives a cluster its place. Returns the name of its host, if it has one. */
function placeCluster(cluster, text) {
  const [{ endpoint }] = cluster.load_assignment.endpoints[0].lb_endpoints
  const host = place(endpoint.address.socket_address, text)
  if (!isName(host)) return undefined
  // If a name has addresses of both kinds, Envoy takes IPv6 alone, and many a server listens at IPv4 alone.
  Object.assign(cluster, { type: 'STRICT_DNS', dns_lookup_family: 'V4_PREFERRED' })
  return host
}

const pair = (chain, privateKey) => [
  {
    certificate_chain: { filename: resolve(folder, chain) },
    private_key: { filename: resolve(folder, privateKey) },
  },
]

const config = template('envoy.yaml', {
  ENVOY_PORT: '0',
  CHECK_PORT: '0',
  DOCUMENTS_PORT: '0',
  TOOL_PORT: '0',
})
const { listeners, clusters } = config.static_resources
const [chain] = listeners[0].filter_chains
const cluster = name => clusters.find(one => one.name === name)
if (isName(place(listeners[0].address.socket_address, listen)))
  throw new Error(`${listen}: Envoy listens at an address, not at a name. Give a port, or address:port.`)
const checkName = placeCluster(cluster('usher_check'), check)
placeCluster(cluster('usher_documents'), documents)

const tls = template('tls.yaml', { SIDECAR_NAME: options['sidecar-name'] ?? checkName ?? 'localhost' })
tls.listener.typed_config.common_tls_context.tls_certificates = pair(cert, key)
tls.check.typed_config.common_tls_context.tls_certificates = pair(checkCert, checkKey)
for (const block of [tls.check, tls.documents])
  block.typed_config.common_tls_context.validation_context.trusted_ca.filename = resolve(folder, ca)
chain.transport_socket = tls.listener
cluster('usher_check').transport_socket = tls.check
cluster('usher_documents').transport_socket = tls.documents

const [{ typed_config: manager }] = chain.filters
const [host] = manager.route_config.virtual_hosts
// The stream of a session goes first, for the other route takes every method.
const patterns = ['owners-stream', 'owners'].map(name => host.routes.find(route => route.name === name))
const tools = cluster('tool_server')
// Only the public documents, the routes of each server, and no route for anything else.
host.routes = host.routes.filter(({ route }) => route.cluster === 'usher_documents')
config.static_resources.clusters = clusters.filter(one => one !== tools)

/** What lets a server that listens at `to` serve the paths of this pattern. usher is asked before it. */
function rewrite(path, to) {
  const regex = path
    .split(/\{[^}]*\}/)
    .map(text => text.replace(/[\\^$.*+?()[\]|]/g, '\\$&'))
    .join('[^/?]+')
  return { regex_rewrite: { pattern: { regex: `^${regex}` }, substitution: to } }
}

for (const server of servers) {
  const [, path, at, to] = /^(\/[^=]*)=([^/]+)(\/.*)?$/.exec(server) ?? []
  if (path === undefined) throw new Error(`${server} is no server: write it as '/mcp/{owner}=9300/mcp'.`)
  const name = `server_${at}`
  for (const pattern of patterns) {
    const route = structuredClone(pattern)
    route.name = pattern.name === 'owners' ? path : `${path}-stream`
    route.match.path_match_policy.typed_config.path_template = path
    Object.assign(route.route, { cluster: name }, to && rewrite(path, to))
    host.routes.push(route)
  }
  // Two paths may lead to one server.
  if (config.static_resources.clusters.some(one => one.name === name)) continue
  const added = structuredClone(tools)
  added.name = name
  added.load_assignment.cluster_name = name
  placeCluster(added, at)
  config.static_resources.clusters.push(added)
}
process.stdout.write(stringify(config, { aliasDuplicateObjects: false }))
