/**
 * How every party sweeps what no answer can depend on any more: table by table, in bounded batches, so that a
 * fault of one table keeps no other from being swept. Each party says what is removed, and when. Contract:
 * "Limits" (lifetimes).
 */
import type { RawBuilder } from 'kysely'
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { isOutage, type Db } from './database.ts'

/** Rows that went, and what failed of which table. */
export interface Swept {
  rows: number
  /** Some table had as many to go as one batch may. */
  more: boolean
  faults: { table: string; error: unknown }[]
}

/** Removes at most so many rows of a table. @returns how many went. */
export type SweepBatch = (limit: number) => Promise<number>

/** One batch of each table, in their order. */
export async function sweepEach(
  batches: Readonly<Record<string, SweepBatch>>,
  limit: number,
): Promise<Swept> {
  const swept: Swept = { rows: 0, more: false, faults: [] }
  for (const [table, batch] of Object.entries(batches)) {
    try {
      const rows = await batch(limit)
      swept.rows += rows
      swept.more ||= rows >= limit
    } catch (error) {
      swept.faults.push({ table, error })
    }
  }
  return swept
}

/** The batches that statements are which remove rows; undefined if nothing of a table goes. */
export function deletions<Tables>(
  db: Db<Tables>,
  statements: Readonly<Record<string, (limit: number) => RawBuilder<unknown> | undefined>>,
): Record<string, SweepBatch> {
  const batches = Object.entries(statements).map(([table, statement]): [string, SweepBatch] => [
    table,
    async limit => Number((await statement(limit)?.execute(db))?.numAffectedRows ?? 0n),
  ])
  return Object.fromEntries(batches)
}

/** Where the sweep reports what it removed, and what it could not. */
export type SweepLog = Record<'debug' | 'warn' | 'error', (of: object, what: string) => void>

const ROWS_PER_BATCH = 500
/** Before the next pause, however much is left. */
const SWEEPS_PER_TURN = 20

/**
 * Sweeps every `pauseSeconds` until nothing is left to go, in a store that any number of replicas sweep.
 * `stop` waits for a running batch.
 */
export function startSweeping(
  sweep: (limit: number) => Promise<Swept>,
  { pauseSeconds, log }: { pauseSeconds: number; log: SweepLog },
): Repetition {
  const say = (what: string, error: unknown, of: object = {}): void =>
    log[isOutage(error) ? 'warn' : 'error']({ err: error, ...of }, what)
  const turn = async (stopped: () => boolean): Promise<void> => {
    let more = true
    for (let n = 0; more && n < SWEEPS_PER_TURN && !stopped(); n++) {
      const swept = await sweep(ROWS_PER_BATCH)
      for (const { table, error } of swept.faults) say('a table was not swept', error, { table })
      if (swept.rows > 0) log.debug({ gone: swept.rows }, 'swept')
      // Work that failed is not tried again at once, however much is due.
      more = swept.more && swept.faults.length === 0
    }
  }
  return startRepeating(turn, { pauseSeconds, onError: error => say('a sweep was broken off', error) })
}
