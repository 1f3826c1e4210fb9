/**
 * Owns how the page asks for her ledger: the server searches, newest first, and the page reads on where a
 * part of the ledger has nothing that fits. Contract: "Owner API" (`GET /owner/ledger`).
 */
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'

/** What is looked for; an empty text means that it does not matter. Days are in her own time zone. */
export interface Filter {
  handle: string
  kind: string
  words: string
  /** From this day on (`2026-11-21`). */
  from: string
  /** To the end of this day. */
  until: string
}

/** Entries, newest first; `next` is the `before` of the page after it, null once there is none. */
export interface EntriesPage {
  entries: LedgerEntry[]
  next: number | null
}

/** Asks for one page by its path, below the API's base. */
export type ReadPage = (path: string) => Promise<EntriesPage>

export const NO_FILTER: Filter = { handle: '', kind: '', words: '', from: '', until: '' }

/** How many characters of words the API accepts. */
export const WORDS_LENGTH_MAX = 200
/** How many pages without an entry are read before she is asked whether to search on. */
const EMPTY_PAGES_MAX = 20
/** How many entries are exported at once; `usher owner ledger` exports a longer ledger. */
export const EXPORTED_MAX = 10_000
const EXPORTED_AT_ONCE = 1_000
/** Each of them looks at thousands of entries. */
const EXPORT_READS_MAX = 1_000

/** The path of a page with at most `limit` entries, older than `before` if that is given. */
export function ledgerPath(filter: Filter, { before, limit }: { before?: number; limit: number }): string {
  const { handle, kind, words, from, until } = filter
  const parameters: Record<string, string | number | undefined> = {
    handle,
    kind,
    q: words.trim().slice(0, WORDS_LENGTH_MAX),
    since: startOfDay(from, 0),
    // The API excludes this moment, which is the first of the day after.
    until: startOfDay(until, 1),
    before,
  }
  const query = new URLSearchParams({ first: 'newest', limit: String(limit) })
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== '') query.set(name, String(value))
  return `owner/ledger?${query.toString()}`
}

/** Unix time in seconds at which a day begins, or one so many days later; undefined if it is no day. */
function startOfDay(day: string, later: number): number | undefined {
  const start = new Date(`${day}T00:00:00`)
  // A day of 23 or 25 hours is one day all the same.
  start.setDate(start.getDate() + later)
  return Number.isNaN(start.getTime()) ? undefined : Math.max(0, Math.floor(start.getTime() / 1_000))
}

/**
 * The next page that has an entry, or the last that was read: a page of a search may have none and still have
 * one after it.
 */
export async function nextPage(
  read: ReadPage,
  filter: Filter,
  { before, limit }: { before?: number; limit: number },
): Promise<EntriesPage> {
  let page = await read(ledgerPath(filter, { ...(before === undefined ? {} : { before }), limit }))
  for (let empty = 1; empty < EMPTY_PAGES_MAX; empty++) {
    if (page.entries.length > 0 || page.next === null) return page
    page = await read(ledgerPath(filter, { before: page.next, limit }))
  }
  return page
}

/** All that fits, newest first, at most `EXPORTED_MAX`; `isCut` if there may be older entries that fit. */
export async function allEntries(
  read: ReadPage,
  filter: Filter,
): Promise<{ entries: LedgerEntry[]; isCut: boolean }> {
  const entries: LedgerEntry[] = []
  let next: number | null | undefined
  for (let reads = 0; reads < EXPORT_READS_MAX; reads++) {
    const from = typeof next === 'number' ? { before: next } : {}
    const page = await read(ledgerPath(filter, { ...from, limit: EXPORTED_AT_ONCE }))
    entries.push(...page.entries)
    next = page.next
    if (next === null || entries.length >= EXPORTED_MAX) break
  }
  return { entries: entries.slice(0, EXPORTED_MAX), isCut: next !== null || entries.length > EXPORTED_MAX }
}
