/**
 * What values.schema.json refuses before anything is installed, each value by itself, and how the refusal
 * names the place. What values may not say together: unfit.test.ts.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { CHART, helm, over, tools, valueSet, VALUE_SETS, type Values } from './render.ts'
import { overDefaults, refusalsOf } from './values-schema.ts'

/** What the refusal must name, if not the place, is the last. */
type Row = [what: string, set: string, place: string, value: Values[string], named?: string]
const ADDITIONS: Row[] = [
  ['a volume without a name', 'default', '/authority/extraVolumes', [{ emptyDir: {} }], "'name'"],
  ['volumes that are no list', 'tally', '/tally/extraVolumes', { name: 'x' }],
  ['a mount without its path', 'default', '/authority/extraVolumeMounts', [{ name: 'x' }], "'mountPath'"],
  ['a container without an image', 'sidecar', '/sidecar/extraContainers', [{ name: 'x' }], "'image'"],
  ['a container that is a text', 'organization', '/organization/initContainers', ['vault-agent']],
  ['a source of variables that is a text', 'default', '/authority/envFrom', ['proxy-settings']],
  ['a Service of a type that leads nowhere', 'default', '/authority/service/type', 'ExternalName'],
  ['an annotation of a Deployment that is a number', 'tally', '/tally/annotations', { a: 1 }],
  ['an annotation that is a number', 'default', '/authority/service/annotations', { a: 1 }],
  ['memory as a quantity', 'default', '/authority/autoscaling/targetMemoryPercent', '80%'],
  ['a part of pods that is no part', 'default', '/authority/podDisruptionBudget/maxUnavailable', 'one'],
  ['a time of a probe as a text', 'default', '/authority/livenessProbe/periodSeconds', '10s'],
  ['another path of a probe', 'default', '/authority/livenessProbe/httpGet', { path: '/' }, 'httpGet'],
  ['a host that is an address', 'ha', '/expose/authority/ingress/extraHosts', [{ host: 'https://a.b' }]],
  ['a host that is no object', 'ha', '/expose/authority/ingress/extraHosts', ['as.example.org']],
  ['a host name with a path', 'ha', '/expose/authority/gatewayApi/extraHostnames', ['a.example/b']],
  ['a time to read metrics without a unit', 'ha', '/metrics/serviceMonitor/scrapeTimeout', '10'],
  ['relabelings that are no list', 'ha', '/metrics/serviceMonitor/relabelings', { a: 1 }],
  ['a registry that is a number', 'default', '/global/imageRegistry', 5000],
  ['a registry with a scheme', 'default', '/global/imageRegistry', 'https://mirror.internal'],
  ['credentials of registries that are one text', 'default', '/global/imagePullSecrets', 'company'],
  ['credentials of a registry that name a key', 'default', '/image/pullSecrets', [{ name: 'a', key: 'b' }]],
  ...['Secret', 'SecretList', 'List'].map((kind): Row => [
    `a ${kind} among the further objects`,
    'default',
    '/extraObjects',
    [{ apiVersion: 'v1', kind, metadata: { name: 'x' }, stringData: { password: 'hush' } }],
    '/extraObjects/0/kind',
  ]),
  ['a further object without a name', 'default', '/extraObjects', [{ apiVersion: 'v1', kind: 'Pod' }]],
]
const ROWS: Row[] = [
  [
    'a common label by which pods are found',
    'default',
    '/commonLabels',
    { 'app.kubernetes.io/name': 'gate' },
  ],
  [
    'a label of pods by which they are found',
    'default',
    '/authority/podLabels',
    { 'app.kubernetes.io/component': 'sidecar' },
  ],
  ['an issuer that is not https', 'default', '/authority/issuer', 'http://as.example.com'],
  ['an issuer with a path', 'default', '/authority/issuer', 'https://example.com/as'],
  [
    'a variable that a tally does not know',
    'tally',
    '/tally/settings/UMA_TALLY_TICKETS',
    3,
    'UMA_TALLY_TICKETS',
  ],
  [
    'a variable of an organization that the chart sets itself',
    'organization',
    '/organization/settings/UMA_ORG_ADMIN_LISTEN',
    '0.0.0.0:1',
    'UMA_ORG_ADMIN_LISTEN',
  ],
  [
    'a credential in the provisioning file of an organization',
    'organization',
    '/organization/provisioning/config/enforcement_points',
    [{ id: 'tools', resources: ['https://tools.example.com/mcp/alice'], credential: 'h'.repeat(40) }],
    '"additionalProperty":"credential"',
  ],
  ['a value that does not exist', 'default', '/replicas', 3, 'replicas'],
  ['a misspelt value', 'default', '/authority/replica', 3, 'replica'],
  [
    'a variable that the authority does not know',
    'default',
    '/authority/settings/UMA_AS_TICKETS',
    3,
    'UMA_AS_TICKETS',
  ],
  [
    'a variable that the chart sets itself',
    'default',
    '/authority/settings/UMA_AS_LISTEN',
    '0.0.0.0:1',
    'UMA_AS_LISTEN',
  ],
  ['development switched on', 'default', '/authority/settings/UMA_DEV_LOOPBACK', true, 'UMA_DEV_LOOPBACK'],
  [
    'a number out of its bounds',
    'default',
    '/authority/settings/UMA_AS_TICKET_SECONDS',
    5,
    'UMA_AS_TICKET_SECONDS',
  ],
  [
    'a word that is none of the words',
    'default',
    '/authority/settings/UMA_AS_OWNER_AUTH',
    ['password'],
    'UMA_AS_OWNER_AUTH',
  ],
  [
    'traces over gRPC',
    'default',
    '/tracing/OTEL_EXPORTER_OTLP_PROTOCOL',
    'grpc',
    'OTEL_EXPORTER_OTLP_PROTOCOL',
  ],
  ['processes that run as root', 'default', '/security/runAsUser', -1],
  [
    'a secret in the provisioning file',
    'ha',
    '/authority/provisioning/config/owners',
    [
      {
        owner: 'alice',
        resource_servers: [
          {
            client_id: 't',
            name: 't',
            client_secret: 'hushhushhushhush',
            resource_uri: 'https://t.example.com',
          },
        ],
      },
    ],
    'client_secret',
  ],
  ['a member that the sidecar does not know', 'sidecar', '/sidecar/config', { owner: 'alice' }],
  ['a member that the chart writes', 'sidecar', '/sidecar/config/keys_file', '/keys', 'keys_file'],
  [
    'a listener of its own',
    'sidecar',
    '/sidecar/config/listen',
    { check: '0.0.0.0:1', http: '0.0.0.0:2' },
    'listen',
  ],
  ['a body cap out of its bounds', 'sidecar', '/sidecar/config/body_bytes_max', 1, 'body_bytes_max'],
  [
    'a secret in the file of the sidecar',
    'sidecar',
    '/sidecar/config/owners',
    [
      {
        owner: 'a',
        authority: 'https://as.example.com',
        client_secret: 'hush',
        tools: [{ tool: 't', resource_id: 'a/t', scopes: ['r'] }],
      },
    ],
    'client_secret',
  ],
  [
    'a credential at an organization in the file of the sidecar',
    'sidecar',
    '/sidecar/config/owners',
    [
      {
        owner: 'a',
        authority: 'https://as.example.com',
        client_secret_file: '/etc/usher/client-secrets/a',
        organization: { issuer: 'https://org.example.com', resources: ['a/*'], credential: 'h'.repeat(40) },
        tools: [{ tool: 't', resource_id: 'a/t', scopes: ['r'] }],
      },
    ],
    '"additionalProperty":"credential"',
  ],
  [
    'embedded enforcement in a pod of its own',
    'sidecar',
    '/sidecar/settings/ENFORCEMENT_MODE',
    'embedded',
    'ENFORCEMENT_MODE',
  ],
  ['a peer of a misspelt kind', 'sidecar', '/networkPolicy/gateways', [{ ipBlok: {} }], 'ipBlok'],
  [
    'a range of addresses without its member',
    'sidecar',
    '/networkPolicy/egress/databases',
    [{ ipBlock: { cdir: '10.0.0.0/8' } }],
    'cdir',
  ],
  [
    'labels of a peer under a misspelt name, which would let every pod in',
    'sidecar',
    '/networkPolicy/gateways',
    [{ podSelector: { matchLables: { app: 'gateway' } } }],
    'matchLables',
  ],
  ['a mode that there is not', 'sidecar', '/sidecar/mode', 'statefulset'],
  ...ADDITIONS,
]
const FAULTS = ROWS.map(([what, set, place, value, named = place]): [string, string, Values, string] => {
  const changes = place
    .split('/')
    .slice(1)
    .reduceRight((inner, name) => ({ [name]: inner }), value)
  return [what, set, changes as Values, named]
})

const refusals = (values: Values): string => refusalsOf(overDefaults(values))
const withoutRefusals = (path: string): string => refusalsOf(without(path))

test.each(VALUE_SETS)('the value set %s is refused nothing', name => {
  expect(refusals(valueSet(name))).toBe('')
})

test('the values of docs/kubernetes.md are refused nothing', () => {
  const page = readFileSync(join(ROOT, 'docs', 'kubernetes.md'), 'utf8')
  const shown = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => parse(text!) as Values)
  expect(shown).toHaveLength(3)
  let values: Values = {}
  for (const more of shown) expect(refusals((values = over(values, more)))).toBe('')
})

/** As Helm has values: `null` takes a default away. */
const without = (path: string): Values => {
  const names = path.split('.')
  const values = structuredClone(overDefaults(valueSet('ha')))
  const around = names.slice(0, -1).reduce((at, name) => at[name] as Values, values)
  delete around[names.at(-1)!]
  return values
}

test.each([
  ['image.repository', "/image must have required property 'repository'"],
  ['listenAddress', "must have required property 'listenAddress'"],
  ['authority.keys.key', "/authority/keys must have required property 'key'"],
  ['sidecar.keys.key', "/sidecar/keys must have required property 'key'"],
  ['authority.settings', "/authority must have required property 'settings'"],
  ['authority.autoscaling', "/authority must have required property 'autoscaling'"],
  ['expose.ownerApi.ingress', "/expose/ownerApi must have required property 'ingress'"],
  ['commonLabels', "must have required property 'commonLabels'"],
  ['sidecar.podAnnotations', "/sidecar must have required property 'podAnnotations'"],
  ['metrics', "must have required property 'metrics'"],
  ['authority.service', "/authority must have required property 'service'"],
])('a default that the templates need is missed where null took it away: %s', (path, words) => {
  expect(withoutRefusals(path)).toContain(words)
})

test.each([
  'security.runAsUser',
  'authority.resources',
  'authority.nodeSelector',
  'sidecar.affinity',
  'authority.livenessProbe',
  'sidecar.extraVolumes',
  'authority.podDisruptionBudget.maxUnavailable',
  'extraObjects',
  'global',
])('a default may be taken away by null where nothing needs it: %s', path => {
  expect(withoutRefusals(path)).toBe('')
})

test.each(FAULTS)('%s (%s)', (_title, set, changes, named) => {
  expect(refusals(over(valueSet(set), changes))).toContain(named)
})

describeWith(tools('helm'), 'helm refuses', found => {
  const template = (values: Values) => helm(found.helm, values, ['template', 'usher', CHART])

  test.each(FAULTS.filter(([title]) => /^(a misspelt value|a peer of a misspelt kind)$/.test(title)))(
    '%s (%s), with the place',
    (_title, set, changes, named) => {
      const { ok, text } = template(over(valueSet(set), changes))
      expect(ok).toBe(false)
      expect(text).toContain("don't meet the specifications of the schema")
      expect(text).toContain(named)
    },
  )

  test.each([
    ['istio', { istio: { clientCertificate: '' } }, 'istio.clientCertificate'],
    ['envoy-gateway', { envoyGateway: { caConfigMap: '' } }, 'envoyGateway.caConfigMap'],
  ])('%s that asks a sidecar which wants certificates without one', (set, changes, named) => {
    const { ok, text } = template(over(valueSet(set), changes))
    expect(ok).toBe(false)
    expect(text).toContain(named)
  })
})
