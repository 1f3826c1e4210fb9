/**
 * What values of the chart may not say together: refused before anything is installed, in a sentence that
 * names the values and says what to do. charts/usher/templates/refusals.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { CHART, helm, manifests, over, render, tools, valueSet, type Values } from './render.ts'

type Changes = { [path: string]: Values[string] }
/** `changes` by the paths of values; the sentence names each of `named` in this order, then the remedy. */
type Row = [what: string, set: string, changes: Changes, ...named: string[]]

const BESIDE = { name: 'x', image: 'registry.example.com/x:1' }
const block = (cidr: string, ...except: string[]) => [
  { ipBlock: { cidr, ...(except.length > 0 && { except }) } },
]

const ROLES: Row[] = [
  ['no image', 'default', { 'image.repository': '' }, 'image.repository is empty'],
  [
    'a tag in the address of the image',
    'default',
    { 'image.repository': 'registry.example.com:5000/usher:0.2.0' },
    'image.repository ends in a tag',
    'image.tag',
  ],
  [
    'a digest in the address of the image',
    'default',
    { 'image.repository': `registry.example.com/usher@sha256:${'0'.repeat(64)}` },
    'image.repository ends in a digest',
    'image.digest',
  ],
  ...[
    ['default', 'authority.issuer'],
    ['default', 'authority.database.existingSecret'],
    ['default', 'authority.keys.existingSecret'],
    ['tally', 'tally.issuer'],
    ['witness', 'witness.issuer'],
    ['witness', 'witness.database.existingSecret'],
    ['organization', 'organization.issuer'],
    ['organization', 'organization.id'],
    ['organization', 'organization.name'],
    ['sidecar', 'sidecar.keys.existingSecret'],
  ].map(([set, path]): Row => {
    const role = path!.split('.')[0]!
    return [`nothing at ${path}`, set!, { [path!]: '' }, `${path} is empty`, `${role}.enabled is true`]
  }),
  ...['authority', 'organization'].map((role): Row => {
    const job = `${role}.migration.job`
    const changes = { [`${job}.enabled`]: true, [`${job}.existingSecret`]: '' }
    return [
      `a Job of ${role} without a log-in`,
      'organization',
      changes,
      `${job}.existingSecret is empty`,
      job,
    ]
  }),
]

const FILES: Row[] = [
  ...[
    ['tally', 'tally.accounts.config', 'tally.accounts.existingSecret'],
    ['witness', 'witness.issuers.config', 'witness.issuers.existingSecret'],
    ['organization', 'organization.provisioning.config', 'organization.provisioning.existingSecret'],
    ['sidecar', 'sidecar.config', 'sidecar.existingConfig.existingSecret'],
  ].flatMap(([role, config, secret]): Row[] => [
    [
      `no file of ${role}`,
      role!,
      { [config!]: {} },
      `${config} and ${secret} are both empty`,
      `${role}.enabled`,
    ],
    [`two files of ${role}`, role!, { [secret!]: 'other' }, `${config} and ${secret} are both set`],
  ]),
  [
    'two provisioning files of an authority',
    'ha',
    { 'authority.provisioning.existingSecret': 'other' },
    'authority.provisioning.config and authority.provisioning.existingSecret are both set',
  ],
  ...[
    ['ha', 'authority.provisioning.config', 'authority.clientSecrets'],
    ['tally', 'tally.accounts.config', 'tally.clientSecrets'],
    ['sidecar', 'sidecar.config', 'sidecar.clientSecrets'],
    ['gateway-pod', 'sidecar.config', 'sidecar.clientSecrets'],
    ['organization', 'organization.provisioning.config', 'organization.credentials'],
  ].map(([set, config, secrets]): Row => {
    const path = `${secrets}.existingSecret`
    return [
      `files of ${config} that nothing mounts (${set})`,
      set!,
      { [path]: '' },
      `${config} names files`,
      path,
    ]
  }),
  ...['authority.tls', 'sidecar.tls'].flatMap((path): Row[] => {
    const enabled = `${path}.certManager.enabled is true`
    const issuer = `${path}.certManager.issuerRef.name`
    const given = `${path}.existingSecret`
    return [
      [`two certificates at ${path}`, 'mutual-tls', { [given]: 'other' }, `${given} is set`, enabled],
      [`no issuer at ${path}`, 'mutual-tls', { [issuer]: '' }, `${issuer} is empty`, enabled],
    ]
  }),
  [
    'certificates of others from two places',
    'locked-down',
    { 'extraCa.existingConfigMap': 'company' },
    'extraCa.existingConfigMap and extraCa.existingSecret are both set',
  ],
]

const PODS: Row[] = [
  [
    'scaling that follows nothing',
    'ha',
    { 'authority.autoscaling.targetCpuPercent': 0 },
    'authority.autoscaling.targetCpuPercent and authority.autoscaling.targetMemoryPercent are both 0',
  ],
  [
    'scaling to fewer than the least',
    'ha',
    { 'sidecar.autoscaling.minReplicas': 5, 'sidecar.autoscaling.maxReplicas': 2 },
    'sidecar.autoscaling.minReplicas (5)',
    'sidecar.autoscaling.maxReplicas (2)',
  ],
  ...[0, '0%'].map((none): Row => {
    const budget = 'tally.podDisruptionBudget'
    const changes = { [`${budget}.maxUnavailable`]: none }
    return [
      `a budget of ${none}`,
      'tally',
      changes,
      `${budget}.maxUnavailable is ${none},`,
      `${budget}.enabled`,
    ]
  }),
  ...['UMA_AS_ISSUER', 'DATABASE_URL', 'UMA_AS_LOG_LEVEL'].map((name): Row => {
    const changes = { 'authority.extraEnv': [{ name, value: 'other' }] }
    return [`${name} twice`, 'ha', changes, `authority.extraEnv sets ${name}`, 'leave it out']
  }),
  [
    'a variable of the sidecar twice',
    'sidecar',
    { 'sidecar.extraEnv': [{ name: 'UMA_PEP_CONFIG', value: '/other' }] },
    'sidecar.extraEnv sets UMA_PEP_CONFIG',
  ],
  [
    'a realm from two places',
    'ha',
    { 'authority.settings.UMA_AS_OIDC_ISSUER': 'https://realm.example.com' },
    'authority.settings.UMA_AS_OIDC_ISSUER is set',
    'authority.oidc.existingSecret',
  ],
]

const SIDECAR: Row[] = [
  [
    'a sidecar that anybody may ask',
    'sidecar',
    { 'sidecar.trustedNetwork': false },
    'sidecar.tls is not set',
    'sidecar.trustedNetwork is false',
  ],
  [
    'a network that is said to be trusted beside mutual TLS',
    'istio',
    { 'sidecar.trustedNetwork': true },
    'sidecar.tls is set',
    'sidecar.trustedNetwork is true',
  ],
  [
    'a sidecar that no gateway may reach',
    'sidecar',
    { 'networkPolicy.gateways': [] },
    'networkPolicy.gateways is empty',
    'sidecar.enabled',
  ],
  ...['daemonset', 'container'].map((mode): Row => {
    const changes = { 'sidecar.autoscaling.enabled': true }
    const set = mode === 'container' ? 'gateway-pod' : mode
    return [`scaling of a ${mode}`, set, changes, `sidecar.mode is ${mode}`, 'sidecar.autoscaling.enabled']
  }),
  ...['initContainers', 'extraContainers'].map((name): Row => {
    const changes = { [`sidecar.${name}`]: [BESIDE] }
    return [
      `${name} in the pod of a gateway`,
      'gateway-pod',
      changes,
      'sidecar.mode is container',
      `sidecar.${name}`,
    ]
  }),
  [
    'a secret variable that would stand in the ConfigMap with the patch',
    'gateway-pod',
    { 'sidecar.extraEnv': [{ name: 'OTEL_EXPORTER_OTLP_HEADERS', value: 'authorization=hush' }] },
    'sidecar.mode is container',
    'OTEL_EXPORTER_OTLP_HEADERS',
    'valueFrom',
  ],
  ['Istio without a sidecar', 'default', { 'istio.enabled': true }, 'istio.enabled', 'sidecar.enabled'],
  [
    'Istio for a sidecar in the pod',
    'gateway-pod',
    { 'istio.enabled': true },
    'istio.enabled',
    'sidecar.mode',
  ],
  [
    'Envoy Gateway without a route',
    'envoy-gateway',
    { 'envoyGateway.routes': [] },
    'envoyGateway.routes is empty',
    'envoyGateway.enabled',
  ],
]

const AROUND: Row[] = [
  [
    'the owner API open to nobody named',
    'envoy-gateway',
    { 'networkPolicy.owners': [] },
    'networkPolicy.owners is empty',
    'expose.ownerApi.gatewayApi.enabled',
  ],
  [
    'metrics that nobody may read',
    'ha',
    { 'networkPolicy.monitoring': [] },
    'networkPolicy.monitoring is empty',
    'metrics.serviceMonitor.enabled',
  ],
  [
    'a route that hangs nowhere',
    'envoy-gateway',
    { 'expose.authority.gatewayApi.parentRefs': [] },
    'expose.authority.gatewayApi.parentRefs is empty',
    'expose.authority.gatewayApi.enabled',
  ],
  ['a peer that is empty', 'sidecar', { 'networkPolicy.agents': [{}] }, 'networkPolicy.agents[0] is empty'],
  [
    'a peer of addresses and labels',
    'sidecar',
    { 'networkPolicy.gateways': [{ podSelector: {}, ipBlock: { cidr: '10.0.0.0/8' } }] },
    'networkPolicy.gateways[0] has an ipBlock and a selector',
  ],
  [
    'an exception that is no range',
    'sidecar',
    { 'networkPolicy.egress.databases': block('10.0.0.0/8', '10.1.0.0') },
    'networkPolicy.egress.databases[0].ipBlock: 10.1.0.0 is no range',
  ],
]

const NO_RANGES = [
  '10.0.0.0/99',
  '10.0.0.300/24',
  '10.0.0/24',
  '10.0.0.0',
  'fd00::/129',
  'fd00::1::/64',
  'fd00:1:2:3:4:5:6/64',
  '1:2:3:4:5:6:7::8/64',
  'fd00:12345::/32',
  'db.example.com/24',
]
const RANGES = [
  '0.0.0.0/0',
  '10.20.0.0/16',
  '::/0',
  'fd00::/8',
  '2001:db8::1/128',
  '::1/128',
  '1:2:3:4:5:6:7:8/64',
]

const nested = (changes: Changes): Values =>
  Object.entries(changes)
    .map(
      ([path, value]) =>
        path.split('.').reduceRight<Values[string]>((inner, name) => ({ [name]: inner }), value) as Values,
    )
    .reduce(over)

describeWith(tools('helm'), 'values that do not fit together', found => {
  const template = ['template', 'usher', CHART, '--namespace', 'usher', '--skip-schema-validation']
  const refusals = (values: Values): string[] => {
    const { ok, text } = helm(found.helm, values, template)
    if (ok) return []
    const lines = [...text.matchAll(/^- (.*)$/gm)].map(([, line]) => line!)
    return lines.length > 0 ? lines : [text]
  }

  test.each([...ROLES, ...FILES, ...PODS, ...SIDECAR, ...AROUND])(
    '%s (%s) is refused in one sentence with the values and the remedy',
    (_what, set, changes, ...named) => {
      const lines = refusals(over(valueSet(set), nested(changes)))
      expect(lines).toHaveLength(1)
      const places = named.map(text => lines[0]!.indexOf(text))
      expect(places, lines[0]).toEqual(places.toSorted((a, b) => a - b))
      expect(places[0], lines[0]).toBe(0)
      expect(lines[0]).toMatch(/: (set|name|leave|lower|move|make|write) .*\.$/)
    },
  )

  test('all faults are said at once, and nothing is rendered', () => {
    const { ok, text } = helm(found.helm, {}, template)
    expect(ok).toBe(false)
    expect(text).toContain('these values do not fit together:')
    expect(refusals({}).map(line => line.split(' ')[0])).toEqual(['authority.issuer', 'image.repository'])
  })

  test.each([
    ['mutual TLS of a Secret', { tls: { existingSecret: 'check' } }],
    [
      'mutual TLS of cert-manager',
      { tls: { certManager: { enabled: true, issuerRef: { name: 'company' } } } },
    ],
    ['a network that is said to be trusted', { trustedNetwork: true }],
    ['the pod of the gateway', { mode: 'container' }],
  ])('a sidecar may be had with %s', (_title, changes) => {
    const closed = over(valueSet('sidecar'), { sidecar: { trustedNetwork: false } })
    expect(manifests(render(found.helm, over(closed, { sidecar: changes })))).not.toEqual([])
  })

  test('each peer is a range of addresses of IPv4 or IPv6, and each that is none is named', () => {
    const gateways = [...RANGES, ...NO_RANGES].flatMap(cidr => block(cidr))
    const lines = refusals(over(valueSet('sidecar'), { networkPolicy: { gateways } }))
    expect(lines.map(line => line.split(' is no range')[0])).toEqual(
      NO_RANGES.map((cidr, at) => `networkPolicy.gateways[${RANGES.length + at}].ipBlock: ${cidr}`),
    )
  })

  test('a variable of a secret name may stand in the patch for a gateway by reference', () => {
    const valueFrom = { secretKeyRef: { name: 'collector', key: 'headers' } }
    const extraEnv = [{ name: 'OTEL_EXPORTER_OTLP_HEADERS', valueFrom }]
    expect(render(found.helm, over(valueSet('gateway-pod'), { sidecar: { extraEnv } }))).toContain(
      'collector',
    )
  })

  test('files that a provisioning file names may be mounted by other values', () => {
    const mount = { name: 'own', mountPath: '/etc/usher/client-secrets', readOnly: true }
    const authority = { clientSecrets: { existingSecret: '' }, extraVolumeMounts: [mount] }
    expect(render(found.helm, over(valueSet('ha'), { authority }))).toContain('name: own')
  })

  test('no pods are no fault, because a restore stops them so', () => {
    expect(refusals(over(valueSet('default'), { authority: { replicas: 0 } }))).toEqual([])
  })

  test('the values of docs/kubernetes.md are refused nothing', () => {
    const page = readFileSync(join(ROOT, 'docs', 'kubernetes.md'), 'utf8')
    const shown = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => parse(text!) as Values)
    expect(shown).toHaveLength(3)
    let values: Values = {}
    for (const more of shown) expect(refusals((values = over(values, more)))).toEqual([])
  })
})
