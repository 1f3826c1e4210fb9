/**
 * Removes what no answer can depend on any more, in bounded batches per owner: ended negotiations, replay
 * marks, long-expired grants, old events. Contract: "Limits".
 */
import { sql } from 'kysely'
import type { Db } from './database.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** Kept after the end, so that the owner and the agent still get a telling answer (409, `expired`). */
const KEPT_SECONDS = { families: 86_400, grants: 86_400, events: 7 * 86_400 }

/**
 * One bounded sweep of one owner's rows. A family is never removed before its sealed ticket has expired:
 * its key is what stops that ticket from being presented twice.
 * @returns how many rows went.
 */
export async function sweepOwner(db: Db, owner: Owner, limit: number): Promise<number> {
  const batches = [
    sql`DELETE FROM families WHERE (owner, family) IN (
      SELECT owner, family FROM families WHERE owner = ${owner}
        AND ticket_expires_at < now() - ${KEPT_SECONDS.families} * interval '1 second'
        AND sealed_expires_at < now() - interval '1 minute'
      ORDER BY ticket_expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    sql`DELETE FROM spent_signatures WHERE (owner, digest) IN (
      SELECT owner, digest FROM spent_signatures WHERE owner = ${owner} AND expires_at < now() LIMIT ${limit})`,
    sql`DELETE FROM grants WHERE (owner, rpt_sha256) IN (
      SELECT owner, rpt_sha256 FROM grants WHERE owner = ${owner}
        AND expires_at < now() - ${KEPT_SECONDS.grants} * interval '1 second'
      ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    // From the oldest position on, up to the first that is to be kept: readers are told by what is gone whether they missed something.
    sql`DELETE FROM events WHERE owner = ${owner} AND seq IN (
      SELECT seq FROM events WHERE owner = ${owner} AND seq < coalesce(
        (SELECT seq FROM events WHERE owner = ${owner} AND seq IS NOT NULL
          AND at >= now() - ${KEPT_SECONDS.events} * interval '1 second' ORDER BY seq LIMIT 1), ${Number.MAX_SAFE_INTEGER})
      ORDER BY seq LIMIT ${limit})`,
  ]
  let gone = 0
  for (const batch of batches) gone += Number((await batch.execute(db)).numAffectedRows ?? 0n)
  return gone
}
