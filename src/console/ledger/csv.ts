/** Owns the ledger as a table for other programs (RFC 4180). Contract: "Owner API" (`/owner/ledger`). */
import { canonicalize, type Json } from '../../wire/json.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'

/** Columns that most entries have come first, then the others, by name. */
const FIRST = ['seq', 'ts', 'kind', 'handle', 'family', 'resource_id', 'tool', 'by', 'binding'] as const

/** One row for each entry, under a row of names; values that are not text are written as canonical JSON. */
export function csvOf(entries: readonly LedgerEntry[]): string {
  const others = new Set(entries.flatMap(entry => Object.keys(entry)))
  for (const name of FIRST) others.delete(name)
  const names = [...FIRST, ...[...others].sort()]
  const rows = entries.map(entry => names.map(name => cellOf((entry as Record<string, unknown>)[name])))
  return [names.map(cellOf), ...rows].map(cells => `${cells.join(',')}\r\n`).join('')
}

/**
 * A text that a table program would run as a formula begins with an apostrophe, as these programs have it.
 */
function cellOf(value: unknown): string {
  if (value === undefined || value === null || value === '') return ''
  const text = typeof value === 'string' ? value : canonicalize(value as Json)
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}
