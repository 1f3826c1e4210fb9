/**
 * Owns the memory of heads of owners' ledgers that authorities sent with their answers: each distinct one,
 * also what contradicts another, for seven days. Nothing here says that a head is true: `usher verify` and
 * others judge them. docs/choices.md, "Heads that others keep". Contract: "Events" (row 5).
 */
import type { Owner } from '../../wire/identifiers.ts'
import { readLedgerHead, type LedgerHead } from '../../wire/ledger/ledger-head.ts'

/** A head, from whom it came, about whom, and when it was first received (seconds since the epoch). */
export interface HeadRecord {
  owner: Owner
  authority: string
  received_at: number
  ledger_head: LedgerHead
}

/** Takes the `ledger_head` of an answer, which may be anything. Never throws and never waits. */
export type TakeHead = (value: unknown) => void

/** Where heads are kept. */
export interface HeadStore {
  /** Keeps it. Never throws. */
  add: (head: HeadRecord) => void
  /** What is kept here, oldest first. */
  list: () => HeadRecord[]
  /** Waits until everything is written. */
  close: () => Promise<void>
}

export interface LedgerHeads {
  /** What takes the heads in this authority's answers about this owner. */
  takerOf: (of: { owner: Owner; authority: string }) => TakeHead
  /** What is kept in memory; a directory is read by `readHeads`. */
  list: () => HeadRecord[]
  close: () => Promise<void>
}

export interface LedgerHeadsOptions {
  store: HeadStore
  /** Milliseconds since the epoch. */
  clock: () => number
  onFault: (sentence: string) => void
}

export const KEPT_DAYS = 7
export const DAY_MS = 86_400_000
/** An hour has one head. More of an owner in a day are those of an authority that contradicts itself. */
const OF_A_DAY_MAX = 500

/** Passes each distinct head of an owner on to the store, once a day. */
export function createLedgerHeads({ store, clock, onFault }: LedgerHeadsOptions): LedgerHeads {
  return {
    takerOf: ({ owner, authority }) => {
      let day = -1
      let last: Partial<LedgerHead> | undefined
      let names = new Set<string>()
      return value => {
        if (value === undefined || value === null) return
        const now = clock()
        const today = Math.floor(now / DAY_MS)
        const isNewDay = today !== day
        if (!isNewDay && last !== undefined && isSame(last, value)) return
        if (isNewDay) [day, names] = [today, new Set()]
        last = value
        const about = `The authority ${authority} sent a ledger_head of ${owner}`
        let head: LedgerHead
        try {
          head = readLedgerHead(value)
        } catch (error) {
          return onFault(`${about} that cannot be read: ${(error as Error).message}`)
        }
        const name = JSON.stringify(Object.values(head))
        if (names.has(name) || names.size > OF_A_DAY_MAX) return
        names.add(name)
        if (names.size > OF_A_DAY_MAX)
          return onFault(
            `${about} more than ${OF_A_DAY_MAX} times on one day, each another: no more are kept.`,
          )
        store.add({ owner, authority, received_at: Math.floor(now / 1_000), ledger_head: head })
      }
    },
    list: () => store.list(),
    close: () => store.close(),
  }
}

/** Every call brings the head of the hour, so this is what a call costs. */
function isSame(last: Partial<LedgerHead>, value: Partial<LedgerHead>): boolean {
  return (
    last.sig === value.sig &&
    last.root === value.root &&
    last.size === value.size &&
    last.origin === value.origin &&
    last.kid === value.kid
  )
}

/** Which of two is the same head of the same owner. */
export const nameOfHead = ({ owner, authority, ledger_head }: HeadRecord): string =>
  JSON.stringify([owner, authority, ...Object.values(ledger_head)])
