/**
 * Owns the settings of `usher organization`. contract, "Limits" and "The organization's authority".
 */
import type { TraceExport } from '../http/otlp.ts'
import type { RealmPolicy } from '../rules/owner-token.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { databaseUrl } from './database.ts'
import { collectFaults, readCertificates, readKeysFile, type NamedCertificates } from './files.ts'
import { oidcFaults, oidcSettings, realmPolicy } from './oidc.ts'
import { loadOrganizationFile, type ProvisionedOrganization } from './organization-file.ts'
import {
  choices,
  defaulted,
  defineSettings,
  filePath,
  insecureUrlFault,
  issuers,
  listenAddress,
  logLevel,
  name,
  optional,
  required,
  signingAlg,
  text,
  toggle,
  url,
  wholeNumber,
  type Values,
} from './settings.ts'

const DAY_SECONDS = 86_400

export const ORGANIZATION_SETTINGS = defineSettings({
  title: 'usher organization',
  settings: {
    issuer: required('UMA_ORG_ISSUER', url, {
      description:
        'The public base URL: the `iss` of everything signed, and the scheme and authority of every signature base.',
    }),
    id: required('UMA_ORG_ID', name, {
      description: 'What the organization is called in tokens and records: letters, digits, `.`, `_`, `-`.',
    }),
    name: required('UMA_ORG_NAME', text, { description: 'What its members are shown.' }),
    databaseUrl,
    databaseWaitSeconds: defaulted('UMA_ORG_DATABASE_WAIT_SECONDS', wholeNumber(0, 3600), '30', {
      description: 'How long a start waits for the database before it gives up.',
      unit: 'seconds',
    }),
    keysFile: required('UMA_ORG_KEYS_FILE', filePath, {
      description:
        'Private signing keys as `{"keys": [JWK, …]}`, the same for all replicas; the first signs, all are published.',
    }),
    signingAlg,
    listen: defaulted('UMA_ORG_LISTEN', listenAddress, '127.0.0.1:9300', {
      description: 'Where authorization servers of members are served.',
    }),
    adminListen: defaulted('UMA_ORG_ADMIN_LISTEN', listenAddress, '127.0.0.1:9301', {
      description: 'Where the administration is served; the public listener answers 404 to it.',
    }),
    metricsListen: defaulted('UMA_ORG_METRICS_LISTEN', listenAddress, '127.0.0.1:9302', {
      description:
        'Where `/metrics` is served, in plain HTTP; it names no member, and is for operators alone.',
    }),
    drainMs: defaulted('UMA_ORG_DRAIN_MS', wholeNumber(0, 300_000), '5000', {
      description:
        'On SIGTERM: how long to go on answering while `/health` says 503 and every answer closes its connection.',
      unit: 'milliseconds',
    }),
    tlsCertFile: optional('UMA_ORG_TLS_CERT_FILE', filePath, {
      description:
        'Certificate chain, PEM, for both listeners; without it they speak plain HTTP behind your proxy.',
    }),
    tlsKeyFile: optional('UMA_ORG_TLS_KEY_FILE', filePath, {
      description: 'Private key of that certificate, PEM.',
    }),
    provisionFile: required('UMA_ORG_PROVISION', filePath, {
      description: 'YAML that declares the first charter and who administers.',
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
    sweepSeconds: defaulted('UMA_ORG_SWEEP_SECONDS', wholeNumber(1, 3600), '60', {
      description: 'Pause between two sweeps of rows that no answer can depend on any more.',
      unit: 'seconds',
    }),
    migrate: defaulted('UMA_ORG_MIGRATE', toggle, 'true', {
      description:
        'Bring the database up to date at the start; otherwise run `usher organization migrate` first.',
    }),
    poolMax: defaulted('UMA_ORG_POOL_MAX', wholeNumber(2, 500), '20', {
      description: 'Most connections to Postgres that one process holds, beside one to be told the time by.',
      unit: 'connections',
    }),
    devLoopback: defaulted('UMA_DEV_LOOPBACK', toggle, 'false', {
      description: 'Development only: admits http and loopback addresses, for literal loopback hosts.',
    }),
    logLevel: defaulted('UMA_ORG_LOG_LEVEL', logLevel, 'info', {
      description: 'Least severe log line written.',
    }),
  },
  check: values => [
    ...insecureUrlFault('UMA_ORG_ISSUER', values.issuer, values.devLoopback),
    ...(new URL(values.issuer).origin === values.issuer
      ? []
      : ['UMA_ORG_ISSUER: give scheme and authority only; the documents found at it stand at the root.']),
    ...(values.authorities ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_ORG_AUTHORITIES', issuer, values.devLoopback),
    ),
    ...(values.adminAuth.includes('oidc') ? oidcFaults(values, 'UMA_ORG', 'UMA_ORG_ADMIN_AUTH') : []),
    ...((values.tlsCertFile === undefined) === (values.tlsKeyFile === undefined)
      ? []
      : ['Set both UMA_ORG_TLS_CERT_FILE and UMA_ORG_TLS_KEY_FILE, or neither.']),
  ],
})

/** What `usher organization migrate` needs of them. */
export const ORGANIZATION_MIGRATION_SETTINGS = defineSettings({
  title: 'usher organization migrate',
  settings: {
    databaseUrl,
    databaseWaitSeconds: ORGANIZATION_SETTINGS.settings.databaseWaitSeconds,
  },
})

/** What `usher organization` runs with: its settings, and the contents of the files they name. */
export interface OrganizationConfig extends Values<typeof ORGANIZATION_SETTINGS.settings> {
  keys: PrivateKey[]
  tls: NamedCertificates<'cert' | 'key'> | undefined
  provisioned: ProvisionedOrganization
  /** What is wanted of administrators' access tokens; undefined where `oidc` is not among the credentials taken. */
  realm: RealmPolicy | undefined
  /** How traces are exported, as the environment says; undefined where they are off. */
  traces: TraceExport | undefined
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadOrganizationFiles(
  values: Values<typeof ORGANIZATION_SETTINGS.settings>,
): OrganizationConfig {
  const config: OrganizationConfig = {
    ...values,
    keys: [],
    tls: undefined,
    provisioned: { charter: undefined, administrators: [] },
    realm: values.adminAuth.includes('oidc') ? realmPolicy(values) : undefined,
    traces: undefined,
  }
  collectFaults<void>([
    () => {
      config.keys = readKeysFile('UMA_ORG_KEYS_FILE', values.keysFile, values.signingAlg)
    },
    () => {
      if (values.tlsCertFile === undefined || values.tlsKeyFile === undefined) return
      config.tls = readCertificates({
        cert: ['UMA_ORG_TLS_CERT_FILE', values.tlsCertFile],
        key: ['UMA_ORG_TLS_KEY_FILE', values.tlsKeyFile],
      })
    },
    () => {
      config.provisioned = loadOrganizationFile(values.provisionFile)
    },
  ])
  return config
}
