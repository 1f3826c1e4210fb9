/**
 * Every value set, rendered: checked against the schemas of Kubernetes, the rules for every pod, and usher's
 * own configuration.
 */
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { AUTHORITY_SETTINGS } from '../../src/config/authority.ts'
import { ORGANIZATION_FILE } from '../../src/config/provisioning/organization-file.ts'
import { ORGANIZATION_MIGRATION_SETTINGS, ORGANIZATION_SETTINGS } from '../../src/config/organization.ts'
import { PROVISION_FILE } from '../../src/config/provisioning/provision.ts'
import { readSettings } from '../../src/config/settings.ts'
import { SIDECAR_FILE } from '../../src/config/sidecar/sidecar-file.ts'
import { TALLY_FILE } from '../../src/config/provisioning/tally-file.ts'
import { TALLY_SETTINGS } from '../../src/config/tally.ts'
import { WITNESS_FILE } from '../../src/config/witness/witness-file.ts'
import { WITNESS_SETTINGS } from '../../src/config/witness/witness.ts'
import { SIDECAR_SETTINGS } from '../../src/config/sidecar/sidecar.ts'
import { TRACING_SETTINGS } from '../../src/config/tracing.ts'
import { rowsOfLayer } from '../support/layer.ts'
import { describeWith } from '../support/requirement.ts'
import { manifestCheck } from '../support/schemas.ts'
import { containers, pods, type Container } from './pods.ts'
import { CHART, complaints, helm, manifests, render, tools, valueSet, VALUE_SETS } from './render.ts'

/** The sidecar's `reports.state_dir`: the one place that is written, and no secret. */
const REPORTS = 'usher-state'

describeWith(tools('helm', 'kubeconform', 'schemas'), 'the chart, of each value set', found => {
  const texts = new Map(VALUE_SETS.map(name => [name, render(found.helm, valueSet(name))]))
  const of = (name: string) => manifests(texts.get(name)!)

  test('there are at least eight', () => {
    expect(VALUE_SETS.length).toBeGreaterThanOrEqual(8)
  })

  // Lint renders once more; `make check` has each set linted.
  const linted = rowsOfLayer(VALUE_SETS, name =>
    ['default', 'gateway-pod', 'ha', 'organization'].includes(name),
  )
  test.each(linted)('%s: helm lint finds nothing', name => {
    expect(helm(found.helm, valueSet(name), ['lint', '--strict', '--quiet', CHART])).toEqual({
      ok: true,
      text: '',
    })
  })

  test.each(VALUE_SETS)('%s: every manifest is one that Kubernetes and its custom resources admit', name => {
    const schema = `${found.schemas}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    expect(complaints(found.kubeconform, ['-strict', '-schema-location', schema, '-'], texts.get(name))).toBe(
      '',
    )
  })

  test('a fault in a manifest is found', () => {
    const schema = `${found.schemas}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    const wrong = texts.get('ha')!.replace('minReadySeconds:', 'minReadySecond:')
    expect(complaints(found.kubeconform, ['-strict', '-schema-location', schema, '-'], wrong)).toContain(
      'minReadySecond',
    )
  })

  describe.each(VALUE_SETS)('%s: every pod', name => {
    const all = pods(of(name))

    test('there are some', () => {
      expect(all.length).toBeGreaterThan(0)
    })

    test.each(all.map(pod => [pod.of, pod] as const))(
      '%s keeps to the restricted standard and has no rights',
      (_of, pod) => {
        const { spec } = pod
        expect(spec).toMatchObject({
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
        })
        for (const host of ['hostNetwork', 'hostPID', 'hostIPC']) expect(spec).not.toHaveProperty(host)
        for (const { name, securityContext, resources, ports } of containers(pod)) {
          expect(securityContext, name).toMatchObject({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            runAsNonRoot: true,
            capabilities: { drop: ['ALL'] },
            seccompProfile: { type: 'RuntimeDefault' },
          })
          expect(securityContext).not.toHaveProperty('privileged')
          expect(securityContext?.['capabilities']).not.toHaveProperty('add')
          expect(securityContext?.['runAsUser']).not.toBe(0)
          expect(resources?.limits?.memory).toMatch(/^\d+Mi$/)
          expect(resources?.requests?.cpu).toBeDefined()
          for (const port of ports ?? []) expect(port).not.toHaveProperty('hostPort')
        }
      },
    )

    test.each(all.map(pod => [pod.of, pod] as const))(
      '%s mounts secrets for its group alone, and nothing to write but where reports wait',
      (_of, { spec, of }) => {
        const isSecret = (spec.volumes ?? []).some(({ secret }) => secret)
        expect(!isSecret || spec.securityContext?.fsGroup !== undefined, of).toBe(true)
        for (const volume of spec.volumes ?? []) {
          if (volume.name === REPORTS) expect(volume).toEqual({ name: REPORTS, emptyDir: {} })
          else
            expect(
              Object.keys(volume).filter(
                kind => kind !== 'name' && kind !== 'secret' && kind !== 'configMap',
              ),
            ).toEqual([])
          if (volume.secret !== undefined) expect(volume.secret.defaultMode, volume.name).toBe(0o440)
        }
        for (const container of [...(spec.initContainers ?? []), ...spec.containers]) {
          for (const mount of container.volumeMounts ?? []) {
            expect(mount.readOnly, mount.name).toBe(mount.name === REPORTS ? undefined : true)
            expect(spec.volumes?.map(({ name }) => name)).toContain(mount.name)
          }
        }
      },
    )
  })

  test.each(VALUE_SETS)('%s: no kind gives rights, and no hook runs but the test', name => {
    const all = of(name)
    expect(
      all.map(({ kind }) => kind).filter(kind => /Role|Secret$|Webhook|CustomResourceDefinition/.test(kind)),
    ).toEqual([])
    const hooks = all.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] !== undefined)
    expect(hooks.map(({ metadata }) => metadata.annotations!['helm.sh/hook'])).toEqual(['test'])
    expect(texts.get(name)).not.toContain('initContainers:\n        - name: wait')
  })

  const envOf = ({ env = [] }: Container) =>
    Object.fromEntries(
      env.map(({ name, value, valueFrom }) => [name, value ?? `from ${valueFrom?.secretKeyRef?.name}`]),
    )
  const known = new Set(
    [AUTHORITY_SETTINGS, SIDECAR_SETTINGS, TALLY_SETTINGS, WITNESS_SETTINGS, ORGANIZATION_SETTINGS].flatMap(
      ({ settings }) => Object.values(settings).map(({ variable }) => variable),
    ),
  )

  test.each(VALUE_SETS)('%s: each process takes the variables that its container has', name => {
    for (const container of pods(of(name)).flatMap(containers)) {
      const environment = envOf(container)
      const realmOf = (prefix: string) =>
        environment[`${prefix}_OIDC_ISSUER`] && {
          [`${prefix}_OIDC_ISSUER`]: 'https://realm.example.com',
          [`${prefix}_OIDC_AUDIENCE`]: 'owners',
        }
      const database = environment['DATABASE_URL'] && {
        DATABASE_URL: 'postgres://usher@db.example.com/usher',
      }
      const given = { ...environment, ...database, ...realmOf('UMA_AS'), ...realmOf('UMA_ORG') }
      const reading = (): unknown => {
        if (container.args?.[0] === 'authority') return readSettings(AUTHORITY_SETTINGS, given, known)
        if (container.args?.join(' ') === 'organization')
          return readSettings(ORGANIZATION_SETTINGS, given, known)
        if (container.args?.join(' ') === 'organization migrate')
          return readSettings(ORGANIZATION_MIGRATION_SETTINGS, given, known)
        if (container.args?.[0] === 'sidecar') return readSettings(SIDECAR_SETTINGS, given, known)
        if (container.args?.[0] === 'witness') return readSettings(WITNESS_SETTINGS, given, known)
        return container.args?.[0] === 'tally' && readSettings(TALLY_SETTINGS, given, known)
      }
      expect(reading).not.toThrow()
      const traces = Object.entries(environment).filter(([variable]) => variable.startsWith('OTEL_'))
      const plain = traces.map(([variable, value]) => [variable, value.startsWith('from ') ? 'a=b' : value])
      readSettings(TRACING_SETTINGS, Object.fromEntries(plain) as Record<string, string>, known)
    }
  })

  test.each(VALUE_SETS)(
    '%s: each file is one that its process takes, and names only what is mounted',
    name => {
      const all = of(name)
      const files = all.flatMap(({ data = {} }) => Object.entries(data))
      for (const [file, text] of files) {
        if (file === 'sidecar.yaml') expect(SIDECAR_FILE.safeParse(parse(text)).error).toBeUndefined()
        if (file === 'tally.yaml') expect(TALLY_FILE.safeParse(parse(text)).error).toBeUndefined()
        if (file === 'witness.yaml') expect(WITNESS_FILE.safeParse(parse(text)).error).toBeUndefined()
        if (file === 'organization.yaml')
          expect(ORGANIZATION_FILE.safeParse(parse(text)).error).toBeUndefined()
        if (file === 'provisioning.yaml') expect(PROVISION_FILE.safeParse(parse(text)).error).toBeUndefined()
      }
      const folders = pods(all)
        .flatMap(containers)
        .flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ mountPath }) => mountPath))
      const written = files
        .filter(([file]) => file.endsWith('.yaml') && file !== 'patch.yaml')
        .map(([, text]) => text)
      const paths = [
        ...written,
        ...pods(all)
          .flatMap(containers)
          .flatMap(one => Object.values(envOf(one))),
      ].flatMap(text => [...(text.match(/\/etc\/usher\/[^\s"']+/g) ?? [])])
      expect(paths.filter(path => !folders.some(folder => `${path}/`.startsWith(`${folder}/`)))).toEqual([])
    },
  )
})

describeWith(manifestCheck(), 'custom resources of gateways, against the schemas of SCHEMAS_DIR', check => {
  describeWith(tools('helm'), 'of each value set', found => {
    const kinds =
      /^(gateway\.networking\.k8s\.io|gateway\.envoyproxy\.io|security\.istio\.io|networking\.istio\.io)\//
    /** Of these SCHEMAS_DIR has no schema; kubeconform judges them. */
    const others = ['DestinationRule', 'BackendTLSPolicy']

    test.each(VALUE_SETS)('%s', name => {
      const all = manifests(render(found.helm, valueSet(name)))
      const ours = all.filter(({ apiVersion, kind }) => kinds.test(apiVersion) && !others.includes(kind))
      if (['istio', 'envoy-gateway'].includes(name)) expect(ours.length).toBeGreaterThan(1)
      expect(ours.flatMap(check)).toEqual([])
    })
  })
})
