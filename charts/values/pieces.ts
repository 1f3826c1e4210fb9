/**
 * Owns the pieces that the chart's values are made of: references to Secrets, pods, peers.
 * docs/kubernetes.md.
 */
import { z } from 'zod'
import type { SettingSchema, Setting } from '../../src/config/settings.ts'

/**
 * Free text of Kubernetes' own, checked by the API server and, for the value sets of the tests, by its
 * schemas.
 */
export const anyMap = z.record(z.string(), z.unknown())
export const textMap = z.record(z.string(), z.string())
/** Labels that the chart gives itself; by some of them a Deployment finds its pods, for ever. */
const OWN_LABELS = [
  ...['name', 'instance', 'component', 'version', 'managed-by', 'part-of'].map(
    word => `app.kubernetes.io/${word}`,
  ),
  'helm.sh/chart',
]
/** Labels beside them. */
export const labelMap = textMap.meta({ propertyNames: { not: { enum: OWN_LABELS } } })
export const anyList = z.array(anyMap)

const NAME = '[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?'
/** Name of an object of Kubernetes; empty where there is none. */
export const givenName = z.string().regex(new RegExp(`^${NAME}$`))
export const objectName = z
  .string()
  .regex(new RegExp(`^(${NAME})?$`))
  .default('')
export const dataKey = (fallback: string) =>
  z
    .string()
    .regex(/^[-._a-zA-Z0-9]{1,253}$/)
    .default(fallback)
    .describe('Key within it.')
export const flag = (fallback: boolean) => z.boolean().default(fallback)
export const whole = (min: number, max: number) => z.int().min(min).max(max)
export const httpsUrl = z.string().regex(/^(https:\/\/[^/?#@\s]+)?$/)

/** A Secret that the operator made, with the key in it that is used. */
export function secretKey(what: string, { name, key }: { name: string; key: string }) {
  return z
    .strictObject({
      existingSecret: objectName.default(name).describe(`Name of the Secret with ${what}.`),
      key: dataKey(key),
    })
    .prefault({})
    .describe(`The Secret with ${what}.`)
}

/**
 * A file of usher's own as a value: its schema as docs/configuration.md has it. Empty is none. No secret may
 * stand in it, since it becomes a ConfigMap: the process reads those from files.
 */
export function usherFile(schema: z.ZodType, description: string) {
  const {
    $schema: _,
    required,
    ...json
  } = forHelm(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', target: 'draft-7' }))
  const whole = { if: { minProperties: 1 }, then: { required } }
  return anyMap.default({}).meta({ ...json, ...whole, description })
}

/** Secrets that a file names: the value that mounts them, the member of the file, and the directory. */
interface FileSecrets {
  value: string
  member: string
  directory: string
}
export const CLIENT_SECRETS: FileSecrets = {
  value: 'clientSecrets',
  member: 'client_secret_file',
  directory: '/etc/usher/client-secrets',
}
export const CREDENTIALS: FileSecrets = {
  value: 'credentials',
  member: 'credential_file',
  directory: '/etc/usher/credentials',
}

/** The file that says what is there from the start. `without`: what there is if neither is set. */
export function provisioningFile(
  schema: z.ZodType,
  of: { key: string; secrets: FileSecrets; without?: string },
) {
  const { value, member, directory } = of.secrets
  return z
    .strictObject({
      existingSecret: objectName.describe(
        `Name of a Secret with the provisioning file; empty: \`config\`${of.without ?? ''}.`,
      ),
      key: dataKey(of.key),
      config: usherFile(
        schema,
        `The provisioning file itself (docs/configuration.md). Secrets go into \`${value}\`, named as \`${member}: ${directory}/<key>\`.`,
      ),
    })
    .prefault({})
}

/** The Secret that has the files which another file names. */
export function mountedSecrets({ directory }: FileSecrets, description: string) {
  const existingSecret = objectName.describe(
    `Name of a Secret whose keys are mounted as the files \`${directory}/<key>\`.`,
  )
  return z.strictObject({ existingSecret }).prefault({}).describe(description)
}

/** Members that hold a secret, beside which each file has one that names a file. */
const SECRET_MEMBERS = ['client_secret', 'credential']

/**
 * Without secrets, and without patterns that look ahead, which the expressions of Helm cannot: the process
 * itself judges those texts.
 */
function forHelm(node: SettingSchema): SettingSchema {
  const isLeftOut = (name: string, value: unknown): boolean =>
    SECRET_MEMBERS.includes(name) ||
    (name === 'pattern' && typeof value === 'string' && /\(\?[=!<]/.test(value))
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip)
    if (typeof value !== 'object' || value === null) return value
    const kept = Object.entries(value).filter(([name, inner]) => !isLeftOut(name, inner))
    return Object.fromEntries(kept.map(([name, inner]) => [name, strip(inner)]))
  }
  return strip(node) as SettingSchema
}

/**
 * A group of environment variables by their own names, as src/config declares them, without those that the
 * chart sets.
 */
export function variables(
  settings: Record<string, Setting<unknown>>,
  without: readonly string[],
  description = 'Its variables by their own names (docs/configuration.md); lists as lists.',
) {
  const shape = Object.values(settings)
    .filter(({ variable }) => !without.includes(variable))
    .map(setting => [setting.variable, variable(setting)] as const)
  return z.strictObject(Object.fromEntries(shape)).prefault({}).describe(description)
}

function variable({ kind, fallback, unit, description }: Setting<unknown>) {
  const notes = [
    unit === undefined ? [] : [`In ${unit}.`],
    fallback === undefined || fallback === '' ? [] : [`${fallback} when left out.`],
  ].flat()
  const json: SettingSchema = kind.json
  return z
    .unknown()
    .meta({ ...json, description: [description, ...notes].join(' ') })
    .optional()
}

/** A certificate: of a Secret that somebody keeps renewed, or of cert-manager. */
export function certificate(what: string) {
  return z
    .strictObject({
      existingSecret: objectName.describe(
        `Secret with ${what} (\`tls.crt\`, \`tls.key\`). Renewed ones are read again within seconds; nothing restarts.`,
      ),
      certManager: z
        .strictObject({
          enabled: flag(false).describe('Have cert-manager make and renew it; leave `existingSecret` empty.'),
          issuerRef: z
            .strictObject({
              name: objectName.describe('Name of the issuer.'),
              kind: z.enum(['Issuer', 'ClusterIssuer']).default('Issuer').describe('Its kind.'),
              group: z.string().default('cert-manager.io').describe('Its API group.'),
            })
            .prefault({})
            .describe('Who signs it.'),
          dnsNames: z
            .array(z.string().min(1))
            .default([])
            .describe('Further names; those of the Service are always in it.'),
          duration: z.string().default('2160h').describe('How long it lives.'),
          renewBefore: z.string().default('720h').describe('How long before its end it is renewed.'),
        })
        .prefault({})
        .describe('cert-manager.'),
    })
    .prefault({})
}

/** Of a party that a gateway may serve without one. */
export function listenerCertificate(listeners = 'its listeners') {
  return certificate(`the certificate of ${listeners}`).describe(
    'TLS of its listeners; without it they speak plain HTTP to what ends TLS in front of them.',
  )
}

/** How the database of one component is brought up to date. `each`: who does it without the Job. */
export function migration(each: string, secret: string) {
  const job = z.strictObject({
    enabled: flag(false).describe(
      `Migrate by a Job, named by the version, instead of at the start of ${each}. No hook: whichever comes first, they start once it is done.`,
    ),
    existingSecret: objectName
      .default(secret)
      .describe('Name of the Secret with the URL of a role that may change tables. No other pod gets it.'),
    key: dataKey('uri'),
    backoffLimit: whole(0, 100).default(20).describe('How often it is tried.'),
    resources: anyMap
      .default({ requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '256Mi' } })
      .describe('Requests and limits.'),
  })
  return z
    .strictObject({ job: job.prefault({}) })
    .prefault({})
    .describe('How the database is brought up to date.')
}

/** A realm that a Secret names. `prefix`: of the settings that say it otherwise. */
export function realmSecret(prefix: string, description: string) {
  return z
    .strictObject({
      existingSecret: objectName.describe(
        `Name of a Secret with issuer and audience of the realm; empty: \`settings.${prefix}_OIDC_ISSUER\` and its like say them.`,
      ),
      issuerKey: dataKey('issuer'),
      audienceKey: dataKey('audience'),
    })
    .prefault({})
    .describe(description)
}
