/**
 * Gives positions to an owner's ledger and events soon after each commit, so that her readers find little
 * left to number. Contract: "Events". That nothing is missed rests on the readers alone, which number before
 * they read (storage/authority/positions.ts).
 */
import type { FastifyBaseLogger } from 'fastify'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { afterCommit } from '../../storage/core/after-commit.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Db } from '../../storage/authority/database.ts'
import { sweepWithin } from '../../storage/authority/due.ts'
import { number } from '../../storage/authority/positions.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What an owner's commits have in common for so long is one numbering. */
const GATHERED_MS = 50

/** Owners of whom is remembered that they are looked at soon. */
const LOOKED_AT_MAX = 10_000

/**
 * Numbers behind every commit through `db`, and has the owner looked at by the sweeper within `sweepSeconds`:
 * there are minutes to be closed, and rows to go. `stop` waits for what is under way.
 */
export function startSequencer(
  db: Db,
  { log, sweepSeconds }: { log: FastifyBaseLogger; sweepSeconds: number },
): { stop(): Promise<void> } {
  /** Until when (by `performance.now()`) her next look was said already. */
  const lookedAt = new BoundedMap<Owner, number>(LOOKED_AT_MAX)
  const due = new Set<Owner>()
  let running = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const follow = async (owner: Owner): Promise<void> => {
    await number(db, owner)
    const now = performance.now()
    if (now < (lookedAt.get(owner) ?? 0)) return
    // One who is due sooner may have been looked at before the next of her commits.
    if (await sweepWithin(db, owner, sweepSeconds)) lookedAt.set(owner, now + sweepSeconds * 1_000)
  }
  const later = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => {
      running = run()
    }, GATHERED_MS).unref()
  }
  const run = async (): Promise<void> => {
    const owners = [...due]
    due.clear()
    const done = await Promise.allSettled(owners.map(follow))
    for (const { reason } of done.filter(one => one.status === 'rejected'))
      log[isOutage(reason) ? 'warn' : 'error']({ err: reason }, 'entries wait for their positions')
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
