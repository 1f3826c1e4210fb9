/**
 * Owns the values of a tally: what docs/configuration.md says of its variables, and the Secrets they come
 * from.
 */
import { z } from 'zod'
import { TALLY_FILE } from '../../src/config/provisioning/tally-file.ts'
import { TALLY_SETTINGS } from '../../src/config/tally.ts'
import {
  CLIENT_SECRETS,
  flag,
  httpsUrl,
  listenerCertificate,
  mountedSecrets,
  provisioningFile,
  secretKey,
  variables,
} from './pieces.ts'
import { podValues } from './pods.ts'

/** Set by the chart, from values of other names. */
const OWN = [
  'UMA_TALLY_ISSUER',
  'DATABASE_URL',
  'UMA_TALLY_KEYS_FILE',
  'UMA_TALLY_LISTEN',
  'UMA_TALLY_METRICS_LISTEN',
  'UMA_TALLY_TLS_CERT_FILE',
  'UMA_TALLY_TLS_KEY_FILE',
  'UMA_TALLY_PROVISION',
  'UMA_SPEC_NS',
  'UMA_DEV_LOOPBACK',
] as const

export const TALLY = z.strictObject({
  enabled: flag(false).describe('Run a tally, for what several owners hold jointly (docs/tally.md).'),
  issuer: httpsUrl
    .default('')
    .describe('**Required if it runs.** Its public base URL, `https://…` without a path.'),
  database: secretKey('the URL of its Postgres, which no other party uses', {
    name: 'usher-tally-database',
    key: 'uri',
  }),
  keys: secretKey('its private signing keys, `{"keys": [JWK, …]}`', {
    name: 'usher-tally-keys',
    key: 'keys.json',
  }),
  accounts: provisioningFile(TALLY_FILE, { key: 'tally.yaml', secrets: CLIENT_SECRETS }).describe(
    '**Required if it runs.** The accounts, their holders, and the resources registered below them.',
  ),
  clientSecrets: mountedSecrets(
    CLIENT_SECRETS,
    'Secrets of resource servers, for `client_secret_file` of the provisioning file.',
  ),
  tls: listenerCertificate(),
  settings: variables(TALLY_SETTINGS.settings, OWN),
  ...podValues({
    replicas: 2,
    service: 'the public port (9400)',
    resources: { requests: { cpu: '100m', memory: '160Mi' }, limits: { memory: '384Mi' } },
  }),
})
