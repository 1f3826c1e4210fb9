/**
 * Owns the writing of a server-sent event stream: framing, heartbeats, slow readers, its end. Contract:
 * "Events"; WHATWG HTML §9.2. Knows not what the events tell.
 */
import type { FastifyReply } from 'fastify'

/** An open stream. Writing to one that has closed does nothing. */
export interface EventStream {
  /** Aborts when the reader has gone or the stream was ended. */
  readonly closed: AbortSignal
  /**
   * Sends what `eventFrame` made of an event. @returns whether the reader has taken enough to be sent more.
   */
  send(frame: string): boolean
  /** Resolves when it has, or has gone. */
  taken(): Promise<void>
  /** Moves the reader's place (its `Last-Event-ID`) without an event. */
  place(id: number): void
  end(): void
}

/** An event as it is sent: `data` as JSON, which holds no CR and no LF, so that one data line is enough. */
export function eventFrame({ id, event, data }: { id: number; event: string; data: unknown }): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/**
 * Answers 200 and holds the line open. A comment is sent whenever `heartbeatSeconds` have passed; a reader
 * that takes nothing for two of them is cut off. Refuse before calling this: an open stream can no longer say
 * no.
 */
export function openEventStream(reply: FastifyReply, heartbeatSeconds: number): EventStream {
  reply.hijack()
  const { raw } = reply
  const closing = new AbortController()
  let stalledBeats = 0
  raw.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    // Proxies that hold answers back until they are whole would hold this one for ever.
    'x-accel-buffering': 'no',
    // Once the stream has ended its line is of no further use, and must not keep a closing server waiting.
    connection: 'close',
  })
  const beat = setInterval(() => {
    if (!raw.writableNeedDrain) {
      stalledBeats = 0
      raw.write(':\n\n')
    } else if (++stalledBeats >= 2) raw.destroy()
  }, heartbeatSeconds * 1_000)
  const gone = (): void => {
    clearInterval(beat)
    closing.abort()
  }
  if (raw.destroyed) gone()
  raw.once('close', gone)
  raw.on('error', () => raw.destroy())
  return {
    closed: closing.signal,
    send: frame => closing.signal.aborted || raw.write(frame),
    taken: () => drained(raw, closing.signal),
    place(id) {
      if (!closing.signal.aborted) raw.write(`id: ${id}\n\n`)
    },
    end() {
      gone()
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
