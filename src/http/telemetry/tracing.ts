/**
 * Owns what a trace is for our servers and clients, whatever exports it. Contract: "Authentication": nothing
 * that is authorized depends on it, and no token, ticket or parameter is an attribute. If tracing is off,
 * none of this runs.
 */
import { jsonReader, type Outbound } from '../outbound/outbound.ts'

/**
 * W3C trace context, version 00, as in https://www.w3.org/TR/trace-context/ §3.2; a header in another form
 * counts as absent.
 */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/

export interface TraceParent {
  traceId: string
  spanId: string
  flags: number
}

/** Reads a `traceparent` header; undefined if it is absent or malformed. */
export function parseTraceparent(header: string | undefined): TraceParent | undefined {
  const match = header === undefined ? null : TRACEPARENT.exec(header)
  if (match === null) return undefined
  return { traceId: match[1]!, spanId: match[2]!, flags: Number.parseInt(match[3]!, 16) }
}

export type SpanAttributes = Record<string, string | number | boolean>

export interface Span {
  /** The header value that continues the trace below it. */
  readonly traceparent: string
  set(attributes: SpanAttributes): void
  /** Marks it as failed, with one of our codes. */
  fail(why: string): void
  end(): void
}

export interface SpanOptions {
  kind: 'server' | 'client' | 'internal'
  /** The parent: one of our spans, or the header with the caller's span; without one, a new trace begins. */
  parent: Span | string | undefined
}

export interface Tracing {
  start(name: string, options: SpanOptions): Span
  /** Runs work in which `active` returns this span, or the one set by `activate` since. */
  within<T>(span: Span, work: () => T): T
  /** Makes a span the active one of the work that runs now. */
  activate(span: Span): void
  active(): Span | undefined
  /** Sends waiting spans, for a few seconds at most. */
  close(): Promise<void>
}

/** The client, with a span for each request of traced work, and the trace passed to the server. */
export function traceOutbound(outbound: Outbound, tracing: Tracing): Outbound {
  const request: Outbound['request'] = async message => {
    const parent = tracing.active()
    if (parent === undefined) return outbound.request(message)
    const method = message.method ?? 'GET'
    const { origin, pathname } = new URL(message.url)
    const span = tracing.start(`${method} ${pathname}`, { kind: 'client', parent })
    span.set({ 'http.request.method': method, 'server.address': origin, 'url.path': pathname })
    const headers = { ...message.headers, traceparent: span.traceparent }
    try {
      const answer = await outbound.request({ ...message, headers })
      span.set({ 'http.response.status_code': answer.status })
      if (answer.status >= 500) span.fail(`status ${answer.status}`)
      return answer
    } catch (error) {
      span.fail(error instanceof Error && 'reason' in error ? String(error.reason) : 'broken')
      throw error
    } finally {
      span.end()
    }
  }
  return { ...outbound, request, getJson: jsonReader(request) }
}
