/**
 * Owns the owner's event stream as a client reads it: it resumes after the last event that was seen, each
 * time the connection breaks. Contract: "Events"; WHATWG HTML §9.2.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { LATE, waitAtMost } from '../limits/patience.ts'
import { EventStreamReader, type ServerSentEvent } from '../wire/event-stream.ts'
import type { Json } from '../wire/json.ts'
import { missingApi, readJson, refusalOf } from '../client/exchange.ts'
import { ApiError } from '../client/api-error.ts'
import { requestUrl, signedFetch, unreachable, type ApiAccess } from '../client/signed-fetch.ts'

/** One event. After `reset`, the events in between are lost: read the lists again. */
export interface OwnerEvent {
  id: string
  event: string
  data: Json
}

/**
 * How to watch. `onState` is called when the stream is open, and with the reason when it is being opened
 * again.
 */
export interface WatchOptions {
  lastEventId?: string | undefined
  signal?: AbortSignal | undefined
  onState?: (
    state: { kind: 'open' } | { kind: 'reconnecting'; because: string; delaySeconds: number },
  ) => void
}

/** If three heartbeats (15 s each) are missing, the connection counts as dead. */
const SILENCE_SECONDS_MAX = 45
const STEADY_MILLISECONDS = 5_000
const DELAY_MILLISECONDS_MIN = 500
const DELAY_MILLISECONDS_MAX = 30_000

/**
 * The events of the owner, from now or from after `lastEventId`, until `signal` or a 204 ends it. Opens the
 * stream again when it breaks, is silent, or the service is out of order; fails with `ApiError` when it is
 * refused.
 */
export async function* watchEvents(
  access: ApiAccess,
  options: WatchOptions = {},
): AsyncGenerator<OwnerEvent> {
  const { signal } = options
  const reader = { lastEventId: options.lastEventId ?? '', retryMilliseconds: DELAY_MILLISECONDS_MIN }
  let failures = 0
  for (;;) {
    if (signal?.aborted) return
    let because = 'The stream ended.'
    const began = { at: performance.now(), lastEventId: reader.lastEventId }
    try {
      const response = await openStream(access, reader.lastEventId, signal)
      if (!response) return
      options.onState?.({ kind: 'open' })
      yield* readStream(response, reader, requestUrl(access, EVENTS), signal)
    } catch (error) {
      if (signal?.aborted) return
      if (!(error instanceof ApiError) || !error.temporary) throw error
      because = error.detail
    }
    const lived =
      performance.now() - began.at > STEADY_MILLISECONDS || reader.lastEventId !== began.lastEventId
    if (lived) failures = 0 // a stream that opens and ends at once is as useless as one that does not open
    const milliseconds = Math.min(reader.retryMilliseconds * 2 ** failures++, DELAY_MILLISECONDS_MAX)
    options.onState?.({ kind: 'reconnecting', because, delaySeconds: milliseconds / 1000 })
    await delay(milliseconds, undefined, signal ? { signal } : {}).catch(() => undefined)
  }
}

const EVENTS = { path: '/owner/events' }

/** The open stream, or undefined if the service says (204) that there is nothing more to come. */
async function openStream(
  access: ApiAccess,
  lastEventId: string,
  signal: AbortSignal | undefined,
): Promise<Response | undefined> {
  const headers = {
    accept: 'text/event-stream',
    'cache-control': 'no-store',
    ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
  }
  const response = await signedFetch(access, { method: 'GET', ...EVENTS, headers, signal })
  if (response.status === 204) return undefined
  if (response.status !== 200) {
    const json = await readJson(response, requestUrl(access, EVENTS), signal)
    throw missingApi(access, response, json) ?? refusalOf(response, json)
  }
  const type = response.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type === 'text/event-stream') return response
  await response.body?.cancel().catch(() => undefined)
  throw new ApiError('answer_malformed', 'The owner API answered with something that is no event stream.', {
    status: response.status,
  })
}

async function* readStream(
  response: Response,
  position: { lastEventId: string; retryMilliseconds: number },
  url: URL,
  signal: AbortSignal | undefined,
): AsyncGenerator<OwnerEvent> {
  const parser = new EventStreamReader(position.lastEventId)
  const body = response.body!.getReader()
  try {
    for (;;) {
      const { done, value } = await readBeforeSilence(body, url, signal)
      if (done) return
      for (const event of readChunk(parser, value)) {
        position.lastEventId = event.id
        yield { id: event.id, event: event.type, data: parseData(event.data) }
      }
      position.lastEventId = parser.lastEventId // an id may also come without an event
      position.retryMilliseconds = Math.max(parser.retryMilliseconds ?? 0, DELAY_MILLISECONDS_MIN)
    }
  } finally {
    await body.cancel().catch(() => undefined)
  }
}

function readChunk(parser: EventStreamReader, chunk: Uint8Array): ServerSentEvent[] {
  try {
    return parser.read(chunk)
  } catch (cause) {
    throw new ApiError('answer_too_large', 'The owner API sent an event too large to read.', { cause })
  }
}

async function readBeforeSilence(
  body: ReadableStreamDefaultReader<Uint8Array>,
  url: URL,
  signal: AbortSignal | undefined,
): Promise<{ done: false; value: Uint8Array } | { done: true; value?: unknown }> {
  try {
    const chunk = await waitAtMost(SILENCE_SECONDS_MAX * 1_000, body.read())
    if (chunk === LATE) throw new ApiError('unreachable', 'The stream fell silent.')
    return chunk
  } catch (cause) {
    throw unreachable(url, signal, cause)
  }
}

/** Event data is JSON. If it ever is not, it is passed as text, and watching continues. */
function parseData(data: string): Json {
  try {
    return JSON.parse(data) as Json
  } catch {
    return data
  }
}
