/**
 * Owns the values of the chart as a whole, each by itself. What they may not say together is refused in words
 * by charts/usher/templates/refusals. docs/kubernetes.md.
 */
import { z } from 'zod'
import type { SettingSchema } from '../../src/config/settings.ts'
import { TRACING_SETTINGS } from '../../src/config/tracing.ts'
import { ENVOY_GATEWAY, EXPOSE, ISTIO, METRICS, NETWORK_POLICY, TEST } from './around.ts'
import { AUTHORITY } from './authority.ts'
import { dataKey, flag, givenName, labelMap, objectName, textMap, variables, whole } from './pieces.ts'
import { ORGANIZATION } from './organization.ts'
import { SIDECAR } from './sidecar.ts'
import { TALLY } from './tally.ts'
import { WITNESS } from './witness.ts'

const IMAGE = z.strictObject({
  repository: z
    .string()
    .default('')
    .describe(
      '**Required.** Address of the image, such as registry.example.com/usher, without tag and digest.',
    ),
  tag: z
    .string()
    .regex(/^[\w.-]{0,128}$/)
    .default('')
    .describe("Its tag; empty: the chart's appVersion."),
  digest: z
    .string()
    .regex(/^(sha256:[0-9a-f]{64})?$/)
    .default('')
    .describe('Its digest, which wins over the tag.'),
  pullPolicy: z
    .enum(['IfNotPresent', 'Always', 'Never'])
    .default('IfNotPresent')
    .describe('When it is pulled.'),
  pullSecrets: z
    .array(z.union([givenName, z.strictObject({ name: givenName })]))
    .default([])
    .describe('Credentials of the registry, each by its name or as `name: …`.'),
})

const id = whole(0, 2_147_483_647).describe('0: leave it out, if the platform gives one (OpenShift).')

const SECURITY = z.strictObject({
  runAsUser: id.default(1000),
  runAsGroup: id.default(1000),
  fsGroup: id
    .default(1000)
    .describe('Group of the mounted Secrets, which have the mode 0440. 0: leave it out.'),
})

const EXTRA_CA = z.strictObject({
  existingConfigMap: objectName.describe('Name of a ConfigMap with certificates of private CAs.'),
  existingSecret: objectName.describe('The same of a Secret.'),
  key: dataKey('ca.crt'),
})

const SERVICE_ACCOUNT = z.strictObject({
  create: flag(true).describe('Make one. It has no rights, and its token is mounted nowhere.'),
  name: objectName.describe('Its name; empty: of the release, or `default` if none is made.'),
  annotations: textMap.default({}).describe('Its annotations.'),
})

/** Kinds that hold secrets, or other objects that may. */
const SECRET_KINDS = ['Secret', 'SecretList', 'List']

const extraObject = z.looseObject({
  apiVersion: z.string().min(1),
  kind: z
    .string()
    .min(1)
    .meta({ not: { enum: SECRET_KINDS } }),
  metadata: z.looseObject({ name: z.string().min(1) }),
})

/** Open, since charts around this one put values of their own there. */
const GLOBAL = z.looseObject({
  imageRegistry: z
    .string()
    .regex(/^([\w.-]+(:\d+)?(\/[^\s/]+)*)?$/)
    .default('')
    .describe(
      'Registry, and perhaps a path in it, that takes the place of the registry of `image.repository`, or stands before it if that names none. Empty: `image.repository` counts.',
    ),
  imagePullSecrets: z
    .array(z.union([givenName, z.looseObject({ name: givenName })]))
    .default([])
    .describe('Credentials of registries, each by its name or as `name: …`, besides `image.pullSecrets`.'),
})

/** Every value of the chart with its default. */
export const VALUES = z.strictObject({
  nameOverride: objectName.describe('Replaces `usher` in names. Labels keep the name of the chart.'),
  fullnameOverride: objectName.describe('Replaces the name of the release and `usher` in names.'),
  commonLabels: labelMap.default({}).describe('Labels of everything, beside those that the chart gives.'),
  commonAnnotations: textMap.default({}).describe('Annotations of everything.'),
  image: IMAGE.prefault({}).describe('The image.'),
  specNs: z
    .string()
    .regex(/^(https:\/\/[^?#@\s]*[^/?#@\s])?$/)
    .default('')
    .describe('`UMA_SPEC_NS`, the base of identifier URIs, the same for every party; empty: the usual one.'),
  listenAddress: z
    .enum(['0.0.0.0', '[::]'])
    .default('0.0.0.0')
    .describe('Address that the pods listen on; `[::]` if they have IPv6 alone.'),
  extraCa: EXTRA_CA.prefault({}).describe(
    'Certificates that every process trusts besides the usual ones, for all its requests: `NODE_EXTRA_CA_CERTS`, read at the start.',
  ),
  tracing: variables(
    TRACING_SETTINGS.settings,
    [],
    'Traces, by the variables of OpenTelemetry (docs/configuration.md).',
  ),
  serviceAccount: SERVICE_ACCOUNT.prefault({}).describe('ServiceAccount of all pods.'),
  security: SECURITY.prefault({}).describe(
    'The user that the processes run as. Everything else that the restricted Pod Security Standard requires is fixed, and more: the root file system is read-only.',
  ),
  authority: AUTHORITY.prefault({}).describe('The authorization server (`usher authority`).'),
  sidecar: SIDECAR.prefault({}).describe('The enforcement point (`usher sidecar`).'),
  tally: TALLY.prefault({}).describe('A tally (`usher tally`).'),
  witness: WITNESS.prefault({}).describe('A witness (`usher witness`).'),
  organization: ORGANIZATION.prefault({}).describe("An organization's authority (`usher organization`)."),
  networkPolicy: NETWORK_POLICY.prefault({}).describe('NetworkPolicies.'),
  expose: EXPOSE.prefault({}).describe('Routes from outside; all off by default.'),
  istio: ISTIO.prefault({}).describe('Istio asks the sidecar (docs/attaching.md).'),
  envoyGateway: ENVOY_GATEWAY.prefault({}).describe('Envoy Gateway asks the sidecar (docs/attaching.md).'),
  metrics: METRICS.prefault({}).describe('Prometheus and Grafana.'),
  test: TEST.prefault({}).describe('`helm test` walks one challenge.'),
  extraObjects: z
    .array(extraObject)
    .default([])
    .describe(
      'Further objects that are installed with the release, as they are: nothing in them is a template. No Secret may be among them, because values are kept where others read them.',
    ),
  global: GLOBAL.prefault({}).describe(
    'Values that Helm shares between charts. Others than these are not read.',
  ),
})

/** values.schema.json: closed to what it does not name. */
export function valuesSchema(): SettingSchema {
  const schema = z.toJSONSchema(VALUES, {
    io: 'input',
    unrepresentable: 'any',
    target: 'draft-7',
  }) as SettingSchema
  return { ...withDefaults(schema), title: 'Values of the chart usher' }
}

/** Printed as they are, so that a manifest would be spoilt without them, or merged with others. */
const PRINTED: ReadonlySet<string> = new Set([
  'commonAnnotations',
  'commonLabels',
  'key',
  'listenAddress',
  'podAnnotations',
  'repository',
])

/** Groups without a default, which the templates do not miss if all their members are commented out. */
const SPARED: ReadonlySet<string> = new Set(['startupProbe', 'readinessProbe', 'livenessProbe'])

/**
 * The schema, which wants every default there that the templates look into or print. By `null`, as a block of
 * which all members are commented out has it, Helm takes a default away.
 */
function withDefaults(node: SettingSchema): SettingSchema {
  const properties = Object.entries((node['properties'] ?? {}) as Record<string, SettingSchema>)
  if (properties.length === 0 || !isOurs(node)) return node
  const wanted = properties
    .filter(([name, inner]) => PRINTED.has(name) || (isOurs(inner) && !SPARED.has(name)))
    .map(([name]) => name)
  const inside = properties.map(([name, inner]) => [name, withDefaults(inner)])
  return { ...node, properties: Object.fromEntries(inside) as SettingSchema, required: wanted }
}

/** A group of values with defaults; maps of Kubernetes' own and files of usher's may be left out. */
function isOurs(node: SettingSchema): boolean {
  return node['type'] === 'object' && node['additionalProperties'] === false && node['if'] === undefined
}
