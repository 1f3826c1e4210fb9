/**
 * Owns the values of a witness: what docs/configuration.md says of its variables, and the Secrets they come
 * from.
 */
import { z } from 'zod'
import { WITNESS_FILE } from '../../src/config/witness/witness-file.ts'
import { WITNESS_SETTINGS } from '../../src/config/witness/witness.ts'
import {
  dataKey,
  flag,
  httpsUrl,
  listenerCertificate,
  objectName,
  secretKey,
  usherFile,
  variables,
} from './pieces.ts'
import { podValues } from './pods.ts'

/** Set by the chart, from values of other names. */
const OWN = [
  'UMA_WITNESS_ISSUER',
  'DATABASE_URL',
  'UMA_WITNESS_KEYS_FILE',
  'UMA_WITNESS_LISTEN',
  'UMA_WITNESS_METRICS_LISTEN',
  'UMA_WITNESS_TLS_CERT_FILE',
  'UMA_WITNESS_TLS_KEY_FILE',
  'UMA_WITNESS_LOGS',
  'UMA_DEV_LOOPBACK',
] as const

const ISSUERS = z.strictObject({
  existingSecret: objectName.describe('Name of a Secret with the file of issuers; empty: `config`.'),
  key: dataKey('witness.yaml'),
  config: usherFile(
    WITNESS_FILE,
    'The file of issuers itself (docs/configuration.md). Nothing in it is secret.',
  ),
})

export const WITNESS = z.strictObject({
  enabled: flag(false).describe(
    "Run a witness, which cosigns heads of other authorities' ledgers (docs/proof.md).",
  ),
  issuer: httpsUrl
    .default('')
    .describe('**Required if it runs.** Its public base URL, `https://…` without a path.'),
  database: secretKey('the URL of its Postgres, which no other party uses', {
    name: 'usher-witness-database',
    key: 'uri',
  }),
  keys: secretKey('its private signing keys, `{"keys": [JWK, …]}`, which sign nothing else', {
    name: 'usher-witness-keys',
    key: 'keys.json',
  }),
  issuers: ISSUERS.prefault({}).describe(
    '**Required if it runs.** The authorities whose logs it takes, and the keys of those logs.',
  ),
  tls: listenerCertificate(),
  settings: variables(WITNESS_SETTINGS.settings, OWN),
  ...podValues({
    replicas: 2,
    service: 'the public port (9500)',
    resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '256Mi' } },
  }),
})
