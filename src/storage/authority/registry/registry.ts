/**
 * What is pulled from resource servers: which replica may pull, what landed, and the state of each source.
 * Contract: "Registry materialization", "Health" (`/health/registry`).
 */
import { sql } from 'kysely'
import { inTransaction } from '../../core/database.ts'
import { notify } from '../../core/notify.ts'
import type { Db, Tx } from '../database.ts'
import { dueAgain, dueNoMore, type DueClaim } from '../due.ts'
import { EVENTS_CHANNEL } from '../ledger/events.ts'
import { lockMembership } from '../membership/membership.ts'
import { lockQueue } from '../owners/owners.ts'
import { LAPSED, type ResourceRow } from './resources.ts'
import { takeOut } from '../policies/tiers.ts'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'

/** One resource server of one owner. */
export interface ServerSource {
  owner: Owner
  client_id: ClientId
}

/** The right to pull from a source once; an earlier attempt can no longer write anything. */
export interface PullAttempt extends ServerSource {
  resource_uri: string
  /** The namespaces that, besides her name, her resource ids may begin with. */
  namespaces: string[]
  attempt: number
}

/**
 * `running`: another caller pulls right now; `recent`: another caller just did, or the source should not be
 * pulled.
 */
export type Claim = { claimed: PullAttempt } | { claimed?: undefined; because: 'running' | 'recent' }

/**
 * Claims a pull: only one replica gets it, and none within `pauseSeconds` of the last. Only active resource
 * servers that publish are pulled.
 */
export async function claimPull(db: Db, source: ServerSource, pauseSeconds: number): Promise<Claim> {
  const { owner, client_id } = source
  const pause = sql`${pauseSeconds} * interval '1 second'`
  const { rows } = await sql<Pick<PullAttempt, 'attempt' | 'resource_uri' | 'namespaces'>>`
    WITH server AS (
      SELECT owner, client_id, resource_uri FROM resource_servers
      WHERE owner = ${owner} AND client_id = ${client_id} AND status = 'active' AND publishes
        -- Where it is too soon nothing is written, not even the lock that a conflict would take.
        AND NOT EXISTS (SELECT 1 FROM registry_pulls
          WHERE owner = ${owner} AND client_id = ${client_id} AND tried_at > clock_timestamp() - ${pause})),
    claimed AS (
      INSERT INTO registry_pulls AS p (owner, client_id, attempt, tried_at)
      SELECT owner, client_id, 1, clock_timestamp() FROM server
      ON CONFLICT (owner, client_id) DO UPDATE SET attempt = p.attempt + 1, tried_at = clock_timestamp()
      WHERE p.tried_at <= clock_timestamp() - ${pause}
      RETURNING attempt)
    SELECT claimed.attempt, server.resource_uri,
      ARRAY(SELECT namespace FROM namespaces WHERE owner = server.owner ORDER BY namespace) AS namespaces
    FROM claimed, server`.execute(db)
  const row = rows[0]
  if (row !== undefined) return { claimed: { owner, client_id, ...row } }
  return { because: (await isPulling(db, source, pauseSeconds)) ? 'running' : 'recent' }
}

/**
 * Whether a replica pulls from the source right now: it claimed the pull lately, and the pull has neither
 * landed nor failed since.
 */
export async function isPulling(
  db: Db,
  { owner, client_id }: ServerSource,
  withinSeconds: number,
): Promise<boolean> {
  const { rows } = await sql<{ running: boolean }>`
    SELECT tried_at > clock_timestamp() - ${withinSeconds} * interval '1 second'
      AND tried_at > coalesce(greatest(landed_at, failed_at), '-infinity') AS running
    FROM registry_pulls WHERE owner = ${owner} AND client_id = ${client_id}`.execute(db)
  return rows[0]?.running === true
}

/** A resource from a listing, after it was checked. */
export type ListedResource = Omit<ResourceRow, 'owner' | 'client_id' | 'source' | 'org'>

/** The result of a pull; `superseded`: the server was withdrawn meanwhile, or a later attempt has begun. */
export type Landing = { landed: number; conflicts: string[] } | 'superseded'

/**
 * Replaces what a source listed before with what it lists now, in one transaction under the owner's queue
 * lock.
 *
 * - A resource keeps its tier. A resource that is no longer listed is deleted; if a tier governs it, a
 *   placeholder without scopes stays, so that nobody else's resource can come under that tier by taking its
 *   id.
 * - What the provisioning file declared for this server stays until a listing names it, which then says how
 *   it is.
 * - `settled` runs in the same transaction, before the owner is told: it applies the consequences of what has
 *   landed.
 * - An id of another server is left alone, unless that server is withdrawn: then it changes hands,
 *   ungoverned.
 */
export function landListing(
  db: Db,
  attempt: PullAttempt,
  listed: readonly ListedResource[],
  settled: (tx: Tx) => Promise<unknown> = async () => undefined,
): Promise<Landing> {
  const { owner, client_id } = attempt
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await lockMembership(tx, owner)
    if (!(await holdsAttempt(tx, attempt))) return 'superseded'
    const overlaps = await otherServersOf(
      tx,
      attempt,
      listed.map(({ resource_id }) => resource_id),
    )
    const ours = listed.filter(({ resource_id }) => overlaps.get(resource_id) !== 'conflict')
    const changing = [...overlaps].filter(([, how]) => how === 'withdrawn').map(([id]) => id)
    if (changing.length > 0) await takeOut(tx, owner, { resource_ids: changing })
    await removeUnlisted(
      tx,
      attempt,
      ours.map(({ resource_id }) => resource_id),
    )
    await upsertListed(tx, attempt, ours)
    await settled(tx)
    const conflicts = [...overlaps].filter(([, how]) => how === 'conflict').map(([id]) => id)
    await sql`
      UPDATE registry_pulls SET landed_at = clock_timestamp(), failed_at = NULL, fault = NULL,
        conflicts = ${conflicts.length}
      WHERE owner = ${owner} AND client_id = ${client_id}`.execute(tx)
    // Wakes requests that wait on other replicas for this pull; they read the store again.
    await notify(tx, EVENTS_CHANNEL, owner)
    return { landed: ours.length, conflicts }
  })
}

async function holdsAttempt(tx: Tx, { owner, client_id, attempt }: PullAttempt): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM registry_pulls p
    JOIN resource_servers rs ON rs.owner = p.owner AND rs.client_id = p.client_id
    WHERE p.owner = ${owner} AND p.client_id = ${client_id} AND p.attempt = ${attempt}
      AND rs.status = 'active' AND rs.publishes
    FOR UPDATE OF p FOR SHARE OF rs`.execute(tx)
  return rows.length === 1
}

async function otherServersOf(
  tx: Tx,
  { owner, client_id }: ServerSource,
  ids: string[],
): Promise<Map<string, 'conflict' | 'withdrawn'>> {
  const { rows } = await sql<{ resource_id: string; how: 'conflict' | 'withdrawn' }>`
    SELECT r.resource_id, CASE WHEN (rs.status IN ('active', 'pending') AND NOT ${LAPSED}) OR (r.source = 'joint' AND EXISTS (
        SELECT FROM joint_accounts j WHERE j.owner = r.owner AND r.client_id = 'joint:' || j.account)) THEN 'conflict'
        ELSE 'withdrawn' END AS how
    FROM resources r
    LEFT JOIN resource_servers rs ON rs.owner = r.owner AND rs.client_id = r.client_id
    WHERE r.owner = ${owner} AND r.client_id <> ${client_id} AND r.resource_id = ANY(${ids}::text[])
    ORDER BY r.resource_id`.execute(tx)
  return new Map(rows.map(({ resource_id, how }) => [resource_id, how]))
}

async function removeUnlisted(tx: Tx, { owner, client_id }: ServerSource, ids: string[]): Promise<void> {
  await sql`
    DELETE FROM resources r
    WHERE r.owner = ${owner} AND r.client_id = ${client_id} AND r.source = 'pulled'
      AND r.resource_id <> ALL(${ids}::text[])
      AND NOT EXISTS (SELECT 1 FROM tier_resources tr
        WHERE tr.owner = r.owner AND tr.resource_id = r.resource_id)`.execute(tx)
  await sql`
    UPDATE resources SET resource_scopes = '{}', consequence = NULL, tools = NULL
    WHERE owner = ${owner} AND client_id = ${client_id} AND source = 'pulled'
      AND resource_id <> ALL(${ids}::text[]) AND resource_scopes <> '{}'`.execute(tx)
}

const ROWS_PER_INSERT = 1_000

/** Writes only differences, because most pulls find nothing new. */
async function upsertListed(
  tx: Tx,
  { owner, client_id }: ServerSource,
  ours: ListedResource[],
): Promise<void> {
  for (let at = 0; at < ours.length; at += ROWS_PER_INSERT)
    await sql`
      INSERT INTO resources AS r (owner, resource_id, client_id, name, type, resource_scopes, consequence, tools,
        approval, source)
      SELECT ${owner}, l.resource_id, ${client_id}, l.name, l.type,
        ARRAY(SELECT json_array_elements_text(l.resource_scopes)), l.consequence, l.tools,
        l.approval, 'pulled'
      FROM json_to_recordset(${JSON.stringify(ours.slice(at, at + ROWS_PER_INSERT))}::json)
        AS l (resource_id text, name text, type text, resource_scopes json, consequence text, tools jsonb, approval text)
      ON CONFLICT (owner, resource_id) DO UPDATE SET client_id = excluded.client_id, name = excluded.name,
        type = excluded.type, resource_scopes = excluded.resource_scopes,
        consequence = excluded.consequence, tools = excluded.tools, approval = excluded.approval,
        source = excluded.source
      WHERE (r.client_id, r.name, r.type, r.resource_scopes, r.consequence, r.tools, r.approval, r.source)
        IS DISTINCT FROM (excluded.client_id, excluded.name, excluded.type, excluded.resource_scopes,
          excluded.consequence, excluded.tools, excluded.approval, excluded.source)`.execute(tx)
}

/**
 * Records why a pull brought nothing; what landed before stays. @returns whether this was the latest attempt.
 */
export async function failPull(db: Db, attempt: PullAttempt, fault: string): Promise<boolean> {
  const noted = await sql`
    UPDATE registry_pulls SET failed_at = clock_timestamp(), fault = ${fault}
    WHERE owner = ${attempt.owner} AND client_id = ${attempt.client_id} AND attempt = ${attempt.attempt}`.execute(
    db,
  )
  if (noted.numAffectedRows !== 1n) return false
  await notify(db, EVENTS_CHANNEL, attempt.owner)
  return true
}

/**
 * Says when a source that was taken from the queue is due again: one pause after the attempt if that
 * succeeded, another if it failed or was never made. A source that should no longer be pulled leaves the
 * queue. Both depend on its present state, and happen only if nobody changed the due time meanwhile.
 */
export async function pullAgain(
  db: Db,
  claim: DueClaim,
  pauses: { landedSeconds: number; failedSeconds: number },
): Promise<void> {
  const { owner, client_id } = claim
  const { rows } = await sql<{ at: string }>`
    SELECT greatest(clock_timestamp() + interval '1 second', p.tried_at + interval '1 second' *
      CASE WHEN p.landed_at IS NOT NULL AND p.failed_at IS NULL
        THEN ${pauses.landedSeconds}::float8 ELSE ${pauses.failedSeconds}::float8 END)::text AS at
    FROM resource_servers rs
    LEFT JOIN registry_pulls p ON p.owner = rs.owner AND p.client_id = rs.client_id
    WHERE rs.owner = ${owner} AND rs.client_id = ${client_id} AND rs.status = 'active' AND rs.publishes`.execute(
    db,
  )
  const [row] = rows
  if (row === undefined) return dueNoMore(db, claim)
  await dueAgain(db, claim, sql`${row.at}::timestamptz`)
}

/** Counts of sources by state: `fault` is null for those that landed last time, or were never tried. */
export interface SourceCount {
  state: 'landed' | 'failed' | 'waiting'
  fault: string | null
  /** Whether something from them has landed, possibly before a failure. */
  landed: boolean
  count: number
  /** When the latest of them landed or failed. */
  at: string | null
}

/**
 * Counts the active resource servers of all owners by state; one that publishes nothing has landed at once.
 */
export async function countSources(db: Db): Promise<SourceCount[]> {
  const { rows } = await sql<SourceCount>`
    SELECT s.state, s.fault, s.landed, count(*)::int AS count, max(s.at) AS at FROM (
      SELECT CASE WHEN NOT rs.publishes THEN 'landed' WHEN p.failed_at IS NOT NULL THEN 'failed'
          WHEN p.landed_at IS NOT NULL THEN 'landed' ELSE 'waiting' END AS state,
        p.fault, NOT rs.publishes OR p.landed_at IS NOT NULL AS landed,
        CASE WHEN rs.publishes THEN coalesce(p.failed_at, p.landed_at) END AS at
      FROM resource_servers rs
      LEFT JOIN registry_pulls p ON p.owner = rs.owner AND p.client_id = rs.client_id
      WHERE rs.status = 'active') s
    GROUP BY s.state, s.fault, s.landed ORDER BY s.state, s.fault NULLS FIRST, s.landed`.execute(db)
  return rows
}
