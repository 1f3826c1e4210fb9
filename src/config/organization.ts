/**
 * Owns the settings of `usher organization`. Contract: "Limits" and "The organization's authority".
 */
import { z } from 'zod'
import { databaseUrl } from './database.ts'
import { collectFaults } from './files.ts'
import { oidcFaults, oidcSettings, realmPolicy } from './oidc.ts'
import { loadOrganizationFile, type ProvisionedOrganization } from './provisioning/organization-file.ts'
import { serverFaults, serverFileTasks, serverSettings, type ServerFiles } from './server.ts'
import {
  choices,
  defaulted,
  defineSettings,
  filePath,
  insecureUrlFault,
  issuers,
  listenAddress,
  name,
  optional,
  required,
  toggle,
  wholeNumber,
  type Kind,
  type Values,
} from './settings.ts'
import { ORGANIZATION_NAME_MAX } from '../wire/organization/charter.ts'
import { ORGANIZATION_ALIAS, type OrganizationAlias } from '../wire/names.ts'

const DAY_SECONDS = 86_400

const organizationName: Kind<string> = {
  type: 'text',
  schema: z
    .string()
    .max(ORGANIZATION_NAME_MAX)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'Give a name without control characters.'),
  json: { type: 'string', maxLength: ORGANIZATION_NAME_MAX },
}

export const ORGANIZATION_SETTINGS = defineSettings({
  title: 'usher organization',
  settings: {
    ...serverSettings('UMA_ORG'),
    id: required('UMA_ORG_ID', name, {
      description: 'The organization’s name in tokens and records: letters, digits, `.`, `_`, `-`.',
    }),
    name: required('UMA_ORG_NAME', organizationName, { description: 'The name that its members see.' }),
    databaseUrl,
    databaseWaitSeconds: defaulted('UMA_ORG_DATABASE_WAIT_SECONDS', wholeNumber(0, 3600), '30', {
      description: 'How long a start waits for the database before it gives up.',
      unit: 'seconds',
    }),
    listen: defaulted('UMA_ORG_LISTEN', listenAddress, '127.0.0.1:9300', {
      description: 'Address that serves authorization servers of members.',
    }),
    adminListen: defaulted('UMA_ORG_ADMIN_LISTEN', listenAddress, '127.0.0.1:9301', {
      description: 'Address that serves the administration; the public listener answers 404 to it.',
    }),
    metricsListen: defaulted('UMA_ORG_METRICS_LISTEN', listenAddress, '127.0.0.1:9302', {
      description: 'Address that serves `/metrics`, in plain HTTP, for operators only. It names no member.',
    }),
    provisionFile: required('UMA_ORG_PROVISION', filePath, {
      description:
        'YAML that declares the first charter, the administrators, and the enforcement points that may ask.',
    }),
    adminAuth: defaulted('UMA_ORG_ADMIN_AUTH', choices(['device-key', 'oidc']), 'device-key', {
      description:
        'Which credentials the administration takes: signatures of device keys, access tokens of an OIDC realm, or both.',
    }),
    ...oidcSettings('UMA_ORG', { who: 'administrators', what: 'administration' }),
    authorities: optional('UMA_ORG_AUTHORITIES', issuers, {
      description:
        'Issuers whose owners may join, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    invitationSeconds: defaulted(
      'UMA_ORG_INVITATION_SECONDS',
      wholeNumber(60, 90 * DAY_SECONDS),
      String(7 * DAY_SECONDS),
      {
        description: 'Life of an invitation.',
        unit: 'seconds',
      },
    ),
    aliases: optional(
      'UMA_ORG_ALIASES',
      choices(Object.values(ORGANIZATION_ALIAS) as [OrganizationAlias, ...OrganizationAlias[]]),
      {
        description:
          'Names of other software that are accepted beside the contract’s: for the address of discovery, which is served too; for the `typ` of its own membership tokens, and of the yes of a member’s authorization server to an emergency. None when left out.',
      },
    ),
    migrate: defaulted('UMA_ORG_MIGRATE', toggle, 'true', {
      description:
        'Bring the database up to date at the start; otherwise run `usher organization migrate` first.',
    }),
    poolMax: defaulted('UMA_ORG_POOL_MAX', wholeNumber(2, 500), '20', {
      description: 'Most connections to Postgres that one process holds, beside one to be told the time by.',
      unit: 'connections',
    }),
  },
  check: values => [
    ...serverFaults('UMA_ORG', values),
    ...(values.authorities ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_ORG_AUTHORITIES', issuer, values.devLoopback),
    ),
    ...(values.adminAuth.includes('oidc') ? oidcFaults(values, 'UMA_ORG', 'UMA_ORG_ADMIN_AUTH') : []),
  ],
})

/** The settings that `usher organization migrate` needs. */
export const ORGANIZATION_MIGRATION_SETTINGS = defineSettings({
  title: 'usher organization migrate',
  settings: {
    databaseUrl,
    databaseWaitSeconds: ORGANIZATION_SETTINGS.settings.databaseWaitSeconds,
  },
})

/** The configuration of `usher organization`: its settings, and the contents of the files they name. */
export interface OrganizationConfig extends Values<typeof ORGANIZATION_SETTINGS.settings>, ServerFiles {
  provisioned: ProvisionedOrganization
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadOrganizationFiles(
  values: Values<typeof ORGANIZATION_SETTINGS.settings>,
): OrganizationConfig {
  const config: OrganizationConfig = {
    ...values,
    keys: [],
    tls: undefined,
    provisioned: { charter: undefined, administrators: [], enforcementPoints: [] },
    realm: values.adminAuth.includes('oidc') ? realmPolicy(values) : undefined,
    traces: undefined,
  }
  collectFaults<void>([
    ...serverFileTasks('UMA_ORG', values, config),
    () => {
      config.provisioned = loadOrganizationFile(values.provisionFile, values.devLoopback)
    },
  ])
  return config
}
