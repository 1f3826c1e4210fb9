/** Owns reading the spans that a scripted receiver of OTLP got, for tests. */
import type { ScriptedServer } from './scripted-http.ts'

export interface SpanRecord {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  service: string
  attributes: Record<string, unknown>
}

interface Attribute {
  key: string
  value: Record<string, unknown>
}

const flat = (list: Attribute[]): Record<string, unknown> =>
  Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]))

/** Every span received so far, of one trace. */
export function receivedSpans(receiver: ScriptedServer, traceId: string): SpanRecord[] {
  return receiver.to('/v1/traces').flatMap(({ body }) => {
    const { resourceSpans } = JSON.parse(body.toString()) as {
      resourceSpans: {
        resource: { attributes: Attribute[] }
        scopeSpans: { spans: (Omit<SpanRecord, 'attributes'> & { attributes: Attribute[] })[] }[]
      }[]
    }
    return resourceSpans.flatMap(({ resource, scopeSpans }) =>
      scopeSpans
        .flatMap(scope => scope.spans)
        .filter(span => span.traceId === traceId)
        .map(span => ({
          ...span,
          attributes: flat(span.attributes),
          service: String(flat(resource.attributes)['service.name']),
        })),
    )
  })
}
