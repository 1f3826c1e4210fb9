/**
 * What the chart promises besides being well-formed: which pods may reach which, and what restarts and what
 * does not.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { rowsOfLayer } from '../support/layer.ts'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { containers, pods } from './pods.ts'
import {
  CHART,
  named,
  over,
  render,
  rendered,
  tools,
  valueSet,
  VALUE_SETS,
  type Manifest,
  type Values,
} from './render.ts'

/** Every role of the chart in one release, and the one with the most settings of its own. */
const WITH_AUTHORITY: Values = { authority: { enabled: true } }
const RELEASES = [
  ['witness', 'tally', 'organization', 'ha'].map(valueSet).concat(WITH_AUTHORITY).reduce(over),
  valueSet('locked-down'),
]

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }

describeWith(tools('helm'), 'the chart', ({ helm }) => {
  // manifests.test.ts, which runs beside this file, begins with the first: neither renders what the other
  // did.
  const sets = new Map(VALUE_SETS.toReversed().map(name => [name, rendered(helm, valueSet(name))]))
  const of = (name: string) => sets.get(name)!
  const changed = (name: string, changes: Values) => rendered(helm, over(valueSet(name), changes))
  const podOf = (all: Manifest[], name: string) => pods(all).find(pod => pod.of === name)!

  describe('who reaches whom', () => {
    const ingress = (all: Manifest[], name: string) =>
      (
        named(all, 'NetworkPolicy', name).spec as unknown as {
          ingress: { ports: { port: string }[]; from?: object[] }[]
        }
      ).ingress

    test('the check ports are open to the gateway and the pod of the test alone', () => {
      const rules = ingress(of('mutual-tls'), 'usher-sidecar')
      const open = rules.filter(({ ports }) => ports.some(({ port }) => port.startsWith('check')))
      expect(open).toHaveLength(1)
      expect(open[0]!.ports.map(({ port }) => port)).toEqual(['check', 'check-http', 'usher-documents'])
      expect(open[0]!.from).toEqual([
        { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'tools' } } },
        {
          podSelector: {
            matchLabels: expect.objectContaining({ 'app.kubernetes.io/component': 'test' }) as unknown,
          },
        },
      ])
    })

    test('every pod is under a policy, and the owner API is open to nobody unless somebody is named', () => {
      expect(
        ingress(of('default'), 'usher-authority').flatMap(({ ports }) => ports.map(({ port }) => port)),
      ).toEqual(['public'])
      expect(
        ingress(of('envoy-gateway'), 'usher-authority').find(({ ports }) => ports[0]!.port === 'owner')?.from,
      ).toHaveLength(1)
      expect(named(of('locked-down'), 'NetworkPolicy', 'usher-migrate').spec).toMatchObject({ ingress: [] })
    })

    test('a tally is reached by agents, and by sidecars and the authority of the release, at its public port', () => {
      const [open, metrics] = ingress(of('tally'), 'usher-tally')
      expect(open!.ports).toEqual([{ port: 'public' }])
      const labels = JSON.stringify(open!.from)
      for (const component of ['sidecar', 'authority']) expect(labels).toContain(`component":"${component}"`)
      expect(metrics!.ports).toEqual([{ port: 'metrics' }])
      const [container] = containers(podOf(of('tally'), 'Deployment usher-tally'))
      expect(container!.args).toEqual(['tally'])
      expect(container!.env).toContainEqual({
        name: 'DATABASE_URL',
        valueFrom: { secretKeyRef: { name: 'usher-tally-database', key: 'uri' } },
      })
      expect(named(of('tally'), 'Certificate', 'usher-tally').spec).toMatchObject({
        dnsNames: expect.arrayContaining(['tally.example.com']) as unknown,
      })
    })

    test('a witness is reached at its public port by ingress and authority, and has its file of issuers', () => {
      const [open, metrics] = ingress(of('witness'), 'usher-witness')
      expect([open!.ports, metrics!.ports]).toEqual([[{ port: 'public' }], [{ port: 'metrics' }]])
      expect(JSON.stringify(open!.from)).not.toContain('component":"sidecar"')
      const [container] = containers(podOf(of('witness'), 'Deployment usher-witness'))
      const value = '/etc/usher/issuers/witness.yaml'
      expect(container!.env).toContainEqual({ name: 'UMA_WITNESS_LOGS', value })
    })

    test('the administration of an organization is reached by those who are named alone, on a Service of its own', () => {
      const all = of('organization')
      const open = (changes: Values) =>
        ingress(changed('organization', changes), 'usher-organization').map(({ ports }) => ports[0]!.port)
      expect(open({})).toEqual(['public', 'admin', 'metrics'])
      expect(open({ networkPolicy: { administrators: [] } })).toEqual(['public', 'metrics'])
      const [rule] = ingress(all, 'usher-organization')
      for (const component of ['sidecar', 'authority'])
        expect(JSON.stringify(rule!.from)).toContain(`component":"${component}"`)
      const ports = (name: string) =>
        (named(all, 'Service', name).spec as unknown as { ports: { port: number }[] }).ports.map(
          ({ port }) => port,
        )
      expect([ports('usher-organization'), ports('usher-organization-admin')]).toEqual([[9300], [9301]])
      expect(named(all, 'Certificate', 'usher-organization').spec).toMatchObject({
        dnsNames: expect.arrayContaining([
          'org.example.com',
          'usher-organization-admin.usher.svc',
        ]) as unknown,
      })
    })

    test('where egress is held back, the database is reached at the address that was named alone', () => {
      const { egress } = named(of('locked-down'), 'NetworkPolicy', 'usher-authority').spec as unknown as {
        egress: { ports: { port: number }[]; to?: object[] }[]
      }
      expect(egress.find(({ ports }) => ports[0]!.port === 5432)?.to).toEqual([
        { ipBlock: { cidr: '10.20.0.0/16' } },
      ])
    })
  })

  describe('what restarts', () => {
    const annotations = (changes: Values) =>
      podOf(changed('sidecar', changes), 'Deployment usher-sidecar').annotations

    test('a change of the file of the sidecar does, for it is read at the start alone', () => {
      expect(annotations({ sidecar: { config: { realm: 'other' } } })).not.toEqual(annotations({}))
    })

    test('a change of what is around it does not', () => {
      const watched = {
        networkPolicy: { monitoring: [{ podSelector: {} }] },
        metrics: { serviceMonitor: { enabled: true } },
      }
      expect(annotations({ sidecar: { replicas: 7 }, ...watched })).toEqual(annotations({}))
    })

    test('certificates are read again by the process: nothing in the pod follows what is in them', () => {
      const text = render(helm, valueSet('mutual-tls'))
      expect(text.match(/checksum\/[\w-]+/g)).toEqual(['checksum/usher-config'])
    })

    test('of a file that the chart does not see there is no checksum', () => {
      expect(podOf(of('minimal'), 'Deployment usher-sidecar').annotations).toEqual({})
    })

    test('a migration is a Job of its own for each version and each change of it, and the authorities then migrate nothing', () => {
      const job = (changes: Values) =>
        changed('ha', changes).find(({ kind }) => kind === 'Job')!.metadata.name
      expect(job({})).toMatch(new RegExp(`^usher-migrate-${version.replaceAll('.', '-')}-[0-9a-f]{8}$`))
      expect(job({ authority: { replicas: 9 } })).toBe(job({}))
      expect(job({ image: { tag: '9.2.0' } })).toMatch(/^usher-migrate-9-2-0-/)
      expect(job({ authority: { migration: { job: { existingSecret: 'other' } } } })).not.toBe(job({}))
      const [authority] = containers(podOf(of('ha'), 'Deployment usher-authority'))
      expect(authority!.env).toContainEqual({ name: 'UMA_AS_MIGRATE', value: 'false' })
      const migrating = pods(of('ha')).find(pod => pod.of.startsWith('Job'))!
      expect(JSON.stringify(migrating.spec.containers)).toContain('usher-database-ddl')
      expect(JSON.stringify(podOf(of('ha'), 'Deployment usher-authority').spec)).not.toContain('ddl')
    })
  })

  test('an organization is migrated by a Job with a log-in that its pods do not have', () => {
    const all = of('organization')
    const job = pods(all).find(pod => pod.of.startsWith('Job usher-organization-migrate-'))!
    expect(containers(job).map(({ args }) => args)).toEqual([['organization', 'migrate']])
    expect(JSON.stringify(job.spec)).toContain('usher-organization-database-ddl')
    const [organization] = containers(podOf(all, 'Deployment usher-organization'))
    expect(organization!.env).toContainEqual({ name: 'UMA_ORG_MIGRATE', value: 'false' })
    expect(JSON.stringify(organization)).not.toContain('ddl')
    expect(named(all, 'NetworkPolicy', 'usher-organization-migrate').spec).toMatchObject({ ingress: [] })
  })

  test('a Job has a name that Kubernetes takes, however long the names that it is made of are', () => {
    const names = { fullnameOverride: 'f'.repeat(40), image: { tag: '1.0.0-beta.7' } }
    for (const set of ['ha', 'organization']) {
      const jobs = changed(set, names).filter(({ kind }) => kind === 'Job')
      expect(jobs.map(({ metadata }) => metadata.name.length)).toEqual([
        expect.toSatisfy(length => length <= 63),
      ])
    }
  })

  describe('what Kubernetes lets nobody change', () => {
    /** Changes under which names may stay, and what cannot be changed must then stay too. */
    const CHANGES: [string, Values][] = [
      ['common labels', { commonLabels: { team: 'other', 'cost-center': '7' } }],
      ['labels of the pods', { authority: { podLabels: { tier: 'control' } } }],
      ['common annotations', { commonAnnotations: { 'example.com/note': 'other' } }],
      ['the name that names are made of, under a full name', { nameOverride: 'gate' }],
      ['the image', { image: { tag: '9.2.0' } }],
      ['the digest alone', { image: { digest: `sha256:${'a'.repeat(64)}` } }],
      ['the log-in of the migration', { authority: { migration: { job: { existingSecret: 'other' } } } }],
      ['what the migration may use', { authority: { migration: { job: { resources: {} } } } }],
      ['the CA of others', { extraCa: { existingConfigMap: 'company', existingSecret: '' } }],
      [
        'the log-in of the migration of an organization',
        { organization: { migration: { job: { key: 'other' } } } },
      ],
      ['who runs it', { security: { runAsUser: 4711 } }],
      ['the account', { serviceAccount: { create: false, name: 'other' } }],
      ['further variables', { authority: { extraEnv: [{ name: 'PGSSLMODE', value: 'require' }] } }],
    ]
    /** Of each object, by its kind and name, what the API server refuses to change. */
    const fixed = (all: Manifest[]) =>
      new Map(all.flatMap(one => immutable(one).map(part => [`${one.kind} ${one.metadata.name}`, part])))
    const base = { fullnameOverride: 'fixed' }

    test.each(CHANGES)('%s: an object that keeps its name keeps it', (_title, changes) => {
      for (const values of rowsOfLayer(RELEASES, one => one === RELEASES[0])) {
        const before = fixed(rendered(helm, over(values, base)))
        const after = fixed(rendered(helm, over(over(values, base), changes)))
        expect(before.size).toBeGreaterThan(0)
        for (const [name, part] of after) if (before.has(name)) expect(part, name).toBe(before.get(name))
        for (const name of before.keys())
          if (!name.startsWith('Job ')) expect([...after.keys()]).toContain(name)
      }
    })

    test('a common label that changed gives the migration another name', () => {
      const job = (labels: Values) =>
        changed('ha', { commonLabels: labels }).find(({ kind }) => kind === 'Job')!.metadata.name
      expect(job({ team: 'one' })).not.toBe(job({ team: 'other' }))
    })
  })

  describe('how it ends and starts', () => {
    test.each([
      ['ha', 'Deployment usher-authority', 12_500],
      ['default', 'Deployment usher-authority', 5000],
      ['tally', 'Deployment usher-tally', 5000],
      ['witness', 'Deployment usher-witness', 5000],
      ['organization', 'Deployment usher-organization', 5000],
      ['sidecar', 'Deployment usher-sidecar', 2000],
    ])('%s: %s has 15 s more than its drain', (name, pod, drainMs) => {
      expect(podOf(of(name), pod).spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
        drainMs / 1000 + 15,
      )
    })

    test('a grace that was wanted is never cut below the drain', () => {
      const all = changed('sidecar', {
        sidecar: { terminationGraceSeconds: 1, config: { drain_ms: 60_000 } },
      })
      expect(podOf(all, 'Deployment usher-sidecar').spec.terminationGracePeriodSeconds).toBe(75)
    })

    test('probes ask the process itself, over HTTP, and never about the registry', () => {
      for (const [name, all] of sets) {
        for (const { of, container } of pods(all)
          .filter(({ of }) => !/^(?:Job|Pod) /.test(of))
          .flatMap(pod => containers(pod).map(container => ({ of: pod.of, container })))) {
          const probes = [container.startupProbe, container.readinessProbe, container.livenessProbe]
          // In the pod of a gateway a sidecar that could let nothing pass takes no routes of others out.
          const inGateway = of === 'ConfigMap usher-gateway-patch'
          expect(
            probes.map(probe => probe?.httpGet?.path),
            name,
          ).toEqual(['/health', inGateway ? '/health' : '/ready', '/health'])
          const ports = container.ports!.map(({ name }) => name)
          for (const probe of probes) expect(ports).toContain(probe!.httpGet!.port)
        }
      }
      const [sidecar] = containers(podOf(of('mutual-tls'), 'Deployment usher-sidecar'))
      expect(sidecar!.readinessProbe!.httpGet).toMatchObject({ port: 'usher-documents', scheme: 'HTTPS' })
    })

    test('a start may take longer than a replica waits for another that migrates, and Helm and Kubernetes wait for it', () => {
      const source = readFileSync(join(ROOT, 'src', 'storage', 'migrate.ts'), 'utf8')
      const lockMs = Number(/^const LOCK_MS_MAX = ([\d_]+)$/m.exec(source)![1]!.replaceAll('_', ''))
      const starts = [
        ['ha', 'usher-authority'],
        ['tally', 'usher-tally'],
        ['witness', 'usher-witness'],
        ['organization', 'usher-organization'],
      ].map(([set, name]) => {
        const [container] = containers(podOf(of(set!), `Deployment ${name}`))
        const { failureThreshold, periodSeconds } = container!.startupProbe!
        const { spec } = named(of(set!), 'Deployment', name!)
        return [failureThreshold * periodSeconds, Number(spec['progressDeadlineSeconds'])] as const
      })
      for (const [startSeconds, deadlineSeconds] of starts) {
        expect(startSeconds * 1000).toBeGreaterThan(lockMs)
        expect(deadlineSeconds).toBeGreaterThan(startSeconds)
      }
      const page = readFileSync(join(ROOT, 'docs', 'kubernetes.md'), 'utf8')
      const minutes = [...page.matchAll(/^helm .* --wait(?: --timeout (\d+)m)?$/gm)].map(([, text]) =>
        Number(text),
      )
      expect(minutes).toEqual([15, 15])
      expect(Math.min(...minutes) * 60).toBeGreaterThanOrEqual(starts[0]![0])
    })

    test('one at a time, none is missed: a new one is up before an old one goes, and evictions leave one', () => {
      for (const name of ['usher-authority', 'usher-sidecar']) {
        expect(named(of('sidecar'), 'Deployment', name).spec).toMatchObject({
          minReadySeconds: 5,
          strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
        })
        expect(named(of('sidecar'), 'PodDisruptionBudget', name).spec).toMatchObject({ minAvailable: 1 })
      }
      expect(named(of('ha'), 'Deployment', 'usher-authority').spec).not.toHaveProperty('replicas')
    })
  })

  describe('attachments', () => {
    const examples = (file: string) =>
      parseAllDocuments(readFileSync(join(ROOT, 'envoy', file), 'utf8')).map(
        document => document.toJS() as Manifest,
      )

    test('of Istio ask as the examples in envoy/istio do', () => {
      const wanted = named(examples('istio/authorization-policy.yaml'), 'AuthorizationPolicy', 'usher').spec
      const selector = { selector: { matchLabels: { istio: 'ingress' } } }
      expect(named(of('istio'), 'AuthorizationPolicy', 'usher').spec).toEqual({
        ...(wanted as object),
        ...selector,
      })
      const filter = named(examples('istio/envoy-filter.yaml'), 'EnvoyFilter', 'usher-gateway').spec as {
        configPatches?: unknown
      }
      expect(named(of('istio'), 'EnvoyFilter', 'usher-gateway').spec).toMatchObject({
        configPatches: filter.configPatches,
      })
    })

    test('of Envoy Gateway ask as the example in envoy/envoy-gateway does', () => {
      const wanted = named(
        examples('envoy-gateway/security-policy.yaml'),
        'SecurityPolicy',
        'usher-alice',
      ).spec
      const config = { allowed_origins: ['https://app.example.com'] }
      const asked = changed('envoy-gateway', { sidecar: { config } })
      expect(named(asked, 'SecurityPolicy', 'usher-alice').spec).toEqual(wanted)
      // Without pages that may call nothing is answered to them.
      const { cors: _pages, ...others } = wanted as Record<string, unknown>
      expect(named(of('envoy-gateway'), 'SecurityPolicy', 'usher-alice').spec).toEqual(others)
    })

    test('take the cap on bodies from the file of the sidecar', () => {
      const all = changed('envoy-gateway', { sidecar: { config: { body_bytes_max: 16_777_216 } } })
      expect(named(all, 'SecurityPolicy', 'usher-alice').spec).toMatchObject({
        extAuth: { bodyToExtAuth: { maxRequestBytes: 16_777_216 } },
      })
    })
  })

  test('a route of Envoy Gateway without an owner is for all, and says nobody', () => {
    const all = changed('envoy-gateway', { envoyGateway: { routes: [{ httpRoute: 'tools' }] } })
    expect(JSON.stringify(named(all, 'SecurityPolicy', 'usher-tools').spec)).not.toContain(
      'contextExtensions',
    )
  })

  test('helm test calls the first of the resources that all owners have', () => {
    const tools = [{ tool: 'note_read', resource_id: '{owner}/notes', scopes: ['read'] }]
    const resources = [{ path: '/notes/{owner}', tools }]
    const signing = { owner: 'bea', authority: 'https://as.example.com', signature: true, register: true }
    const all = changed('mutual-tls', { sidecar: { config: { owners: [signing], resources } } })
    const text = JSON.stringify(named(all, 'Pod', 'usher-test'))
    expect(text).toContain('/notes/bea')
    expect(text).toContain('note_read')
  })

  test('the version of the chart, of its application and of the package are one', () => {
    const chart = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')) as object
    expect(chart).toMatchObject({ version, appVersion: version })
  })
})

/** What the API server lets nobody change of an object, as text. */
function immutable({ kind, spec }: Manifest): string[] {
  const { template, selector, clusterIP } = (spec ?? {}) as unknown as Record<string, unknown>
  if (kind === 'Job') return [JSON.stringify(template)]
  if (kind === 'Deployment') return [JSON.stringify(selector)]
  return kind === 'Service' ? [JSON.stringify(clusterIP ?? 'given by the cluster')] : []
}
