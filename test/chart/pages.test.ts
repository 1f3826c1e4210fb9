/**
 * The pages of docs/kubernetes: every manifest that they show is one that Kubernetes and its custom resources
 * admit, every block of values is rendered by the chart, and what the two say of each other fits.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { containers, pods, type Container, type Pod } from './pods.ts'
import {
  CHART,
  complaints,
  manifests,
  named,
  over,
  render,
  tools,
  type Manifest,
  type Values,
} from './render.ts'

const PAGES = join(ROOT, 'docs', 'kubernetes')
const NAMES = readdirSync(PAGES).map(file => file.replace(/\.md$/, ''))
const pageText = (name: string): string => readFileSync(join(PAGES, `${name}.md`), 'utf8')
/** As Kubernetes and Helm read YAML: 0440 is octal. */
const yamlOf = (text: string) =>
  parseAllDocuments(text, { version: '1.1' }).map(document => document.toJS() as object)
const blocks = (page: string, language: string): string[] =>
  [...page.matchAll(new RegExp('```' + language + '\\n([\\s\\S]*?)```', 'g'))].map(([, text]) => text!)

const isManifest = (one: object): one is Manifest => 'kind' in one && 'apiVersion' in one
const shownIn = (name: string): object[] => blocks(pageText(name), 'yaml').flatMap(yamlOf)
const manifestsIn = (name: string): Manifest[] => shownIn(name).filter(isManifest)
/** Values of Istio's own chart, which is no value of ours. */
const isMesh = (one: object): one is { meshConfig: object } => 'meshConfig' in one
const valuesIn = (name: string): Values[] =>
  shownIn(name).filter(one => !isManifest(one) && !isMesh(one)) as Values[]

/** Of these no Go module has the definition; their members are compared with a list below. */
const WITHOUT_SCHEMA = ['HelmRelease']

/** The values that docs/kubernetes.md has shown to a reader who comes to these pages. */
const BASE = blocks(readFileSync(join(ROOT, 'docs', 'kubernetes.md'), 'utf8'), 'yaml')
  .map(text => parse(text) as Values)
  .reduce((before, more) => over(before, more))

/** The names of all Secrets that a pod mounts or reads variables of. */
function secretsOf(pod: Pod): string[] {
  const found = [
    ...(pod.spec.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []),
    ...containers(pod).flatMap(({ env = [] }) =>
      env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef?.name ?? []),
    ),
  ]
  return [...new Set(found)].toSorted()
}

describeWith(tools('helm', 'kubeconform', 'schemas'), 'the pages of docs/kubernetes', found => {
  const admitted = (text: string) => {
    const schema = `${found.schemas}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    return complaints(found.kubeconform, ['-strict', '-schema-location', schema, '-'], text)
  }
  const asText = (all: object[]) => all.map(one => JSON.stringify(one)).join('\n---\n')
  const rendered = (values: Values) => manifests(render(found.helm, over(BASE, values)))

  test('there are eight', () => {
    expect(NAMES.toSorted()).toEqual(
      [
        'envoy-gateway',
        'external-secrets',
        'gitops',
        'istio',
        'kind',
        'openshift',
        'postgres-tls',
        'restore',
      ].toSorted(),
    )
  })

  describe.each(NAMES)('%s', name => {
    test('every manifest is one that its schema admits', () => {
      const judged = manifestsIn(name).filter(({ kind }) => !WITHOUT_SCHEMA.includes(kind))
      expect(judged.length === 0 ? '' : admitted(asText(judged))).toBe('')
    })

    test('every block of values is taken by the chart, and what it makes is admitted', () => {
      const faults = valuesIn(name).map(values => admitted(render(found.helm, over(BASE, values))))
      expect(faults.filter(Boolean)).toEqual([])
    })

    test('it shows something that can be judged', () => {
      expect(shownIn(name).length + blocks(pageText(name), 'sh').length).toBeGreaterThan(0)
    })
  })

  test('a fault in a manifest of a page would be found', () => {
    const [one] = manifestsIn('external-secrets')
    const wrong = { ...one!, spec: { ...one!.spec, provide: {} } }
    expect(admitted(asText([wrong]))).toContain('provide')
  })

  test('gitops: both tools install the chart of this repository with values that it takes alone', () => {
    const all = manifestsIn('gitops')
    const application = named(all, 'Application', 'usher').spec as unknown as {
      source: { path: string; helm: { valuesObject: Values } }
      destination: { namespace: string }
    }
    const release = named(all, 'HelmRelease', 'usher') as unknown as {
      apiVersion: string
      spec: Record<string, unknown> & { chart: { spec: { chart: string } }; values: Values }
    }
    expect([join(ROOT, application.source.path), join(ROOT, release.spec.chart.spec.chart)]).toEqual([
      CHART,
      CHART,
    ])
    for (const values of [application.source.helm.valuesObject, release.spec.values])
      expect(admitted(render(found.helm, values))).toBe('')
    // The members of helm.toolkit.fluxcd.io/v2 that the page uses, as its types name them.
    expect(release.apiVersion).toBe('helm.toolkit.fluxcd.io/v2')
    const known = [
      'interval',
      'releaseName',
      'targetNamespace',
      'chart',
      'install',
      'test',
      'driftDetection',
      'values',
    ]
    expect(Object.keys(release.spec).filter(member => !known.includes(member))).toEqual([])
  })

  test('openshift: no pod names a user, a group or an fsGroup, nor a volume that its rule forbids', () => {
    const [values] = valuesIn('openshift')
    const all = rendered(over(values!, { authority: { migration: { job: { enabled: true } } } }))
    for (const { spec, of } of pods(all)) {
      expect(JSON.stringify(spec), of).not.toMatch(/runAsUser|runAsGroup|fsGroup/)
      const kinds = (spec.volumes ?? []).flatMap(volume => Object.keys(volume).filter(key => key !== 'name'))
      expect(
        kinds.filter(kind => !['secret', 'configMap', 'emptyDir'].includes(kind)),
        of,
      ).toEqual([])
    }
    const { rules } = named(all, 'Ingress', 'usher-authority').spec as unknown as {
      rules: { http: { paths: { pathType: string }[] } }[]
    }
    expect(rules.flatMap(({ http }) => http.paths.map(({ pathType }) => pathType))).not.toContain('Exact')
    expect(rules[0]!.http.paths.length).toBeGreaterThan(10)
  })

  test('openshift: the patch for a gateway names no id either', () => {
    const [values] = valuesIn('openshift')
    const sidecar = { mode: 'container', tls: { existingSecret: '' } }
    const text = render(found.helm, over(over(BASE, values!), { sidecar }))
    const [, patch] = text.split('usher-gateway-patch')
    expect(patch).toContain('usher-sidecar')
    expect(text).not.toMatch(/runAsUser|runAsGroup|fsGroup/)
  })

  test('external-secrets: the operator makes each Secret that the authority takes, and restarts name those that come at once', () => {
    const made = manifestsIn('external-secrets').flatMap(({ kind, metadata }) =>
      kind === 'ExternalSecret' ? [metadata.name] : [],
    )
    const [values] = valuesIn('external-secrets')
    const all = rendered(values!)
    for (const role of ['authority', 'sidecar']) {
      const pod = pods(all).find(({ of }) => of === `Deployment usher-${role}`)!
      const { annotations } = named(all, 'Deployment', `usher-${role}`).metadata
      const restarting = annotations!['secret.reloader.stakater.com/reload']!.split(',')
      // A certificate is read again by itself; a client secret is the authority's first.
      const spared = role === 'sidecar' ? ['check-certificate', 'usher-client-secrets'] : []
      const readOnce = secretsOf(pod).filter(name => !spared.includes(name))
      expect(restarting.toSorted(), role).toEqual(readOnce)
      if (role === 'authority') expect(restarting.toSorted()).toEqual(made.toSorted())
    }
    const objects = manifestsIn('external-secrets') as unknown as Values[]
    const installed = rendered({ extraObjects: objects })
    expect(JSON.stringify(installed)).toContain('{{ .password | urlquery }}')
  })

  test('postgres-tls: the CA reaches the authority and the Job that migrates, and the private key beside it neither', () => {
    const migrating = { authority: { migration: { job: { enabled: true } } } }
    const [whole, alone, operator] = valuesIn('postgres-tls').map(values => rendered(over(values, migrating)))
    const ofDatabase = (all: Manifest[]) =>
      pods(all).filter(({ of }) => /^Deployment usher-authority$|^Job usher-migrate/.test(of))
    for (const all of [whole!, operator!])
      for (const pod of ofDatabase(all))
        expect(containers(pod)[0]!.env, pod.of).toContainEqual({
          name: 'NODE_EXTRA_CA_CERTS',
          value: '/etc/usher/extra-ca/ca.crt',
        })
    const mount = { name: 'database-ca', mountPath: '/etc/usher-database', readOnly: true }
    for (const pod of ofDatabase(alone!)) {
      expect(containers(pod)[0]!.volumeMounts, pod.of).toContainEqual(mount)
      const volume = pod.spec.volumes!.find(({ name }) => name === 'database-ca')
      expect(volume!.secret).toEqual({ secretName: 'usher-database-ca', defaultMode: 0o440 })
    }
    expect(pageText('postgres-tls')).toContain(`sslrootcert=${mount.mountPath}/ca.crt`)
    for (const pod of ofDatabase(operator!)) {
      const volume = pod.spec.volumes!.find(({ name }) => name === 'usher-extra-ca')
      expect(volume!.secret!.items).toEqual([{ key: 'ca.crt', path: 'ca.crt' }])
    }
    expect([whole, alone, operator].map(all => ofDatabase(all!).length)).toEqual([2, 2, 2])
  })

  test('postgres-tls: the log says the words of its list', () => {
    const page = pageText('postgres-tls').split('## When it does not work')[1]!
    const words = [...page.matchAll(/^- `([^`]+)`/gm)].map(([, text]) => text!)
    const source = readFileSync(join(ROOT, 'src', 'storage', 'core', 'database-wait.ts'), 'utf8')
    expect(words.length).toBe(5)
    expect(words.filter(text => !source.includes(text))).toEqual([])
  })

  test('restore: the values stop every authority, and the pod of the Job is that which migrates, with two commands', () => {
    const [stopped] = valuesIn('restore').map(rendered)
    expect(named(stopped!, 'Deployment', 'usher-authority').spec).toMatchObject({ replicas: 0 })
    expect(stopped!.filter(({ kind }) => kind === 'HorizontalPodAutoscaler')).toEqual([])

    const migrating = pods(rendered({ authority: { migration: { job: { enabled: true } } } })).find(
      ({ of }) => of.startsWith('Job usher-migrate'),
    )!
    const [own] = pods(manifestsIn('restore'))
    const { containers: after, initContainers: before, ...pod } = own!.spec
    const { containers: chart, ...chartPod } = migrating.spec
    expect(own!.labels).toEqual(migrating.labels)
    // A person reads the log of one that failed.
    expect(pod).toEqual({ ...chartPod, restartPolicy: 'Never' })
    const withoutCommand = (container: Container) => ({
      ...container,
      name: '',
      args: [],
      // The tag is of one version.
      image: container.image.split(':')[0],
    })
    expect([...before!, ...after].map(withoutCommand)).toEqual([chart[0]!, chart[0]!].map(withoutCommand))
    const [migrate, end] = [...before!, ...after].map(({ args }) => args!.join(' '))
    expect(migrate).toBe('migrate')
    const restore = readFileSync(join(ROOT, 'docs', 'restore.md'), 'utf8')
    expect(restore).toContain(`\nusher ${end}\n`)
    const command = readFileSync(join(ROOT, 'src', 'authority', 'administration', 'main.ts'), 'utf8')
    expect(command).toContain(/The log ends with `([^…]+)…/.exec(pageText('restore'))![1]!)
  })

  test('istio: the provider is that of envoy/istio/mesh-config.yaml', () => {
    const [mesh] = shownIn('istio').filter(isMesh)
    const example = readFileSync(join(ROOT, 'envoy', 'istio', 'mesh-config.yaml'), 'utf8')
    expect(mesh!.meshConfig).toEqual(parse(example))
  })

  test('istio: the gateway shows a certificate that the page makes, of the CA that the sidecar asks for', () => {
    const all = manifestsIn('istio')
    const certificate = named(all, 'Certificate', 'usher-gateway')
    const [own] = valuesIn('istio').map(rendered)
    const rule = named(own!, 'DestinationRule', 'usher-check')
    expect(rule.metadata.namespace).toBe(certificate.metadata.namespace)
    expect(rule.spec).toMatchObject({
      trafficPolicy: { tls: { mode: 'MUTUAL', credentialName: certificate.spec['secretName'] } },
    })
    const { issuerRef } = named(own!, 'Certificate', 'usher-check').spec as unknown as { issuerRef: object }
    const made = certificate.spec as unknown as { issuerRef: object }
    expect(issuerRef).toMatchObject(made.issuerRef)
  })

  test('istio: of the mesh, the policies select the pods of the sidecar, and the gateway uses no certificate of ours', () => {
    const all = manifestsIn('istio')
    const [, mesh] = valuesIn('istio').map(rendered)
    const { labels } = pods(mesh!).find(({ of }) => of === 'Deployment usher-sidecar')!
    for (const kind of ['PeerAuthentication', 'AuthorizationPolicy']) {
      const policy = named(all, kind, 'usher-sidecar')
      const { selector } = policy.spec as unknown as { selector: { matchLabels: object } }
      expect(labels).toMatchObject(selector.matchLabels)
      expect(policy.metadata.namespace).toBe('usher')
    }
    expect(labels['sidecar.istio.io/inject']).toBe('true')
    expect(JSON.stringify(named(mesh!, 'DestinationRule', 'usher-check'))).not.toContain('MUTUAL')
    const [principal] = /cluster\.local\/ns\/([\w-]+)\//.exec(JSON.stringify(all))!.slice(1)
    expect(named(mesh!, 'AuthorizationPolicy', 'usher').metadata.namespace).toBe(principal)
  })

  test('envoy-gateway: what the chart makes names the route, the Secret and the ConfigMap of the page', () => {
    const all = manifestsIn('envoy-gateway')
    const [own] = valuesIn('envoy-gateway').map(rendered)
    const route = named(all, 'HTTPRoute', 'alice')
    const policy = named(own!, 'SecurityPolicy', 'usher-alice')
    expect(policy.metadata.namespace).toBe(route.metadata.namespace)
    expect(policy.spec).toMatchObject({ targetRefs: [{ kind: 'HTTPRoute', name: 'alice' }] })
    const shown = named(all, 'EnvoyProxy', 'tools').spec as unknown as {
      backendTLS: { clientCertificateRef: { name: string } }
    }
    const certificate = named(all, 'Certificate', 'usher-gateway')
    expect(shown.backendTLS.clientCertificateRef.name).toBe(certificate.spec['secretName'])
    expect(certificate.metadata.namespace).toBe('tools')
    const caName = /create configmap ([\w-]+) --from-file=ca\.crt/.exec(pageText('envoy-gateway'))![1]!
    expect(JSON.stringify(named(own!, 'BackendTLSPolicy', 'usher-check'))).toContain(`"${caName}"`)
    const documents = named(own!, 'HTTPRoute', 'usher-documents').spec as unknown as { parentRefs: object[] }
    expect(documents.parentRefs).toEqual([{ name: 'tools', namespace: 'tools' }])
  })
})
