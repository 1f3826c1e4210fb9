/**
 * Owns the event stream of the page: it is read with the page's own credential, and resumed after the last
 * complete event, so that none is lost. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { isJsonObject, parseJson, type JsonObject } from '../../wire/json.ts'
import { EventStreamReader } from '../../wire/event-stream.ts'
import { ApiFault, send, type Access } from './api.ts'

/** `reset`: events were missed for good, so everything that is shown is read again. */
export interface StreamEvent {
  type: string
  data: JsonObject
}

export interface StreamSinks {
  onEvent: (event: StreamEvent) => void
  onConnected: (isConnected: boolean) => void
  /** The credential is no longer valid. */
  onRefused: (fault: ApiFault) => void
}

const PAUSE_MS_MIN = 500
const PAUSE_MS_MAX = 5_000
/** No authority may be silent on a stream for so long (`UMA_AS_HEARTBEAT_SECONDS`). */
const SILENCE_MS = 75_000

/** Follows until `end` is called. A broken stream is opened again, sooner if the network returns. */
export function followEvents(access: Access, sinks: StreamSinks): { end: () => void } {
  const ending = new AbortController()
  void keepFollowing(access, sinks, ending.signal)
  return { end: () => ending.abort() }
}

async function keepFollowing(access: Access, sinks: StreamSinks, ended: AbortSignal): Promise<void> {
  let lastEventId = ''
  let pauseMs = PAUSE_MS_MIN
  while (!ended.aborted) {
    const reader = new EventStreamReader(lastEventId)
    const line = openLine(ended)
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' }
      if (lastEventId !== '') headers['last-event-id'] = lastEventId
      const response = await send(access, { path: 'owner/events', headers, signal: line.signal })
      sinks.onConnected(true)
      pauseMs = PAUSE_MS_MIN
      for await (const chunk of response.body ?? []) {
        line.keepAlive()
        for (const event of reader.read(chunk)) sinks.onEvent({ type: event.type, data: dataOf(event.data) })
      }
    } catch (error) {
      // The caller that ended the stream knows why; a refusal that comes afterwards may be incomplete.
      if (ended.aborted) return
      if (error instanceof ApiFault && (error.status === 401 || error.status === 403))
        return sinks.onRefused(error)
    } finally {
      line.close()
    }
    lastEventId = reader.lastEventId
    if (ended.aborted) return
    sinks.onConnected(false)
    // Not all pages at the same moment, if an authority was away for all of them.
    await pause(pauseMs * (0.5 + Math.random() / 2), ended)
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  }
}

/**
 * What ends a connection from this side: the browser says that the network is gone, or nothing came for
 * longer than a stream may be silent. On a phone that loses its network, the connection itself reports
 * neither.
 */
function openLine(ended: AbortSignal): { signal: AbortSignal; keepAlive: () => void; close: () => void } {
  const dead = new AbortController()
  const end = (): void => dead.abort()
  let timer = setTimeout(end, SILENCE_MS)
  addEventListener('offline', end)
  return {
    signal: AbortSignal.any([ended, dead.signal]),
    keepAlive: () => {
      clearTimeout(timer)
      timer = setTimeout(end, SILENCE_MS)
    },
    close: () => {
      clearTimeout(timer)
      removeEventListener('offline', end)
    },
  }
}

function dataOf(text: string): JsonObject {
  const json = parseJson(text)
  return isJsonObject(json) ? json : {}
}

/** Waits until the time is over, the network is back, or the stream is ended. */
function pause(milliseconds: number, ended: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer)
      removeEventListener('online', done)
      ended.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, milliseconds)
    addEventListener('online', done)
    ended.addEventListener('abort', done)
  })
}
