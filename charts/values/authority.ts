/**
 * Owns the values of the authority: what docs/configuration.md says of its variables, and the Secrets they
 * come from.
 */
import { z } from 'zod'
import { AUTHORITY_SETTINGS } from '../../src/config/authority.ts'
import { PROVISION_FILE } from '../../src/config/provisioning/provision.ts'
import {
  CLIENT_SECRETS,
  dataKey,
  flag,
  httpsUrl,
  listenerCertificate,
  migration,
  mountedSecrets,
  objectName,
  provisioningFile,
  realmSecret,
  secretKey,
  variables,
} from './pieces.ts'
import { podValues } from './pods.ts'

/** Set by the chart, from values of other names. */
const OWN = [
  'UMA_AS_ISSUER',
  'UMA_AS_OWNER_URL',
  'DATABASE_URL',
  // It holds passwords: from a Secret, by `extraEnv`.
  'UMA_AS_CELLS',
  'UMA_AS_KEYS_FILE',
  'UMA_AS_NOTIFICATION_KEY_FILE',
  'UMA_AS_LOG_KEYS_FILE',
  'UMA_AS_LISTEN',
  'UMA_AS_OWNER_LISTEN',
  'UMA_AS_METRICS_LISTEN',
  'UMA_AS_TLS_CERT_FILE',
  'UMA_AS_TLS_KEY_FILE',
  'UMA_AS_PROVISION',
  'UMA_AS_MIGRATE',
  'UMA_SPEC_NS',
  'UMA_DEV_LOOPBACK',
] as const

export const AUTHORITY = z.strictObject({
  enabled: flag(true).describe('Run the authorization server.'),
  issuer: httpsUrl
    .default('')
    .describe(
      '**Required.** Its public base URL, `https://…` without a path: the `iss` of everything it signs.',
    ),
  ownerUrl: httpsUrl
    .default('')
    .describe('Base URL of the owner API, if it is not reached below the issuer.'),
  database: secretKey('the URL of Postgres', { name: 'usher-database', key: 'uri' }),
  keys: secretKey('the private signing keys, `{"keys": [JWK, …]}`', {
    name: 'usher-authority-keys',
    key: 'keys.json',
  }),
  notificationKey: z
    .strictObject({
      existingSecret: objectName.describe(
        'Name of the Secret with the private P-256 key by which owners are notified (`usher keys new-notification`); empty: nobody is.',
      ),
      key: dataKey('notification.json'),
    })
    .prefault({})
    .describe('The Secret with the key by which owners are notified.'),
  logKeys: z
    .strictObject({
      existingSecret: objectName.describe(
        'Name of the Secret with the private keys that sign checkpoints of ledgers, `{"keys": [JWK, …]}`; empty: there are none.',
      ),
      key: dataKey('log-keys.json'),
    })
    .prefault({})
    .describe('The Secret with the keys that sign checkpoints of ledgers.'),
  provisioning: provisioningFile(PROVISION_FILE, {
    key: 'provisioning.yaml',
    secrets: CLIENT_SECRETS,
    without: ', or none',
  }).describe('Owners, resource servers and tiers that are there from the start.'),
  clientSecrets: mountedSecrets(
    CLIENT_SECRETS,
    'Secrets of resource servers, for `client_secret_file` of the provisioning file.',
  ),
  oidc: realmSecret('UMA_AS', "The owner's OIDC realm."),
  tls: listenerCertificate('both listeners'),
  settings: variables(AUTHORITY_SETTINGS.settings, OWN),
  migration: migration('each authority', 'usher-database-ddl'),
  ...podValues({
    replicas: 2,
    service: 'the public port (9100)',
    resources: { requests: { cpu: '100m', memory: '192Mi' }, limits: { memory: '512Mi' } },
  }),
})
