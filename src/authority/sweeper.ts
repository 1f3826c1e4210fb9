/**
 * Sweeps, now and then, what no answer can depend on any more, and withdraws what expired unanswered: of the
 * owners of whom the due-queue says so, in bounded batches. Tells them which enforcement points fell silent.
 * Contract: "Limits" (lifetimes), "Permission ticket" (awaiting-owner), "Events" (row 2).
 */
import { startRepeating, type Repetition } from '../limits/repetition.ts'
import { isOutage } from '../storage/core/database.ts'
import { takeDue, type Taken } from '../storage/authority/due.ts'
import { number } from '../storage/authority/positions.ts'
import { SILENT_SECONDS, tellSilent } from '../storage/authority/report-instances.ts'
import { sweepAgain, sweepOwner } from '../storage/authority/sweep.ts'
import type { Authority } from './context.ts'
import { listeningFor, type Listening } from './listening-time.ts'
import { withdrawExpired } from './negotiation/withdrawals.ts'
import { sweepLapsed } from './registry/lapsed-registrations.ts'

/**
 * Owners that are taken at once, and for how long: whoever is not done with them by then shares them with
 * another replica.
 */
const OWNERS_PER_TURN = 10
const TAKEN_SECONDS = 120
const ROWS_PER_BATCH = 2_000
/** Of one owner, before the others have their turn. */
const BATCHES_PER_TURN = 5
/**
 * Pauses between two looks at an owner of whom nothing is known to be due: of what a replica left behind that
 * ended, her readers need none.
 */
const IDLE_PAUSES = 60

/**
 * More than this between two turns, beside the pause, and this process may have been away as long as those it
 * listens to.
 */
const LATE_MS = 60_000

interface Sweeping extends Pick<Authority, 'database' | 'log'> {
  /** For how long it has heard what was said to it. */
  listening: Listening
}

export interface SweeperOptions {
  pauseSeconds: number
  /** Of this machine, in milliseconds since the epoch. */
  localClock: () => number
}

/**
 * Starts sweeping every `pauseSeconds`, until nothing is due; replicas share the work. `stop` waits for a
 * running batch.
 */
export function startSweeper(
  { database, log }: Pick<Authority, 'database' | 'log'>,
  { pauseSeconds, localClock }: SweeperOptions,
): Repetition {
  const listening = listeningFor({ clock: localClock, apartMsMax: pauseSeconds * 1_000 + LATE_MS })
  const sweeping = { database, log, listening }
  const onError = (error: unknown): void => say(sweeping, 'a sweep was broken off', { error })
  return startRepeating(stopped => sweepDue(sweeping, pauseSeconds, stopped), { pauseSeconds, onError })
}

/**
 * Until nothing is due. What fails of one owner ends nothing: she stays taken for a while, and is then due
 * again.
 */
export async function sweepDue(
  authority: Sweeping,
  pauseSeconds: number,
  stopped: () => boolean,
): Promise<void> {
  while (!stopped()) {
    authority.listening.ms()
    const due = await takeDue(authority.database.db, 'sweep', {
      limit: OWNERS_PER_TURN,
      seconds: TAKEN_SECONDS,
    })
    if (due.length === 0) return
    for (const taken of due) {
      if (stopped()) return
      await sweepOne(authority, taken, { pauseSeconds, stopped }).catch((error: unknown) =>
        say(authority, 'an owner was not swept', { owner: taken.owner, error }),
      )
    }
  }
}

async function sweepOne(
  authority: Sweeping,
  taken: Taken,
  { pauseSeconds, stopped }: { pauseSeconds: number; stopped: () => boolean },
): Promise<void> {
  const { db } = authority.database
  const { owner } = taken
  let more = true
  let whole = true
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    await work().catch((error: unknown) => {
      whole = false
      say(authority, what, { owner, error })
    })
  }
  if (authority.listening.ms() >= SILENT_SECONDS * 1_000)
    await attempt('instances that fell silent were not told', () => tellSilent(db, owner))
  // What a replica committed that ended before it had numbered it, and the counts of minutes that have
  // closed.
  await attempt('entries wait for their positions', () => number(db, owner))
  await attempt('what expired was not told', () => withdrawExpired(db, owner, ROWS_PER_BATCH))
  await attempt('registrations that lapsed were not told', () => sweepLapsed(db, owner))
  for (let batch = 0; more && batch < BATCHES_PER_TURN && !stopped(); batch++) {
    const swept = await sweepOwner(db, owner, ROWS_PER_BATCH)
    for (const { table, error } of swept.faults)
      say(authority, 'a table was not swept', { owner, table, error })
    if (swept.gone > 0) authority.log.debug({ owner, gone: swept.gone }, 'swept')
    more = swept.more
    whole &&= swept.faults.length === 0
  }
  const pauses = { pauseSeconds, idleSeconds: IDLE_PAUSES * pauseSeconds }
  // Where something failed she is not due at once again, however much there is.
  await sweepAgain(db, taken, { more: more && whole, ...pauses })
}

function say(
  { log, listening }: Sweeping,
  what: string,
  { error, ...of }: { error: unknown; owner?: string; table?: string },
): void {
  if (isOutage(error)) listening.broken()
  log[isOutage(error) ? 'warn' : 'error']({ err: error, ...of }, what)
}
