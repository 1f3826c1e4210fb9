/**
 * Removes what no answer can depend on any more, in bounded batches. Contract: "Limits" (lifetimes).
 */
import { sql } from 'kysely'
import { deletions, type SweepBatch } from '../core/sweep.ts'
import type { Db } from './database.ts'

const SWEPT = {
  spent_signatures: (limit: number) => sql`
    DELETE FROM spent_signatures WHERE digest IN (
      SELECT digest FROM spent_signatures WHERE expires_at < now() LIMIT ${limit})`,
  invitations: (limit: number) => sql`
    DELETE FROM invitations WHERE code_id IN (
      SELECT code_id FROM invitations WHERE expires_at < now() - interval '7 days' LIMIT ${limit})`,
  wrong_codes: (limit: number) => sql`
    DELETE FROM wrong_codes WHERE (name, hour) IN (
      SELECT name, hour FROM wrong_codes WHERE hour < now() - interval '1 hour' LIMIT ${limit})`,
  notices: (limit: number) => sql`
    DELETE FROM notices WHERE jti IN (
      SELECT jti FROM notices WHERE stopped_at < now() - interval '30 days' LIMIT ${limit})`,
  vouchers: (limit: number) => sql`
    DELETE FROM vouchers WHERE voucher_sha256 IN (
      SELECT voucher_sha256 FROM vouchers WHERE expires_at < now() - interval '1 day' LIMIT ${limit})`,
  // Grants that are still held are made void first.
  break_glass_grants: (limit: number) => sql`
    DELETE FROM break_glass_grants WHERE jti IN (
      SELECT jti FROM break_glass_grants WHERE expires_at < now() - interval '1 day' AND state <> 'held' LIMIT ${limit})`,
}

/** What is swept from an organization's tables. */
export function organizationBatches(db: Db): Record<string, SweepBatch> {
  return deletions(db, SWEPT)
}
