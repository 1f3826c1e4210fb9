/**
 * Counts refusals of strangers. Refusals that come while a statement runs are batched into the next one: a
 * flood of them must not hold all database connections in a queue for one row. Contract: "Events" (row 5),
 * "Limits" (pending queue).
 */
import type { Pools } from '../../storage/authority/database.ts'
import {
  countRefusal,
  FAMILIES_NAMED_MAX,
  type CountedRefusal,
} from '../../storage/authority/ledger/ledger.ts'
import type { Family, Owner } from '../../wire/identifiers.ts'

export interface RefusalCounts {
  /** Counts the refusal of one negotiation; resolves when it is stored. */
  count(owner: Owner, family: Family, refusal: CountedRefusal): Promise<void>
}

interface RefusalCount {
  times: number
  families: Family[]
}

interface CountBatch {
  running: Promise<void>
  /** Refusals that came while it ran. */
  next: (RefusalCount & { done: Promise<void> }) | undefined
}

/** Counts into one store. */
export function createRefusalCounts(database: Pools): RefusalCounts {
  const batches = new Map<string, CountBatch>()
  return {
    count: (owner, family, refusal) => {
      const key = JSON.stringify([owner, refusal.kind, refusal.reason, refusal.handle])
      const write = async (batch: CountBatch, counted: RefusalCount): Promise<void> => {
        try {
          await countRefusal(database.of(owner), owner, refusal, counted)
        } finally {
          if (batch.next === undefined) batches.delete(key)
        }
      }
      const known = batches.get(key)
      if (known === undefined) {
        const batch: CountBatch = { running: Promise.resolve(), next: undefined }
        batches.set(key, batch)
        batch.running = write(batch, { times: 1, families: [family] })
        return batch.running
      }
      known.next ??= followUp(known, write)
      known.next.times += 1
      // Keeps one family more than an entry names, because the first refusal of a minute is recorded by
      // itself.
      if (known.next.families.length <= FAMILIES_NAMED_MAX) known.next.families.push(family)
      return known.next.done
    },
  }
}

/** Runs when the batch has run. Its failure is passed only to the callers that waited for it. */
function followUp(
  batch: CountBatch,
  write: (batch: CountBatch, counted: RefusalCount) => Promise<void>,
): CountBatch['next'] & {} {
  const next = { times: 0, families: [] as Family[], done: Promise.resolve() }
  next.done = batch.running
    .catch(() => undefined)
    .then(() => {
      batch.running = next.done
      batch.next = undefined
      return write(batch, next)
    })
  return next
}
