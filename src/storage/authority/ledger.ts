/**
 * The owner's ledger: appended in the transaction of what it tells, read in order.
 * Contract: "Events" (row 5), "Owner API" (`/owner/ledger`).
 */
import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../core/database.ts'

export const LEDGER_KINDS = [
  'promised',
  'approved',
  'denied',
  'connected',
  'touched',
  'relaxed',
  'refused',
  'identity_refused',
  'revoked',
  'claimed',
  'disclaimed',
  'credential_added',
  'credential_removed',
] as const
export type LedgerKind = (typeof LEDGER_KINDS)[number]

export interface NewLedgerEntry {
  kind: LedgerKind
  family?: string | undefined
  handle?: string | undefined
  /** Members of the entry beside the named ones; snake_case, no secret, no token. */
  data?: Record<string, unknown>
}

export interface LedgerEntry {
  seq: number
  ts: string
  kind: string
  family: string | null
  handle: string | null
  data: Record<string, unknown>
  count: number
}

/** Appends one entry. */
export async function appendLedger(db: Db, owner: string, entry: NewLedgerEntry): Promise<void> {
  await appendLedgerAll(db, owner, [entry])
}

const ROWS_PER_INSERT = 1_000

/** Appends entries, in order: ending thousands of connections stays a handful of statements. */
export async function appendLedgerAll(
  db: Db,
  owner: string,
  entries: readonly NewLedgerEntry[],
): Promise<void> {
  const rows = entries.map(({ kind, family, handle, data }) => ({
    owner,
    kind,
    family: family ?? null,
    handle: handle ?? null,
    data: JSON.stringify(data ?? {}),
  }))
  for (let at = 0; at < rows.length; at += ROWS_PER_INSERT)
    await db
      .insertInto('ledger')
      .values(rows.slice(at, at + ROWS_PER_INSERT))
      .execute()
}

export interface CountedRefusal {
  /** `identity_refused` where who asked could not be verified; `refused` when left out. */
  kind?: 'refused' | 'identity_refused' | undefined
  reason: string
  /** A handle that the request claimed and could not prove; only one that is connected, so that rows stay few. */
  handle?: string | undefined
}

/**
 * Counts refusals of agents without a connection, or of requests that only claim one: one row per owner, reason and
 * minute, so strangers with free keys cannot fill the ledger.
 */
export async function countRefusal(
  db: Db,
  owner: string,
  refusal: string | CountedRefusal,
  times = 1,
): Promise<void> {
  const {
    kind = 'refused',
    reason,
    handle,
  }: CountedRefusal = typeof refusal === 'string' ? { reason: refusal } : refusal
  const data = handle === undefined ? { reason, strangers: true } : { reason, claimed: true }
  const name = handle === undefined ? reason : `${reason} ${handle}`
  await sql`
    INSERT INTO ledger AS l (owner, kind, handle, data, count, once_key)
    VALUES (${owner}, ${kind}, ${handle ?? null}, ${JSON.stringify(data)}, ${times},
      ${kind} || to_char(date_trunc('minute', now() AT TIME ZONE 'UTC'), ' YYYY-MM-DD"T"HH24:MI ') || ${name})
    ON CONFLICT (owner, once_key) WHERE once_key IS NOT NULL DO UPDATE SET count = l.count + excluded.count`.execute(
    db,
  )
}

/**
 * Rows below every transaction still in flight: whatever appears later has a higher xid than these, so a
 * reader that goes on in the order of (xid, number) misses nothing.
 */
export const SETTLED = sql`xid < pg_snapshot_xmin(pg_current_snapshot())`

/**
 * The ledger, oldest first, after the entry with a sequence number (a number that no entry has means all
 * those above it). Stops before the oldest transaction still in flight, so that a reader who goes on from the
 * last entry it got misses none, however late an earlier number commits.
 */
export async function readLedger(
  db: Db,
  owner: string,
  page: {
    handle?: string | undefined
    /** One kind, or any of several. */
    kind?: string | readonly string[] | undefined
    after: number
    limit: number
  },
): Promise<LedgerEntry[]> {
  const last = await db
    .selectFrom('ledger')
    .select('xid')
    .where('owner', '=', owner)
    .where('seq', '=', page.after)
    .executeTakeFirst()
  const after =
    last === undefined ? sql`seq > ${page.after}` : sql`(xid, seq) > (${last.xid}::xid8, ${page.after})`
  // Of each kind by itself, so that each is read in its order by index: a page costs its own length, however rare its kind.
  const ofKind = (kind: string | undefined) => sql`
    (SELECT seq, ts, kind, family, handle, data, count, xid FROM ledger
    WHERE owner = ${owner} AND ${after} AND ${SETTLED} AND ${filter(page.handle, kind)}
    ORDER BY xid, seq LIMIT ${page.limit})`
  const kinds = page.kind === undefined ? [undefined] : [page.kind].flat()
  const { rows } = await sql<LedgerEntry>`
    SELECT seq, ts, kind, family, handle, data, count FROM (${sql.join(kinds.map(ofKind), sql` UNION ALL `)}) page
    ORDER BY xid, seq LIMIT ${page.limit}`.execute(db)
  return rows
}

/** Each of the four in the words of an index (migrations 0005 and 0009). */
function filter(handle: string | undefined, kind: string | undefined): RawBuilder<unknown> {
  if (handle === undefined) return kind === undefined ? sql`true` : sql`kind = ${kind}`
  return kind === undefined
    ? sql`handle = ${handle}`
    : sql`handle || E'\\n' || kind = ${`${handle}\n${kind}`}`
}
