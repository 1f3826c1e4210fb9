/**
 * Owns configuration: the only reader of `process.env`. Contract: "Limits" and "Authentication". One schema
 * per process (in config/), from which docs/configuration.md is written too.
 */
import {
  AUTHORITY_SETTINGS,
  ENROLMENT_SETTINGS,
  loadAuthorityFiles,
  MIGRATION_SETTINGS,
  type AuthorityConfig,
} from './config/authority.ts'
import { CLIENT_SETTINGS } from './config/client.ts'
import { PROVISION_FILE } from './config/provision.ts'
import { DEV_SETTINGS } from './config/dev.ts'
import { ORGANIZATION_FILE } from './config/organization-file.ts'
import {
  loadOrganizationFiles,
  ORGANIZATION_MIGRATION_SETTINGS,
  ORGANIZATION_SETTINGS,
  type OrganizationConfig,
} from './config/organization.ts'
import { configurationPage } from './config/reference.ts'
import { ConfigFault, readSettings, type Environment, type Values } from './config/settings.ts'
import { SIDECAR_FILE } from './config/sidecar-file.ts'
import {
  EMBEDDED_SETTINGS,
  loadEmbedded,
  loadSidecarFile,
  SIDECAR_SETTINGS,
  type EmbeddedConfig,
  type SidecarConfig,
} from './config/sidecar.ts'
import { traceExport, TRACING_SETTINGS } from './config/tracing.ts'
import type { TraceExport } from './http/otlp.ts'

export { ConfigFault } from './config/settings.ts'
export type { NamedCertificates } from './config/files.ts'
export type { AuthorityConfig } from './config/authority.ts'
export type { OrganizationConfig } from './config/organization.ts'
export type { ProvisionedOwner } from './config/provision.ts'
export type { EmbeddedConfig, SidecarConfig, SidecarOwner, PatCredential } from './config/sidecar.ts'
export type { SidecarOrganization } from './config/sidecar-organization.ts'

/** Every variable of every process: one environment may serve several of them. */
const KNOWN: ReadonlySet<string> = new Set(
  [AUTHORITY_SETTINGS, ORGANIZATION_SETTINGS, SIDECAR_SETTINGS, CLIENT_SETTINGS].flatMap(({ settings }) =>
    Object.values(settings).map(({ variable }) => variable),
  ),
)

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

/** What `usher authority enrol` works with: the database, and how long a code lives. Throws `ConfigFault`. */
export function readEnrolmentConfig(
  environment: Environment = process.env,
): Values<typeof ENROLMENT_SETTINGS.settings> {
  return readSettings(ENROLMENT_SETTINGS, environment, KNOWN)
}

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

/**
 * The configuration of `usher sidecar`; a path given on the command line wins over `UMA_PEP_CONFIG`. Throws
 * `ConfigFault`.
 */
export function readSidecarConfig(path?: string, environment: Environment = process.env): SidecarConfig {
  const given = path === undefined ? environment : { ...environment, UMA_PEP_CONFIG: path }
  const config = loadSidecarFile(readSettings(SIDECAR_SETTINGS, given, KNOWN))
  return { ...config, traces: readTraces(environment, 'usher-sidecar') }
}

/** How a server process of this name exports traces; undefined where it does not. Throws `ConfigFault`. */
function readTraces(environment: Environment, name: string): TraceExport | undefined {
  const otel = Object.entries(environment).filter(([variable]) => variable.startsWith('OTEL_'))
  return traceExport(readSettings(TRACING_SETTINGS, Object.fromEntries(otel), KNOWN), name)
}

/**
 * The configuration of an embedded enforcement point: from an object, a file, or the file that
 * `UMA_PEP_CONFIG` names. Throws `ConfigFault`, also where `ENFORCEMENT_MODE` says that a gateway enforces.
 */
export function readEmbeddedConfig(
  source?: string | object,
  environment: Environment = process.env,
): EmbeddedConfig {
  // Empty is unset, as for every setting.
  const given = { ...environment, ENFORCEMENT_MODE: environment.ENFORCEMENT_MODE || 'embedded' }
  const { configFile, ...values } = readSettings(EMBEDDED_SETTINGS, given, KNOWN)
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
    { group: AUTHORITY_SETTINGS, file: { title: 'The provisioning file (YAML)', schema: PROVISION_FILE } },
    {
      group: ORGANIZATION_SETTINGS,
      file: { title: "The organization's provisioning file (YAML)", schema: ORGANIZATION_FILE },
    },
    { group: SIDECAR_SETTINGS, file: { title: 'The configuration file (YAML)', schema: SIDECAR_FILE } },
    { group: TRACING_SETTINGS },
    { group: CLIENT_SETTINGS },
    { group: DEV_SETTINGS },
  ])
}
