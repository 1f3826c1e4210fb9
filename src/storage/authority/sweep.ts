/**
 * Removes what no answer can depend on any more, in bounded batches per owner: ended negotiations, replay
 * marks, long-expired grants, old events. Contract: "Limits".
 */
import { sql, type RawBuilder } from 'kysely'
import { deletions, sweepEach, type Swept } from '../core/sweep.ts'
import type { Db } from './database.ts'
import { dueAgain, type DueClaim } from './due.ts'
import { COMPARISON_SECONDS } from './membership/emergencies.ts'
import { REPORT_SILENCE_SECONDS } from './ledger/report-instances.ts'
import { LAPSES_AT } from './registry/resources.ts'
import { HASH_BYTES, TILE_HASHES } from '../../rules/ledger/merkle.ts'
import type { Owner } from '../../wire/identifiers.ts'

/**
 * How long negotiations are kept after their end, so that the owner and the agent still get a specific answer
 * (409, `expired`).
 */
const RETENTION_SECONDS = {
  families: 86_400,
  grants: 86_400,
  windows: 86_400,
  events: 7 * 86_400,
  // A notice is told again for so long.
  emergencies: 8 * 86_400,
  instances: 7 * 86_400,
  // A message is held back for less (a day for a digest, then hours of another), and then tried.
  notifications: 4 * 86_400,
}
/**
 * How long answers to a tally are kept: longer than an agreement is accepted after it was signed (7 days, and
 * the difference of clocks), so that no agreement is allowed twice, and longer than a grant may rest on them.
 */
const TALLY_ANSWER_RETENTION_SECONDS = 8 * 86_400

/**
 * The retention of the ledger, and of events in place of the above; if undefined, the ledger is kept for
 * ever.
 */
export type Retention = number | undefined

/** Written as the index has it. */
const LAST_RELIED = sql`greatest(asked_at, signed_at, relied_until)`
const seconds = (count: number): RawBuilder<unknown> => sql`${count} * interval '1 second'`
/** As `ownedBy` says it. */
const hers = (owner: Owner): RawBuilder<unknown> => sql`owner = ANY(ARRAY[${owner}, ${owner}]::text[])`
/** SQL: her oldest position. */
const firstOf = (table: 'events' | 'ledger', owner: Owner): RawBuilder<unknown> => sql`
  SELECT seq FROM ${sql.table(table)} WHERE owner = ${owner} AND seq IS NOT NULL ORDER BY seq LIMIT 1`

/**
 * What is removed from each table, and when the first of the remaining rows is due: each uses an index whose
 * first column is that time.
 */
const SWEPT: Record<
  string,
  {
    /** Undefined if nothing is removed. */
    batch: (owner: Owner, limit: number, retention: Retention) => RawBuilder<unknown> | undefined
    next: (owner: Owner, retention: Retention) => RawBuilder<unknown>
  }
> = {
  // Never before its sealed ticket has expired: its key is what stops that ticket from being presented twice.
  families: {
    batch: (owner, limit) => sql`
      DELETE FROM families WHERE owner = ${owner} AND family = ANY(ARRAY(
        SELECT family FROM families WHERE owner = ${owner}
          AND ticket_expires_at < now() - ${seconds(RETENTION_SECONDS.families)}
          AND sealed_expires_at < now() - interval '1 minute'
        ORDER BY ticket_expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT ticket_expires_at + ${seconds(RETENTION_SECONDS.families)} FROM families WHERE owner = ${owner}
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
  spent_assertions: {
    batch: (owner, limit) => sql`
      DELETE FROM spent_assertions WHERE digest = ANY(ARRAY(
        SELECT digest FROM spent_assertions WHERE owner = ${owner} AND expires_at < now()
        ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT expires_at FROM spent_assertions WHERE owner = ${owner} ORDER BY expires_at LIMIT 1`,
  },
  // None that still holds a share of an allowance: its row says whether that may go back.
  grants: {
    batch: (owner, limit) => sql`
      DELETE FROM grants WHERE owner = ${owner} AND rpt_sha256 = ANY(ARRAY(
        SELECT rpt_sha256 FROM grants g WHERE owner = ${owner}
          AND expires_at < now() - ${seconds(RETENTION_SECONDS.grants)}
          AND NOT EXISTS (SELECT FROM allowance_held h WHERE h.owner = g.owner AND h.rpt_sha256 = g.rpt_sha256)
        ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT expires_at + ${seconds(RETENTION_SECONDS.grants)} FROM grants WHERE owner = ${owner}
      ORDER BY expires_at LIMIT 1`,
  },
  allowance_windows: {
    batch: (owner, limit) => sql`
      DELETE FROM allowance_windows WHERE (owner, allowance, whose, of, per, start) IN (
        SELECT owner, allowance, whose, of, per, start FROM allowance_windows WHERE owner = ${owner}
          AND ends < now() - ${seconds(RETENTION_SECONDS.windows)}
        ORDER BY ends LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    next: owner => sql`
      SELECT ends + ${seconds(RETENTION_SECONDS.windows)} FROM allowance_windows
      WHERE owner = ${owner} AND ends IS NOT NULL ORDER BY ends LIMIT 1`,
  },
  // A later report of the same call is still found to be one of an accepted emergency.
  accepted_emergencies: {
    batch: (owner, limit) => sql`
      DELETE FROM accepted_emergencies WHERE owner = ${owner} AND jti = ANY(ARRAY(
        SELECT jti FROM accepted_emergencies WHERE owner = ${owner}
          AND expires_at < now() - ${seconds(RETENTION_SECONDS.emergencies)}
        ORDER BY expires_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT min(expires_at + CASE WHEN compared_at IS NULL THEN ${seconds(COMPARISON_SECONDS)}
        ELSE ${seconds(RETENTION_SECONDS.emergencies)} END) FROM accepted_emergencies WHERE owner = ${owner}`,
  },
  joint_questions: {
    batch: (owner, limit) => sql`
      DELETE FROM joint_questions WHERE (owner, tally, account, negotiation) IN (
        SELECT owner, tally, account, negotiation FROM joint_questions WHERE owner = ${owner}
          AND ${LAST_RELIED} < now() - ${seconds(TALLY_ANSWER_RETENTION_SECONDS)}
        ORDER BY ${LAST_RELIED} LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    next: owner => sql`
      SELECT ${LAST_RELIED} + ${seconds(TALLY_ANSWER_RETENTION_SECONDS)} FROM joint_questions WHERE owner = ${owner}
      ORDER BY ${LAST_RELIED} LIMIT 1`,
  },
  // The ledger is used to judge a late report of a run whose row was removed. A run that continues is checked
  // again when it would have been silent for too long.
  report_instances: {
    batch: (owner, limit) => sql`
      DELETE FROM report_instances WHERE (owner, client_id, instance) IN (
        SELECT owner, client_id, instance FROM report_instances WHERE owner = ${owner}
          AND heard_at < now() - ${seconds(RETENTION_SECONDS.instances)} AND (ended OR unknown_at IS NOT NULL)
        ORDER BY heard_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)`,
    next: owner => sql`
      SELECT min(heard_at + CASE WHEN ended OR unknown_at IS NOT NULL THEN ${seconds(RETENTION_SECONDS.instances)}
        ELSE ${seconds(REPORT_SILENCE_SECONDS)} END) FROM report_instances WHERE owner = ${owner}`,
  },
  // Messages that no replica sent, for example because notifications were switched off, must not be sent
  // years later.
  notifications: {
    batch: (owner, limit) => sql`
      DELETE FROM notifications WHERE owner = ${owner} AND id = ANY(ARRAY(
        SELECT id FROM notifications WHERE owner = ${owner}
          AND since < now() - ${seconds(RETENTION_SECONDS.notifications)}
        ORDER BY since LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    next: owner => sql`
      SELECT since + ${seconds(RETENTION_SECONDS.notifications)} FROM notifications WHERE owner = ${owner}
      ORDER BY since LIMIT 1`,
  },
  // From the oldest position on, up to the first that must be kept: readers detect by the gap whether they
  // missed something, so no entry in between is removed.
  events: {
    batch: (owner, limit, retention = RETENTION_SECONDS.events) => sql`
      DELETE FROM events WHERE ${hers(owner)} AND seq >= (${firstOf('events', owner)})
        AND seq <= (${lastOfOldest('events', 'at', { owner, limit, retention })})`,
    next: (owner, retention = RETENTION_SECONDS.events) => sql`
      SELECT at + ${seconds(retention)} FROM events WHERE owner = ${owner} AND seq IS NOT NULL
      ORDER BY seq LIMIT 1`,
  },
  // Also from the oldest on, so that the rest has no gaps. Without a setting, nothing is removed.
  ledger: {
    batch: (owner, limit, retention) =>
      retention === undefined
        ? undefined
        : deleteEntries(owner, lastOfOldest('ledger', 'ts', { owner, limit, retention })),
    next: (owner, retention) =>
      retention === undefined
        ? sql`NULL::timestamptz`
        : sql`
      SELECT ts + ${seconds(retention)} FROM ledger WHERE owner = ${owner} AND seq IS NOT NULL
      ORDER BY seq LIMIT 1`,
  },
}

/**
 * SQL: the last of at most `limit` positions, from her oldest on, whose rows go. A range between two
 * positions bounds what is read, and is expected to have few rows, however many she has. Where positions are
 * missing, it has fewer than the limit, and the rest goes after the next pause.
 */
function lastOfOldest(
  table: 'events' | 'ledger',
  time: 'at' | 'ts',
  { owner, limit, retention }: { owner: Owner; limit: number; retention: number },
): RawBuilder<unknown> {
  return sql`
    SELECT max(seq) FROM (
      SELECT seq, bool_and(${sql.ref(time)} < now() - ${seconds(retention)}) OVER (ORDER BY seq) AS goes
      FROM ${sql.table(table)} WHERE ${hers(owner)} AND seq >= (${firstOf(table, owner)})
        AND seq < ${limit} + (${firstOf(table, owner)})
    ) judged WHERE goes`
}

/**
 * Deletes entries up to that position, which are her oldest, and keeps what her tree needs of them: the
 * leaves of those whose tile is not full yet, and for the next entry of each handle where the last one was.
 */
function deleteEntries(owner: Owner, last: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    WITH gone AS MATERIALIZED (
      SELECT seq, handle, leaf FROM ledger
      WHERE ${hers(owner)} AND seq >= (${firstOf('ledger', owner)}) AND seq <= (${last})
      ORDER BY seq FOR UPDATE),
    leaves AS (
      INSERT INTO ledger_tiles AS t (owner, level, index, hashes)
      SELECT ${owner}, 0, (seq - 1) / ${TILE_HASHES}::bigint, string_agg(leaf, ''::bytea ORDER BY seq)
      FROM gone WHERE leaf IS NOT NULL GROUP BY 3
      ON CONFLICT (owner, level, index) DO UPDATE SET hashes = t.hashes || excluded.hashes
      WHERE octet_length(t.hashes) < ${TILE_HASHES * HASH_BYTES}),
    tails AS (
      INSERT INTO ledger_tails AS l (owner, handle, seq)
      SELECT ${owner}, handle, max(seq) FROM gone WHERE handle IS NOT NULL GROUP BY handle
      ON CONFLICT (owner, handle) DO UPDATE SET seq = excluded.seq)
    DELETE FROM ledger WHERE ${hers(owner)}
      AND seq >= (SELECT min(seq) FROM gone) AND seq <= (SELECT max(seq) FROM gone)`
}

/** One bounded sweep of one owner's rows: a batch of each table. */
export function sweepOwner(db: Db, owner: Owner, limit: number, retention?: Retention): Promise<Swept> {
  const statements = Object.entries(SWEPT).map(([table, { batch }]) => [
    table,
    (most: number) => batch(owner, most, retention),
  ])
  return sweepEach(deletions(db, Object.fromEntries(statements)), limit)
}

interface SweptAgain {
  more: boolean
  pauseSeconds: number
  idleSeconds: number
  retention?: Retention
}

/**
 * Says when an owner who was taken from the queue is due again: when the first of her rows must be removed or
 * her first waiting item expires, no sooner than one pause from now and no later than the other; at once, if
 * `more` is due already.
 */
export async function sweepAgain(
  db: Db,
  claim: DueClaim,
  { more, pauseSeconds, idleSeconds, retention }: SweptAgain,
): Promise<void> {
  const { owner } = claim
  const nexts = Object.values(SWEPT).map(({ next }) => sql`(${next(owner, retention)})`)
  const at = sql`greatest(clock_timestamp() + ${seconds(pauseSeconds)},
    least(clock_timestamp() + ${seconds(idleSeconds)}, ${sql.join(nexts)},
      (SELECT min(minute) + interval '1 minute' FROM refusal_counts WHERE owner = ${owner}),
      (SELECT min(${LAPSES_AT}) FROM resource_servers WHERE owner = ${owner} AND status = 'pending'),
      (SELECT min(ticket_expires_at) FROM families
        WHERE owner = ${owner} AND state = 'awaiting_owner' AND decision IS NULL)))`
  await dueAgain(db, claim, more ? sql`clock_timestamp()` : at)
}
