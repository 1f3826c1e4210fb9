/**
 * Removes what no answer of a tally can depend on any more, in bounded batches. Mandates, terms and receipts
 * stay. Contract: "Limits" (lifetimes), "Tally for a jointly held resource".
 */
import { sql } from 'kysely'
import { deletions, sweepEach, type Swept } from '../core/sweep.ts'
import type { Db } from './database.ts'

/**
 * How long a negotiation is kept after its end, so that callers are still told how it ended, and so that a
 * call is still known if it is reported after an outage: a tally has no ledger to look it up in.
 */
const ENDED = sql`interval '8 days'`
/** How long co-holders can read which calls were made. */
const READ = sql`interval '30 days'`

/** Each uses an index with the time first; replicas skip rows that another one is removing. */
const SWEPT = {
  grants: (limit: number) => sql`
    DELETE FROM grants WHERE (account, rpt_sha256) IN (
      SELECT account, rpt_sha256 FROM grants WHERE expires_at < now() - ${ENDED}
      ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
  // Removed with the holders' answers. Never before its sealed ticket has expired, because it could be
  // presented again then; and never before its grant, which depends on it.
  negotiations: (limit: number) => sql`
    DELETE FROM negotiations WHERE (account, family) IN (
      SELECT n.account, n.family FROM negotiations n
      WHERE n.ticket_expires_at < now() - ${ENDED} AND n.sealed_expires_at < now() - interval '1 minute'
        AND NOT EXISTS (SELECT FROM grants g WHERE g.account = n.account AND g.family = n.family)
      ORDER BY n.ticket_expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
  accesses: (limit: number) => sql`
    DELETE FROM accesses WHERE (account, client_id, key) IN (
      SELECT account, client_id, key FROM accesses WHERE recorded_at < now() - ${READ}
      ORDER BY recorded_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
  withdrawals: (limit: number) => sql`
    DELETE FROM withdrawals WHERE (issuer, jti) IN (
      SELECT issuer, jti FROM withdrawals WHERE expires_at < now()
      ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
}

/** One bounded sweep: a batch of each table. */
export function sweepTally(db: Db, limit: number): Promise<Swept> {
  return sweepEach(deletions(db, SWEPT), limit)
}
