/**
 * Owns turning envoy/envoy.yaml, or envoy/envoy-http.yaml, into the configuration of one Envoy: the ports put
 * in, and TLS if it is wanted. Contract: "Resource server enforcement point".
 */
import { readFile } from 'node:fs/promises'
import { parse, stringify } from 'yaml'

export interface EnvoyPorts {
  /** Where agents call. */
  envoy: number
  /** `listen.check` of each sidecar: they share the checks. */
  checks: number[]
  /** `listen.http` of each sidecar. */
  documents: number[]
  tool: number
}

/** Where Envoy finds ca.pem, cert.pem and key.pem, and which name the sidecar's certificate bears. */
export interface EnvoyTls {
  directory: string
  sidecarName: string
}

interface Cluster {
  name: string
  transport_socket?: unknown
  load_assignment: { endpoints: [{ lb_endpoints: unknown[] }] }
}

interface Bootstrap {
  static_resources: {
    listeners: [{ filter_chains: [{ transport_socket?: unknown }] }]
    clusters: Cluster[]
  }
}

/** The YAML text of the configuration; `byHttp`: asks by http_service, at `listen.check_http`. */
export async function envoyConfig(
  ports: EnvoyPorts,
  tls?: EnvoyTls,
  { byHttp = false }: { byHttp?: boolean | undefined } = {},
): Promise<string> {
  const config = (await template(byHttp ? 'envoy-http.yaml' : 'envoy.yaml', {
    ENVOY_PORT: ports.envoy,
    CHECK_PORT: ports.checks[0]!,
    DOCUMENTS_PORT: ports.documents[0]!,
    TOOL_PORT: ports.tool,
  })) as Bootstrap
  const { listeners, clusters } = config.static_resources
  const cluster = (name: string): Cluster => clusters.find(one => one.name === name)!
  setEndpoints(cluster('usher_check'), ports.checks)
  setEndpoints(cluster('usher_documents'), ports.documents)
  if (tls !== undefined) {
    const blocks = (await template('tls.yaml', {
      TLS_DIRECTORY: tls.directory,
      SIDECAR_NAME: tls.sidecarName,
    })) as Record<'listener' | 'check' | 'check_http' | 'documents', unknown>
    listeners[0].filter_chains[0].transport_socket = blocks.listener
    cluster('usher_check').transport_socket = byHttp ? blocks.check_http : blocks.check
    cluster('usher_documents').transport_socket = blocks.documents
  }
  return stringify(config, { aliasDuplicateObjects: false })
}

function setEndpoints(cluster: Cluster, ports: number[]): void {
  cluster.load_assignment.endpoints[0].lb_endpoints = ports.map(port => ({
    endpoint: { address: { socket_address: { address: '127.0.0.1', port_value: port } } },
  }))
}

async function template(file: string, values: Record<string, string | number>): Promise<unknown> {
  const text = await readFile(new URL(`../../../envoy/${file}`, import.meta.url), 'utf8')
  return parse(text.replace(/\$\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole)))
}
