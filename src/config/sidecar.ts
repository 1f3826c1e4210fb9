/**
 * Owns the configuration of `usher sidecar`: one YAML file. Contract: "Resource server enforcement point" and
 * "Authorized call": owners, their authorities, tools and the public URL are configured, never taken from a
 * request.
 */
import { formatListenAddress, isLocalAddress } from '../http/listen-address.ts'
import { asClientId, asOwner, type ClientId, type Owner } from '../wire/identifiers.ts'
import { isLoopbackHost } from '../wire/loopback.ts'
import type { TraceExport } from '../http/otlp.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { templateShape } from '../wire/http-operation.ts'
import { DEFAULT_SPEC_NS } from '../wire/names.ts'
import { isBelow } from '../wire/owner-resources.ts'
import {
  checkDirectory,
  collectFaults,
  readCertificates,
  readKeysFile,
  readSecretFile,
  readYamlFile,
  type NamedCertificates,
} from './files.ts'
import { duplicates, issueSentence } from './issues.ts'
import { namespaceFaults } from './namespaces.ts'
import {
  choice,
  ConfigFault,
  defaulted,
  defineSettings,
  filePath,
  logLevel,
  optional,
  required,
  signingAlg,
  toggle,
  url,
  type Values,
} from './settings.ts'
import { loadOrganization, organizationFaults, type SidecarOrganization } from './sidecar-organization.ts'
import { SIDECAR_FILE, type SidecarFile, type SidecarOperation, type SidecarTool } from './sidecar-file.ts'

export const SIDECAR_SETTINGS = defineSettings({
  title: 'usher sidecar',
  settings: {
    configFile: required('UMA_PEP_CONFIG', filePath, {
      description: 'The YAML file described below; `--config` does the same.',
    }),
    mode: defaulted('ENFORCEMENT_MODE', choice(['gateway', 'embedded']), 'gateway', {
      description:
        'Where calls are enforced: `gateway`, by this process; `embedded`, by the resource itself (`usher/embedded`, which refuses to start under `gateway`, as this process does under `embedded`).',
    }),
    requireContentDigest: defaulted('UMA_PEP_REQUIRE_CONTENT_DIGEST', toggle, 'false', {
      description: 'The same as `require_content_digest: true` in the file; either suffices.',
    }),
    signingAlg,
    specNs: defaulted('UMA_SPEC_NS', url, DEFAULT_SPEC_NS, {
      description: 'The base of identifier URIs, `{spec_ns}`; the same for every party.',
    }),
    devLoopback: defaulted('UMA_DEV_LOOPBACK', toggle, 'false', {
      description: 'Development only: admits http and loopback addresses, for literal loopback hosts.',
    }),
    logLevel: defaulted('UMA_PEP_LOG_LEVEL', logLevel, 'info', {
      description: 'Least severe log line written.',
    }),
  },
})

/**
 * The same for an enforcement point inside a resource, which may be given its configuration by the resource.
 */
export const EMBEDDED_SETTINGS = defineSettings({
  title: 'usher/embedded',
  settings: {
    ...SIDECAR_SETTINGS.settings,
    configFile: optional('UMA_PEP_CONFIG', filePath, {
      description: SIDECAR_SETTINGS.settings.configFile.description,
    }),
  },
})

/** How the sidecar proves itself when it asks for a PAT. */
export type PatCredential = { kind: 'secret'; secret: string } | { kind: 'signature' }

export interface SidecarOwner {
  owner: Owner
  path: string
  authority: string
  client_id: ClientId
  credential: PatCredential
  /** Whether to register with her authority at the start, and under which name. */
  register: { name: string | undefined } | undefined
  /** The organization above her; undefined where there is none. */
  organization: SidecarOrganization | undefined
  tools: SidecarTool[]
  /** The table of a plain API; undefined for MCP. */
  api: SidecarOperation[] | undefined
}

/** What `usher sidecar` runs with: the file's values, and the contents of the files it names. */
export interface SidecarConfig
  extends
    Omit<
      SidecarFile,
      'owners' | 'check_tls' | 'http_tls' | 'keys_file' | 'authority_ca_file' | 'authorities'
    >,
    Pick<Values<typeof SIDECAR_SETTINGS.settings>, 'specNs' | 'devLoopback' | 'logLevel'> {
  owners: SidecarOwner[]
  keys: PrivateKey[]
  /** Each as it was read at the start, and where it is read again. */
  checkTls: NamedCertificates<'cert' | 'key' | 'ca'> | undefined
  httpTls: NamedCertificates<'cert' | 'key'> | undefined
  authorityCa: NamedCertificates<'ca'> | undefined
  /** Where authorities are reached beside their issuer. */
  authorityAddresses: ReadonlyMap<string, readonly string[]>
  /** How traces are exported, as the environment says; undefined where they are off. */
  traces: TraceExport | undefined
}

type SidecarValues = Values<typeof SIDECAR_SETTINGS.settings>

/** Reads and judges the whole file. Throws `ConfigFault` listing every fault found. */
export function loadSidecarFile(values: SidecarValues): SidecarConfig {
  if (values.mode !== 'gateway') {
    throw new ConfigFault([
      'ENFORCEMENT_MODE: with `embedded` the resource itself enforces, by importing usher/embedded, and no sidecar runs.',
    ])
  }
  const given = judgeFile(readYamlFile('UMA_PEP_CONFIG', values.configFile), values, gatewayFaults)
  return loadNamedFiles(given, values)
}

/** What an embedded enforcement point runs with: all but what says where a sidecar listens. */
export type EmbeddedConfig = Omit<
  SidecarConfig,
  'listen' | 'checkTls' | 'httpTls' | 'network_trusted' | 'drain_ms'
>

/**
 * Stands in for the addresses of a sidecar in a file that has none: an embedded enforcement point listens
 * nowhere.
 */
const NO_LISTENERS = { check: 'unix:/nowhere', http: 'unix:/nowhere' }

/**
 * The same for an embedded enforcement point: from the file, or from an object as it would stand there.
 * `listen` may be left out. What concerns a sidecar's listeners alone is held to the schema and not used.
 * Throws `ConfigFault`.
 */
export function loadEmbedded(values: Omit<SidecarValues, 'configFile'>, source: unknown): EmbeddedConfig {
  if (values.mode !== 'embedded') {
    throw new ConfigFault([
      'ENFORCEMENT_MODE: with `gateway` a sidecar enforces in front of the resource; set `embedded`, or leave it unset, to enforce inside.',
    ])
  }
  const read = typeof source === 'string' ? readYamlFile('the configuration', source) : source
  const whole = isRecord(read) ? { listen: NO_LISTENERS, ...read } : read
  const given = judgeFile(whole, values, () => [])
  return loadNamedFiles({ ...given, check_tls: undefined, http_tls: undefined }, values)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function judgeFile(
  read: unknown,
  { devLoopback }: Pick<SidecarValues, 'devLoopback'>,
  faultsOfMode: (given: SidecarFile) => string[],
): SidecarFile {
  const result = SIDECAR_FILE.safeParse(read)
  if (!result.success) throw new ConfigFault(result.error.issues.map(issueSentence))
  const given = result.data
  const faults = [
    ...sidecarFaults(given, devLoopback),
    ...faultsOfMode(given),
    ...given.owners.flatMap(one => ownerFaults(one, given.public_url)),
  ]
  if (faults.length > 0) throw new ConfigFault(faults)
  return given
}

function loadNamedFiles(
  given: SidecarFile,
  values: Pick<SidecarValues, 'requireContentDigest' | 'signingAlg' | 'specNs' | 'devLoopback' | 'logLevel'>,
): SidecarConfig {
  const { owners, check_tls, http_tls, keys_file, authority_ca_file, authorities, ...rest } = given
  const { specNs, devLoopback, logLevel } = values
  const config: SidecarConfig = {
    ...rest,
    require_content_digest: rest.require_content_digest || values.requireContentDigest,
    specNs,
    devLoopback,
    logLevel,
    owners: [],
    keys: [],
    checkTls: undefined,
    httpTls: undefined,
    authorityCa: undefined,
    authorityAddresses: new Map(authorities.map(({ issuer, addresses }) => [issuer, addresses])),
    traces: undefined,
  }
  collectFaults<unknown>([
    () => (config.keys = readKeysFile('keys_file', keys_file, values.signingAlg)),
    () => {
      if (rest.reports.state_dir !== undefined) checkDirectory('reports.state_dir', rest.reports.state_dir)
    },
    () => {
      if (authority_ca_file === undefined) return
      config.authorityCa = readCertificates({ ca: ['authority_ca_file', authority_ca_file] })
    },
    () => {
      if (http_tls === undefined) return
      config.httpTls = readCertificates({
        cert: ['http_tls.cert_file', http_tls.cert_file],
        key: ['http_tls.key_file', http_tls.key_file],
      })
    },
    () => {
      if (check_tls === undefined) return
      config.checkTls = readCertificates({
        cert: ['check_tls.cert_file', check_tls.cert_file],
        key: ['check_tls.key_file', check_tls.key_file],
        ca: ['check_tls.client_ca_file', check_tls.client_ca_file],
      })
    },
    ...owners.map(given => () => config.owners.push(loadOwner(given, rest.public_url))),
  ])
  return config
}

function loadOwner(given: SidecarFile['owners'][number], publicUrl: string): SidecarOwner {
  const { client_secret, client_secret_file, register, name, owner, authority, tools, api } = given
  const secret =
    client_secret_file === undefined
      ? client_secret
      : readSecretFile(`client_secret_file of ${owner}`, client_secret_file)
  const credential: PatCredential = secret === undefined ? { kind: 'signature' } : { kind: 'secret', secret }
  const path = pathOf(given)
  return {
    owner: asOwner(owner),
    authority,
    tools,
    api,
    path,
    client_id: asClientId(given.client_id ?? publicUrl + path),
    credential,
    register: register ? { name } : undefined,
    organization: loadOrganization(given),
  }
}

function pathOf({ owner, path, api }: SidecarFile['owners'][number]): string {
  return path ?? (api === undefined ? `/mcp/${owner}` : `/api/${owner}`)
}

function sidecarFaults(given: SidecarFile, devLoopback: boolean): string[] {
  return [
    ...duplicates(given.owners.map(({ owner }) => owner)).map(owner => `owners: ${owner} stands twice.`),
    ...namespaceFaults(given.owners),
    ...duplicates(given.owners.map(pathOf)).map(path => `owners: two of them have the path ${path}.`),
    ...addressFaults(given),
    ...(given.deadline_ms > given.deadline_margin_ms
      ? []
      : ['deadline_ms: give more than deadline_margin_ms, else no check is ever in time.']),
    ...[
      given.public_url,
      ...given.owners.flatMap(({ authority, organization }) => [
        authority,
        ...(organization ? [organization.issuer] : []),
      ]),
      ...given.authorities.flatMap(({ addresses }) => addresses),
    ]
      .filter(text => !isSecure(text, devLoopback))
      .map(
        text =>
          `${text} is not https. (UMA_DEV_LOOPBACK=true admits http to literal loopback hosts, for development.)`,
      ),
  ]
}

function gatewayFaults({ listen, check_tls, check_http, network_trusted }: SidecarFile): string[] {
  const exposed = (['check', 'check_http'] as const).flatMap(name => {
    const address = listen[name]
    if (address === undefined || isLocalAddress(address) || check_tls !== undefined || network_trusted)
      return []
    return [
      `listen.${name}: ${formatListenAddress(address)} can be reached from outside this machine, and whoever reaches it can spend ` +
        'grants. Listen on loopback or a Unix socket, set check_tls, or set network_trusted: true.',
    ]
  })
  if (check_http === undefined) return exposed
  const { method_header, uri_header, length_header, peer_header, body_header } = check_http
  const names = [method_header, uri_header, length_header, peer_header, body_header]
  return [
    ...exposed,
    ...(listen.check_http === undefined
      ? ['check_http: give listen.check_http, too, or leave this out.']
      : []),
    ...((method_header === undefined) === (uri_header === undefined)
      ? []
      : ['check_http: give both method_header and uri_header, or neither.']),
    ...duplicates(names.filter(name => name !== undefined)).map(
      name => `check_http: ${name} stands twice; each header says one thing.`,
    ),
  ]
}

function addressFaults({ authorities, owners }: SidecarFile): string[] {
  const issuers = authorities.map(({ issuer }) => issuer)
  return [
    ...duplicates(issuers).map(issuer => `authorities: ${issuer} stands twice.`),
    ...issuers
      .filter(issuer => !owners.some(({ authority }) => authority === issuer))
      .map(issuer => `authorities: ${issuer} is no authority of any of the owners.`),
    ...authorities.flatMap(({ issuer, addresses }) =>
      duplicates(addresses).map(address => `authorities: ${issuer} has the address ${address} twice.`),
    ),
  ]
}

function ownerFaults(given: SidecarFile['owners'][number], publicUrl: string): string[] {
  const credentials = [given.client_secret, given.client_secret_file, given.signature].filter(
    value => value !== undefined,
  )
  const faults = duplicates(given.tools.map(({ tool }) => tool)).map(
    tool => `tools of ${given.owner}: ${tool} stands twice.`,
  )
  if (credentials.length !== 1) {
    faults.push(
      `owner ${given.owner}: give exactly one of client_secret, client_secret_file and signature: true.`,
    )
  }
  if (!given.register && given.client_id === undefined)
    faults.push(`owner ${given.owner}: give the client_id, or register: true.`)
  if (given.register && given.signature === undefined)
    faults.push(`owner ${given.owner}: register: true needs signature: true.`)
  const resource = publicUrl + pathOf(given)
  if (given.register && given.client_id !== undefined && given.client_id !== resource)
    faults.push(`owner ${given.owner}: with register: true the client_id is ${resource}; leave it out.`)
  for (const { tool, resource_id } of given.tools) {
    if (!isBelow(resource_id, [given.owner, ...given.namespaces])) {
      faults.push(
        `tools of ${given.owner}: the resource_id of ${tool} must start with ${given.owner}/ or one of her namespaces, and go on.`,
      )
    }
  }
  return [...faults, ...organizationFaults(given), ...tableFaults(given)]
}

function tableFaults({ owner, api = [], tools }: SidecarFile['owners'][number]): string[] {
  const names = tools.map(({ tool }) => tool)
  const shapes = api.map(({ method, path }) => `${method} ${templateShape(path)}`)
  return [
    ...api
      .filter(({ tool }) => !names.includes(tool))
      .map(
        ({ method, path, tool }) =>
          `api of ${owner}: ${method} ${path} names ${tool}, which is none of tools.`,
      ),
    ...duplicates(shapes).map(shape => `api of ${owner}: ${shape} stands twice; one path must be one tool.`),
    ...(api.length === 0 ? [] : names)
      .filter(name => !api.some(({ tool }) => tool === name))
      .map(name => `api of ${owner}: no method and path is ${name}; add one, or leave the tool out.`),
  ]
}

function isSecure(text: string, devLoopback: boolean): boolean {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (devLoopback && isLoopbackHost(hostname))
}
