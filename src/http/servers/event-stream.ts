/**
 * Owns the writing of a server-sent event stream: framing, heartbeats, slow readers, its end. Contract:
 * "Events"; WHATWG HTML §9.2. It does not know what the events say.
 */
import type { FastifyReply } from 'fastify'

/** An open stream. Writing to one that has closed does nothing. */
export interface EventStream {
  /** Aborts when the reader has gone or the stream has ended. */
  readonly closed: AbortSignal
  /** Sends what `eventFrame` made of an event. @returns whether the reader is ready for more. */
  send(frame: string): boolean
  /** Resolves when the reader is ready for more, or has gone. */
  ready(): Promise<void>
  /** Moves the reader's place (its `Last-Event-ID`) without an event. */
  place(id: number): void
  end(): void
}

/**
 * An event as it is sent, with an id if a reader may resume after it: `data` as JSON, which holds no CR
 * and no LF, so that one data line is enough.
 */
export function eventFrame({ id, event, data }: { id?: number; event: string; data: unknown }): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/**
 * Answers 200 and holds the line open. A comment is sent whenever `heartbeatSeconds` have passed; a reader
 * that takes nothing for two of these periods is cut off. Refuse before calling this, because an open stream
 * can no longer refuse.
 */
export function openEventStream(reply: FastifyReply, heartbeatSeconds: number): EventStream {
  reply.hijack()
  const { raw } = reply
  const closing = new AbortController()
  let stalledBeats = 0
  raw.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    // Proxies that buffer whole answers would hold this one for ever.
    'x-accel-buffering': 'no',
    // When the stream has ended, its connection is useless, and must not keep a closing server waiting.
    connection: 'close',
  })
  const beat = setInterval(() => {
    if (!raw.writableNeedDrain) {
      stalledBeats = 0
      raw.write(':\n\n')
    } else if (++stalledBeats >= 2) raw.destroy()
  }, heartbeatSeconds * 1_000)
  const finish = (): void => {
    clearInterval(beat)
    closing.abort()
  }
  if (raw.destroyed) finish()
  raw.once('close', finish)
  raw.on('error', () => raw.destroy())
  return {
    closed: closing.signal,
    send: frame => closing.signal.aborted || raw.write(frame),
    ready: () => drained(raw, closing.signal),
    place(id) {
      if (!closing.signal.aborted) raw.write(`id: ${id}\n\n`)
    },
    end() {
      finish()
      raw.end()
    },
  }
}

function drained(raw: FastifyReply['raw'], closed: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (closed.aborted || !raw.writableNeedDrain) return resolve()
    const done = (): void => {
      raw.off('drain', done)
      closed.removeEventListener('abort', done)
      resolve()
    }
    raw.once('drain', done)
    closed.addEventListener('abort', done, { once: true })
  })
}
