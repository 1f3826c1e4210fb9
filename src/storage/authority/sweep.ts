/**
 * Removes what no answer can depend on any more, in bounded batches per owner: ended negotiations, replay
 * marks, long-expired grants, old events. Contract: "Limits".
 */
import { sql, type RawBuilder } from 'kysely'
import type { Db } from './database.ts'
import { dueAgain, type Taken } from './due.ts'
import { SILENT_SECONDS } from './report-instances.ts'
import { LAPSES_AT } from './resources.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** Kept after the end, so that the owner and the agent still get a telling answer (409, `expired`). */
const KEPT_SECONDS = { families: 86_400, grants: 86_400, events: 7 * 86_400, instances: 7 * 86_400 }

const seconds = (count: number): RawBuilder<unknown> => sql`${count} * interval '1 second'`

/**
 * What goes of each table, and when the first of what is left goes: each by an index in which that stands
 * first.
 */
const SWEPT: Record<
  string,
  { batch: (owner: Owner, limit: number) => RawBuilder<unknown>; next: (owner: Owner) => RawBuilder<unknown> }
> = {
  // Never before its sealed ticket has expired: its key is what stops that ticket from being presented twice.
  families: {
    batch: (owner, limit) => sql`
      DELETE FROM families WHERE owner = ${owner} AND family = ANY(ARRAY(
        SELECT family FROM families WHERE owner = ${owner}
          AND ticket_expires_at < now() - ${seconds(KEPT_SECONDS.families)}
          AND sealed_expires_at < now() - interval '1 minute'
        ORDER BY ticket_expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT ticket_expires_at + ${seconds(KEPT_SECONDS.families)} FROM families WHERE owner = ${owner}
      ORDER BY ticket_expires_at LIMIT 1`,
  },
  spent_signatures: {
    batch: (owner, limit) => sql`
      DELETE FROM spent_signatures WHERE owner = ${owner} AND digest = ANY(ARRAY(
        SELECT digest FROM spent_signatures WHERE owner = ${owner} AND expires_at < now()
        ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT expires_at FROM spent_signatures WHERE owner = ${owner} ORDER BY expires_at LIMIT 1`,
  },
  grants: {
    batch: (owner, limit) => sql`
      DELETE FROM grants WHERE owner = ${owner} AND rpt_sha256 = ANY(ARRAY(
        SELECT rpt_sha256 FROM grants WHERE owner = ${owner}
          AND expires_at < now() - ${seconds(KEPT_SECONDS.grants)}
        ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT expires_at + ${seconds(KEPT_SECONDS.grants)} FROM grants WHERE owner = ${owner}
      ORDER BY expires_at LIMIT 1`,
  },
  // A late word of one that went is judged by the ledger. One that goes on is looked at again when it would
  // have been silent for too long.
  report_instances: {
    batch: (owner, limit) => sql`
      DELETE FROM report_instances WHERE (owner, client_id, instance) IN (
        SELECT owner, client_id, instance FROM report_instances WHERE owner = ${owner}
          AND heard_at < now() - ${seconds(KEPT_SECONDS.instances)} AND (ended OR unknown_at IS NOT NULL)
        ORDER BY heard_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    next: owner => sql`
      SELECT min(heard_at + CASE WHEN ended OR unknown_at IS NOT NULL THEN ${seconds(KEPT_SECONDS.instances)}
        ELSE ${seconds(SILENT_SECONDS)} END) FROM report_instances WHERE owner = ${owner}`,
  },
  // From the oldest position on, up to the first that is to be kept: readers are told by what is gone whether
  // they missed something, so that none is passed over.
  events: {
    batch: (owner, limit) => sql`
      DELETE FROM events WHERE owner = ${owner} AND seq = ANY(ARRAY(
        SELECT seq FROM events WHERE owner = ${owner} AND seq < coalesce(
          (SELECT seq FROM events WHERE owner = ${owner} AND seq IS NOT NULL
            AND at >= now() - ${seconds(KEPT_SECONDS.events)} ORDER BY seq LIMIT 1), ${Number.MAX_SAFE_INTEGER})
        ORDER BY seq LIMIT ${limit}))`,
    next: owner => sql`
      SELECT at + ${seconds(KEPT_SECONDS.events)} FROM events WHERE owner = ${owner} AND seq IS NOT NULL
      ORDER BY seq LIMIT 1`,
  },
}

/** Rows that went, and what failed of which table: that of one keeps no other from being swept. */
export interface Swept {
  gone: number
  /** Some table had as many to go as one batch may. */
  more: boolean
  faults: { table: string; error: unknown }[]
}

/** One bounded sweep of one owner's rows: a batch of each table. */
export async function sweepOwner(db: Db, owner: Owner, limit: number): Promise<Swept> {
  const swept: Swept = { gone: 0, more: false, faults: [] }
  for (const [table, { batch }] of Object.entries(SWEPT)) {
    try {
      const { numAffectedRows = 0n } = await batch(owner, limit).execute(db)
      swept.gone += Number(numAffectedRows)
      swept.more ||= Number(numAffectedRows) >= limit
    } catch (error) {
      swept.faults.push({ table, error })
    }
  }
  return swept
}

/**
 * Says when an owner is due again who was taken from the due-queue: when the first of her rows is to go or of
 * what waits for her expires, no sooner than one pause from now and no later than the other; at once, where
 * `more` is to be done already.
 */
export async function sweepAgain(
  db: Db,
  taken: Taken,
  { more, pauseSeconds, idleSeconds }: { more: boolean; pauseSeconds: number; idleSeconds: number },
): Promise<void> {
  const { owner } = taken
  const nexts = Object.values(SWEPT).map(({ next }) => sql`(${next(owner)})`)
  const at = sql`greatest(clock_timestamp() + ${seconds(pauseSeconds)},
    least(clock_timestamp() + ${seconds(idleSeconds)}, ${sql.join(nexts)},
      (SELECT min(minute) + interval '1 minute' FROM refusal_counts WHERE owner = ${owner}),
      (SELECT min(${LAPSES_AT}) FROM resource_servers WHERE owner = ${owner} AND status = 'pending'),
      (SELECT min(ticket_expires_at) FROM families
        WHERE owner = ${owner} AND state = 'awaiting_owner' AND decision IS NULL)))`
  await dueAgain(db, taken, more ? sql`clock_timestamp()` : at)
}
