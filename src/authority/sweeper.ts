/**
 * Sweeps, now and then, what no answer can depend on any more, owner by owner in bounded batches.
 * Contract: "Limits" (lifetimes).
 */
import { startRepeating, type Repetition } from '../limits/repetition.ts'
import { isOutage } from '../storage/core/database.ts'
import { listOwners } from '../storage/authority/owners.ts'
import { number } from '../storage/authority/positions.ts'
import { sweepOwner } from '../storage/authority/sweep.ts'
import type { Authority } from './context.ts'
import type { Owner } from '../wire/identifiers.ts'

const OWNERS_PER_READ = 100
const ROWS_PER_BATCH = 500
/** Per owner and sweep: a backlog is worked off over several sweeps, beside the calls. */
const BATCHES_MAX = 20

/** Starts sweeping every `pauseSeconds`; any number of replicas may. `stop` waits for a running batch. */
export function startSweeper(authority: Authority, pauseSeconds: number): Repetition {
  const onError = (error: unknown): void => {
    const level = isOutage(error) ? 'warn' : 'error'
    authority.log[level]({ err: error }, 'a sweep was broken off')
  }
  return startRepeating(stopped => sweepAll(authority, stopped), { pauseSeconds, onError })
}

async function sweepAll(authority: Authority, stopped: () => boolean): Promise<void> {
  const { db } = authority.database
  let after: string | undefined
  do {
    const owners = await listOwners(db, { after, limit: OWNERS_PER_READ })
    for (const { owner } of owners) await sweepOne(authority, owner, stopped)
    after = owners.length < OWNERS_PER_READ ? undefined : owners.at(-1)?.owner
  } while (after !== undefined && !stopped())
}

async function sweepOne(authority: Authority, owner: Owner, stopped: () => boolean): Promise<void> {
  // What a replica committed that ended before it had numbered it, and the counts of minutes that have closed.
  await number(authority.database.db, owner)
  for (let batch = 0; batch < BATCHES_MAX && !stopped(); batch++) {
    const gone = await sweepOwner(authority.database.db, owner, ROWS_PER_BATCH)
    if (gone === 0) return
    authority.log.debug({ owner, gone }, 'swept')
  }
}
