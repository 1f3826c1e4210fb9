/**
 * Gives positions to an owner's ledger and events soon after each commit, so that her readers find little left to number.
 * Contract: "Events". That nothing is missed rests on the readers alone, which number before they read (storage/authority/positions.ts).
 */
import type { FastifyBaseLogger } from 'fastify'
import { afterCommit } from '../../storage/core/after-commit.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Db } from '../../storage/authority/database.ts'
import { number } from '../../storage/authority/positions.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What an owner's commits have in common for so long is one numbering. */
const GATHERED_MS = 50

/** Numbers behind every commit through `db`. `stop` waits for what is under way. */
export function startSequencer(db: Db, log: FastifyBaseLogger): { stop(): Promise<void> } {
  const due = new Set<Owner>()
  let running = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const later = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => {
      running = run()
    }, GATHERED_MS).unref()
  }
  const run = async (): Promise<void> => {
    const owners = [...due]
    due.clear()
    const done = await Promise.allSettled(owners.map(owner => number(db, owner)))
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
