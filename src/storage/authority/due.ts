/**
 * The queue of due work: what must be done for an owner, and when. Work is found by time, not by going
 * through all owners, and each replica takes some of it. Contract: "Limits" (lifetimes), "Registry
 * materialization".
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { takeOldest } from '../core/batch.ts'
import { prepared } from '../core/database.ts'
import { notify } from '../core/notify.ts'
import type { Db } from './database.ts'
import type { DueTable } from './tables.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'

export type DueKind = DueTable['kind']

/** Whoever does such work listens here; the payload is its kind. */
export const DUE_CHANNEL = 'usher_due'

/** Work to be done, and until when (as Postgres writes it) the taker has it alone. */
export interface DueClaim extends Pick<Selectable<DueTable>, 'owner' | 'kind' | 'client_id'> {
  until: string
}

/**
 * Takes the work that has been due for longest; only one replica gets each item. The replica then says when
 * the item is due again. If it does not, because it ended or failed, the item is due again after `seconds`.
 */
export async function takeDue(
  db: Db,
  kind: DueKind,
  { limit, seconds }: { limit: number; seconds: number },
): Promise<DueClaim[]> {
  const { rows } = await TAKE(db, [kind, limit, seconds])
  return rows
}

const TAKE = prepared<DueClaim>(
  'take-due',
  takeOldest({
    table: 'due',
    key: ['owner', 'kind', 'client_id'],
    due: 'at',
    // Of an owner who comes or goes, the cell where she then is does it.
    where: `t.kind = $1 AND NOT EXISTS (SELECT FROM moves m WHERE m.owner = t.owner AND m.state <> 'here')`,
    limit: '$2',
    seconds: '$3',
  }),
)

/**
 * Says when a taken item is due again: at a time that the statement itself finds, unless another caller has
 * set a time meanwhile.
 */
export async function dueAgain(
  db: Db,
  { owner, kind, client_id, until }: DueClaim,
  at: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    UPDATE due SET at = ${at} WHERE owner = ${owner} AND kind = ${kind} AND client_id = ${client_id}
      AND at = ${until}::timestamptz`.execute(db)
}

/** Like `dueAgain`, in so many seconds. */
export function dueAgainIn(db: Db, claim: DueClaim, seconds: number): Promise<void> {
  return dueAgain(db, claim, sql`clock_timestamp() + ${seconds}::float8 * interval '1 second'`)
}

/** Removes the item, unless another caller has made it due meanwhile. */
export async function dueNoMore(db: Db, { owner, kind, client_id, until }: DueClaim): Promise<void> {
  await sql`
    DELETE FROM due WHERE owner = ${owner} AND kind = ${kind} AND client_id = ${client_id}
      AND at = ${until}::timestamptz`.execute(db)
}

/** Makes it due at once, whether or not it was, and wakes whoever does it. */
export async function dueNow(db: Db, owner: Owner, kind: DueKind, clientId = '' as ClientId): Promise<void> {
  await sql`
    INSERT INTO due (owner, kind, client_id, at) VALUES (${owner}, ${kind}, ${clientId}, clock_timestamp())
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = excluded.at`.execute(db)
  await wakeFor(db, kind)
}

/** Wakes, once the transaction commits, whoever does such work. Those who miss it look by themselves. */
export async function wakeFor(db: Db, kind: DueKind): Promise<void> {
  await notify(db, DUE_CHANNEL, kind)
}

/** Makes it due in so many seconds, whenever it was due before. */
export async function dueIn(db: Db, owner: Owner, kind: DueKind, seconds: number): Promise<void> {
  await sql`
    INSERT INTO due (owner, kind, at)
    VALUES (${owner}, ${kind}, clock_timestamp() + ${seconds}::float8 * interval '1 second')
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = excluded.at`.execute(db)
}

/**
 * Makes it due in so many seconds at the latest. If it is due sooner, that stays. A replica that has taken it
 * finds that it was changed meanwhile.
 */
export async function dueWithin(
  db: Db,
  owner: Owner,
  { kind, client_id = '' as ClientId }: { kind: DueKind; client_id?: ClientId },
  seconds: number,
): Promise<void> {
  await sql`
    INSERT INTO due (owner, kind, client_id, at)
    VALUES (${owner}, ${kind}, ${client_id}, clock_timestamp() + ${seconds}::float8 * interval '1 second')
    ON CONFLICT (owner, kind, client_id)
      DO UPDATE SET at = least(due.at - interval '1 microsecond', excluded.at)`.execute(db)
}

/**
 * Records that something happened to an owner, so that she is checked within so many seconds. @returns
 * whether she was due later than that.
 */
export async function sweepWithin(db: Db, owner: Owner, seconds: number): Promise<boolean> {
  return (await SWEEP_WITHIN(db, [owner, seconds])).affected === 1n
}

const SWEEP_WITHIN = prepared(
  'sweep-within',
  `UPDATE due SET at = clock_timestamp() + $2::float8 * interval '1 second'
    WHERE owner = $1 AND kind = 'sweep' AND at > clock_timestamp() + $2::float8 * interval '1 second'`,
)
