/**
 * Owners as the operator of the authority sees them: that they exist, that access to their resources is
 * suspended, that they were removed; nothing of what they own or decide. Contract: "Grant (RPT) liveness",
 * "Authentication".
 */
import { sql } from 'kysely'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import type { KeyPage } from '../../core/columns.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { takeBack } from '../joint/joint-withdrawals.ts'
import { lockQueue } from './owners.ts'

/** `removing`: her access has ended, and what was hers is being deleted. */
export type OwnerState = 'active' | 'suspended' | 'removing' | 'removed'

/** All that is told of an owner. */
export interface OwnerLife {
  owner: Owner
  state: OwnerState
  created_at: string
  /** Null if she is not. */
  suspended_at: string | null
  /** When her removal began; null if it did not. */
  removed_at: string | null
  /** Whether she has a device key in force that was enrolled for good, a passkey, or a login. */
  enrolled: boolean
  /** When a recovery that waits comes in force; null if none does. */
  recovery_at: string | null
}

const LIVES = sql`
  SELECT o.owner, CASE WHEN o.suspended_at IS NULL THEN 'active' ELSE 'suspended' END AS state, o.created_at,
    o.suspended_at, NULL::timestamptz AS removed_at,
    EXISTS (SELECT FROM device_keys k WHERE k.owner = o.owner AND k.revoked_at IS NULL)
      OR EXISTS (SELECT FROM passkeys p WHERE p.owner = o.owner AND p.removed_at IS NULL)
      OR EXISTS (SELECT FROM logins l WHERE l.owner = o.owner) AS enrolled,
    (SELECT r.in_force_at FROM recoveries r WHERE r.owner = o.owner AND r.expires_at > now()) AS recovery_at
  FROM owners o
  UNION ALL
  SELECT r.owner, CASE WHEN r.ended_at IS NULL THEN 'removing' ELSE 'removed' END, r.created_at,
    NULL, r.began_at, false, NULL
  FROM removals r`

/** Owners after the given name, by name; those who were removed too. */
export async function listOwnerLives(db: Db, page: KeyPage): Promise<OwnerLife[]> {
  const { rows } = await sql<OwnerLife>`
    SELECT * FROM (${LIVES}) lives WHERE owner > ${page.after ?? ''} ORDER BY owner LIMIT ${page.limit}`.execute(
    db,
  )
  return rows
}

/** One of them; undefined if nobody of this name was ever served here. */
export async function readOwnerLife(db: Db, owner: Owner): Promise<OwnerLife | undefined> {
  const { rows } = await sql<OwnerLife>`SELECT * FROM (${LIVES}) lives WHERE owner = ${owner}`.execute(db)
  return rows[0]
}

/** Whether an owner of this name was removed, or is being removed. */
export async function wasRemoved(db: Db, owner: Owner): Promise<boolean> {
  const row = await db.selectFrom('removals').select('owner').where('owner', '=', owner).executeTakeFirst()
  return row !== undefined
}

/**
 * Suspends access to all that is hers: every grant ends, as each of her active connections gets its next
 * generation, and none is written until she is resumed. Her approvals of agents are carried along, so that
 * resuming asks her for none anew. Her approvals on joint accounts are taken back.
 * @returns whether this changed anything; undefined if she is not served here.
 */
export async function suspendOwner(tx: Tx, owner: Owner): Promise<boolean | undefined> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  const { rows } = await sql<{ suspended: boolean }>`
    SELECT suspended_at IS NOT NULL AS suspended FROM owners WHERE owner = ${owner} FOR UPDATE`.execute(tx)
  if (rows[0] === undefined) return undefined
  if (rows[0].suspended) return false
  await sql`UPDATE owners SET suspended_at = clock_timestamp() WHERE owner = ${owner}`.execute(tx)
  // A consume holds its connection's row, so that this waits for it: when this has committed, none of before
  // is under way.
  const { rows: moved } = await sql<{ handle: Handle }>`
    WITH active AS MATERIALIZED (
      SELECT handle, generation FROM connections WHERE owner = ${owner} AND status = 'active'
      ORDER BY handle FOR UPDATE),
    carried AS (
      UPDATE connection_tiers ct SET approved_generation = a.generation + 1 FROM active a
      WHERE ct.owner = ${owner} AND ct.handle = a.handle AND ct.approved_generation = a.generation)
    UPDATE connections c SET generation = a.generation + 1 FROM active a
    WHERE c.owner = ${owner} AND c.handle = a.handle RETURNING c.handle`.execute(tx)
  await takeBack(tx, owner, { handles: moved.map(({ handle }) => handle) })
  return true
}

/** Takes that back: grants are written again; none of before lives. @returns as `suspendOwner`. */
export async function resumeOwner(tx: Tx, owner: Owner): Promise<boolean | undefined> {
  await lockQueue(tx, owner)
  const { rows } = await sql<{ resumed: boolean }>`
    UPDATE owners o SET suspended_at = NULL
    FROM (SELECT suspended_at FROM owners WHERE owner = ${owner} FOR UPDATE) was
    WHERE o.owner = ${owner} RETURNING was.suspended_at IS NOT NULL AS resumed`.execute(tx)
  return rows[0]?.resumed
}
