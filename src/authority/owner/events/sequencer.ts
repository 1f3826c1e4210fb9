/**
 * Gives positions to an owner's ledger and events soon after each commit, so that her readers find little
 * left to number. Contract: "Events". Correctness does not depend on it: readers number before they read, so
 * they miss nothing (storage/authority/ledger/positions.ts).
 */
import type { FastifyBaseLogger } from 'fastify'
import { BoundedMap } from '../../../limits/bounded-map.ts'
import { afterCommit } from '../../../storage/core/after-commit.ts'
import { isOutage } from '../../../storage/core/database.ts'
import type { Db } from '../../../storage/authority/database.ts'
import { sweepWithin } from '../../../storage/authority/due.ts'
import { completeTree } from '../../../storage/authority/ledger/ledger-tree.ts'
import { number } from '../../../storage/authority/ledger/positions.ts'
import type { Owner } from '../../../wire/identifiers.ts'

/** Commits of an owner within this time share one numbering, by `performance.now()` as all times here. */
const NUMBERING_DELAY_MS = 50
/**
 * So long an owner rests who was numbered, so that under steady calls a numbering is for many of them: it
 * costs Postgres as much again as writing a hundred entries.
 */
const OWNER_PAUSE_MS = 250

/** How many owners are remembered as due soon, or as numbered a moment ago. */
const REMEMBERED_MAX = 10_000
/** How many owners are numbered at once: they act for nobody, so all of them would take the whole pool. */
const AT_ONCE = 4

/**
 * Numbers after every commit through `db`, and makes the owner due for the sweeper within `sweepSeconds`,
 * which closes minutes and deletes old rows. Calls `onNumbered` when all entries of an owner have position
 * and leaf. `stop` waits for running work.
 */
export function startSequencer(
  db: Db,
  {
    log,
    sweepSeconds,
    onNumbered,
  }: { log: FastifyBaseLogger; sweepSeconds: number; onNumbered?: (owner: Owner) => void },
): { stop(): Promise<void> } {
  /** Until when she is scheduled already. */
  const lookedAt = new BoundedMap<Owner, number>(REMEMBERED_MAX)
  const restsUntil = new BoundedMap<Owner, number>(REMEMBERED_MAX)
  const due = new Set<Owner>()
  let running = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const follow = async (owner: Owner): Promise<void> => {
    await number(db, owner)
    if (await completeTree(db, owner)) due.add(owner)
    else onNumbered?.(owner)
    const now = performance.now()
    if (now < (lookedAt.get(owner) ?? 0)) return
    // An owner who is due sooner may be swept before her next commit.
    if (await sweepWithin(db, owner, sweepSeconds)) lookedAt.set(owner, now + sweepSeconds * 1_000)
  }
  const later = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => {
      running = run()
    }, NUMBERING_DELAY_MS).unref()
  }
  /** Owners one after the other; an owner who waits for a lock delays no other lane. */
  const followEach = async (owners: Iterable<Owner>): Promise<void> => {
    for (const owner of owners) {
      // Whoever is left here has her turn with the sweeper, or with her next reader.
      if (stopped) return
      due.delete(owner)
      restsUntil.set(owner, performance.now() + OWNER_PAUSE_MS)
      await follow(owner).catch((error: unknown) =>
        log[isOutage(error) ? 'warn' : 'error']({ err: error }, 'entries wait for their positions'),
      )
    }
  }
  const run = async (): Promise<void> => {
    const began = performance.now()
    const next = [...due].filter(owner => began >= (restsUntil.get(owner) ?? 0)).values()
    await Promise.all(Array.from({ length: AT_ONCE }, () => followEach(next)))
    timer = undefined
    if (due.size > 0) later()
  }
  afterCommit(db, owner => {
    due.add(owner)
    later()
  })
  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
