/** The sidecar as one pod on each node: who is led to it, and what a DaemonSet has none of. */
import { expect, test } from 'vitest'
import { describeWith } from '../support/requirement.ts'
import { pods } from './pods.ts'
import { named, over, rendered, tools, valueSet, type Manifest } from './render.ts'

describeWith(tools('helm'), 'the sidecar as a DaemonSet', ({ helm }) => {
  const all = rendered(helm, valueSet('daemonset'))
  const kinds = (of: Manifest[], name: string) =>
    of.filter(({ metadata }) => metadata.name === name).map(({ kind }) => kind)

  test('each gateway is led to the sidecar of its own node, and to no other', () => {
    const service = named(all, 'Service', 'usher-check-local').spec as Record<string, unknown>
    expect(service['internalTrafficPolicy']).toBe('Local')
    expect(service).not.toHaveProperty('clusterIP')
    const headless = named(rendered(helm, valueSet('sidecar')), 'Service', 'usher-check').spec
    expect(headless).toMatchObject({ clusterIP: 'None' })
    expect(headless).not.toHaveProperty('internalTrafficPolicy')
  })

  test('its Service has another name than the headless one, whose address nobody can change', () => {
    expect(kinds(all, 'usher-check')).toEqual(['Certificate'])
  })

  test('everything that names the check port names that Service: certificate, gateways, the test', () => {
    const host = 'usher-check-local.usher.svc.cluster.local'
    expect(named(all, 'Certificate', 'usher-check').spec).toMatchObject({
      dnsNames: expect.arrayContaining([host]) as unknown,
    })
    expect(JSON.stringify(named(all, 'Pod', 'usher-test'))).toContain(`${host}:9191`)
    const attached = rendered(
      helm,
      over(valueSet('daemonset'), {
        istio: { enabled: true, clientCertificate: 'gateway' },
        envoyGateway: {
          enabled: true,
          routes: [{ httpRoute: 'tools' }],
          namespace: 'tools',
          caConfigMap: 'ca',
        },
      }),
    )
    expect(named(attached, 'DestinationRule', 'usher-check').spec).toMatchObject({ host })
    expect(JSON.stringify(named(attached, 'SecurityPolicy', 'usher-tools'))).toContain('"usher-check-local"')
    expect(JSON.stringify(named(attached, 'ReferenceGrant', 'usher-tools'))).toContain('"usher-check-local"')
    expect(JSON.stringify(named(attached, 'BackendTLSPolicy', 'usher-check'))).toContain(host)
  })

  test('it has as many pods as nodes: no replicas, no scaling, no budget, and a new one before the old one goes', () => {
    expect(kinds(all, 'usher-sidecar').toSorted()).toEqual(['ConfigMap', 'DaemonSet', 'NetworkPolicy'])
    const { spec } = named(all, 'DaemonSet', 'usher-sidecar')
    expect(spec).not.toHaveProperty('replicas')
    expect(spec).not.toHaveProperty('strategy')
    expect(spec).toMatchObject({
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
    })
  })

  test('the test asks from a node that has a sidecar', () => {
    const { spec } = pods(all).find(({ of }) => of === 'Pod usher-test')!
    expect(spec).toMatchObject({
      nodeSelector: { 'node-role.example.com/gateway': 'true' },
      tolerations: [{ key: 'gateway', operator: 'Exists' }],
    })
    const elsewhere = pods(
      rendered(helm, over(valueSet('sidecar'), { sidecar: { nodeSelector: { a: 'b' } } })),
    )
    expect(elsewhere.find(({ of }) => of === 'Pod usher-test')!.spec).not.toHaveProperty('nodeSelector')
  })
})
