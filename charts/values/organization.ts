/**
 * Owns the values of an organization's authority: what docs/configuration.md says of its variables, and the
 * Secrets they come from.
 */
import { z } from 'zod'
import { ORGANIZATION_FILE } from '../../src/config/provisioning/organization-file.ts'
import { ORGANIZATION_SETTINGS } from '../../src/config/organization.ts'
import { ORGANIZATION_NAME_MAX } from '../../src/wire/organization/charter.ts'
import { NAME_PATTERN } from '../../src/wire/names.ts'
import {
  CREDENTIALS,
  flag,
  httpsUrl,
  listenerCertificate,
  migration,
  mountedSecrets,
  provisioningFile,
  realmSecret,
  secretKey,
  variables,
} from './pieces.ts'
import { podValues } from './pods.ts'

/** Set by the chart, from values of other names. */
const OWN = [
  'UMA_ORG_ISSUER',
  'UMA_ORG_ID',
  'UMA_ORG_NAME',
  'DATABASE_URL',
  'UMA_ORG_KEYS_FILE',
  'UMA_ORG_LISTEN',
  'UMA_ORG_ADMIN_LISTEN',
  'UMA_ORG_METRICS_LISTEN',
  'UMA_ORG_TLS_CERT_FILE',
  'UMA_ORG_TLS_KEY_FILE',
  'UMA_ORG_PROVISION',
  'UMA_ORG_MIGRATE',
  'UMA_SPEC_NS',
  'UMA_DEV_LOOPBACK',
] as const

export const ORGANIZATION = z.strictObject({
  enabled: flag(false).describe("Run an organization's authority (docs/organization.md)."),
  issuer: httpsUrl
    .default('')
    .describe('**Required if it runs.** Its public base URL, `https://…` without a path.'),
  id: z
    .union([z.literal(''), z.string().regex(NAME_PATTERN)])
    .default('')
    .describe('**Required if it runs.** `UMA_ORG_ID`, its name in tokens and records.'),
  name: z
    .string()
    .max(ORGANIZATION_NAME_MAX)
    .default('')
    .describe('**Required if it runs.** `UMA_ORG_NAME`, the name that its members see.'),
  database: secretKey('the URL of its Postgres, which no other party uses', {
    name: 'usher-organization-database',
    key: 'uri',
  }),
  keys: secretKey('its private signing keys, `{"keys": [JWK, …]}`', {
    name: 'usher-organization-keys',
    key: 'keys.json',
  }),
  provisioning: provisioningFile(ORGANIZATION_FILE, {
    key: 'organization.yaml',
    secrets: CREDENTIALS,
  }).describe(
    '**Required if it runs.** The first charter, the administrators, and the enforcement points that may ask.',
  ),
  credentials: mountedSecrets(
    CREDENTIALS,
    'Credentials of enforcement points, for `credential_file` of the provisioning file.',
  ),
  oidc: realmSecret('UMA_ORG', "The administrators' OIDC realm."),
  tls: listenerCertificate(),
  settings: variables(ORGANIZATION_SETTINGS.settings, OWN),
  migration: migration('each of its pods', 'usher-organization-database-ddl'),
  ...podValues({
    replicas: 2,
    service: 'the public port (9300)',
    resources: { requests: { cpu: '100m', memory: '160Mi' }, limits: { memory: '384Mi' } },
  }),
})
