/**
 * Owns configuration: the only reader of `process.env`. Contract: "Limits" and "Authentication". One schema
 * per process (in config/), from which docs/configuration.md is written too.
 */
import { ADMINISTRATORS_FILE } from './config/provisioning/administrators.ts'
import {
  AUTHORITY_SETTINGS,
  authorityWarnings,
  loadAuthorityFiles,
  MIGRATION_SETTINGS,
  OWNERS_SETTINGS,
  type AuthorityConfig,
} from './config/authority.ts'
import { CLIENT_SETTINGS } from './config/client.ts'
import { PROVISION_FILE } from './config/provisioning/provision.ts'
import { DEV_SETTINGS } from './config/dev.ts'
import { ORGANIZATION_FILE } from './config/provisioning/organization-file.ts'
import {
  loadOrganizationFiles,
  ORGANIZATION_MIGRATION_SETTINGS,
  ORGANIZATION_SETTINGS,
  type OrganizationConfig,
} from './config/organization.ts'
import { configurationPage } from './config/reference.ts'
import { ConfigFault, readSettings, settingFaults, type Environment, type Values } from './config/settings.ts'
import { isServiceLink } from './config/service-links.ts'
import { approvalWarnings } from './config/sidecar/sidecar-approval.ts'
import { SIDECAR_FILE } from './config/sidecar/sidecar-file.ts'
import {
  EMBEDDED_SETTINGS,
  loadEmbedded,
  loadSidecarFile,
  SIDECAR_SETTINGS,
  type EmbeddedConfig,
  type SidecarConfig,
} from './config/sidecar/sidecar.ts'
import { loadTallyFiles, TALLY_MIGRATION_SETTINGS, TALLY_SETTINGS, type TallyConfig } from './config/tally.ts'
import { TALLY_FILE } from './config/provisioning/tally-file.ts'
import { traceExport, TRACING_SETTINGS } from './config/tracing.ts'
import {
  loadWitnessFiles,
  WITNESS_KEYS_SETTINGS,
  WITNESS_MIGRATION_SETTINGS,
  WITNESS_SETTINGS,
  witnessName,
  type WitnessConfig,
} from './config/witness/witness.ts'
import { WITNESS_FILE } from './config/witness/witness-file.ts'
import { readKeysFile } from './config/files.ts'
import type { TraceExport } from './http/telemetry/otlp.ts'

export { ConfigFault } from './config/settings.ts'
export type { NamedCertificates } from './config/files.ts'
export { authorityWarnings, type AuthorityConfig } from './config/authority.ts'
export type { OrganizationConfig } from './config/organization.ts'
export type { TallyConfig } from './config/tally.ts'
export type { WitnessConfig } from './config/witness/witness.ts'
export type { ProvisionedAccount } from './config/provisioning/tally-file.ts'
export type { ProvisionedOwner } from './config/provisioning/provision.ts'
export type { EmbeddedConfig, SidecarConfig, SidecarOwner } from './config/sidecar/sidecar.ts'
export {
  proposedProvision,
  provisionedFile,
  provisionedFrom,
} from './config/provisioning/proposed-provision.ts'
export { readConfiguredSurface } from './config/sidecar/sidecar-surfaces.ts'
export { readOwnedResources } from './config/sidecar/sidecar.ts'
export type { ToolPart } from './config/sidecar/sidecar-file.ts'
export type { SidecarJoint } from './config/sidecar/sidecar-joint.ts'
export type { SidecarOrganization } from './config/sidecar/sidecar-organization.ts'

/** Every variable of every process: one environment may serve several of them. */
const KNOWN: ReadonlySet<string> = new Set(
  [
    AUTHORITY_SETTINGS,
    ORGANIZATION_SETTINGS,
    TALLY_SETTINGS,
    WITNESS_SETTINGS,
    SIDECAR_SETTINGS,
    CLIENT_SETTINGS,
  ].flatMap(({ settings }) => Object.values(settings).map(({ variable }) => variable)),
)

/** Whether any variable that begins so is set, by somebody who configures usher. */
export function isConfigured(prefix: string, environment: Environment = process.env): boolean {
  return Object.entries(environment).some(
    ([name, value]) => name.startsWith(prefix) && value !== '' && !isServiceLink(name, environment),
  )
}

/** The configuration of `usher authority`. Throws `ConfigFault` listing every fault. */
export function readAuthorityConfig(environment: Environment = process.env): AuthorityConfig {
  const config = loadAuthorityFiles(readSettings(AUTHORITY_SETTINGS, environment, KNOWN))
  return { ...config, traces: readTraces(environment, 'usher-authority') }
}

/**
 * The database that `usher migrate` brings up to date, and how long it waits for it. Throws `ConfigFault`.
 */
export function readMigrationConfig(
  environment: Environment = process.env,
): Values<typeof MIGRATION_SETTINGS.settings> {
  return readSettings(MIGRATION_SETTINGS, environment, KNOWN)
}

/**
 * What `usher authority owner …` works with: the database, how codes live, where archives go. Throws
 * `ConfigFault`.
 */
export function readOwnersConfig(environment: Environment = process.env): OwnersConfig {
  return readSettings(OWNERS_SETTINGS, environment, KNOWN)
}

export type OwnersConfig = Values<typeof OWNERS_SETTINGS.settings>

/** The configuration of `usher organization`. Throws `ConfigFault` listing every fault. */
export function readOrganizationConfig(environment: Environment = process.env): OrganizationConfig {
  const config = loadOrganizationFiles(readSettings(ORGANIZATION_SETTINGS, environment, KNOWN))
  return { ...config, traces: readTraces(environment, 'usher-organization') }
}

/**
 * The database that `usher organization migrate` brings up to date, and how long it waits for it. Throws
 * `ConfigFault`.
 */
export function readOrganizationMigrationConfig(
  environment: Environment = process.env,
): Values<typeof ORGANIZATION_MIGRATION_SETTINGS.settings> {
  return readSettings(ORGANIZATION_MIGRATION_SETTINGS, environment, KNOWN)
}

/** The configuration of `usher tally`. Throws `ConfigFault`. */
export function readTallyConfig(environment: Environment = process.env): TallyConfig {
  const config = loadTallyFiles(readSettings(TALLY_SETTINGS, environment, KNOWN))
  return { ...config, traces: readTraces(environment, 'usher-tally') }
}

/**
 * The database that `usher tally migrate` brings up to date, and how long it waits for it. Throws
 * `ConfigFault`.
 */
export function readTallyMigrationConfig(
  environment: Environment = process.env,
): Values<typeof TALLY_MIGRATION_SETTINGS.settings> {
  return readSettings(TALLY_MIGRATION_SETTINGS, environment, KNOWN)
}

/** The configuration of `usher witness`. Throws `ConfigFault`. */
export function readWitnessConfig(environment: Environment = process.env): WitnessConfig {
  const config = loadWitnessFiles(readSettings(WITNESS_SETTINGS, environment, KNOWN))
  return { ...config, traces: readTraces(environment, 'usher-witness') }
}

/** The keys of that witness, and their name. Throws `ConfigFault`. */
export function readWitnessKeys(
  environment: Environment = process.env,
): Pick<WitnessConfig, 'name' | 'keys'> {
  const { issuer, keysFile, signingAlg } = readSettings(WITNESS_KEYS_SETTINGS, environment, KNOWN)
  return { name: witnessName(issuer), keys: readKeysFile('UMA_WITNESS_KEYS_FILE', keysFile, signingAlg) }
}

/**
 * The database that `usher witness migrate` brings up to date, and how long it waits for it. Throws
 * `ConfigFault`.
 */
export function readWitnessMigrationConfig(
  environment: Environment = process.env,
): Values<typeof WITNESS_MIGRATION_SETTINGS.settings> {
  return readSettings(WITNESS_MIGRATION_SETTINGS, environment, KNOWN)
}

/**
 * The configuration of `usher sidecar`; a path given on the command line wins over `UMA_PEP_CONFIG`. Throws
 * `ConfigFault`.
 */
export function readSidecarConfig(
  path?: string,
  environment: Environment = process.env,
  bytes?: Buffer,
): SidecarConfig {
  const variables = path === undefined ? environment : { ...environment, UMA_PEP_CONFIG: path }
  const config = loadSidecarFile(readSettings(SIDECAR_SETTINGS, variables, KNOWN), { bytes })
  return { ...config, traces: readTraces(environment, 'usher-sidecar') }
}

/** Processes whose configuration can be checked without a start. */
export type ConfiguredParty = 'authority' | 'sidecar' | 'organization' | 'tally' | 'witness'

/**
 * All faults in the configuration of a process, one sentence each. It opens no database and no connection,
 * and makes no file and no folder. `path` is the sidecar's file and wins over `UMA_PEP_CONFIG`.
 */
export function configurationFaults(
  process_: ConfiguredParty,
  path?: string,
  environment: Environment = process.env,
): string[] {
  const variables = path === undefined ? environment : { ...environment, UMA_PEP_CONFIG: path }
  const read = { environment: variables, known: KNOWN }
  const faults = {
    authority: () => settingFaults(AUTHORITY_SETTINGS, read, loadAuthorityFiles),
    organization: () => settingFaults(ORGANIZATION_SETTINGS, read, loadOrganizationFiles),
    tally: () => settingFaults(TALLY_SETTINGS, read, loadTallyFiles),
    witness: () => settingFaults(WITNESS_SETTINGS, read, loadWitnessFiles),
    sidecar: () => settingFaults(SIDECAR_SETTINGS, read, values => loadSidecarFile(values, { make: false })),
  }[process_]()
  try {
    readTraces(variables, `usher-${process_}`)
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error
    faults.push(...error.faults)
  }
  return faults
}

/**
 * Facts of a faultless configuration that should still be different, one sentence each. Empty for one with
 * faults.
 */
export function configurationWarnings(
  process_: ConfiguredParty,
  path?: string,
  environment: Environment = process.env,
): string[] {
  if (configurationFaults(process_, path, environment).length > 0) return []
  if (process_ === 'authority') return authorityWarnings(readSettings(AUTHORITY_SETTINGS, environment, KNOWN))
  if (process_ !== 'sidecar') return []
  const variables = path === undefined ? environment : { ...environment, UMA_PEP_CONFIG: path }
  const values = readSettings(SIDECAR_SETTINGS, variables, KNOWN)
  const { owners, warnings } = loadSidecarFile(values, { make: false })
  return [...warnings, ...owners.flatMap(approvalWarnings)]
}

/** How a server process of this name exports traces; undefined if it does not. Throws `ConfigFault`. */
function readTraces(environment: Environment, name: string): TraceExport | undefined {
  const otel = Object.entries(environment).filter(([variable]) => variable.startsWith('OTEL_'))
  return traceExport(readSettings(TRACING_SETTINGS, Object.fromEntries(otel), KNOWN), name)
}

/**
 * The configuration of an embedded enforcement point: from an object, a file, or the file that
 * `UMA_PEP_CONFIG` names. Throws `ConfigFault`, also if `ENFORCEMENT_MODE` says that a gateway enforces.
 */
export function readEmbeddedConfig(
  source?: string | object,
  environment: Environment = process.env,
): EmbeddedConfig {
  // An empty value counts as unset, as for every setting.
  const variables = { ...environment, ENFORCEMENT_MODE: environment.ENFORCEMENT_MODE || 'embedded' }
  const { configFile, ...values } = readSettings(EMBEDDED_SETTINGS, variables, KNOWN)
  if (source === undefined && configFile === undefined) {
    throw new ConfigFault(['Give the configuration, or name its file in UMA_PEP_CONFIG.'])
  }
  return loadEmbedded(values, source ?? configFile)
}

/** The settings of the command-line clients. */
export type ClientConfig = Values<typeof CLIENT_SETTINGS.settings>

/**
 * The settings of `usher agent`, `usher owner` and `usher admin`; their options win over these. Throws
 * `ConfigFault`.
 */
export function readClientConfig(environment: Environment = process.env): ClientConfig {
  return readSettings(CLIENT_SETTINGS, environment, KNOWN)
}

/** The settings of `usher dev`. Throws `ConfigFault`. */
export function readDevConfig(environment: Environment = process.env): Values<typeof DEV_SETTINGS.settings> {
  return readSettings(DEV_SETTINGS, environment, KNOWN)
}

/** The text of docs/configuration.md. */
export function configurationDocs(): string {
  return configurationPage([
    {
      group: AUTHORITY_SETTINGS,
      files: [
        { title: 'The provisioning file (YAML)', schema: PROVISION_FILE },
        { title: 'The file of administrators (YAML)', schema: ADMINISTRATORS_FILE },
      ],
    },
    {
      group: ORGANIZATION_SETTINGS,
      files: [{ title: "The organization's provisioning file (YAML)", schema: ORGANIZATION_FILE }],
    },
    {
      group: TALLY_SETTINGS,
      files: [{ title: "The tally's provisioning file (YAML)", schema: TALLY_FILE }],
    },
    {
      group: WITNESS_SETTINGS,
      files: [{ title: "The witness's file of issuers (YAML)", schema: WITNESS_FILE }],
    },
    { group: SIDECAR_SETTINGS, files: [{ title: 'The configuration file (YAML)', schema: SIDECAR_FILE }] },
    { group: TRACING_SETTINGS },
    { group: CLIENT_SETTINGS },
    { group: DEV_SETTINGS },
  ])
}
