/**
 * Owns reports of one owner's calls that wait to be taken by her authority: numbered from 1 by one run of
 * this enforcement point, and sent in that order. Contract: "Events", 2. Here in memory; in files in
 * `journal.ts`.
 */
import type { ClientId, Family, Owner } from '../../wire/identifiers.ts'

/** Whose reports they are: of which resource server, to which authority, for which owner. */
export interface ReportsOf {
  authority: string
  client_id: ClientId
  owner: Owner
}

/** What is told of one call that was let through; `at` in seconds since the epoch. */
export interface AccessReport {
  family: Family
  jti: string
  tool: string
  summary: string
  at: number
}

/** A report with its number, as it is sent. `id` is made of the two, for authorities that know only that. */
export interface AccessEntry extends AccessReport {
  id: string
  instance: string
  n: number
}

/** Gives a report its number. */
export function entryOf(report: AccessReport, instance: string, n: number): AccessEntry {
  return { id: `${instance}.${n}`, ...report, instance, n }
}

/** Reports of one run for one owner that her authority has not taken yet, oldest first. */
export interface Outbox {
  readonly instance: string
  /** The highest number that was given; 0 before the first. */
  last(): number
  /** How many wait. */
  waiting(): number
  /** The oldest, at most so many; the same again until they are done. */
  peek(max: number): AccessEntry[]
  /** So many of the oldest need no sending any more. */
  done(count: number): void
}

/** One that reports can still be put into. */
export interface OpenOutbox extends Outbox {
  /** Gives the report the next number. */
  put(report: AccessReport): void
}

/** Lost with this process. */
export interface MemoryOutbox extends OpenOutbox {
  /**
   * Loses the youngest, whose number stays given: her authority learns by it that one is missing. Answers
   * false where there is none but those that are on their way.
   */
  lose(): boolean
}

/** `onChange` is told how many more wait than before. */
export function createMemoryOutbox(instance: string, onChange: (change: number) => void): MemoryOutbox {
  const entries: AccessEntry[] = []
  let last = 0
  let onTheirWay = 0
  return {
    instance,
    last: () => last,
    waiting: () => entries.length,
    peek: max => {
      const first = entries.slice(0, max)
      onTheirWay = first.length
      return first
    },
    done: count => {
      entries.splice(0, count)
      onTheirWay = Math.max(0, onTheirWay - count)
      onChange(-count)
    },
    put: report => {
      entries.push(entryOf(report, instance, ++last))
      onChange(1)
    },
    lose: () => {
      if (entries.length <= onTheirWay) return false
      entries.pop()
      onChange(-1)
      return true
    },
  }
}
