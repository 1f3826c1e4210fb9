/**
 * Owns the reports of one owner's calls that wait until her authority accepts them. One run of this
 * enforcement point numbers them from 1, and sends them in that order. Contract: "Events", 2. This file keeps
 * them in memory; `journal.ts` keeps them in files.
 */
import type { ClientId, Family, Owner } from '../../wire/identifiers.ts'
import type { OwnerEnds } from '../../wire/documents/owner-ends.ts'

/** The reports' resource server, authority and owner. */
export interface ReportsOf {
  authority: string
  client_id: ClientId
  owner: Owner
}

/**
 * The report of one call that was let through; `at` in seconds since the epoch, `at_ms` in milliseconds, so
 * that the owner sees whether it came before what she did in the same second.
 */
export interface AccessReport {
  family: Family
  /** Left out if neither the authority's answer nor the grant has one. */
  jti?: string | undefined
  tool: string
  summary: string
  at: number
  /** Left out in reports that an earlier version kept. */
  at_ms?: number | undefined
  /** What the authority knew when it judged the call, if it said so. */
  judged?: OwnerEnds | undefined
}

/**
 * A report with its number, as it is sent. `id` is made of run and number, for authorities that know only an
 * id.
 */
export interface AccessEntry extends AccessReport {
  id: string
  instance: string
  n: number
}

/** Gives a report its number. */
export function entryOf(report: AccessReport, instance: string, n: number): AccessEntry {
  return { id: `${instance}.${n}`, ...report, instance, n }
}

/** Reports of one run for one owner that her authority has not accepted yet, oldest first. */
export interface Outbox {
  readonly instance: string
  /** The highest number that was used; 0 before the first. */
  last(): number
  /** How many wait. */
  waiting(): number
  /** The oldest reports, at most this many; the same ones again until they are marked as done. */
  peek(max: number): AccessEntry[]
  /** Marks this many of the oldest as done. */
  done(count: number): void
}

/** An outbox that still accepts reports. */
export interface OpenOutbox extends Outbox {
  /** Gives the report the next number. */
  put(report: AccessReport): void
}

/** An outbox in memory, which is lost with this process. */
export interface MemoryOutbox extends OpenOutbox {
  /**
   * Drops the youngest report. Its number stays used, so her authority notices that one is missing. Returns
   * false if all remaining reports are being sent.
   */
  lose(): boolean
}

/** `onChange` is called with how many more wait than before. */
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
