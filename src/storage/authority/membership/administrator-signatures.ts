/**
 * Signatures of administrators that changed something, each accepted once. Contract: "Authentication".
 */
import { sql } from 'kysely'
import type { Tx } from '../database.ts'

/** Each call deletes more than one old row, so that the table stays as long as the requests of one window. */
const SWEPT_WITH_EACH = 10

/**
 * Remembers a signature that is about to change something, in that change's transaction.
 * @returns false if it was presented before: then nothing may be changed.
 */
export async function spendAdministratorSignature(
  tx: Tx,
  digest: Buffer,
  retentionSeconds: number,
): Promise<boolean> {
  await sql`
    DELETE FROM administrator_signatures WHERE digest = ANY(ARRAY(
      SELECT digest FROM administrator_signatures WHERE expires_at < now()
      ORDER BY expires_at LIMIT ${SWEPT_WITH_EACH} FOR UPDATE SKIP LOCKED))`.execute(tx)
  const inserted = await sql`
    INSERT INTO administrator_signatures (digest, expires_at)
    VALUES (${digest}, now() + ${retentionSeconds} * interval '1 second') ON CONFLICT DO NOTHING`.execute(tx)
  return inserted.numAffectedRows === 1n
}
