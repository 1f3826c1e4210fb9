/**
 * Owns the end of leases whose sidecars have gone without a word: one that was not renewed for
 * `LEASE_SILENT_MS` by the clock of this process uses no answer any more. Contract: "Limits"; ADR 0021.
 */
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { deleteSilent, listHolders, type LeaseHolderReading } from '../../storage/authority/grants/leases.ts'
import { isOutage } from '../../storage/core/database.ts'
import { LEASE_SILENT_MS } from '../../wire/resources/leases.ts'
import type { Store } from '../context.ts'

/** The pause while there are no leases: those that a replica left behind when it ended are found by then. */
const IDLE_MS = 30_000

interface LeaseHolderHistory extends LeaseHolderReading {
  /** When it was first seen with so many renewals, by the clock that the sweep was called with. */
  since: number
}

/** One look; `clock` is monotonic, in milliseconds. @returns how many leases there are. */
export type LeaseSweep = (clock: () => number) => Promise<number>

/** Looks at all leases, and deletes those that stood still since an earlier look long enough ago. */
export function createLeaseSweep({ database: { ofNobody: db } }: Pick<Store, 'database'>): LeaseSweep {
  let before = new Map<string, LeaseHolderHistory>()
  return async clock => {
    const rows = await listHolders(db)
    // The clock is read after the look, so each renewal that was seen had been sent by then.
    const since = clock()
    const now = new Map<string, LeaseHolderHistory>()
    for (const row of rows) {
      const key = JSON.stringify([row.owner, row.id])
      const known = before.get(key)
      now.set(key, known?.renewals === row.renewals ? known : { ...row, since })
    }
    before = now
    const silent = [...now.values()].filter(one => since - one.since >= LEASE_SILENT_MS)
    const deletions = await deleteSilent(db, silent)
    return rows.length - deletions.length
  }
}

/** Starts looking: every `LEASE_SILENT_MS` while there are leases. */
export function startLeaseSweep(authority: Store, { entered }: { entered: () => number }): Repetition {
  const sweep = createLeaseSweep(authority)
  let idleUntil = 0
  let enteredBefore = 0
  return startRepeating(
    async () => {
      const now = performance.now()
      const enteredNow = entered()
      if (enteredNow === enteredBefore && now < idleUntil) return
      enteredBefore = enteredNow
      const left = await sweep(() => performance.now())
      idleUntil = left === 0 ? now + IDLE_MS : 0
    },
    {
      pauseSeconds: (LEASE_SILENT_MS + 50) / 1_000,
      onError: error => {
        const level = isOutage(error) ? 'warn' : 'error'
        authority.log[level]({ err: error }, 'leases of sidecars that have gone were not looked for')
      },
    },
  )
}
