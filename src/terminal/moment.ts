/** Owns how a moment is written on a command line. Contract: "Owner API" (`/owner/ledger`). */
import { UsageError } from './command.ts'

const UNITS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const

/**
 * The moment that `30m`, `2h` or `7d` ago was, or that a time with its zone names (`2026-11-21T09:00Z`).
 * Throws a UsageError for anything else.
 */
export function momentOf(value: string): Date {
  const [, count, unit] = /^(\d{1,7})([smhd])$/.exec(value) ?? []
  if (count !== undefined && unit !== undefined)
    return new Date(Date.now() - Number(count) * UNITS[unit as keyof typeof UNITS] * 1_000)
  // A bare date or time has no zone; only a time that names one moment is accepted.
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(value)
    ? new Date(value)
    : undefined
  if (at === undefined || Number.isNaN(at.getTime()))
    throw new UsageError(`Give a time as 30m, 2h or 7d, or as 2026-11-21T09:00Z, not ${value}.`)
  return at
}
