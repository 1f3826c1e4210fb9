/**
 * Which sidecars may use answers about an owner's grants again for a moment, and how an act that ends one
 * waits until none does. Each process counts by its own monotonic clock; why it holds:
 * docs/decisions/0021-leases.md.
 * Contract: "What the service does" (revocation is immediate).
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { CompiledQuery, sql } from 'kysely'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { LEASE_SETTLEMENT_MS } from '../../../wire/resources/leases.ts'
import type { LeaseWait } from '../../core/after-commit.ts'
import { prepared, type Db as AnyDb, type Runner, type Tx as AnyTx } from '../../core/database.ts'
import { notify } from '../../core/notify.ts'
import { wholeOf } from '../../core/shares.ts'
import {
  acknowledge,
  acknowledgementsOf,
  type Acknowledgements,
  type DropRequest,
  type LeaseHolderId,
} from './lease-acknowledgements.ts'
import type { AuthorityTables } from '../tables.ts'

// Not those of ./database.ts, whose transactions wait by this.
type PlainDb = AnyDb<AuthorityTables>
type PlainTx = AnyTx<AuthorityTables>

/** The channel on which replicas hear whose holders were asked to let go. */
export const LEASES_CHANNEL = 'usher_leases'

/** Most sidecars that one resource server may have at one owner. */
const HOLDERS_MAX = 64
const ID_BYTES = 16

/**
 * Registers a sidecar in place of the one that it was before, if it says so, while its resource server
 * stands in the given generation. @returns its id, or why not.
 */
export async function insertHolder(
  tx: PlainTx,
  of: Omit<LeaseHolderId, 'id'> & { generation: number; replaces?: string | undefined },
): Promise<{ id: string } | 'withdrawn' | 'too many'> {
  const { owner, client_id, generation, replaces } = of
  if (replaces !== undefined) await endHolder(tx, { owner, client_id, id: replaces })
  const { rows } = await sql<{ stands: boolean; holders: number }>`
    SELECT EXISTS (SELECT FROM resource_servers WHERE owner = ${owner} AND client_id = ${client_id}
        AND status = 'active' AND generation = ${generation}) AS stands,
      (SELECT count(*)::int FROM lease_holders WHERE owner = ${owner} AND client_id = ${client_id}) AS holders`.execute(
    tx,
  )
  const { stands, holders } = rows[0]!
  if (!stands) return 'withdrawn'
  if (holders >= HOLDERS_MAX) return 'too many'
  const id = randomBytes(ID_BYTES).toString('base64url')
  await tx.insertInto('lease_holders').values({ owner, client_id, id }).execute()
  return { id }
}

/** A server that was withdrawn keeps no lease up, but its word that it dropped its answers counts. */
const RENEW = prepared<{ asked: number; stands: boolean }>(
  'renew-lease',
  `UPDATE lease_holders h SET renewals = renewals + server.standing,
     acknowledged = greatest(acknowledged, least($4, asked))
   FROM (SELECT count(*) AS standing FROM resource_servers
     WHERE owner = $1 AND client_id = $3 AND status = 'active' AND generation = $5) server
   WHERE h.owner = $1 AND h.id = $2 AND h.client_id = $3 RETURNING h.asked, server.standing = 1 AS stands`,
)

/**
 * The sidecar lives, and has dropped all that it had when it was asked for the given time. @returns how often
 * it was asked; undefined: it holds no lease, or its resource server does not stand in that generation.
 */
export async function renewHolder(
  calls: Runner,
  { owner, client_id, id, generation }: LeaseHolderId & { generation: number },
  acknowledged: number,
): Promise<number | undefined> {
  acknowledge({ owner, client_id, id }, acknowledged)
  const { rows } = await RENEW(calls, [owner, id, client_id, acknowledged, generation])
  return rows[0]?.stands === true ? rows[0].asked : undefined
}

/** The sidecar has dropped all that it had, and asks nothing more as this one. @returns as `renewHolder`. */
export async function endHolder(
  db: PlainDb,
  { owner, client_id, id }: LeaseHolderId,
): Promise<number | undefined> {
  acknowledge({ owner, client_id, id }, Infinity)
  const { rows } = await sql<{ asked: number }>`
    DELETE FROM lease_holders WHERE owner = ${owner} AND id = ${id} AND client_id = ${client_id} RETURNING asked`.execute(
    db,
  )
  return rows[0]?.asked
}

/** How often each of these was asked; one that holds no lease any more is missing. */
export async function readDropCounts(
  db: PlainDb,
  owner: Owner,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ id: string; asked: number }>`
    SELECT id, asked FROM lease_holders WHERE owner = ${owner} AND id = ANY(${[...ids]}::text[])`.execute(db)
  return new Map(rows.map(({ id, asked }) => [id, asked]))
}

/** A holder as it stood when somebody looked. */
export type LeaseHolderReading = Pick<LeaseHolderId, 'owner' | 'id'> & { renewals: number }

/** All of them, to be looked at again. */
export async function listHolders(db: PlainDb): Promise<LeaseHolderReading[]> {
  const { rows } = await sql<LeaseHolderReading>`SELECT owner, id, renewals FROM lease_holders`.execute(db)
  return rows
}

/**
 * Deletes those that were not renewed since they were seen so: the caller saw each `LEASE_SILENT_MS` ago.
 * Locks them in the order in which holders are asked. @returns which went.
 */
export async function deleteSilent(
  db: PlainDb,
  readings: readonly LeaseHolderReading[],
): Promise<Omit<LeaseHolderId, 'client_id'>[]> {
  if (readings.length === 0) return []
  const { rows } = await sql<Pick<LeaseHolderId, 'owner' | 'id'>>`
    WITH silent AS MATERIALIZED (
      SELECT h.owner, h.id FROM lease_holders h
      JOIN unnest(${readings.map(({ owner }) => owner)}::text[], ${readings.map(({ id }) => id)}::text[],
        ${readings.map(({ renewals }) => renewals)}::bigint[]) AS s (owner, id, renewals)
        ON h.owner = s.owner AND h.id = s.id AND h.renewals = s.renewals
      ORDER BY h.owner, h.id FOR UPDATE OF h)
    DELETE FROM lease_holders h USING silent s WHERE h.owner = s.owner AND h.id = s.id
    RETURNING h.owner, h.id`.execute(db)
  // A stream to one of them that is still open ends.
  for (const owner of new Set(rows.map(one => one.owner))) await notify(db, LEASES_CHANNEL, owner)
  return rows
}

/** What became of those who were asked to let go. */
export interface LetGo extends LeaseWait {
  owner: Owner
  /** Whether Postgres did not say who holds anything, or who let go: then the whole time was waited. */
  blind: boolean
}

type LetGoListener = (done: LetGo) => void
const listeners = new WeakMap<object, LetGoListener>()

/** Has `listener` told of each time that somebody was waited for through `db`. One listener per database. */
export function onLetGo(db: PlainDb, listener: LetGoListener): void {
  listeners.set(db, listener)
}

/** Locks the rows in one order, so that two acts at the same time do not wait for each other. */
const ASK = `
  WITH hers AS (SELECT id FROM lease_holders WHERE owner = $1 ORDER BY id FOR UPDATE)
  UPDATE lease_holders h SET asked = asked + 1 FROM hers WHERE h.owner = $1 AND h.id = hers.id
  RETURNING h.id, h.client_id, h.asked`

const STILL_HOLDING = `
  SELECT h.id, h.client_id, h.asked FROM lease_holders h
  JOIN unnest($2::text[], $3::int[]) AS a (id, asked) ON a.id = h.id
  WHERE h.owner = $1 AND h.acknowledged < a.asked`

/** Acknowledgements at other replicas are looked for. Most sidecars answer within the first few pauses. */
const LOOK_PAUSES_MS = [8, 4, 4, 8, 16, 25]
/** If Postgres did not say for so long who let go, nobody knows who did. */
const LOOK_OUTAGE_MS = 500

/**
 * Asks the sidecars that may use an answer about an owner's grants to drop it, and waits until each said so,
 * or until `LEASE_SETTLEMENT_MS` have passed since the commit: then what was answered before it is too old.
 * Never fails, whatever Postgres does, since the act was committed.
 * @param committedAt by `performance.now()`.
 * @returns undefined if there was nobody to ask.
 */
export async function letGo(db: PlainDb, owner: Owner, committedAt: number): Promise<LetGo | undefined> {
  const until = committedAt + LEASE_SETTLEMENT_MS
  const report = (done: Pick<LetGo, 'holders' | 'acknowledged' | 'silent' | 'blind'>): LetGo => {
    const waited_ms = Math.round(performance.now() - committedAt)
    const all = { owner, ...done, waited_ms }
    listeners.get(wholeOf(db))?.(all)
    return all
  }
  const requests = await inTime(until, () => query<DropRequest>(db, ASK, [owner]))
  if (requests === LATE) {
    await passed(until)
    return report({ holders: 0, acknowledged: 0, silent: [], blind: true })
  }
  if (requests.length === 0) return undefined
  const here = acknowledgementsOf(owner, requests)
  // Whoever misses it is told by the answer to its next renewal.
  await inTime(until, () => notify(db, LEASES_CHANNEL, owner))
  const left = await waitFor(db, owner, { requests, until, here }).finally(here.end)
  if (left === LATE || left.length > 0) await passed(until)
  const silent = left === LATE ? requests : left
  return report({
    holders: requests.length,
    acknowledged: requests.length - silent.length,
    silent: silent.map(({ client_id }) => client_id),
    blind: left === LATE,
  })
}

/** @returns who did not let go in time; `LATE` if Postgres did not say. */
async function waitFor(
  db: PlainDb,
  owner: Owner,
  { requests, until, here }: { requests: readonly DropRequest[]; until: number; here: Acknowledgements },
): Promise<readonly DropRequest[] | typeof LATE> {
  let left: readonly DropRequest[] = requests
  let contactAt = -Infinity
  for (let look = 0; ; look++) {
    const pauseMs = LOOK_PAUSES_MS[Math.min(look, LOOK_PAUSES_MS.length - 1)]!
    if (performance.now() + pauseMs >= until) return until - contactAt < LOOK_OUTAGE_MS ? left : LATE
    if ((await waitAtMost(pauseMs, here.all)) !== LATE) return []
    const beganAt = performance.now()
    const rows = await inTime(until, () =>
      query<DropRequest>(db, STILL_HOLDING, [
        owner,
        requests.map(({ id }) => id),
        requests.map(one => one.asked),
      ]),
    )
    if (rows === LATE) continue
    left = rows.filter(({ id }) => here.isMissing(id))
    if (left.length === 0) return left
    contactAt = beganAt
  }
}

/** A look that fails counts as one that was not answered. */
async function inTime<T>(until: number, look: () => Promise<T>): Promise<T | typeof LATE> {
  try {
    return await waitAtMost(until - performance.now(), look())
  } catch {
    return LATE
  }
}

/** Returns no earlier than then: a timer may end a moment before its time. */
async function passed(until: number): Promise<void> {
  for (;;) {
    const leftMs = until - performance.now()
    if (leftMs <= 0) return
    await delay(Math.ceil(leftMs))
  }
}

async function query<Row>(db: PlainDb, text: string, values: readonly unknown[]): Promise<Row[]> {
  const { rows } = await db.executeQuery<Row>(CompiledQuery.raw(text, [...values]))
  return rows
}
