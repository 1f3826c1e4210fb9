/**
 * Owns the rounds in which owners come due for an organization or a tally: one begins when work is written,
 * and each second; each owner is taken by one replica, and a failure for one stops no others. Contract: "The
 * organization's authority", "Events" (notices and reports).
 */
import { startRepeating, type Repetition } from '../limits/repetition.ts'
import { takeDue, type DueClaim } from '../storage/authority/due.ts'
import { isOutage } from '../storage/core/database.ts'
import type { Wakeups } from './context.ts'

const PAUSE_SECONDS = 1
const OWNERS_PER_TURN = 8

interface DueRound {
  kind: Parameters<typeof takeDue>[1]
  /** How long one replica has an owner to itself: longer than one of them takes. */
  claimSeconds: number
  /** The log lines for a round that failed, and for one of its members. */
  lines: { round: string; one: string }
}

/**
 * Starts the rounds. Call this if there is any organization or tally to ask. `one` says when she is due
 * again.
 */
export function startDueRounds(
  { database: { ofNobody: db }, announcements, log }: Wakeups,
  { kind, claimSeconds, lines }: DueRound,
  one: (claim: DueClaim) => Promise<void>,
): Repetition {
  const tell = (err: unknown, about: object, words: string): void =>
    log[isOutage(err) ? 'warn' : 'error']({ err, ...about }, words)
  const untilNoneIsDue = async (stopped: () => boolean): Promise<void> => {
    while (!stopped()) {
      const due = await takeDue(db, kind, { limit: OWNERS_PER_TURN, seconds: claimSeconds })
      if (due.length === 0) return
      await Promise.all(
        due.map(claim =>
          one(claim).catch((error: unknown) => tell(error, { owner: claim.owner }, lines.one)),
        ),
      )
    }
  }
  const onError = (error: unknown): void => tell(error, {}, lines.round)
  const repetition = startRepeating(untilNoneIsDue, { pauseSeconds: PAUSE_SECONDS, onError })
  const unwatch = announcements.watchDue(kind, () => repetition.wake())
  return {
    stop: () => {
      unwatch()
      return repetition.stop()
    },
  }
}
