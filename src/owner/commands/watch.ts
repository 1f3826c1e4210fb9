/**
 * Owns `usher owner watch`. Contract: "Events": the owner's notifications, for as long as she watches.
 */
import { printable, printableLine } from '../../terminal/printable.ts'
import { readAll } from '../../client/exchange.ts'
import { watchEvents } from '../events.ts'
import { untilInterrupted } from '../interrupt.ts'
import { ApiError } from '../../client/api-error.ts'
import type { OwnerSession } from '../session.ts'
import { namesOf } from '../display/labels.ts'
import { eventLine, pendingTable, shortNames, type EventNames } from '../display/show.ts'

/**
 * Prints events until a signal to end, or until the stream is refused; in JSON one object per line. For a
 * person, it first shows what waits already, because those events came before she began to watch.
 */
export async function watch(session: OwnerSession, { after }: { after?: string } = {}): Promise<void> {
  const { terminal, client } = session
  let shown: Promise<void> | undefined = session.json || after !== undefined ? Promise.resolve() : undefined
  let names: EventNames | undefined
  await untilInterrupted(async signal => {
    const events = watchEvents(client.access, {
      lastEventId: after,
      signal,
      onState: state => {
        if (state.kind !== 'open')
          return terminal.err(`${printable(state.because)} Trying again in ${state.delaySeconds} s.\n`)
        terminal.err('Watching.\n')
        // Only now, because the stream reports everything that begins to wait after this list was read.
        shown ??= showWaiting(session)
      },
    })
    for await (const event of events) {
      await shown
      if (session.columns !== undefined) names ??= shortNames(await namesOf(session))
      terminal.out(session.json ? `${printableLine(event)}\n` : eventLine(event, names))
      // Her authority is asked for no more than she reads.
      await terminal.ready?.(signal)
    }
    await shown
  })
}

/**
 * The items that wait already. If the list cannot be read, the command continues to watch, because the stream
 * is open.
 */
async function showWaiting(session: OwnerSession): Promise<void> {
  const { client, terminal, columns } = session
  try {
    const items = await readAll(client.pending())
    if (items.length > 0) terminal.out(pendingTable(items, columns, { names: await namesOf(session) }))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    terminal.err(`What waits already could not be read: ${printable(error.detail)}\n`)
  }
}
