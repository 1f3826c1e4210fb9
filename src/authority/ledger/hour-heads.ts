/**
 * The heads that receipts and introspection answers carry: of each owner the one that was signed last before
 * the present hour (UTC), so that within an hour everybody gets the same one, whichever replica answers.
 * docs/choices.md, "Heads that others keep". Contract: "Events" (row 5).
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Db } from '../../storage/authority/database.ts'
import { shareOf } from '../../storage/core/shares.ts'
import { readHourCheckpoint } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { headOfCheckpoint, type LedgerHead } from '../../wire/ledger/ledger-head.ts'

export interface HourHeads {
  /**
   * The head of her ledger for the present hour, if it is in memory. Never waits: if it is not, it is read in
   * the background for later answers.
   */
  readonly headOfHour: (owner: Owner) => LedgerHead | undefined
  /** Waits for running reads. */
  stop: () => Promise<void>
}

export interface HourHeadsOptions {
  /** What every origin begins with. */
  base: string
  /** Milliseconds since the epoch, by the clock of the database. */
  clock: () => number
  onFault: (error: unknown) => void
}

/** An owner's head in one hour; `head` is undefined if there is none, or none is known yet. */
interface KnownHead {
  hour: number
  head: LedgerHead | undefined
  /** When it is asked for again, in milliseconds since the epoch; Infinity: not in this hour. */
  again: number
}

const HOUR_MS = 3_600_000
const KEPT_MAX = 10_000
/** How many reads run at once; the others wait for their turn. */
const AT_ONCE = 2
/** So long after a read that failed, or that came before the hour of the database, it is read again. */
const RESTS_MS = 10_000

/** Reads heads as they are asked for, one owner's at most once an hour, and on her behalf. */
export function startHourHeads(db: Db, { base, clock, onFault }: HourHeadsOptions): HourHeads {
  const known = new BoundedMap<Owner, KnownHead>(KEPT_MAX)
  const waiting = new Set<Owner>()
  const running = new Map<Owner, Promise<void>>()
  let stopped = false

  const read = async (owner: Owner): Promise<void> => {
    const hour = Math.floor(clock() / HOUR_MS)
    try {
      const found = await readHourCheckpoint(shareOf(db, owner), owner, { base, hour })
      const head = found && headOfCheckpoint(found.note, found.kid)
      // Right after the full hour the clock of the database may not have reached it.
      const isEarly = head === undefined && clock() - hour * HOUR_MS < 2 * RESTS_MS
      known.set(owner, { hour, head, again: isEarly ? clock() + RESTS_MS : Infinity })
    } catch (error) {
      known.set(owner, { hour, head: undefined, again: clock() + RESTS_MS })
      onFault(error)
    }
  }
  const readNext = (): void => {
    for (const owner of waiting) {
      if (stopped || running.size >= AT_ONCE) return
      waiting.delete(owner)
      const reading = read(owner).finally(() => {
        running.delete(owner)
        readNext()
      })
      running.set(owner, reading)
    }
  }
  return {
    headOfHour: owner => {
      const now = clock()
      const one = known.get(owner)
      if (one !== undefined && one.hour === Math.floor(now / HOUR_MS) && now < one.again) return one.head
      if (waiting.size < KEPT_MAX && !waiting.has(owner) && !running.has(owner)) {
        waiting.add(owner)
        readNext()
      }
      return undefined
    },
    stop: async () => {
      stopped = true
      await Promise.all(running.values())
    },
  }
}
