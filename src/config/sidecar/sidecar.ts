/**
 * Owns the configuration of `usher sidecar`: one YAML file. Contract: "Resource server enforcement point" and
 * "Authorized call": owners, their authorities, tools and the public URL are configured, never taken from a
 * request.
 */
import { asClientId, asOwner, type ClientId, type Owner } from '../../wire/identifiers.ts'
import type { TraceExport } from '../../http/telemetry/otlp.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { isJsonObject } from '../../wire/json.ts'
import { DEFAULT_SPEC_NS } from '../../wire/names.ts'
import {
  checkDirectory,
  collectFaults,
  readCertificates,
  readKeysFile,
  readSecretFile,
  readYamlFile,
  type NamedCertificates,
} from '../files.ts'
import { issueSentences } from '../issues.ts'
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
} from '../settings.ts'
import { gatewayFaults, ownerFaults, sidecarFaults } from './sidecar-faults.ts'
import { approvalReaders } from './sidecar-approval.ts'
import { jointFaults, loadJoint, withAuthority, type SidecarJoint } from './sidecar-joint.ts'
import { loadOrganization, type SidecarOrganization } from './sidecar-organization.ts'
import { ownedResources, placeFaults, placeWarnings } from './sidecar-resources.ts'
import {
  SIDECAR_FILE,
  type OwnedResource,
  type SidecarFile,
  type SidecarMethods,
  type SidecarOperation,
  type SidecarTool,
} from './sidecar-file.ts'

export const SIDECAR_SETTINGS = defineSettings({
  title: 'usher sidecar',
  settings: {
    configFile: required('UMA_PEP_CONFIG', filePath, {
      description:
        'The file of the sidecar in YAML (its members are in docs/configuration.md), or give it as `--config <file>`.',
    }),
    mode: defaulted('ENFORCEMENT_MODE', choice(['gateway', 'embedded']), 'gateway', {
      description:
        'The place where calls are enforced: `gateway`, by this process; `embedded`, by the resource itself (`@usher-authz/usher/embedded`, which refuses to start under `gateway`, as this process does under `embedded`).',
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
  title: '@usher-authz/usher/embedded',
  settings: {
    ...SIDECAR_SETTINGS.settings,
    configFile: optional('UMA_PEP_CONFIG', filePath, {
      description: SIDECAR_SETTINGS.settings.configFile.description,
    }),
  },
})

/** How the sidecar proves itself when it asks for a PAT. */
export type PatCredentialSetting = { kind: 'secret'; secret: string } | { kind: 'signature' }

/** One resource of an owner, and everything that is configured about her. */
export interface SidecarOwner {
  owner: Owner
  path: string
  authority: string
  client_id: ClientId
  credential: PatCredentialSetting
  /** Whether to register with her authority at the start, and under which name. */
  register: { name: string | undefined } | undefined
  /** The organization above her; undefined if there is none. */
  organization: SidecarOrganization | undefined
  /** The tally that answers for her, an account; undefined if she holds what is hers alone. */
  joint: SidecarJoint | undefined
  tools: SidecarTool[]
  /** The table of a plain API; undefined for MCP. */
  api: SidecarOperation[] | undefined
  /** What MCP methods other than `tools/call` need; undefined if none is mapped. */
  methods: SidecarMethods | undefined
  /** Where the MCP server behind the gateway is; it is only looked at. */
  upstream?: string | undefined
}

/** The configuration of `usher sidecar`: the file's values, and the contents of the files it names. */
export interface SidecarConfig
  extends
    Omit<
      SidecarFile,
      'owners' | 'check_tls' | 'http_tls' | 'keys_file' | 'authority_ca_file' | 'authorities'
    >,
    Pick<Values<typeof SIDECAR_SETTINGS.settings>, 'specNs' | 'devLoopback' | 'logLevel'> {
  /** The file itself, which is read again for its owners. */
  configFile: string
  owners: SidecarOwner[]
  keys: PrivateKey[]
  /** Each file as it was read at the start, with its path for reading it again. */
  checkTls: NamedCertificates<'cert' | 'key' | 'ca'> | undefined
  /** One of them must be in a certificate that asks; any certificate of the CA may ask if undefined. */
  checkClientNames: readonly string[] | undefined
  httpTls: NamedCertificates<'cert' | 'key'> | undefined
  authorityCa: NamedCertificates<'ca'> | undefined
  /** Further addresses of authorities besides their issuer. */
  authorityAddresses: ReadonlyMap<string, readonly string[]>
  /** The `typ` values that grants of an issuer may have beside the contract's. */
  rptTypes: ReadonlyMap<string, readonly string[]>
  /** How traces are exported, as the environment says; undefined if they are off. */
  traces: TraceExport | undefined
}

type SidecarValues = Values<typeof SIDECAR_SETTINGS.settings>

/** Judges the whole file, from the given `bytes` or as it is read. Throws `ConfigFault` with every fault. */
export function loadSidecarFile(
  values: SidecarValues,
  { make = true, bytes }: { make?: boolean; bytes?: Buffer | undefined } = {},
): SidecarConfig {
  if (values.mode !== 'gateway') {
    throw new ConfigFault([
      'ENFORCEMENT_MODE: with `embedded` the resource itself enforces, by importing @usher-authz/usher/embedded, and no sidecar runs.',
    ])
  }
  const judged = judgeFile(readYamlFile('UMA_PEP_CONFIG', values.configFile, bytes), values, gatewayFaults)
  return { ...loadJudged(judged, values, make), configFile: values.configFile }
}

/** The configuration of an embedded enforcement point: everything but a sidecar's listeners. */
export type EmbeddedConfig = Omit<
  SidecarConfig,
  | 'listen'
  | 'checkTls'
  | 'checkClientNames'
  | 'httpTls'
  | 'network_trusted'
  | 'drain_ms'
  | 'idle_seconds'
  | 'configFile'
>

/**
 * Stands in for the addresses of a sidecar in a file that has none: an embedded enforcement point listens
 * nowhere.
 */
const NO_LISTENERS = { check: 'unix:/nowhere', http: 'unix:/nowhere' }

/**
 * The same for an embedded enforcement point: from the file, or from an object of the same form. `listen` may
 * be left out. Members that only concern a sidecar's listeners are checked against the schema but not used.
 * Throws `ConfigFault`.
 */
export function loadEmbedded(values: Omit<SidecarValues, 'configFile'>, source: unknown): EmbeddedConfig {
  if (values.mode !== 'embedded') {
    throw new ConfigFault([
      'ENFORCEMENT_MODE: with `gateway` a sidecar enforces in front of the resource; set `embedded`, or leave it unset, to enforce inside.',
    ])
  }
  const read = typeof source === 'string' ? readYamlFile('the configuration', source) : source
  const whole = isJsonObject(read) ? { listen: NO_LISTENERS, ...read } : read
  const { document, faults } = judgeFile(whole, values, () => [])
  return loadJudged(
    { document: { ...document, check_tls: undefined, http_tls: undefined }, faults },
    values,
    true,
  )
}

function judgeFile(
  read: unknown,
  { devLoopback }: Pick<SidecarValues, 'devLoopback'>,
  faultsOfMode: (document: SidecarFile) => string[],
): JudgedFile {
  const result = SIDECAR_FILE.safeParse(read)
  if (!result.success)
    throw new ConfigFault(
      issueSentences(result.error.issues, { schema: SIDECAR_FILE, name: 'UMA_PEP_CONFIG' }),
    )
  const written = result.data
  const misplaced = placeFaults(written)
  const owned = misplaced.length > 0 ? [] : ownedResources(written)
  const askingNobody = owned.flatMap(jointFaults)
  if (misplaced.length + askingNobody.length > 0)
    throw new ConfigFault([...new Set([...misplaced, ...askingNobody])])
  const { resources: _shared, ...whole } = written
  const warnings = placeWarnings(written)
  const document: SidecarFile = { ...whole, owners: owned.map(withAuthority), warnings }
  const faults = [
    ...sidecarFaults(document, written.owners, devLoopback),
    ...faultsOfMode(document),
    ...document.owners.flatMap(one => ownerFaults(one, document.public_url)),
  ]
  // A member of an owner is found again with each of her resources.
  return { document, faults: [...new Set(faults)] }
}

/** The resources of every owner in a well-formed file, whose faults are not judged, and its public URL. */
export function readOwnedResources(
  name: string,
  file: string,
): { owned: OwnedResource[]; publicUrl: string } {
  const result = SIDECAR_FILE.safeParse(readYamlFile(name, file))
  if (!result.success)
    throw new ConfigFault(issueSentences(result.error.issues, { schema: SIDECAR_FILE, name }))
  const misplaced = placeFaults(result.data)
  if (misplaced.length > 0) throw new ConfigFault(misplaced)
  return { owned: ownedResources(result.data), publicUrl: result.data.public_url }
}

/** A well-formed file, and the faults of its content. */
interface JudgedFile {
  document: SidecarFile
  faults: string[]
}

/**
 * Reads the files that it names; if it has faults, this only serves to report the faults of these files, too.
 */
function loadJudged(
  { document, faults }: JudgedFile,
  values: NamedValues,
  make: boolean,
): Omit<SidecarConfig, 'configFile'> {
  if (faults.length === 0) return loadNamedFiles(document, values, make)
  collectFaults<unknown>([
    () => {
      throw new ConfigFault(faults)
    },
    () => loadNamedFiles({ ...document, owners: [] }, values, make),
    ...document.owners.map(
      ({ owner, client_secret_file: file }) =>
        () =>
          file && readOwnerSecret(owner, file),
    ),
  ])
  throw new ConfigFault(faults)
}

function readOwnerSecret(owner: string, file: string): string {
  return readSecretFile(`client_secret_file of ${owner}`, file)
}

type NamedValues = Pick<
  SidecarValues,
  'requireContentDigest' | 'signingAlg' | 'specNs' | 'devLoopback' | 'logLevel'
>

function loadNamedFiles(
  document: SidecarFile,
  values: NamedValues,
  make: boolean,
): Omit<SidecarConfig, 'configFile'> {
  const { owners, check_tls, http_tls, keys_file, authority_ca_file, authorities, ...rest } = document
  const { specNs, devLoopback, logLevel } = values
  const config: Omit<SidecarConfig, 'configFile'> = {
    ...rest,
    require_content_digest: rest.require_content_digest || values.requireContentDigest,
    specNs,
    devLoopback,
    logLevel,
    owners: [],
    keys: [],
    checkTls: undefined,
    checkClientNames: check_tls?.client_names,
    httpTls: undefined,
    authorityCa: undefined,
    authorityAddresses: new Map(
      authorities.flatMap(({ issuer, addresses }) => (addresses.length === 0 ? [] : [[issuer, addresses]])),
    ),
    rptTypes: new Map(authorities.map(({ issuer, rpt_types }) => [issuer, rpt_types])),
    traces: undefined,
  }
  collectFaults<unknown>([
    () => (config.keys = readKeysFile('keys_file', keys_file, values.signingAlg)),
    () => {
      if (rest.reports.state_dir !== undefined)
        checkDirectory('reports.state_dir', rest.reports.state_dir, { make })
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
    ...owners.flatMap(one => approvalReaders(one, make)),
    ...owners.map(entry => () => config.owners.push(loadOwner(entry, rest.public_url))),
  ])
  return config
}

function loadOwner(entry: SidecarFile['owners'][number], publicUrl: string): SidecarOwner {
  const { client_secret, client_secret_file, register, name, owner, authority, path } = entry
  const { tools, api, methods, upstream } = entry
  const secret = client_secret_file === undefined ? client_secret : readOwnerSecret(owner, client_secret_file)
  const credential: PatCredentialSetting =
    secret === undefined ? { kind: 'signature' } : { kind: 'secret', secret }
  return {
    owner: asOwner(owner),
    authority,
    tools,
    api,
    methods,
    upstream,
    path,
    client_id: asClientId(entry.client_id ?? publicUrl + path),
    credential,
    register: register ? { name } : undefined,
    organization: loadOrganization(entry),
    joint: loadJoint(entry),
  }
}
