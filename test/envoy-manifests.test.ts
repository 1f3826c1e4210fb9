/**
 * The manifests of envoy/istio and envoy/envoy-gateway, checked against the schemas of their kinds and
 * against what every way of asking usher must say. contract, "Resource server enforcement point". How they
 * behave is tested in test/envoy/callers.test.ts.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { SIDECAR_FILE } from '../src/config/sidecar/sidecar-file.ts'
import { ISTIO_PROVIDERS } from './support/istio-providers.ts'
import { describeWith } from './support/requirement.ts'
import { manifestCheck, type Manifest } from './support/schemas.ts'

const FILES = [
  'istio/authorization-policy.yaml',
  'istio/envoy-filter.yaml',
  'envoy-gateway/gateway.yaml',
  'envoy-gateway/security-policy.yaml',
  'envoy-gateway/security-policy-http.yaml',
]
const text = (file: string): string => readFileSync(join(import.meta.dirname, '..', 'envoy', file), 'utf8')
const manifests = (file: string): Manifest[] =>
  parseAllDocuments(text(file)).map(document => document.toJS() as Manifest)
const named = (file: string, kind: string): Manifest => manifests(file).find(one => one.kind === kind)!

describeWith(manifestCheck(), 'each manifest is one that its custom resource admits', check => {
  test.each(FILES)('%s', file => {
    expect(manifests(file).length).toBeGreaterThan(0)
    for (const manifest of manifests(file)) expect(check(manifest)).toEqual([])
  })

  /** A path into a manifest, and what stands there instead; undefined takes it out. */
  const FAULTS: [string, string, string, unknown][] = [
    ['security-policy.yaml', 'SecurityPolicy', 'spec.cors.allowOrigins', ['app.example.com']],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.failOpens', false],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.timeout', '3 seconds'],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.statusOnError', 299],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.bodyToExtAuth', { packAsBytes: true }],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.bodyToExtAuth.maxRequestBytes', '1Mi'],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.contextExtensions', { owner: 'alice' }],
    ['security-policy.yaml', 'SecurityPolicy', 'spec.extAuth.grpc.backendSettings.retry.numRetries', -1],
    ['gateway.yaml', 'Gateway', 'spec.listeners', undefined],
    ['gateway.yaml', 'HTTPRoute', 'spec.rules.0.timeouts.request', '300'],
    ['gateway.yaml', 'HTTPRoute', 'spec.rules.0.matches.0.path.type', 'Whole'],
    ['gateway.yaml', 'ReferenceGrant', 'spec.to', undefined],
  ]
  const ISTIO_FAULTS: [string, string, string, unknown][] = [
    ['authorization-policy.yaml', 'AuthorizationPolicy', 'spec.action', 'ASK'],
    ['authorization-policy.yaml', 'AuthorizationPolicy', 'spec.provider', 'usher'],
    [
      'authorization-policy.yaml',
      'AuthorizationPolicy',
      'spec.rules.0.to.0.operation.exceptPaths',
      ['/jwks'],
    ],
    ['envoy-filter.yaml', 'EnvoyFilter', 'spec.configPatches.0.applyTo', 'NETWORK'],
    ['envoy-filter.yaml', 'EnvoyFilter', 'spec.configPatches.0.patch.operation', 'JOIN'],
  ]
  const planted = [
    ...FAULTS.map(([file, ...rest]) => [`envoy-gateway/${file}`, ...rest] as const),
    ...ISTIO_FAULTS.map(([file, ...rest]) => [`istio/${file}`, ...rest] as const),
  ]
  test.each(planted)('a fault planted in %s, %s, at %s is found', (file, kind, path, value) => {
    const manifest = structuredClone(named(file, kind))
    plant(manifest, path.split('.'), value)
    expect(check(manifest)).not.toEqual([])
  })
})

function plant(into: object, [first, ...rest]: string[], value: unknown): void {
  const at = into as Record<string, unknown>
  if (rest.length > 0) plant(at[first!] as object, rest, value)
  else if (value === undefined) delete at[first!]
  else at[first!] = value
}

describe('the providers of Istio', () => {
  const files = ['istio/mesh-config.yaml', 'istio/mesh-config-http.yaml']

  test.each(files)('%s has only members that MeshConfig has', file => {
    expect(ISTIO_PROVIDERS.safeParse(parse(text(file))).error).toBeUndefined()
  })

  test.each([
    ['a provider name that is no DNS label', 'name: usher', 'name: Usher_1'],
    ['a member of the other kind', 'packAsBytes: true', 'packAsByte: true'],
    ['a status that is no text', "statusOnError: '503'", 'statusOnError: 503'],
    ['a timeout without its unit', 'timeout: 3s', 'timeout: 3'],
    ['failing open said in another way', 'failOpen: false', 'failureModeAllow: false'],
  ])('%s is found', (_title, right, wrong) => {
    const planted = text(files[0]!).replace(right, wrong)
    expect(planted).not.toBe(text(files[0]!))
    expect(ISTIO_PROVIDERS.safeParse(parse(planted)).success).toBe(false)
  })

  test('the policy names the provider over gRPC', () => {
    const { extensionProviders } = ISTIO_PROVIDERS.parse(parse(text(files[0]!)))
    expect(named('istio/authorization-policy.yaml', 'AuthorizationPolicy').spec).toMatchObject({
      action: 'CUSTOM',
      provider: { name: extensionProviders[0]!.name },
    })
  })
})

describe('every way of asking is closed on failures, in time, and for whole bodies', () => {
  const { body_bytes_max } = SIDECAR_FILE.shape
  const cap = body_bytes_max.parse(undefined)
  const istio = (file: string) => {
    const { envoyExtAuthzGrpc: grpc, envoyExtAuthzHttp: http } = ISTIO_PROVIDERS.parse(parse(text(file)))
      .extensionProviders[0]!
    const { timeout, failOpen, statusOnError, includeRequestBodyInCheck: body } = (grpc ?? http)!
    return [timeout, failOpen, Number(statusOnError), body.maxRequestBytes]
  }
  const gateway = (file: string) => {
    const { timeout, failOpen, statusOnError, bodyToExtAuth } = named(file, 'SecurityPolicy').spec![
      'extAuth'
    ] as Record<string, unknown>
    return [timeout, failOpen, statusOnError, (bodyToExtAuth as Record<string, unknown>)['maxRequestBytes']]
  }
  interface RawFilter {
    name: string
    typed_config: {
      grpc_service: { timeout: string; retry_policy?: unknown }
      failure_mode_allow: boolean
      status_on_error: { code: string }
      with_request_body: { max_request_bytes: number }
    }
  }
  const raw = () => {
    const filters = /http_filters:[\s\S]*?(?=\n {16}route_config:)/.exec(text('envoy.yaml'))![0]
    const listed = (parse(filters.replace(/^ {16}/gm, '')) as { http_filters: RawFilter[] }).http_filters
    // What browsers ask before a call is answered before the call is judged.
    expect(listed.map(({ name }) => name.split('.').at(-1))).toEqual(['cors', 'ext_authz', 'router'])
    const filter = listed.find(({ name }) => name === 'envoy.filters.http.ext_authz')
    const { grpc_service, failure_mode_allow, status_on_error, with_request_body } = filter!.typed_config
    expect(grpc_service).not.toHaveProperty('retry_policy')
    const status = status_on_error.code === 'ServiceUnavailable' ? 503 : undefined
    return [grpc_service.timeout, failure_mode_allow, status, with_request_body.max_request_bytes]
  }

  test.each([
    ['envoy.yaml', raw],
    ['istio/mesh-config.yaml', () => istio('istio/mesh-config.yaml')],
    ['istio/mesh-config-http.yaml', () => istio('istio/mesh-config-http.yaml')],
    ['envoy-gateway/security-policy.yaml', () => gateway('envoy-gateway/security-policy.yaml')],
    ['envoy-gateway/security-policy-http.yaml', () => gateway('envoy-gateway/security-policy-http.yaml')],
  ])('%s', (_file, settings) => {
    expect(settings()).toEqual(['3s', false, 503, cap])
  })

  test.each(['envoy.yaml', 'envoy-http.yaml'])('%s lets pages read the challenge', file => {
    const at = (filter: string) => text(file).indexOf(`- name: envoy.filters.http.${filter}`)
    expect(at('cors')).toBeGreaterThan(0)
    expect(at('cors')).toBeLessThan(at('ext_authz'))
    expect(text(file)).toMatch(/expose_headers: WWW-Authenticate,/)
    expect(text(file)).toMatch(/allow_headers: authorization, .*signature, signature-input/)
  })

  test.each(['security-policy.yaml', 'security-policy-http.yaml'])(
    'envoy-gateway/%s lets pages call as the raw Envoy does',
    file => {
      const raw = (member: string): string[] =>
        new RegExp(`${member}: (.*)`).exec(text('envoy.yaml'))![1]!.split(', ')
      const { cors } = named(`envoy-gateway/${file}`, 'SecurityPolicy').spec!
      expect(cors).toEqual({
        allowOrigins: ['https://app.example.com'],
        allowMethods: raw('allow_methods'),
        allowHeaders: raw('allow_headers'),
        exposeHeaders: raw('expose_headers'),
        maxAge: '600s',
      })
    },
  )

  test('istio/virtual-service.yaml lets pages call as Envoy Gateway does', () => {
    const { http } = named('istio/virtual-service.yaml', 'VirtualService').spec as {
      http: { corsPolicy?: { allowOrigins: { exact: string }[] } }[]
    }
    const { allowOrigins, ...others } = http.find(({ corsPolicy }) => corsPolicy !== undefined)!.corsPolicy!
    const { cors } = named('envoy-gateway/security-policy.yaml', 'SecurityPolicy').spec!
    expect({ ...others, allowOrigins: allowOrigins.map(({ exact }) => exact) }).toEqual(cors)
  })

  /** The header fields that the raw Envoy shows, as its file lists them: whole names, and beginnings. */
  const shownByEnvoy = () => {
    const [list] = /(?<=allowed_headers:\n)[\s\S]*?(?=failure_mode_allow)/.exec(text('envoy-http.yaml'))!
    const found = [...list.matchAll(/- (exact|prefix): (\S+)/g)]
    expect(found.length).toBeGreaterThan(15)
    const of = (kind: string) => found.filter(one => one[1] === kind).map(one => one[2]!)
    return { names: of('exact'), beginnings: of('prefix') }
  }

  test('whoever asks over HTTP shows the header fields that are judged', () => {
    const { names, beginnings } = shownByEnvoy()
    // What a Web Bot Auth caller covers beside the rest; a covered field that is not shown makes its
    // signature invalid.
    expect(names).toContain('signature-agent')
    const { extensionProviders } = ISTIO_PROVIDERS.parse(parse(text('istio/mesh-config-http.yaml')))
    const shownByIstio = extensionProviders[0]!.envoyExtAuthzHttp!.includeRequestHeadersInCheck
    expect(shownByIstio).toEqual(expect.arrayContaining([...names, ...beginnings.map(one => `${one}*`)]))
    const { headersToExtAuth } = named('envoy-gateway/security-policy-http.yaml', 'SecurityPolicy').spec![
      'extAuth'
    ] as Record<string, string[]>
    expect(headersToExtAuth).toEqual(expect.arrayContaining(names))
  })

  test.each(['security-policy.yaml', 'security-policy-http.yaml'])('%s sends no check twice', file => {
    const { grpc, http } = named(`envoy-gateway/${file}`, 'SecurityPolicy').spec!['extAuth'] as Record<
      string,
      { backendSettings: { retry: unknown } }
    >
    expect((grpc ?? http)!.backendSettings.retry).toEqual({ numRetries: 0 })
  })
})

describe('the stream of a session (GET) ends after 60 s, and any other answer after 300 s', () => {
  /** Each route to the tools, in the order in which a gateway tries them. */
  interface Bound {
    isStream: boolean
    timeout: string | undefined
  }
  const isBounded = (bounds: readonly Bound[]): void => {
    expect(bounds.map(({ isStream }) => isStream)).toContain(true)
    expect(bounds.filter(({ isStream, timeout }) => timeout !== (isStream ? '60s' : '300s'))).toEqual([])
  }

  test.each(['envoy.yaml', 'envoy-http.yaml'])('%s', file => {
    interface Route {
      name: string
      match: { headers?: object[] }
      route: { cluster: string; timeout: string }
    }
    interface Listening {
      static_resources: { listeners: { filter_chains: { filters: { typed_config: Manager }[] }[] }[] }
    }
    interface Manager {
      common_http_protocol_options: { max_stream_duration: string }
      route_config: { virtual_hosts: { routes: Route[] }[] }
    }
    const { static_resources } = parse(text(file).replaceAll(/\$\{\w+\}/g, '1')) as Listening
    const manager = static_resources.listeners[0]!.filter_chains[0]!.filters[0]!.typed_config
    expect(manager.common_http_protocol_options.max_stream_duration).toBe('300s')
    const routes = manager.route_config.virtual_hosts[0]!.routes.filter(
      ({ route }) => route.cluster === 'tool_server',
    )
    const get = [{ name: ':method', string_match: { exact: 'GET' } }]
    isBounded(
      routes.map(({ match, route: { timeout } }) => ({ isStream: match.headers !== undefined, timeout })),
    )
    const at = (name: string): number => routes.findIndex(one => one.name === name)
    for (const name of ['alice', 'owners']) {
      expect(routes[at(`${name}-stream`)]!.match.headers).toEqual(get)
      expect(at(`${name}-stream`)).toBeLessThan(at(name))
    }
  })

  test('envoy-gateway/gateway.yaml', () => {
    const { rules } = named('envoy-gateway/gateway.yaml', 'HTTPRoute').spec as {
      rules: { matches: { method?: string }[]; timeouts: { request: string; backendRequest: string } }[]
    }
    for (const { timeouts } of rules) expect(timeouts.backendRequest).toBe(timeouts.request)
    isBounded(
      rules.map(({ matches, timeouts }) => ({
        isStream: matches.every(({ method }) => method === 'GET'),
        timeout: timeouts.request,
      })),
    )
  })

  test('istio/virtual-service.yaml, with what envoy-filter.yaml says of all', () => {
    const { http } = named('istio/virtual-service.yaml', 'VirtualService').spec as {
      http: { match?: { method?: { exact: string } }[]; timeout?: string; corsPolicy?: object }[]
    }
    const ofTools = http.filter(({ corsPolicy }) => corsPolicy !== undefined)
    const [bound] = /(?<=max_stream_duration: )\w+/.exec(text('istio/envoy-filter.yaml'))!
    isBounded(
      ofTools.map(({ match, timeout = bound }) => ({
        isStream: match?.every(({ method }) => method?.exact === 'GET') === true,
        timeout,
      })),
    )
    expect(ofTools[0]!.timeout).toBe('60s')
  })
})

describe.each(['envoy.yaml', 'envoy-http.yaml'])('%s', file => {
  interface Listener {
    per_connection_buffer_limit_bytes: number
    filter_chains: [{ filters: [{ typed_config: Manager }] }]
  }
  interface Manager {
    http2_protocol_options: Record<'initial_stream_window_size' | 'initial_connection_window_size', number>
    http_filters: { name: string; typed_config: { with_request_body?: { max_request_bytes: number } } }[]
  }

  test('holds back a body as large as the check is asked about, over HTTP/1 and HTTP/2', () => {
    const { static_resources } = parse(text(file)) as { static_resources: { listeners: [Listener] } }
    const [{ per_connection_buffer_limit_bytes, filter_chains }] = static_resources.listeners
    const { http2_protocol_options, http_filters } = filter_chains[0].filters[0].typed_config
    const checked = http_filters.find(({ name }) => name === 'envoy.filters.http.ext_authz')!
    const { max_request_bytes } = checked.typed_config.with_request_body!
    expect(max_request_bytes).toBeGreaterThan(0)
    expect(per_connection_buffer_limit_bytes).toBeGreaterThanOrEqual(max_request_bytes)
    // Envoy bounds what it buffers of a stream by the window of the stream.
    const { initial_stream_window_size, initial_connection_window_size } = http2_protocol_options
    expect(initial_stream_window_size).toBeGreaterThanOrEqual(max_request_bytes)
    expect(initial_connection_window_size).toBeGreaterThanOrEqual(max_request_bytes)
  })
})

describe("Envoy's own file", () => {
  interface Bootstrap {
    static_resources: {
      clusters: {
        name: string
        health_checks?: { http_health_check?: { path: string } }[]
        common_lb_config?: { healthy_panic_threshold: { value: number } }
      }[]
    }
  }

  test.each(['envoy.yaml', 'envoy-http.yaml'])(
    'fetches documents from sidecars that are ready, and from any if none is: %s',
    file => {
      const { clusters } = (parse(text(file)) as Bootstrap).static_resources
      const documents = clusters.find(({ name }) => name === 'usher_documents')!
      expect(documents.health_checks?.map(one => one.http_health_check?.path)).toEqual(['/ready'])
      expect(documents.common_lb_config?.healthy_panic_threshold.value).toBe(1)
    },
  )
})
