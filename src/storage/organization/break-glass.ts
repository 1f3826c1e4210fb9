/**
 * Vouchers of emergency windows, and the grants that were made from them: a grant is held, then live once, or
 * void. Contract: "The organization's authority" (`/break-glass`, `/introspect`, `/consume`), "Limits" (a
 * single-use grant is spendable exactly once).
 */
import { sql, type Selectable } from 'kysely'
import type { BreakGlassClaims } from '../../wire/organization/break-glass.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'
import type { BreakGlassGrantsTable, VouchersTable } from './tables.ts'
import type { KeyPage } from '../core/columns.ts'

export type BreakGlassGrantRow = Selectable<BreakGlassGrantsTable>

/**
 * How an open window is named where its voucher must not be: a part of the digest, which nobody can redeem.
 */
const WINDOW_ID = sql<string>`'bgw_' || left(encode(voucher_sha256, 'hex'), 24)`

/** Opens a window. @returns its `window_id`. */
export async function insertVoucher(
  tx: Tx,
  voucher: Pick<Selectable<VouchersTable>, 'voucher_sha256' | 'owner' | 'admin' | 'reason'>,
  seconds: number,
): Promise<string> {
  const expires_at = sql<string>`now() + ${seconds} * interval '1 second'`
  const { window_id } = await tx
    .insertInto('vouchers')
    .values({ ...voucher, expires_at })
    .returning(WINDOW_ID.as('window_id'))
    .executeTakeFirstOrThrow()
  return window_id
}

/** A voucher: whose window it opens, and whether it is being used just now. */
export interface VoucherReading {
  admin: string
  held: boolean
}

/** The voucher is in time, and was opened for her present membership, not for one that she ended before. */
const UNSPENT = sql<boolean>`spent_at IS NULL AND expires_at > now()
  AND EXISTS (SELECT FROM members m WHERE m.owner = vouchers.owner AND m.joined_at <= vouchers.opened_at)`
const FREE = sql<boolean>`(held_by IS NULL OR held_until <= now())`

/** The voucher, if it is this owner's, unspent and in time. */
export function readVoucher(
  db: Db,
  voucher_sha256: Buffer,
  owner: Owner,
): Promise<VoucherReading | undefined> {
  return db
    .selectFrom('vouchers')
    .select(['admin', sql<boolean>`NOT ${FREE}`.as('held')])
    .where('voucher_sha256', '=', voucher_sha256)
    .where('owner', '=', owner)
    .where(UNSPENT)
    .executeTakeFirst()
}

/**
 * Holds a free voucher for one grant. @returns whether this call did: only one of several concurrent calls
 * does.
 */
export async function holdVoucher(
  tx: Tx,
  { voucher_sha256, owner, jti }: { voucher_sha256: Buffer; owner: Owner; jti: string },
  seconds: number,
): Promise<boolean> {
  const held_until = sql<string>`now() + ${seconds} * interval '1 second'`
  const done = await tx
    .updateTable('vouchers')
    .set({ held_by: jti, held_until })
    .where('voucher_sha256', '=', voucher_sha256)
    .where('owner', '=', owner)
    .where(UNSPENT)
    .where(FREE)
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** Spends the voucher that is held for a grant. @returns false if it is no longer held for that grant. */
export async function spendVoucher(tx: Tx, jti: string): Promise<boolean> {
  const done = await tx
    .updateTable('vouchers')
    .set({ spent_at: sql<string>`now()` })
    .where('held_by', '=', jti)
    .where('spent_at', 'is', null)
    .where(sql<boolean>`held_until > clock_timestamp()`)
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** Frees the voucher that was held for a grant, at once. */
export async function freeVoucher(tx: Tx, jti: string): Promise<void> {
  await tx
    .updateTable('vouchers')
    .set({ held_by: null, held_until: null })
    .where('held_by', '=', jti)
    .where('spent_at', 'is', null)
    .execute()
}

/** A window that can still be redeemed, without its voucher. */
export interface WindowRow {
  window_id: string
  owner: Owner
  admin: string
  reason: string
  opened_at: string
  expires_at: string
  /** Somebody is redeeming it just now. */
  held: boolean
}

/** The open windows by `window_id`, from the one after `after`. */
export function listWindows(db: Db, { after = '', limit }: KeyPage): Promise<WindowRow[]> {
  return db
    .selectFrom('vouchers')
    .select([WINDOW_ID.as('window_id'), 'owner', 'admin', 'reason', 'opened_at', 'expires_at'])
    .select(sql<boolean>`NOT ${FREE}`.as('held'))
    .where(UNSPENT)
    .where(sql<boolean>`${WINDOW_ID} > ${after}`)
    .orderBy('window_id')
    .limit(limit)
    .execute()
}

/**
 * Closes an open window: its voucher counts as spent, so a grant for which her authority is being asked just
 * now is void. @returns whose it was; undefined if no such window is open.
 */
export function closeWindow(tx: Tx, window_id: string): Promise<{ owner: Owner } | undefined> {
  return tx
    .updateTable('vouchers')
    .set({ spent_at: sql<string>`now()` })
    .where(WINDOW_ID, '=', window_id)
    .where(UNSPENT)
    .returning('owner')
    .executeTakeFirst()
}

/** Stores a grant that nobody can use yet; `expires_at` in seconds since the epoch. */
export async function insertPendingGrant(
  tx: Tx,
  {
    expires_at,
    ...grant
  }: { jti: string; owner: Owner; membership: string; aud: string; expires_at: number },
): Promise<void> {
  const until = sql<string>`to_timestamp(${expires_at})`
  await tx
    .insertInto('break_glass_grants')
    .values({ ...grant, state: 'held', expires_at: until })
    .execute()
}

/**
 * Makes a held grant live, if the membership that it was made for still exists. @returns whether it was still
 * held.
 */
export async function activateGrant(
  tx: Tx,
  { jti, rpt_sha256, claims }: { jti: string; rpt_sha256: Buffer; claims: BreakGlassClaims },
): Promise<boolean> {
  const done = await tx
    .updateTable('break_glass_grants as g')
    .set({ state: 'live', rpt_sha256, claims: JSON.stringify(claims) })
    .where('g.jti', '=', jti)
    .where('g.state', '=', 'held')
    .where(STANDS)
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** A membership that ended and began again, under any id, is not the one that the grant was made for. */
const STANDS = sql<boolean>`EXISTS (
  SELECT FROM members m WHERE m.owner = g.owner AND m.join_id = g.membership AND m.joined_at <= g.held_at)`

/** Ends a held grant for good. @returns whether it was held. */
export async function voidGrant(tx: Tx, jti: string): Promise<boolean> {
  const done = await tx
    .updateTable('break_glass_grants')
    .set({ state: 'void' })
    .where('jti', '=', jti)
    .where('state', '=', 'held')
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** Grants that were held for longer than a replica holds one, so the replica must have ended. */
export function abandonedGrants(
  db: Db,
  { seconds, limit }: { seconds: number; limit: number },
): Promise<Pick<BreakGlassGrantRow, 'jti' | 'owner' | 'membership'>[]> {
  return db
    .selectFrom('break_glass_grants')
    .select(['jti', 'owner', 'membership'])
    .where('state', '=', 'held')
    .where(sql<boolean>`held_at < now() - ${seconds} * interval '1 second'`)
    .orderBy('held_at')
    .limit(limit)
    .execute()
}

/** A grant as it is now; `stands`: the membership that it was made for still exists. */
export interface BreakGlassReading extends Pick<
  BreakGlassGrantRow,
  'jti' | 'owner' | 'aud' | 'state' | 'claims'
> {
  stands: boolean
  expired: boolean
}

/** The grant whose token has this digest. */
export function readGrantByRpt(db: Db, rpt_sha256: Buffer): Promise<BreakGlassReading | undefined> {
  return db
    .selectFrom('break_glass_grants as g')
    .select(['g.jti', 'g.owner', 'g.aud', 'g.state', 'g.claims'])
    .select([STANDS.as('stands'), sql<boolean>`g.expires_at <= now()`.as('expired')])
    .where('rpt_sha256', '=', rpt_sha256)
    .executeTakeFirst()
}

/**
 * Spends a live grant, in one statement that proves that it is live. @returns whether this call did: only one
 * of several concurrent calls does.
 */
export async function consumeBreakGlass(tx: Tx, rpt_sha256: Buffer): Promise<boolean> {
  const done = await tx
    .updateTable('break_glass_grants as g')
    .set({ state: 'consumed' })
    .where('g.rpt_sha256', '=', rpt_sha256)
    .where('g.state', '=', 'live')
    .where(sql<boolean>`g.expires_at > clock_timestamp()`)
    .where(STANDS)
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}
