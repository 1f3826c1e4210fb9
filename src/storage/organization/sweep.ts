/**
 * Removes what no answer can depend on any more, in bounded batches. Contract: "Limits" (lifetimes).
 */
import { sql } from 'kysely'
import type { Db } from './database.ts'

/** One bounded sweep. @returns how many rows went. */
export async function sweepOrganization(db: Db, limit: number): Promise<number> {
  const batches = [
    sql`DELETE FROM spent_signatures WHERE digest IN (
      SELECT digest FROM spent_signatures WHERE expires_at < now() LIMIT ${limit})`,
    sql`DELETE FROM invitations WHERE code_id IN (
      SELECT code_id FROM invitations WHERE expires_at < now() - interval '7 days' LIMIT ${limit})`,
    sql`DELETE FROM wrong_codes WHERE (name, hour) IN (
      SELECT name, hour FROM wrong_codes WHERE hour < now() - interval '1 hour' LIMIT ${limit})`,
    sql`DELETE FROM notices WHERE jti IN (
      SELECT jti FROM notices WHERE stopped_at < now() - interval '30 days' LIMIT ${limit})`,
    sql`DELETE FROM vouchers WHERE voucher_sha256 IN (
      SELECT voucher_sha256 FROM vouchers WHERE expires_at < now() - interval '1 day' LIMIT ${limit})`,
    // Held ones are made void first.
    sql`DELETE FROM break_glass_grants WHERE jti IN (
      SELECT jti FROM break_glass_grants WHERE expires_at < now() - interval '1 day' AND state <> 'held' LIMIT ${limit})`,
  ]
  let gone = 0
  for (const batch of batches) gone += Number((await batch.execute(db)).numAffectedRows ?? 0n)
  return gone
}
