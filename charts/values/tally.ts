/**
 * Owns the values of a tally: what docs/configuration.md says of its variables, and the Secrets they come
 * from.
 */
import { z } from 'zod'
import { TALLY_FILE } from '../../src/config/tally-file.ts'
import { TALLY_SETTINGS } from '../../src/config/tally.ts'
import {
  certificate,
  dataKey,
  flag,
  httpsUrl,
  objectName,
  podValues,
  secretKey,
  usherFile,
  variables,
} from './pieces.ts'

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

const accounts = z.strictObject({
  existingSecret: objectName.describe('Name of a Secret with the provisioning file; empty: `config`.'),
  key: dataKey('tally.yaml'),
  config: usherFile(
    TALLY_FILE,
    'The provisioning file itself (docs/configuration.md). Secrets go into `clientSecrets`, named as `client_secret_file: /etc/usher/client-secrets/<key>`.',
  ),
})

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
  accounts: accounts
    .prefault({})
    .describe(
      '**Required if it runs.** The accounts, their holders, and the resources registered below them.',
    ),
  clientSecrets: z
    .strictObject({
      existingSecret: objectName.describe(
        'Name of a Secret whose keys are mounted as the files `/etc/usher/client-secrets/<key>`.',
      ),
    })
    .prefault({})
    .describe('Secrets of resource servers, for `client_secret_file` of the provisioning file.'),
  tls: certificate('the certificate of its listeners').describe(
    'TLS of its listeners; without it they speak plain HTTP to what ends TLS in front of them.',
  ),
  settings: variables(
    TALLY_SETTINGS.settings,
    OWN,
    'Its variables by their own names (docs/configuration.md); lists as lists.',
  ),
  ...podValues({
    replicas: 2,
    resources: { requests: { cpu: '100m', memory: '160Mi' }, limits: { memory: '384Mi' } },
  }),
})
