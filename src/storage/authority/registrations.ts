/**
 * Resource servers that register themselves, and what the owner decides about any of hers.
 * Contract: "Resource server registration".
 */
import { sql, type Selectable } from 'kysely'
import type { Db, Tx } from './database.ts'
import { dueNow } from './due.ts'
import { lockQueue } from './owners.ts'
import { readResourceServer, type ResourceServerRow } from './resources.ts'
import type { RegistryPullsTable, ResourceServerStatus } from './tables.ts'
import { asClientId, type ClientId, type Owner } from '../../wire/identifiers.ts'

/**
 * What a registration came to: `registered` waits for the owner from now on, `waiting` did already, `active` she has
 * approved; `provisioned` is one with a secret, which no registration touches; `full`: too many wait for her.
 */
export type Registered = 'registered' | 'waiting' | 'active' | 'provisioned' | 'full'

/**
 * Records that a resource server asks to serve an owner; its client_id is its resource_uri. One that waits keeps
 * the name it was first shown under; one that was withdrawn waits again. Takes the owner's queue lock.
 */
export async function registerResourceServer(
  tx: Tx,
  claim: { owner: Owner; resource_uri: string; name: string },
  pendingMax: number,
): Promise<Registered> {
  const { owner, resource_uri, name } = claim
  const client_id = asClientId(resource_uri)
  await lockQueue(tx, owner)
  const known = await readResourceServer(tx, owner, client_id)
  if (known?.auth === 'secret') return 'provisioned'
  if (known?.status === 'active') return 'active'
  if (known?.status === 'pending') return 'waiting'
  if ((await countPending(tx, owner)) >= pendingMax) return 'full'
  const asked = {
    name,
    status: 'pending' as const,
    decided_at: null,
    registered_at: sql<string>`now()`,
  }
  await tx
    .insertInto('resource_servers')
    .values({
      owner,
      client_id,
      resource_uri,
      auth: 'signature',
      secret_sha256: null,
      publishes: true,
      ...asked,
    })
    .onConflict(conflict => conflict.columns(['owner', 'client_id']).doUpdateSet(asked))
    .execute()
  return 'registered'
}

async function countPending(tx: Tx, owner: Owner): Promise<number> {
  const { n } = await tx
    .selectFrom('resource_servers')
    .select(sql<number>`count(*)::int`.as('n'))
    .where('owner', '=', owner)
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow()
  return n
}

/**
 * Writes the owner's decision. Withdrawing ends every PAT issued so far, for ever; approving makes the registry
 * forget how earlier pulls went, so that this server has landed nothing yet and a pull under way brings nothing.
 */
export async function decideResourceServer(
  tx: Tx,
  owner: Owner,
  clientId: ClientId,
  status: Exclude<ResourceServerStatus, 'pending'>,
): Promise<ResourceServerRow> {
  const decided = await tx
    .updateTable('resource_servers')
    .set({
      status,
      decided_at: sql<string>`now()`,
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
  page: { after?: string | undefined; limit: number } | { client_id: ClientId },
): Promise<ListedResourceServer[]> {
  const where =
    'client_id' in page
      ? sql`rs.client_id = ${page.client_id}`
      : sql`rs.client_id > ${page.after ?? ''} ORDER BY rs.client_id LIMIT ${page.limit}`
  const { rows } = await sql<ListedResourceServer>`
    SELECT rs.*, p.landed_at, p.failed_at, p.fault, p.conflicts
    FROM resource_servers rs
    LEFT JOIN registry_pulls p ON p.owner = rs.owner AND p.client_id = rs.client_id
    WHERE rs.owner = ${owner} AND ${where}`.execute(db)
  return rows
}
