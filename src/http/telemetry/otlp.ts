/**
 * Owns the export of traces: the OpenTelemetry SDK, loaded only if an endpoint is configured. Contract:
 * "Events": here, what the operator of the process learns about a call.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context, Span as SdkSpan, SpanStatusCode } from '@opentelemetry/api'
import type { Sampler, SpanExporter } from '@opentelemetry/sdk-trace'
import { waitAtMost } from '../../limits/patience.ts'
import { parseTraceparent, type Span, type SpanOptions, type Tracing } from './tracing.ts'

/** What the standard `OTEL_…` variables say. */
export interface TraceExport {
  /** Where spans are posted as OTLP over HTTP in JSON, path included. */
  url: string
  headers: Record<string, string>
  timeoutMs: number
  serviceName: string
  resourceAttributes: Record<string, string>
  sampler: SamplerName
  /** The ratio of samplers by ratio, 0 to 1. */
  samplerRatio: number
}

export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const
export type SamplerName = (typeof SAMPLERS)[number]

const CLOSE_MS = 3_000

/**
 * Loads the SDK and begins to export. Exporting never holds up a call: the SDK drops what cannot be sent, and
 * `onFailed` is called for each export that failed after its retries.
 */
export async function openTracing(config: TraceExport, onFailed?: () => void): Promise<Tracing> {
  const [api, sdk, { resourceFromAttributes }, { OTLPTraceExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/exporter-trace-otlp-http'),
  ])
  const exporter = new OTLPTraceExporter({
    url: config.url,
    headers: config.headers,
    timeoutMillis: config.timeoutMs,
  })
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ ...config.resourceAttributes, 'service.name': config.serviceName }),
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: reportFailures(exporter, onFailed),
        scheduledDelayMillis: 1_000,
      }),
    ],
    sampler: samplerOf(config, sdk),
  })
  const tracer = provider.getTracer('usher')
  const kinds = {
    server: api.SpanKind.SERVER,
    client: api.SpanKind.CLIENT,
    internal: api.SpanKind.INTERNAL,
  }
  const active = new AsyncLocalStorage<{ span: Span }>()
  const ours = new WeakMap<Span, SdkSpan>()

  const contextBelow = (parent: SpanOptions['parent']): Context => {
    if (typeof parent === 'object') return api.trace.setSpan(api.ROOT_CONTEXT, ours.get(parent)!)
    const remote = parseTraceparent(parent)
    if (remote === undefined) return api.ROOT_CONTEXT
    const { traceId, spanId, flags: traceFlags } = remote
    return api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
  }
  return {
    start: (name, { kind, parent }) => {
      const sdkSpan = tracer.startSpan(name, { kind: kinds[kind] }, contextBelow(parent))
      const span = spanOver(sdkSpan, api.SpanStatusCode.ERROR)
      ours.set(span, sdkSpan)
      return span
    },
    within: (span, work) => active.run({ span }, work),
    activate: span => {
      const store = active.getStore()
      if (store !== undefined) store.span = span
    },
    active: () => active.getStore()?.span,
    close: async () => {
      // An unreachable collector must not keep the process alive.
      await waitAtMost(
        CLOSE_MS,
        provider.shutdown().catch(() => undefined),
      )
    },
  }
}

/** The exporter, which also reports when it failed, because the SDK reports that to nobody. */
function reportFailures(exporter: SpanExporter, onFailed: (() => void) | undefined): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, result => {
        // 0 is the SDK's word for success.
        if ((result.code as number) !== 0) onFailed?.()
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  }
}

function spanOver(sdkSpan: SdkSpan, errorCode: SpanStatusCode): Span {
  const { traceId, spanId, traceFlags } = sdkSpan.spanContext()
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    set: attributes => void sdkSpan.setAttributes(attributes),
    fail: why => void sdkSpan.setStatus({ code: errorCode, message: why }),
    end: () => sdkSpan.end(),
  }
}

type Sdk = typeof import('@opentelemetry/sdk-trace')

function samplerOf({ sampler, samplerRatio }: TraceExport, sdk: Sdk): Sampler {
  const bare = sampler.replace('parentbased_', '')
  const root =
    bare === 'always_on'
      ? new sdk.AlwaysOnSampler()
      : bare === 'always_off'
        ? new sdk.AlwaysOffSampler()
        : new sdk.TraceIdRatioBasedSampler(samplerRatio)
  return sampler.startsWith('parentbased_') ? new sdk.ParentBasedSampler({ root }) : root
}
