/**
 * The owner's ledger: entries are appended in the transaction that they report, and read in order. Contract:
 * "Events" (row 5), "Owner API" (`/owner/ledger`).
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { announceOwner } from '../../core/after-commit.ts'
import { inIndexOrder } from '../../core/batch.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'
import { number } from './positions.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { LedgerTable } from '../tables.ts'

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
  'allowance_changed',
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
  'subscription_added',
  'subscription_removed',
  'subscription_changed',
  'recovery_started',
  'recovery_cancelled',
  'suspended',
  'resumed',
  'removed',
  'restored',
  'org_joined',
  'org_left',
  'org_declined',
  'org_clamped',
  'org_role',
  'org_acted',
  'break_glass',
  'joint_agreed',
  'joint_left',
  'joint_changed',
  'joint_allowed',
  'joint_refused',
] as const
export type LedgerKind = (typeof LEDGER_KINDS)[number]

export interface NewLedgerEntry {
  kind: LedgerKind
  family?: Family | undefined
  handle?: Handle | undefined
  /** The resource that it is about: an organization that governs it now may be shown the entry. */
  about?: string | undefined
  /** Members of the entry besides the named ones; snake_case, no secret, no token. */
  data?: Record<string, unknown>
}

/** `seq` is its position: from 1, without gaps. */
export type LedgerEntryRow = { seq: number } & Omit<
  Selectable<LedgerTable>,
  'owner' | 'id' | 'seq' | 'once_key' | 'resource_id' | 'salt' | 'leaf' | 'prev'
>

/** What of an entry its leaf is made from besides: docs/choices.md, "The tree of the ledger". */
export interface EntryBody {
  /** With a handle: the position of that handle's entry before, or 0. Null until the entry has its leaf. */
  prev: number | null
  /** Null until an entry from before there were salts has its leaf. */
  salt: Buffer | null
  /** The text of `data`, byte for byte. */
  data_text: string
}

/** Appends one entry. */
export async function appendLedger(db: Db, owner: Owner, entry: NewLedgerEntry): Promise<void> {
  await appendLedgerAll(db, owner, [entry])
}

const ROWS_PER_INSERT = 1_000

/** Appends entries, in order, so that ending thousands of connections takes only a handful of statements. */
export async function appendLedgerAll(
  db: Db,
  owner: Owner,
  entries: readonly NewLedgerEntry[],
): Promise<void> {
  const rows = entries.map(({ kind, family, handle, about, data }) => ({
    owner,
    kind,
    family: family ?? null,
    handle: handle ?? null,
    resource_id: about === undefined ? null : ifGoverned(owner, about),
    data: JSON.stringify(data ?? {}),
  }))
  for (let at = 0; at < rows.length; at += ROWS_PER_INSERT)
    await db
      .insertInto('ledger')
      .values(rows.slice(at, at + ROWS_PER_INSERT))
      .execute()
  if (rows.length > 0) announceOwner(db, owner)
}

/** The resource, if an organization governs it. */
function ifGoverned(owner: Owner, resource_id: string): RawBuilder<string | null> {
  return sql`(SELECT resource_id FROM resources WHERE owner = ${owner} AND resource_id = ${resource_id} AND org IS NOT NULL)`
}

export interface CountedRefusal {
  /**
   * `identity_refused` if the caller's identity could not be verified, `joint_refused` for a tally, otherwise
   * `refused`.
   */
  kind?: 'refused' | 'identity_refused' | 'joint_refused' | undefined
  reason: string
  /**
   * A handle that the request claimed but could not prove; only a connected handle is named, so that there
   * are few rows.
   */
  handle?: Handle | undefined
}

/** How many negotiations a counted entry names at most. */
export const FAMILIES_NAMED_MAX = 5

/**
 * Counts refusals of agents without a connection, or of requests that only claim one, by owner, reason and
 * minute. The first one of a minute becomes an entry at once; the others become one entry when the minute is
 * over. So strangers, whose keys are free, cannot fill the ledger, and no entry ever changes. `families` are
 * the families of the negotiations that an entry names.
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
  announceOwner(db, owner)
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

/** Which entries are read: a page of `limit` entries between two positions, in one order. */
export interface LedgerPage {
  handle?: Handle | undefined
  /** Only this kind, or any of several kinds. */
  kind?: string | readonly string[] | undefined
  /** Entries with a greater position. */
  after: number
  /** Entries with a smaller position; if left out, there is no upper end. */
  before?: number | undefined
  /** `oldest` when left out. */
  first?: 'oldest' | 'newest' | undefined
  limit: number
  /** Whether each entry is read with what its leaf is made from. */
  bodies?: boolean | undefined
}

/** The page of the owner's ledger that `page` names, from everything that was committed before this call. */
export async function readLedger(
  db: Db,
  owner: Owner,
  page: LedgerPage,
): Promise<(LedgerEntryRow & Partial<EntryBody>)[]> {
  await number(db, owner)
  const order = page.first === 'newest' ? sql`ORDER BY seq DESC` : sql`ORDER BY seq`
  const before = page.before === undefined ? sql`` : sql` AND seq < ${page.before}`
  // Reads each kind separately, in its order by index, so that a page costs its own length however rare its
  // kind is.
  const bodies = page.bodies === true ? sql`, prev, salt, data::text AS data_text` : sql``
  const ofKind = (kind: string | undefined) => sql`
    (SELECT seq, ts, kind, family, handle, data, count${bodies} FROM ledger
    WHERE owner = ${owner} AND seq > ${page.after}${before} AND ${filter(page.handle, kind)}
    ${order} LIMIT ${page.limit})`
  const kinds = page.kind === undefined ? [undefined] : [page.kind].flat()
  const read = sql<LedgerEntryRow & Partial<EntryBody>>`
    SELECT * FROM (${sql.join(kinds.map(ofKind), sql` UNION ALL `)}) page
    ${order} LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/** Each of the four is written exactly as its index is (migrations/authority/0005_ledger.sql). */
function filter(handle: Handle | undefined, kind: string | undefined): RawBuilder<unknown> {
  if (handle === undefined) return kind === undefined ? sql`true` : sql`kind = ${kind}`
  return kind === undefined
    ? sql`handle = ${handle}`
    : sql`handle || E'\\n' || kind = ${`${handle}\n${kind}`}`
}
