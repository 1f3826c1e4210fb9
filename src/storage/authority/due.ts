/**
 * The due-queue: what is to be done for an owner, and when. It is found by time and not by going through all
 * owners; each replica takes some of it. Contract: "Limits" (lifetimes), "Registry materialization".
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { prepared } from '../core/database.ts'
import type { Db } from './database.ts'
import type { DueTable } from './tables.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'

export type DueKind = DueTable['kind']

/** Something to be done, and until when (as Postgres writes it) it is the taker's alone. */
export interface Taken extends Pick<Selectable<DueTable>, 'owner' | 'kind' | 'client_id'> {
  until: string
}

/**
 * Takes what has been due for longest: of all replicas one gets each. Whoever takes it says afterwards when
 * it is due again; where that does not happen, since the replica ended or something failed, it is due when
 * `seconds` have passed.
 */
export async function takeDue(
  db: Db,
  kind: DueKind,
  { limit, seconds }: { limit: number; seconds: number },
): Promise<Taken[]> {
  const { rows } = await TAKE(db, [kind, limit, seconds])
  return rows
}

const TAKE = prepared<Taken>(
  'take-due',
  `WITH next AS MATERIALIZED (
      SELECT owner, client_id FROM due WHERE kind = $1 AND at <= clock_timestamp()
      ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)
    UPDATE due d SET at = clock_timestamp() + $3::float8 * interval '1 second' FROM next
    WHERE d.owner = next.owner AND d.kind = $1 AND d.client_id = next.client_id
    RETURNING d.owner, d.kind, d.client_id, d.at::text AS until`,
)

/**
 * When what was taken is due again: at a time that the statement itself finds, unless somebody has said
 * another one meanwhile.
 */
export async function dueAgain(
  db: Db,
  { owner, kind, client_id, until }: Taken,
  at: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    UPDATE due SET at = ${at} WHERE owner = ${owner} AND kind = ${kind} AND client_id = ${client_id}
      AND at = ${until}::timestamptz`.execute(db)
}

/** As `dueAgain`, in so many seconds. */
export function dueAgainIn(db: Db, taken: Taken, seconds: number): Promise<void> {
  return dueAgain(db, taken, sql`clock_timestamp() + ${seconds}::float8 * interval '1 second'`)
}

/** Nothing of the kind is to be done any more, unless somebody has said so meanwhile. */
export async function dueNoMore(db: Db, { owner, kind, client_id, until }: Taken): Promise<void> {
  await sql`
    DELETE FROM due WHERE owner = ${owner} AND kind = ${kind} AND client_id = ${client_id}
      AND at = ${until}::timestamptz`.execute(db)
}

/** Makes it due at once, whether or not it was. */
export async function dueNow(db: Db, owner: Owner, kind: DueKind, clientId = '' as ClientId): Promise<void> {
  await sql`
    INSERT INTO due (owner, kind, client_id, at) VALUES (${owner}, ${kind}, ${clientId}, clock_timestamp())
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = excluded.at`.execute(db)
}

/** Makes it due in so many seconds, whenever else it was. */
export async function dueIn(db: Db, owner: Owner, kind: DueKind, seconds: number): Promise<void> {
  await sql`
    INSERT INTO due (owner, kind, at)
    VALUES (${owner}, ${kind}, clock_timestamp() + ${seconds}::float8 * interval '1 second')
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = excluded.at`.execute(db)
}

/**
 * Something happened to an owner, so that she is looked at within so many seconds. @returns whether she was
 * due later than that.
 */
export async function sweepWithin(db: Db, owner: Owner, seconds: number): Promise<boolean> {
  return (await SWEEP_WITHIN(db, [owner, seconds])).affected === 1n
}

const SWEEP_WITHIN = prepared(
  'sweep-within',
  `UPDATE due SET at = clock_timestamp() + $2::float8 * interval '1 second'
    WHERE owner = $1 AND kind = 'sweep' AND at > clock_timestamp() + $2::float8 * interval '1 second'`,
)
