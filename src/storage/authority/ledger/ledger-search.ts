/**
 * Owns finding entries of an owner's ledger by time and words. Contract: "Owner API" (`GET /owner/ledger`).
 * No index holds words, because each call appends an entry, so a search reads entries, a bounded number.
 */
import { sql } from 'kysely'
import { holdsWords } from '../../../rules/words/ledger-words.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'
import { readLedger, type LedgerPage } from './ledger.ts'

/** A page of those entries that have all `words` and were written from `since` on and before `until`. */
export interface LedgerSearch extends LedgerPage {
  /** Unix time in seconds. */
  since?: number | undefined
  /** Unix time in seconds. */
  until?: number | undefined
  /** The words that `wordsOf` made of her text. */
  words: readonly string[]
}

type FoundEntry = Awaited<ReturnType<typeof readLedger>>[number]

const READ_AT_ONCE = 500
/** Entries that one request looks at; the next page continues from there. */
const LOOKED_AT_MAX = 5_000
/**
 * Positions follow the order of insertion and not quite that of time: an entry has the time at which its
 * transaction began, none of which lasts nearly as long as this.
 */
const SLACK_SECONDS = 600

/**
 * The entries found, and where the next page begins: null after the last page. A page may hold fewer than
 * were asked for, or none, and still have a next one.
 */
export async function searchLedger(
  db: Db,
  owner: Owner,
  { since = 0, until = Infinity, words, ...page }: LedgerSearch,
): Promise<{ items: FoundEntry[]; next: number | null }> {
  const isNewest = page.first === 'newest'
  let { after, before } = page
  if (!isNewest && since > 0) after = Math.max(after, await positionAt(db, owner, since - SLACK_SECONDS))
  if (isNewest && until < Infinity) {
    const end = await positionAt(db, owner, until + SLACK_SECONDS)
    before = Math.min(before ?? Infinity, end + 1)
  }
  const items: FoundEntry[] = []
  for (let looked = 0; ; looked += READ_AT_ONCE) {
    const last = items.at(-1)?.seq ?? null
    const entries = await readLedger(db, owner, { ...page, after, before, limit: READ_AT_ONCE })
    for (const entry of entries) {
      const at = Date.parse(entry.ts) / 1_000
      if (isNewest ? at < since - SLACK_SECONDS : at > until + SLACK_SECONDS) return { items, next: null }
      if (
        at < since ||
        at >= until ||
        !holdsWords([entry.kind, entry.family, entry.handle, entry.data], words)
      )
        continue
      if (items.length === page.limit) return { items, next: items.at(-1)?.seq ?? last }
      items.push(entry)
    }
    if (entries.length < READ_AT_ONCE) return { items, next: null }
    const reached = entries.at(-1)!.seq
    if (looked + READ_AT_ONCE >= LOOKED_AT_MAX) return { items, next: reached }
    if (isNewest) before = reached
    else after = reached
  }
}

/** The last position whose entry was written before that time, found by halves; 0 if there is none. */
async function positionAt(db: Db, owner: Owner, seconds: number): Promise<number> {
  const { rows } = await sql<{ newest: number | null }>`
    SELECT max(seq)::float8 AS newest FROM ledger WHERE owner = ${owner} AND seq IS NOT NULL`.execute(db)
  let [low, high] = [0, rows[0]!.newest ?? 0]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const { rows: found } = await sql<{ is_before: boolean }>`
      SELECT extract(epoch FROM ts) < ${seconds} AS is_before FROM ledger
      WHERE owner = ${owner} AND seq <= ${middle} ORDER BY seq DESC LIMIT 1`.execute(db)
    if (found[0]?.is_before !== false) low = middle
    else high = middle - 1
  }
  return low
}
