/**
 * Now and then deletes rows that no answer can depend on any more, and withdraws what expired unanswered. It
 * works in bounded batches, on the owners that the due-queue names. It also tells them which enforcement
 * points fell silent. Contract: "Limits" (lifetimes), "Permission ticket" (awaiting-owner), "Events" (row 2).
 */
import { startRepeating, type Repetition } from '../limits/repetition.ts'
import { isOutage } from '../storage/core/database.ts'
import { takeDue, type DueClaim } from '../storage/authority/due.ts'
import { completeTree } from '../storage/authority/ledger/ledger-tree.ts'
import { number } from '../storage/authority/ledger/positions.ts'
import { REPORT_SILENCE_SECONDS, tellSilent } from '../storage/authority/ledger/report-instances.ts'
import { sweepAgain, sweepOwner, type Retention } from '../storage/authority/sweep.ts'
import type { Issuer } from '../surface/issuer.ts'
import type { Owner } from '../wire/identifiers.ts'
import type { LedgerLog, Store } from './context.ts'
import { signLeftRevocations } from './ledger/revocations.ts'
import { listeningFor, type Listening } from './listening-time.ts'
import { withdrawExpired } from './negotiation/withdrawals.ts'
import { tellUnmetEmergencies } from './organization/emergency-faults.ts'
import { sweepLapsed } from './registry/lapsed-registrations.ts'

/**
 * How many owners are taken at once, and for how long. A replica that is not done by then shares them with
 * another one.
 */
const OWNERS_PER_TURN = 10
const CLAIM_SECONDS = 120
const ROWS_PER_BATCH = 2_000
/** How many rows of one owner are handled before the others have their turn. */
const BATCHES_PER_TURN = 5
/**
 * How many pauses there are between two checks of an owner for whom nothing is known to be due. Only rows
 * that a replica left behind when it ended need the check; her readers do not.
 */
const IDLE_PAUSES = 60

/**
 * If more than this passes between two turns, besides the pause, this process may have been stopped as long
 * as the enforcement points it listens to.
 */
const TURN_DELAY_MS_MAX = 60_000

interface Sweeping extends Store, Partial<Pick<LedgerLog, 'checkpoints'>> {
  /** Signs revocations that a replica left when it ended. */
  signLeft?: (owner: Owner) => Promise<void>
  /** For how long this process has listened without a break. */
  listening: Listening
  retention?: Retention
}

export interface SweeperOptions {
  pauseSeconds: number
  /** The clock of this machine, in milliseconds since the epoch. */
  localClock: () => number
  /** Seconds for which the ledger is kept; undefined means for ever. */
  retention: Retention
}

/**
 * Starts sweeping every `pauseSeconds`, until nothing is due; replicas share the work. `stop` waits for a
 * running batch.
 */
export function startSweeper(
  authority: Store & Issuer & LedgerLog,
  { pauseSeconds, localClock, retention }: SweeperOptions,
): Repetition {
  const listening = listeningFor({ clock: localClock, apartMsMax: pauseSeconds * 1_000 + TURN_DELAY_MS_MAX })
  const { database, log, checkpoints } = authority
  const signLeft = (owner: Owner): Promise<void> => signLeftRevocations(authority, owner)
  const sweeping = { database, log, checkpoints, signLeft, listening, retention }
  const onError = (error: unknown): void => say(sweeping, 'a sweep was broken off', { error })
  return startRepeating(stopped => sweepDue(sweeping, pauseSeconds, stopped), { pauseSeconds, onError })
}

/**
 * Sweeps until nothing is due. A failure for one owner stops no others: she stays taken for a while, and is
 * then due again.
 */
export async function sweepDue(
  authority: Sweeping,
  pauseSeconds: number,
  stopped: () => boolean,
): Promise<void> {
  while (!stopped()) {
    authority.listening.ms()
    const due = await takeDue(authority.database.ofNobody, 'sweep', {
      limit: OWNERS_PER_TURN,
      seconds: CLAIM_SECONDS,
    })
    if (due.length === 0) return
    for (const claim of due) {
      if (stopped()) return
      await sweepOne(authority, claim, { pauseSeconds, stopped }).catch((error: unknown) =>
        say(authority, 'an owner was not swept', { owner: claim.owner, error }),
      )
    }
  }
}

async function sweepOne(
  authority: Sweeping,
  claim: DueClaim,
  { pauseSeconds, stopped }: { pauseSeconds: number; stopped: () => boolean },
): Promise<void> {
  const { database, retention } = authority
  const db = database.ofNobody
  const { owner } = claim
  let more = true
  let whole = true
  let lacksLeaves = false
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    await work().catch((error: unknown) => {
      whole = false
      say(authority, what, { owner, error })
    })
  }
  if (authority.listening.ms() >= REPORT_SILENCE_SECONDS * 1_000)
    await attempt('instances that fell silent were not told', () => tellSilent(db, owner))
  // Numbers what a replica committed but did not number before it ended, and closes the counts of past
  // minutes.
  await attempt('entries wait for their positions', () => number(db, owner))
  await attempt('older entries wait for their leaves', async () => {
    lacksLeaves = await completeTree(db, owner)
  })
  if (!lacksLeaves) authority.checkpoints?.due(owner)
  await attempt('revocations wait for their signature', async () => authority.signLeft?.(owner))
  await attempt('expired items were not announced', () => withdrawExpired(db, owner, ROWS_PER_BATCH))
  await attempt('registrations that lapsed were not told', () => sweepLapsed(db, owner))
  await attempt('emergencies were not compared', () => tellUnmetEmergencies(db, owner, ROWS_PER_BATCH))
  for (let batch = 0; more && batch < BATCHES_PER_TURN && !stopped(); batch++) {
    const swept = await sweepOwner(db, owner, ROWS_PER_BATCH, retention)
    for (const { table, error } of swept.faults)
      say(authority, 'a table was not swept', { owner, table, error })
    if (swept.rows > 0) authority.log.debug({ owner, gone: swept.rows }, 'swept')
    more = swept.more
    whole &&= swept.faults.length === 0
  }
  const pauses = { retention, pauseSeconds, idleSeconds: IDLE_PAUSES * pauseSeconds }
  // If something failed, she is not due again at once, however much is left.
  await sweepAgain(db, claim, { more: (more || lacksLeaves) && whole, ...pauses })
}

function say(
  { log, listening }: Sweeping,
  what: string,
  { error, ...of }: { error: unknown; owner?: string; table?: string },
): void {
  if (isOutage(error)) listening.broken()
  log[isOutage(error) ? 'warn' : 'error']({ err: error, ...of }, what)
}
