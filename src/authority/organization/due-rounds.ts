/**
 * Owns the rounds in which members come due for an organization: each is taken by one replica, and what fails
 * of one ends nothing. Contract: "The organization's authority", "Events" (notices and reports).
 */
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { takeDue, type Taken } from '../../storage/authority/due.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Authority } from '../context.ts'

const PAUSE_SECONDS = 1
const OWNERS_PER_TURN = 8

interface Round {
  kind: Parameters<typeof takeDue>[1]
  /** Longer than one of them takes. */
  takenSeconds: number
  /** What the log says where a round, and where one of its members, failed. */
  said: { round: string; one: string }
}

/** Starts them, where there is an organization that may be asked. `one` says when she is due again. */
export function startDueRounds(
  { database: { db }, organizations, log }: Pick<Authority, 'database' | 'organizations' | 'log'>,
  { kind, takenSeconds, said }: Round,
  one: (taken: Taken) => Promise<void>,
): Repetition | undefined {
  if (organizations.issuers.length === 0) return undefined
  const tell = (err: unknown, about: object, words: string): void =>
    log[isOutage(err) ? 'warn' : 'error']({ err, ...about }, words)
  const untilNoneIsDue = async (stopped: () => boolean): Promise<void> => {
    while (!stopped()) {
      const due = await takeDue(db, kind, { limit: OWNERS_PER_TURN, seconds: takenSeconds })
      if (due.length === 0) return
      await Promise.all(
        due.map(taken => one(taken).catch((error: unknown) => tell(error, { owner: taken.owner }, said.one))),
      )
    }
  }
  const onError = (error: unknown): void => tell(error, {}, said.round)
  return startRepeating(untilNoneIsDue, { pauseSeconds: PAUSE_SECONDS, onError })
}
