/**
 * Which paths the routes of the chart lead to, and which they do not: all that a listener serves to those
 * outside, and nothing that is for operators.
 */
import { expect, test } from 'vitest'
import { ENDPOINTS, JOINT_ENDPOINTS, LOG_ENDPOINTS } from '../../src/authority/endpoints.ts'
import { CONSOLE } from '../../src/authority/owner/console.ts'
import { describeWith } from '../support/requirement.ts'
import { named, over, rendered, tools, valueSet, VALUE_SETS, type Manifest, type Values } from './render.ts'

interface Match {
  path: { type: string; value: string }
}
interface Route {
  hostnames: string[]
  rules: { matches: Match[]; backendRefs: { name: string; port: number }[] }[]
}

describeWith(tools('helm'), 'what is reached from outside', ({ helm }) => {
  const sets = new Map(VALUE_SETS.map(name => [name, rendered(helm, valueSet(name))]))
  const of = (name: string) => sets.get(name)!
  const changed = (name: string, changes: Values) => rendered(helm, over(valueSet(name), changes))
  const paths = (all: Manifest[], name: string) =>
    (named(all, 'HTTPRoute', name).spec as unknown as Route).rules.flatMap(({ matches }) =>
      matches.map(({ path }) => path),
    )

  test('by default nothing', () => {
    for (const name of ['default', 'sidecar', 'minimal', 'locked-down'])
      expect(of(name).filter(({ kind }) => ['HTTPRoute', 'Ingress', 'Gateway'].includes(kind))).toEqual([])
  })

  const inside = ['/health', '/ready', '/health/registry']
  /** What a listener serves, also where a tally or keys of the log are named. */
  const served = (listener: 'public' | 'owner') =>
    [ENDPOINTS, JOINT_ENDPOINTS, LOG_ENDPOINTS]
      .flatMap(all => all[listener].map(({ path }) => path))
      .filter(path => !inside.includes(path))
  const leading = (all: Manifest[], name: string) => {
    const routed = paths(all, name)
    return (path: string): boolean =>
      routed.some(({ type, value }) =>
        type === 'Exact' ? path === value : path === value || path.startsWith(`${value}/`),
      )
  }

  test('of the authority every public operation, and none that is for operators', () => {
    const asked = served('public')
    const routed = paths(of('envoy-gateway'), 'usher-authority')
    const leads = leading(of('envoy-gateway'), 'usher-authority')
    expect(asked.filter(path => !leads(path))).toEqual([])
    for (const path of [...inside, '/metrics', '/owner', '/owner/pending', '/'])
      expect(leads(path), path).toBe(false)
    const exact = routed.filter(({ type }) => type === 'Exact').map(({ value }) => value)
    expect(exact.filter(path => !asked.includes(path))).toEqual([])
  })

  test('the owner API, the acts of administrators and her page, on a route of its own to a Service of its own', () => {
    const { hostnames, rules } = named(of('envoy-gateway'), 'HTTPRoute', 'usher-owner')
      .spec as unknown as Route
    expect(hostnames).toEqual(['owners.example.com'])
    for (const { backendRefs } of rules) expect(backendRefs).toEqual([{ name: 'usher-owner', port: 9101 }])
    const asked = [...served('owner'), ...CONSOLE.map(({ path }) => path)]
    const leads = leading(of('envoy-gateway'), 'usher-owner')
    expect(asked.filter(path => path !== '/openapi.json' && !leads(path))).toEqual([])
    for (const path of [...inside, '/metrics', '/token', '/terms/alice'])
      expect(leads(path), path).toBe(false)
  })

  test('at the host of the issuer the owners’ route has no path of the authority’s own', () => {
    const { issuer } = valueSet('envoy-gateway')['authority'] as { issuer: string }
    const shared = changed('envoy-gateway', { authority: { ownerUrl: issuer } })
    const publicly = paths(shared, 'usher-authority').map(({ value }) => value)
    const both = paths(shared, 'usher-owner').filter(({ value }) => publicly.includes(value))
    expect(both).toEqual([])
    expect(leading(shared, 'usher-owner')('/')).toBe(true)
  })

  test('a controller that knows prefixes alone gets every path with its slash at the front', () => {
    const ingress = { enabled: true, exactPaths: false }
    const all = changed('envoy-gateway', { expose: { ownerApi: { ingress } } })
    const { rules } = named(all, 'Ingress', 'usher-owner').spec as unknown as {
      rules: { http: { paths: { path: string; pathType: string }[] } }[]
    }
    const found = rules.flatMap(({ http }) => http.paths)
    expect(found).toContainEqual(expect.objectContaining({ path: '/', pathType: 'Prefix' }))
    expect(found.filter(({ path }) => !path.startsWith('/'))).toEqual([])
  })
})
