/**
 * Owns `usher owner watch`. contract, "Events": the owner's notifications, for as long as she looks.
 */
import type { Terminal } from '../terminal/command.ts'
import { printable } from '../terminal/printable.ts'
import type { OwnerClient } from './client.ts'
import { watchEvents } from './events.ts'
import { eventLine } from './show.ts'

/** Prints events until SIGINT or SIGTERM, or until the stream is refused; in JSON one object per line. */
export async function watch(session: {
  client: OwnerClient
  terminal: Terminal
  json: boolean
  after?: string
}): Promise<void> {
  const { terminal } = session
  const stop = new AbortController()
  const end = (): void => stop.abort()
  process.once('SIGINT', end).once('SIGTERM', end)
  try {
    const events = watchEvents(session.client.access, {
      lastEventId: session.after,
      signal: stop.signal,
      onState: state =>
        terminal.err(
          state.kind === 'open'
            ? 'Watching.\n'
            : `${printable(state.because)} Trying again in ${state.delaySeconds} s.\n`,
        ),
    })
    for await (const event of events) {
      terminal.out(session.json ? `${oneLine(event)}\n` : eventLine(event))
    }
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end)
  }
}

/** JSON on one line, in ASCII alone, so that nothing in it can act on a terminal. */
function oneLine(value: unknown): string {
  return JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    mark => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
