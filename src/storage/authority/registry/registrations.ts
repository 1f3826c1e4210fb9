/**
 * Resource servers that register themselves, and what the owner decides about any of hers.
 * Contract: "Resource server registration".
 */
import { sql, type Selectable } from 'kysely'
import {
  registrationAnswer,
  type RegistrationAnswer,
  type RegistrationFacts,
} from '../../../rules/registration.ts'
import type { KeyPage } from '../../core/columns.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { dueNow } from '../due.ts'
import { lockQueue, readOwner } from '../owners/owners.ts'
import {
  LAPSED,
  LAPSES_AT,
  ON_RECORD,
  readResourceServer,
  RECORD,
  standsAt,
  WITHDRAWN_BEFORE,
  type ResourceServerRow,
} from './resources.ts'
import type { RegistryPullsTable, ResourceServerStatus } from '../tables.ts'
import { asClientId, type ClientId, type Owner } from '../../../wire/identifiers.ts'

/**
 * Records that a resource server asks to serve an owner, if it may; its client_id is its resource_uri. One
 * that waits keeps the name it was first shown under; one that was withdrawn waits again. Judges and writes
 * under the owner's queue lock, which it takes. `gone`: she is not served here any more.
 */
export async function registerResourceServer(
  tx: Tx,
  claim: { owner: Owner; resource_uri: string; name: string },
): Promise<RegistrationAnswer | { outcome: 'gone' }> {
  const { owner, resource_uri, name } = claim
  await lockQueue(tx, owner)
  // A caller that removes her held that lock before, so rows that are written after it would never be
  // removed.
  if ((await readOwner(tx, owner)) === undefined) return { outcome: 'gone' }
  const answer = registrationAnswer(await readFacts(tx, owner, resource_uri))
  if (answer.outcome !== 'registered') return answer
  const values = {
    name,
    status: 'pending' as const,
    decided_at: null,
    registered_at: sql<string>`clock_timestamp()`,
  }
  await tx
    .insertInto('resource_servers')
    .values({
      owner,
      client_id: asClientId(resource_uri),
      resource_uri,
      auth: 'signature',
      secret_sha256: null,
      former_secret_sha256: null,
      publishes: true,
      ...values,
    })
    .onConflict(conflict => conflict.columns(['owner', 'client_id']).doUpdateSet(values))
    .execute()
  return answer
}

async function readFacts(tx: Tx, owner: Owner, resource_uri: string): Promise<RegistrationFacts> {
  const { origin } = new URL(resource_uri)
  const known = await readResourceServer(tx, owner, asClientId(resource_uri))
  const waits = sql<boolean>`status = 'pending' AND NOT ${LAPSED}`
  const { rows } = await sql<{
    decided_ago: number | null
    pending: number
    at_origin: number
    approved: boolean
    banned: boolean
  }>`
    SELECT extract(epoch FROM clock_timestamp() - ${known?.decided_at ?? null}::timestamptz)::float8 AS decided_ago,
      count(*) FILTER (WHERE ${waits})::int AS pending,
      count(*) FILTER (WHERE ${waits} AND ${standsAt(origin)})::int AS at_origin,
      coalesce(bool_or(status = 'active' AND ${standsAt(origin)}), false) AS approved,
      EXISTS (SELECT 1 FROM banned_origins WHERE owner = ${owner} AND origin = ${origin}) AS banned
    FROM resource_servers WHERE owner = ${owner}`.execute(tx)
  const { decided_ago, pending, at_origin, approved, banned } = rows[0]!
  return {
    known: known && {
      status: known.status,
      provisioned: known.auth === 'secret' || known.client_keys !== null,
      decidedSecondsAgo: decided_ago ?? Infinity,
    },
    pending,
    origin: { banned, approved, pending: at_origin },
  }
}

/** Whether some registration with an owner has lapsed and was not ended yet. */
export async function anyLapsed(db: Db, owner: Owner): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM resource_servers WHERE owner = ${owner} AND ${LAPSED} LIMIT 1`.execute(db)
  return rows.length === 1
}

/**
 * Ends the registrations with an owner that have lapsed: what she withdrew once is withdrawn again, the
 * others are gone. No more than may wait for her. The caller holds her queue lock. @returns their client_ids,
 * in order.
 */
export async function endLapsed(tx: Tx, owner: Owner): Promise<ClientId[]> {
  const lapsed = sql`owner = ${owner} AND ${LAPSED}`
  const { rows: back } = await sql<{ client_id: ClientId }>`
    UPDATE resource_servers SET status = 'revoked', decided_at = ${LAPSES_AT}
    WHERE ${lapsed} AND ${WITHDRAWN_BEFORE} RETURNING client_id`.execute(tx)
  const { rows: deletions } = await sql<{ client_id: ClientId }>`
    DELETE FROM resource_servers WHERE ${lapsed} AND NOT ${WITHDRAWN_BEFORE} RETURNING client_id`.execute(tx)
  return [...back, ...deletions].map(({ client_id }) => client_id).sort()
}

/**
 * The client_ids of those that wait at an origin, in order. They are all of them only under the queue lock.
 */
export async function pendingAt(db: Db, owner: Owner, origin: string): Promise<ClientId[]> {
  const { rows } = await sql<{ client_id: ClientId }>`
    SELECT client_id FROM resource_servers
    WHERE owner = ${owner} AND status = 'pending' AND NOT ${LAPSED} AND ${standsAt(origin)}
    ORDER BY client_id`.execute(db)
  return rows.map(({ client_id }) => client_id)
}

/**
 * Writes the owner's decision. Withdrawing ends every PAT issued so far, for ever; approving makes the
 * registry forget how earlier pulls went, so that this server has landed nothing yet and a pull under way
 * brings nothing.
 */
export async function decideResourceServer(
  tx: Tx,
  owner: Owner,
  clientId: ClientId,
  status: Exclude<ResourceServerStatus, 'pending'>,
): Promise<ResourceServerRow> {
  if (status === 'revoked') endsLeases(tx, owner)
  const decided = await tx
    .updateTable('resource_servers')
    .set({
      status,
      // The clock is read here, because this transaction may have waited for the queue's lock since it began.
      decided_at: sql<string>`clock_timestamp()`,
      ...(status === 'revoked' ? { generation: sql<number>`generation + 1` } : {}),
    })
    .where('owner', '=', owner)
    .where('client_id', '=', clientId)
    .returningAll()
    .executeTakeFirstOrThrow()
  await sql`
    UPDATE registry_pulls SET attempt = attempt + 1, tried_at = 'epoch', landed_at = NULL,
      failed_at = NULL, fault = NULL, conflicts = 0
    WHERE owner = ${owner} AND client_id = ${clientId}`.execute(tx)
  if (status === 'active' && decided.publishes) await dueNow(tx, owner, 'pull', clientId)
  return decided
}

/** A resource server as the owner sees it: its record, and how the last pull from it went. */
type LastPull = Pick<Selectable<RegistryPullsTable>, 'landed_at' | 'failed_at' | 'fault' | 'conflicts'>

export type ListedResourceServer = ResourceServerRow & { [Column in keyof LastPull]: LastPull[Column] | null }

/** The owner's resource servers after the given client_id, by client_id; or the one named. */
export async function listResourceServers(
  db: Db,
  owner: Owner,
  page: KeyPage | { client_id: ClientId },
): Promise<ListedResourceServer[]> {
  const where =
    'client_id' in page
      ? sql`rs.client_id = ${page.client_id}`
      : sql`rs.client_id > ${page.after ?? ''} ORDER BY rs.client_id LIMIT ${page.limit}`
  const { rows } = await sql<ListedResourceServer>`
    SELECT ${RECORD}, p.landed_at, p.failed_at, p.fault, p.conflicts
    FROM resource_servers rs
    LEFT JOIN registry_pulls p ON p.owner = rs.owner AND p.client_id = rs.client_id
    WHERE rs.owner = ${owner} AND ${ON_RECORD} AND ${where}`.execute(db)
  return rows
}
