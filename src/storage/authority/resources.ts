/**
 * Resource servers and the resources they published.
 * Contract: "Resource server registration", "Registry materialization".
 */
import { sql, type Insertable, type Selectable } from 'kysely'
import type { Db, Tx } from './database.ts'
import { dueNow } from './due.ts'
import type { ResourceServersTable, ResourcesTable, TiersTable } from './tables.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'

export type ResourceServerRow = Selectable<ResourceServersTable>

export type ResourceRow = Selectable<ResourcesTable>

type NewResourceServer = Pick<
  ResourceServerRow,
  'owner' | 'client_id' | 'name' | 'resource_uri' | 'status' | 'auth' | 'secret_sha256'
> & { publishes?: boolean }

/** Adds a resource server; does nothing where its client_id is known to this owner. @returns whether added. */
export async function insertResourceServer(tx: Tx, row: NewResourceServer): Promise<boolean> {
  const made = await tx
    .insertInto('resource_servers')
    .values({ ...row, ...(row.status === 'pending' ? {} : { decided_at: sql<string>`now()` }) })
    .onConflict(conflict => conflict.columns(['owner', 'client_id']).doNothing())
    .executeTakeFirst()
  if (made.numInsertedOrUpdatedRows !== 1n) return false
  if (row.status === 'active' && row.publishes === true) await dueNow(tx, row.owner, 'pull', row.client_id)
  return true
}

/** The owner's record of one resource server, or undefined. */
export function readResourceServer(
  db: Db,
  owner: Owner,
  clientId: ClientId,
): Promise<ResourceServerRow | undefined> {
  return db
    .selectFrom('resource_servers')
    .selectAll()
    .where('owner', '=', owner)
    .where('client_id', '=', clientId)
    .executeTakeFirst()
}

/** Two at most of the owner's resource servers that registered themselves at an origin and are not withdrawn. */
export function readResourceServersAt(
  db: Db,
  owner: Owner,
  origin: string,
): Promise<readonly ResourceServerRow[]> {
  return db
    .selectFrom('resource_servers')
    .selectAll()
    .where('owner', '=', owner)
    .where('auth', '=', 'signature')
    .where('status', '<>', 'revoked')
    .where(sql<boolean>`(resource_uri = ${origin} OR starts_with(resource_uri, ${`${origin}/`}))`)
    .orderBy('client_id')
    .limit(2)
    .execute()
}

/** Notes that a PAT was issued, at most once a minute. */
export async function touchPatIssued(db: Db, owner: Owner, clientId: ClientId): Promise<void> {
  await sql`
    UPDATE resource_servers SET last_pat_issued = now()
    WHERE owner = ${owner} AND client_id = ${clientId}
      AND (last_pat_issued IS NULL OR last_pat_issued < now() - interval '1 minute')`.execute(db)
}

/** Adds a resource; does nothing where its id is taken. @returns whether added. */
export async function insertResource(tx: Tx, row: Insertable<ResourcesTable>): Promise<boolean> {
  const made = await tx
    .insertInto('resources')
    .values(row)
    .onConflict(conflict => conflict.columns(['owner', 'resource_id']).doNothing())
    .executeTakeFirst()
  return made.numInsertedOrUpdatedRows === 1n
}

/** What governs it is null where no tier does. */
export type GovernedResourceRow = Omit<ResourceRow, 'tools'> & {
  tier_id: TierColumns['tier_id'] | null
  tier_name: TierColumns['name'] | null
  ask_me: TierColumns['ask_me'] | null
}

type TierColumns = Selectable<TiersTable>

/** The owner's resources after the given id, joined with the tier that governs each. */
export async function listGovernedResources(
  db: Db,
  owner: Owner,
  page: { after?: string | undefined; limit: number },
): Promise<GovernedResourceRow[]> {
  const { rows } = await sql<GovernedResourceRow>`
    SELECT r.owner, r.resource_id, r.client_id, r.name, r.type, r.resource_scopes, r.consequence, r.source,
           t.tier_id, t.name AS tier_name, t.ask_me
    FROM resources r
    LEFT JOIN tier_resources tr ON tr.owner = r.owner AND tr.resource_id = r.resource_id
      AND tr.resource_id > ${page.after ?? ''}
    LEFT JOIN tiers t ON t.owner = tr.owner AND t.tier_id = tr.tier_id AND t.deleted_at IS NULL
    WHERE r.owner = ${owner} AND r.resource_id > ${page.after ?? ''}
    ORDER BY r.resource_id LIMIT ${page.limit}`.execute(db)
  return rows
}
