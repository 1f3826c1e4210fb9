// Prints an Envoy configuration with TLS: envoy/envoy.yaml with the blocks of envoy/tls.yaml put in, and two routes (a
// stream ends after a minute) and a cluster for each MCP server. Run it with:
//   node envoy-tls.mjs <folder of ca.pem, cert.pem, key.pem> <port> <check port> <documents port> /mcp/{owner}=9300/mcp …
// Behind the port stands the path at which the server listens; without one it gets the path that was called.
// `--sidecar-name` is the name in the sidecar's certificate, localhost if it is left out.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parse, stringify } from 'yaml'

const { values, positionals } = parseArgs({
  options: { 'sidecar-name': { type: 'string', default: 'localhost' } },
  allowPositionals: true,
})
const [certificates, port, checkPort, documentsPort, ...servers] = positionals

function template(file, values) {
  const text = readFileSync(new URL(`../../envoy/${file}`, import.meta.url), 'utf8')
  return parse(text.replace(/\$\{(\w+)\}/g, (whole, name) => values[name] ?? whole))
}

const config = template('envoy.yaml', {
  ENVOY_PORT: port,
  CHECK_PORT: checkPort,
  DOCUMENTS_PORT: documentsPort,
  TOOL_PORT: '0',
})
const tls = template('tls.yaml', {
  TLS_DIRECTORY: resolve(certificates),
  SIDECAR_NAME: values['sidecar-name'],
})
const { listeners, clusters } = config.static_resources
const [chain] = listeners[0].filter_chains
chain.transport_socket = tls.listener
const cluster = name => clusters.find(one => one.name === name)
cluster('usher_check').transport_socket = tls.check
cluster('usher_documents').transport_socket = tls.documents

const [{ typed_config: manager }] = chain.filters
const [host] = manager.route_config.virtual_hosts
const patterns = ['owners-stream', 'owners'].map(name => host.routes.find(route => route.name === name))
const tools = cluster('tool_server')
// Only the public documents, one route for each server, and no route for anything else.
host.routes = host.routes.filter(({ route }) => route.cluster === 'usher_documents')
config.static_resources.clusters = clusters.filter(one => one !== tools)
for (const server of servers) {
  const [path, at] = server.split('=')
  const [, serverPort, ownPath] = /^(\d+)(\/.*)?$/.exec(at)
  const name = `server_${serverPort}`
  for (const pattern of patterns) {
    const route = structuredClone(pattern)
    route.name = `${name}-${pattern.name}`
    route.match.path_match_policy.typed_config.path_template = path
    route.route.cluster = name
    if (ownPath !== undefined) {
      const regex = `^${path.replace('{owner}', '[^/?]+')}`
      route.route.regex_rewrite = { pattern: { regex }, substitution: ownPath }
    }
    host.routes.push(route)
  }
  const added = structuredClone(tools)
  added.name = name
  added.load_assignment.cluster_name = name
  const [{ endpoint }] = added.load_assignment.endpoints[0].lb_endpoints
  endpoint.address.socket_address.port_value = Number(serverPort)
  config.static_resources.clusters.push(added)
}
process.stdout.write(stringify(config, { aliasDuplicateObjects: false }))
