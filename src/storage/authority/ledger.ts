/**
 * The owner's ledger: appended in the transaction of what it tells, read in order.
 * Contract: "Events" (row 5), "Owner API" (`/owner/ledger`).
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { note } from '../core/after-commit.ts'
import { prepared } from '../core/database.ts'
import type { Db } from './database.ts'
import { number } from './positions.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'
import type { LedgerTable } from './tables.ts'

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
  'policy_changed',
  'policy_removed',
  'blocked',
  'unblocked',
  'server_approved',
  'server_withdrawn',
  'origin_banned',
  'origin_unbanned',
  'withdrawn',
  'reports_missing',
  'reports_unknown',
  'credential_added',
  'credential_removed',
  'org_joined',
  'org_left',
  'org_declined',
  'org_clamped',
  'org_role',
  'org_acted',
  'break_glass',
] as const
export type LedgerKind = (typeof LEDGER_KINDS)[number]

export interface NewLedgerEntry {
  kind: LedgerKind
  family?: Family | undefined
  handle?: Handle | undefined
  /** Members of the entry beside the named ones; snake_case, no secret, no token. */
  data?: Record<string, unknown>
}

/** `seq` is its position: from 1, without gaps. */
export type LedgerEntry = { seq: number } & Omit<Selectable<LedgerTable>, 'owner' | 'id' | 'seq' | 'once_key'>

/** Appends one entry. */
export async function appendLedger(db: Db, owner: Owner, entry: NewLedgerEntry): Promise<void> {
  await appendLedgerAll(db, owner, [entry])
}

const ROWS_PER_INSERT = 1_000

/** Appends entries, in order: ending thousands of connections stays a handful of statements. */
export async function appendLedgerAll(
  db: Db,
  owner: Owner,
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
  if (rows.length > 0) note(db, owner)
}

export interface CountedRefusal {
  /** `identity_refused` where who asked could not be verified; `refused` when left out. */
  kind?: 'refused' | 'identity_refused' | undefined
  reason: string
  /**
   * A handle that the request claimed and could not prove; only one that is connected, so that rows stay few.
   */
  handle?: Handle | undefined
}

/** Most negotiations that a counted entry names. */
export const FAMILIES_NAMED_MAX = 5

/**
 * Counts refusals of agents without a connection, or of requests that only claim one, by owner, reason and
 * minute: the first of a minute is an entry at once, the rest of it becomes one when the minute has closed.
 * So strangers with free keys cannot fill the ledger, and what it says never changes. `families` are those of
 * the negotiations, as many of them as are named.
 */
export async function countRefusal(
  db: Db,
  owner: Owner,
  { kind = 'refused', reason, handle }: CountedRefusal,
  { times, families }: { times: number; families: readonly Family[] },
): Promise<void> {
  await COUNT_REFUSAL(db, [
    owner,
    kind,
    reason,
    handle ?? '',
    times,
    families.slice(0, FAMILIES_NAMED_MAX + 1),
  ])
  note(db, owner)
}

const COUNT_REFUSAL = prepared(
  'count-refusal',
  `WITH asked AS (SELECT $1 AS owner, date_trunc('minute', now()) AS minute, $2 AS kind, $3 AS reason, $4 AS handle,
      $5::int AS times, $6::text[] AS families),
    first AS (
      INSERT INTO ledger (owner, kind, handle, data, once_key)
      SELECT owner, kind, nullif(handle, ''),
        json_build_object('reason', reason, CASE WHEN handle = '' THEN 'strangers' ELSE 'claimed' END, true, 'families', families[1:1]),
        concat_ws(' ', kind, to_char(minute AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI'), reason, nullif(handle, ''))
      FROM asked ON CONFLICT (owner, once_key) WHERE once_key IS NOT NULL DO NOTHING RETURNING 1),
    told AS (SELECT count(*)::int AS entries FROM first)
    INSERT INTO refusal_counts AS c (owner, minute, kind, reason, handle, count, families)
    SELECT owner, minute, kind, reason, handle, times - entries, families[1 + entries:${FAMILIES_NAMED_MAX} + entries]
    FROM asked, told WHERE times > entries
    ON CONFLICT (owner, minute, kind, reason, handle) DO UPDATE
    SET count = c.count + excluded.count, families = (c.families || excluded.families)[1:${FAMILIES_NAMED_MAX}]`,
)

/** Which entries are read: a page of `limit`, between two positions, in one order. */
export interface LedgerPage {
  handle?: Handle | undefined
  /** One kind, or any of several. */
  kind?: string | readonly string[] | undefined
  /** Entries with a greater position. */
  after: number
  /** Entries with a smaller position; all when left out. */
  before?: number | undefined
  /** `oldest` when left out. */
  first?: 'oldest' | 'newest' | undefined
  limit: number
}

/** The part of the owner's ledger that `page` names, of all that was committed before this was called. */
export async function readLedger(db: Db, owner: Owner, page: LedgerPage): Promise<LedgerEntry[]> {
  await number(db, owner)
  const order = page.first === 'newest' ? sql`ORDER BY seq DESC` : sql`ORDER BY seq`
  const before = page.before === undefined ? sql`` : sql` AND seq < ${page.before}`
  // Of each kind by itself, so that each is read in its order by index: a page costs its own length, however
  // rare its kind.
  const ofKind = (kind: string | undefined) => sql`
    (SELECT seq, ts, kind, family, handle, data, count FROM ledger
    WHERE owner = ${owner} AND seq > ${page.after}${before} AND ${filter(page.handle, kind)}
    ${order} LIMIT ${page.limit})`
  const kinds = page.kind === undefined ? [undefined] : [page.kind].flat()
  const { rows } = await sql<LedgerEntry>`
    SELECT seq, ts, kind, family, handle, data, count FROM (${sql.join(kinds.map(ofKind), sql` UNION ALL `)}) page
    ${order} LIMIT ${page.limit}`.execute(db)
  return rows
}

/** Each of the four in the words of an index (migrations/authority/0005_ledger.sql). */
function filter(handle: Handle | undefined, kind: string | undefined): RawBuilder<unknown> {
  if (handle === undefined) return kind === undefined ? sql`true` : sql`kind = ${kind}`
  return kind === undefined
    ? sql`handle = ${handle}`
    : sql`handle || E'\\n' || kind = ${`${handle}\n${kind}`}`
}
