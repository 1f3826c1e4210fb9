/**
 * What an operator adds to the chart's objects by values: volumes, containers, variables, times, hosts,
 * registries. Each row says which value it is, where it is rendered, and that the default has none of it.
 */
import { expect, test } from 'vitest'
import { describeWith } from '../support/requirement.ts'
import { pods, type PodSpec } from './pods.ts'
import {
  complaints,
  helm,
  manifests,
  named,
  over,
  render,
  tools,
  valueSet,
  CHART,
  type Manifest,
  type Values,
} from './render.ts'

/** Every role of the chart beside the others, each in pods of its own. */
const EVERY_ROLE = [
  valueSet('tally'),
  valueSet('organization'),
  valueSet('sidecar'),
  { authority: { enabled: true } },
].reduce(over, valueSet('witness'))
const ROLES = ['authority', 'sidecar', 'tally', 'witness', 'organization'] as const
type Role = (typeof ROLES)[number]

/** The Service of each role that may be reached from outside. */
const PUBLIC_SERVICE: Record<Role, string> = {
  authority: 'usher-authority',
  sidecar: 'usher-documents',
  tally: 'usher-tally',
  witness: 'usher-witness',
  organization: 'usher-organization',
}

const VOLUME = { name: 'vault', configMap: { name: 'vault-config' } }
const MOUNT = { name: 'vault', mountPath: '/vault', readOnly: true }
const CONTAINER = { name: 'vault-agent', image: 'registry.example.com/vault:2', args: ['agent'] }
const SOURCE = { secretRef: { name: 'proxy-settings' } }

type Row = [value: string, given: Values[string], where: (spec: PodSpec) => unknown]
const own = (spec: PodSpec) => spec.containers[0] as unknown as Record<string, unknown>
const POD_ROWS: Row[] = [
  ['extraVolumes', [VOLUME], spec => spec.volumes],
  ['extraVolumeMounts', [MOUNT], spec => own(spec)['volumeMounts']],
  ['initContainers', [CONTAINER], spec => spec.initContainers],
  ['extraContainers', [CONTAINER], spec => spec.containers.slice(1)],
  ['envFrom', [SOURCE], spec => own(spec)['envFrom']],
]

const PROBES = ['startupProbe', 'readinessProbe', 'livenessProbe']
const TIMES = { initialDelaySeconds: 7, periodSeconds: 11, timeoutSeconds: 3, failureThreshold: 13 }

describeWith(tools('helm', 'kubeconform', 'schemas'), 'what is added to the chart', found => {
  const texts = new Map<string, string>()
  const rendering = (changes: Values, base = EVERY_ROLE): string => {
    const key = JSON.stringify([base, changes])
    if (!texts.has(key)) texts.set(key, render(found.helm, over(base, changes)))
    return texts.get(key)!
  }
  const all = (changes: Values, base?: Values): Manifest[] => manifests(rendering(changes, base))
  const podOf = (role: string, changes: Values) =>
    pods(all(changes)).find(pod => pod.of === `Deployment usher-${role}`)!.spec
  const admitted = (text: string) => {
    const schema = `${found.schemas}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    return complaints(found.kubeconform, ['-strict', '-schema-location', schema, '-'], text)
  }
  const ofEveryRole = (values: Values): Values => ofEach(() => values)
  /** The chart is rendered once for all roles: each has values of its own, so that no other's are taken. */
  const ofEach = (valuesOf: (role: Role, place: number) => Values): Values =>
    Object.fromEntries(ROLES.map((role, place) => [role, valuesOf(role, place)]))

  test.each(POD_ROWS)(
    '%s stands in the pods of every role, and in none by default',
    (value, given, where) => {
      for (const role of ROLES) {
        const there = where(podOf(role, ofEveryRole({ [value]: given }))) as unknown[]
        for (const one of given as unknown[]) expect(there, role).toContainEqual(one)
        expect(JSON.stringify(where(podOf(role, {})) ?? []), role).not.toMatch(/vault|proxy-settings/)
      }
    },
  )

  test('all of them together make manifests that Kubernetes admits', () => {
    const rows = POD_ROWS.map(([value, given]) => [value, given])
    const text = rendering(ofEveryRole(Object.fromEntries(rows) as Values))
    expect(text.match(/vault-agent/g)!.length).toBe(2 * ROLES.length)
    expect(admitted(text)).toBe('')
  })

  test('volumes, their mounts and envFrom reach the Job that migrates, too; containers beside it do not', () => {
    const job = (changes: Values) => pods(all(changes)).find(pod => pod.of.startsWith('Job'))!.spec
    const rows = POD_ROWS.map(([value, given]) => [value, given])
    const spec = job({ organization: Object.fromEntries(rows) as Values })
    expect(spec.volumes).toContainEqual(VOLUME)
    expect(own(spec)['volumeMounts']).toContainEqual(MOUNT)
    expect(own(spec)['envFrom']).toEqual([SOURCE])
    expect(JSON.stringify(spec)).not.toContain('vault-agent')
    expect(job({}).volumes).toBeUndefined()
  })

  test.each(ROLES)(
    'the public Service of %s has the type that is asked for; the others stay inside',
    role => {
      const typeOf = (one: Role): string => (ROLES.indexOf(one) % 2 === 0 ? 'LoadBalancer' : 'NodePort')
      const changes = ofEach(one => ({
        service: { type: typeOf(one), annotations: { 'example.com/zone': one } },
        serviceAnnotations: { 'example.com/all': one },
      }))
      const services = (given: Values) => all(given).filter(({ kind }) => kind === 'Service')
      const types = (given: Values) =>
        services(given).flatMap(({ metadata, spec }) => {
          const { type = 'ClusterIP' } = spec as { type?: string }
          return type === 'ClusterIP' ? [] : [`${metadata.name}: ${type}`]
        })
      const wanted = ROLES.map(one => `${PUBLIC_SERVICE[one]}: ${typeOf(one)}`)
      expect(types(changes).toSorted()).toEqual(wanted.toSorted())
      expect(types({})).toEqual([])
      const bearing = (name: string) =>
        services(changes)
          .filter(({ metadata }) => metadata.annotations?.[name] === role)
          .map(({ metadata }) => metadata.name)
      expect(bearing('example.com/zone')).toEqual([PUBLIC_SERVICE[role]])
      expect(bearing('example.com/all').length).toBeGreaterThan(1)
    },
  )

  test.each(ROLES)('the HorizontalPodAutoscaler of %s follows CPU, memory, or both', role => {
    const at = ROLES.indexOf(role)
    const resources = (autoscaling: (place: number) => Values) => {
      const one = named(
        all(ofEach((_role, place) => ({ autoscaling: { enabled: true, ...autoscaling(place) } }))),
        'HorizontalPodAutoscaler',
        `usher-${role}`,
      )
      return (
        one.spec as unknown as {
          metrics: { resource: { name: string; target: { averageUtilization: number } } }[]
        }
      ).metrics.map(({ resource }) => [resource.name, resource.target.averageUtilization])
    }
    expect(resources(() => ({}))).toEqual([['cpu', 70]])
    expect(resources(place => ({ targetMemoryPercent: 120 + place }))).toEqual([
      ['cpu', 70],
      ['memory', 120 + at],
    ])
    const memoryAlone = resources(place => ({ targetCpuPercent: 0, targetMemoryPercent: 80 + place }))
    expect(memoryAlone).toEqual([['memory', 80 + at]])
  })

  test.each(ROLES)(
    'the PodDisruptionBudget of %s counts those that stay, or those that are missing',
    role => {
      const at = ROLES.indexOf(role)
      const budget = (of: (place: number) => Values) => {
        const { minAvailable, maxUnavailable } = named(
          all(ofEach((_role, place) => ({ podDisruptionBudget: of(place) }))),
          'PodDisruptionBudget',
          `usher-${role}`,
        ).spec as Record<string, unknown>
        return { minAvailable, maxUnavailable }
      }
      expect(budget(() => ({}))).toEqual({ minAvailable: 1 })
      expect(budget(() => ({ maxUnavailable: 2 }))).toEqual({ maxUnavailable: 2 })
      expect(budget(place => ({ maxUnavailable: `${25 + place}%` }))).toEqual({
        maxUnavailable: `${25 + at}%`,
      })
      expect(budget(() => ({ maxUnavailable: null }))).toEqual({ minAvailable: 1 })
    },
  )

  test.each(ROLES)('annotations of %s stand at its Deployment, and not at its pods', role => {
    const annotationsOf = (one: Role) => ({ 'example.com/restarts': `database-of-${one}` })
    const given = all(ofEach(one => ({ annotations: annotationsOf(one) })))
    expect(named(given, 'Deployment', `usher-${role}`).metadata.annotations).toEqual(annotationsOf(role))
    expect(named(all({}), 'Deployment', `usher-${role}`).metadata.annotations).toBeUndefined()
    expect(JSON.stringify(pods(given).map(({ annotations: of }) => of))).not.toContain('example.com/restarts')
  })

  test.each(PROBES)('%s takes the times that are asked for and keeps its path, in every role', name => {
    const timesOf = (probe: string) => ({ ...TIMES, initialDelaySeconds: 7 + PROBES.indexOf(probe) })
    const timeoutOf = (probe: string) => ({ timeoutSeconds: 3 + PROBES.indexOf(probe) })
    for (const role of ROLES) {
      const probe = (of: (probe: string) => Values) =>
        own(podOf(role, ofEveryRole(Object.fromEntries(PROBES.map(one => [one, of(one)])))))[name]
      const before = probe(() => ({})) as Record<string, unknown>
      expect(probe(timesOf), role).toEqual({ ...before, ...timesOf(name) })
      expect(probe(timeoutOf), role).toEqual({ ...before, ...timeoutOf(name) })
      expect(before, role).not.toHaveProperty('initialDelaySeconds')
    }
  })

  test('an Ingress serves further hosts at the same paths, each with its certificate', () => {
    const extraHosts = [
      { host: 'as.example.org', tlsSecret: 'org-certificate' },
      { host: 'as.internal', tlsSecret: 'as-certificate' },
      { host: 'as.plain.example' },
    ]
    const ingress = (changes: Values) =>
      named(
        all({
          expose: { authority: { ingress: { enabled: true, tlsSecret: 'as-certificate', ...changes } } },
        }),
        'Ingress',
        'usher-authority',
      ).spec as unknown as {
        tls: { hosts: string[]; secretName: string }[]
        rules: { host: string; http: { paths: { path: string; pathType: string }[] } }[]
      }
    expect(ingress({}).rules.map(({ host }) => host)).toEqual(['as.example.com'])
    const { rules, tls } = ingress({ extraHosts })
    expect(rules.map(({ host }) => host)).toEqual([
      'as.example.com',
      'as.example.org',
      'as.internal',
      'as.plain.example',
    ])
    for (const rule of rules) expect(rule.http).toEqual(ingress({}).rules[0]!.http)
    expect(tls).toEqual([
      { hosts: ['as.example.com', 'as.internal'], secretName: 'as-certificate' },
      { hosts: ['as.example.org'], secretName: 'org-certificate' },
    ])
    const prefixes = ingress({ exactPaths: false }).rules[0]!.http.paths
    expect(new Set(prefixes.map(({ pathType }) => pathType))).toEqual(new Set(['Prefix']))
    expect(new Set(prefixes.map(({ path }) => path)).size).toBe(prefixes.length)
    expect(prefixes.length).toBeGreaterThan(10)
  })

  test('an HTTPRoute serves further host names', () => {
    const route = (more: Values) =>
      named(
        all({
          expose: { ownerApi: { gatewayApi: { enabled: true, parentRefs: [{ name: 'g' }], ...more } } },
          networkPolicy: { owners: [{ podSelector: {} }] },
        }),
        'HTTPRoute',
        'usher-owner',
      ).spec as unknown as { hostnames: string[] }
    expect(route({}).hostnames).toEqual(['as.example.com'])
    expect(route({ extraHostnames: ['owners.internal'] }).hostnames).toEqual([
      'as.example.com',
      'owners.internal',
    ])
  })

  test('every ServiceMonitor has the scrapeTimeout and the relabelings that are asked for', () => {
    const endpoints = (serviceMonitor: Values) =>
      all({ metrics: { serviceMonitor: { enabled: true, ...serviceMonitor } } })
        .filter(({ kind }) => kind === 'ServiceMonitor')
        .map(({ spec }) => (spec as unknown as { endpoints: Record<string, unknown>[] }).endpoints[0]!)
    const asked = {
      scrapeTimeout: '10s',
      relabelings: [{ targetLabel: 'team', replacement: 'platform' }],
      metricRelabelings: [{ sourceLabels: ['__name__'], regex: 'nodejs_.*', action: 'drop' }],
    }
    expect(endpoints({})).toHaveLength(ROLES.length)
    for (const endpoint of endpoints({}))
      for (const name of Object.keys(asked)) expect(endpoint).not.toHaveProperty(name)
    for (const endpoint of endpoints(asked)) expect(endpoint).toMatchObject(asked)
    expect(admitted(rendering({ metrics: { serviceMonitor: { enabled: true, ...asked } } }))).toBe('')
  })

  const images = (changes: Values) =>
    new Set(
      pods(all(changes)).flatMap(({ spec }) =>
        spec.containers.map(({ image }) => image.replace(/:[^:/]*$/, '')),
      ),
    )

  test.each([
    ['registry.example.com/usher', '', 'registry.example.com/usher'],
    ['registry.example.com/usher', 'mirror.internal:5000', 'mirror.internal:5000/usher'],
    ['registry.example.com/team/usher', 'mirror.internal/cache', 'mirror.internal/cache/team/usher'],
    ['team/usher', 'mirror.internal', 'mirror.internal/team/usher'],
    ['usher', 'mirror.internal', 'mirror.internal/usher'],
    ['localhost/usher', 'mirror.internal', 'mirror.internal/usher'],
  ])('the image %s with global.imageRegistry "%s" is %s in every pod', (repository, imageRegistry, image) => {
    expect(images({ image: { repository }, global: { imageRegistry } })).toEqual(new Set([image]))
  })

  test('global.imagePullSecrets, by name or as objects, are in every pod beside image.pullSecrets', () => {
    const changes = {
      global: { imagePullSecrets: ['company', { name: 'mirror' }] },
      image: { pullSecrets: [{ name: 'mirror' }, 'own'] },
    }
    const secrets = (spec: PodSpec) => (spec as { imagePullSecrets?: unknown }).imagePullSecrets
    for (const { spec, of } of pods(all(changes)))
      expect(secrets(spec), of).toEqual([{ name: 'company' }, { name: 'mirror' }, { name: 'own' }])
    for (const { spec, of } of pods(all({}))) expect(secrets(spec), of).toBeUndefined()
    expect(rendering(changes, valueSet('gateway-pod')).match(/- name: company/g)).toHaveLength(3)
  })

  test('extraObjects are installed as they are, templates of others in them included', () => {
    const object = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'note' },
      data: { text: '{{ .password }} stays as it is' },
    }
    expect(named(all({ extraObjects: [object] }), 'ConfigMap', 'note')).toEqual(object)
    expect(all({}).some(({ metadata }) => metadata.name === 'note')).toBe(false)
  })

  test('of a sidecar in the pod of a gateway, volumes and variables stand in the patch', () => {
    const sidecar = { extraVolumes: [VOLUME], extraVolumeMounts: [MOUNT], envFrom: [SOURCE] }
    const [pod] = pods(all({ sidecar }, valueSet('gateway-pod'))).filter(({ of }) =>
      of.startsWith('ConfigMap'),
    )
    expect(pod!.spec.volumes).toContainEqual(VOLUME)
    expect(pod!.spec.initContainers![0]).toMatchObject({
      volumeMounts: expect.arrayContaining([MOUNT]) as unknown,
      envFrom: [SOURCE],
    })
  })

  test.each(ROLES)('the additions to %s may be taken away by null', role => {
    const names = [...POD_ROWS.map(([value]) => value), 'serviceAnnotations', 'annotations', ...PROBES]
    const taken = names.map(name => [name, null])
    const { ok, text } = helm(
      found.helm,
      over(EVERY_ROLE, {
        ...ofEveryRole(Object.fromEntries(taken) as Values),
        global: null,
        extraObjects: null,
      }),
      ['template', 'usher', CHART, '--namespace', 'usher'],
    )
    expect(ok, text).toBe(true)
    expect(text).toContain(`name: usher-${role}`)
  })
})
