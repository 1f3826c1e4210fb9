/**
 * Recoveries: a code for an owner who has credentials but can use none. It is valid after a delay during
 * which any of her credentials can cancel it. Contract: "Authentication" (owner at the owner API).
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Recovery } from '../../../wire/owner/owner-api.ts'
import type { Db, Tx } from '../database.ts'

/** Starts a recovery, in place of an earlier one. The caller holds the queue's lock. */
export async function startRecovery(
  tx: Tx,
  of: { owner: Owner; code_sha256: Buffer; delaySeconds: number; lifetimeSeconds: number },
): Promise<Recovery> {
  const { owner, code_sha256, delaySeconds, lifetimeSeconds } = of
  const { rows } = await sql<Recovery>`
    INSERT INTO recoveries (owner, code_sha256, in_force_at, expires_at)
    VALUES (${owner}, ${code_sha256}, clock_timestamp() + ${delaySeconds} * interval '1 second',
      clock_timestamp() + ${delaySeconds + lifetimeSeconds} * interval '1 second')
    ON CONFLICT (owner) DO UPDATE SET code_sha256 = excluded.code_sha256, started_at = excluded.started_at,
      in_force_at = excluded.in_force_at, expires_at = excluded.expires_at
    RETURNING started_at, in_force_at, expires_at`.execute(tx)
  return rows[0]!
}

/** The recovery that waits or may be used; undefined if there is none. */
export async function readRecovery(db: Db, owner: Owner): Promise<Recovery | undefined> {
  const { rows } = await sql<Recovery>`
    SELECT started_at, in_force_at, expires_at FROM recoveries
    WHERE owner = ${owner} AND expires_at > clock_timestamp()`.execute(db)
  return rows[0]
}

/**
 * Cancels the recovery, before it is used. @returns the cancelled recovery; undefined if there is none.
 * Either this or its use deletes the row. The caller holds the queue's lock.
 */
export async function cancelRecovery(tx: Tx, owner: Owner): Promise<Recovery | undefined> {
  const { rows } = await sql<Recovery>`
    DELETE FROM recoveries WHERE owner = ${owner} AND expires_at > clock_timestamp()
    RETURNING started_at, in_force_at, expires_at`.execute(tx)
  return rows[0]
}

/** Uses its code up. @returns whether it was hers, in force and unused: true for one caller only. */
export async function spendRecovery(tx: Tx, owner: Owner, code_sha256: Buffer): Promise<boolean> {
  const spent = await sql`
    DELETE FROM recoveries WHERE owner = ${owner} AND code_sha256 = ${code_sha256}
      AND in_force_at <= clock_timestamp() AND expires_at > clock_timestamp()`.execute(tx)
  return spent.numAffectedRows === 1n
}

/**
 * Ends every code by which she gets a credential, used up or not: nobody knows which of them were used, or
 * ended by her, since the time that the database is of. The caller holds the queue's lock.
 */
export async function voidCodes(tx: Tx, owner: Owner): Promise<void> {
  await sql`DELETE FROM recoveries WHERE owner = ${owner}`.execute(tx)
  await sql`DELETE FROM enrolment_codes WHERE owner = ${owner}`.execute(tx)
}
