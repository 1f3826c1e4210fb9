/**
 * Owns the settings by which traces leave a server process: OpenTelemetry's own variables. Contract:
 * "Events". Off unless an endpoint is set.
 */
import { SAMPLERS, type TraceExport } from '../http/telemetry/otlp.ts'
import { z } from 'zod'
import {
  choice,
  defaulted,
  defineSettings,
  optional,
  text,
  toggle,
  wholeNumber,
  type Kind,
  type Values,
} from './settings.ts'

const endpoint: Kind<string> = {
  type: 'URL',
  schema: z.url({ protocol: /^https?$/, message: 'Give an http or https URL.' }),
  json: { type: 'string', pattern: '^https?://.+$' },
}

const LIST = 'Give name=value pairs, separated by commas, values percent-encoded.'

const pairs: Kind<Record<string, string>> = {
  type: 'name=value list',
  schema: z.string().transform((list, context) => {
    const found: Record<string, string> = {}
    for (const pair of list.split(',').filter(one => one.trim() !== '')) {
      const [, name, value] = /^\s*([^=\s]+)\s*=(.*)$/.exec(pair) ?? []
      const decoded = value === undefined ? undefined : percentDecoded(value.trim())
      if (name === undefined || decoded === undefined) {
        context.addIssue({ code: 'custom', message: LIST })
        return z.NEVER
      }
      found[name] = decoded
    }
    return found
  }),
  json: { type: 'string' },
}

const ratio: Kind<number> = {
  type: '0 to 1',
  schema: z
    .string()
    .regex(/^(?:0(?:\.\d{1,9})?|1(?:\.0+)?)$/, 'Give a number from 0 to 1.')
    .transform(Number),
  json: { type: 'number', minimum: 0, maximum: 1 },
}

export const TRACING_SETTINGS = defineSettings({
  title: 'Traces, of every server process',
  settings: {
    disabled: defaulted('OTEL_SDK_DISABLED', toggle, 'false', {
      description: 'Turns traces off, whatever the other settings say.',
    }),
    endpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', endpoint, {
      description:
        'Base URL of an OTLP receiver over HTTP; `/v1/traces` is added. Without it, or the next, there are no traces, and nothing is loaded or measured for them.',
    }),
    tracesEndpoint: optional('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', endpoint, {
      description: 'The whole URL that spans are posted to; wins over the one before.',
    }),
    protocol: defaulted('OTEL_EXPORTER_OTLP_PROTOCOL', choice(['http/json', 'http/protobuf']), 'http/json', {
      description:
        'Spans are sent as JSON, which a receiver of `http/protobuf` takes at the same address; gRPC is not spoken.',
    }),
    headers: defaulted('OTEL_EXPORTER_OTLP_HEADERS', pairs, '', {
      description: 'Header fields of every export, such as an API key.',
    }),
    timeoutMs: defaulted('OTEL_EXPORTER_OTLP_TIMEOUT', wholeNumber(1, 60_000), '10000', {
      description: 'Longest time for one export.',
      unit: 'milliseconds',
    }),
    serviceName: optional('OTEL_SERVICE_NAME', text, {
      description: 'Name of the process in traces; `usher-sidecar` or `usher-authority` when left out.',
    }),
    resourceAttributes: defaulted('OTEL_RESOURCE_ATTRIBUTES', pairs, '', {
      description: 'Further attributes of the process.',
    }),
    sampler: defaulted('OTEL_TRACES_SAMPLER', choice(SAMPLERS), 'parentbased_always_on', {
      description:
        'Which calls are traced. The default follows the caller, who may be a stranger: `parentbased_always_off` traces only what he asks for, `traceidratio` ignores him.',
    }),
    samplerRatio: defaulted('OTEL_TRACES_SAMPLER_ARG', ratio, '1', {
      description: 'The share that samplers by ratio trace.',
    }),
  },
})

/** How traces are exported; undefined if they are off. */
export function traceExport(
  values: Values<typeof TRACING_SETTINGS.settings>,
  defaultName: string,
): TraceExport | undefined {
  const { disabled, endpoint, tracesEndpoint, headers, timeoutMs, resourceAttributes } = values
  const url =
    tracesEndpoint ?? (endpoint === undefined ? undefined : `${endpoint.replace(/\/$/, '')}/v1/traces`)
  if (disabled || url === undefined) return undefined
  const serviceName = values.serviceName ?? resourceAttributes['service.name'] ?? defaultName
  const { sampler, samplerRatio } = values
  return { url, headers, timeoutMs, serviceName, resourceAttributes, sampler, samplerRatio }
}

function percentDecoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}
