/**
 * Resource servers and the resources they published.
 * Contract: "Resource server registration", "Registry materialization".
 */
import { sql, type Insertable, type RawBuilder, type Selectable } from 'kysely'
import { PENDING_SECONDS } from '../../../rules/registration.ts'
import type { Db, Tx } from '../database.ts'
import { dueNow } from '../due.ts'
import type { ResourceServersTable, ResourcesTable, TiersTable } from '../tables.ts'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'
import { inIndexOrder, ownedBy } from '../../core/batch.ts'
import type { KeyPage } from '../../core/columns.ts'

export type ResourceServerRow = Selectable<ResourceServersTable>

export type ResourceRow = Selectable<ResourcesTable>

type NewResourceServer = Pick<
  ResourceServerRow,
  'owner' | 'client_id' | 'name' | 'resource_uri' | 'status' | 'auth' | 'secret_sha256'
> & { publishes?: boolean; client_keys?: string | null }

/** When an undecided registration lapses. */
export const LAPSES_AT = sql<string>`registered_at + ${PENDING_SECONDS} * interval '1 second'`

/**
 * The registration has waited as long as it may. This goes by the clock, whether or not it was swept: it is
 * neither listed nor counted, and nobody can decide about it.
 */
export const LAPSED = sql<boolean>`(status = 'pending' AND ${LAPSES_AT} <= clock_timestamp())`

/**
 * She withdrew it once, so when it lapses it is withdrawn again; one that was never more than a registration
 * disappears.
 */
export const WITHDRAWN_BEFORE = sql<boolean>`generation > 1`

/** The provisioning file says how it proves itself; it never registered. */
export const PROVISIONED = sql<boolean>`(auth = 'secret' OR client_keys IS NOT NULL)`

/** The record exists: this holds for all but those that never were more than a registration, and lapsed. */
export const ON_RECORD = sql<boolean>`(NOT ${LAPSED} OR ${WITHDRAWN_BEFORE})`

/** The columns of a record of `resource_servers rs`, with its present state. */
export const RECORD = sql`rs.owner, rs.client_id, name, resource_uri, auth, secret_sha256, former_secret_sha256, client_keys, former_keys,
  registered_at, last_pat_issued, generation, publishes, CASE WHEN ${LAPSED} THEN 'revoked' ELSE status END AS status,
  CASE WHEN ${LAPSED} THEN ${LAPSES_AT} ELSE decided_at END AS decided_at`

/** Its resource is at the origin. */
export function standsAt(origin: string): RawBuilder<boolean> {
  return sql<boolean>`(resource_uri = ${origin} OR starts_with(resource_uri, ${`${origin}/`}))`
}

/** Adds a resource server; does nothing if this owner knows its client_id. @returns whether it was added. */
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

/** The owner's record of one resource server, or undefined; a lapsed registration is no record. */
export async function readResourceServer(
  db: Db,
  owner: Owner,
  clientId: ClientId,
): Promise<ResourceServerRow | undefined> {
  const { rows } = await sql<ResourceServerRow>`
    SELECT ${RECORD} FROM resource_servers rs
    WHERE owner = ${owner} AND client_id = ${clientId} AND ${ON_RECORD}`.execute(db)
  return rows[0]
}

/**
 * At most two of the owner's resource servers that registered themselves at an origin and are not withdrawn.
 */
export function readResourceServersAt(
  db: Db,
  owner: Owner,
  origin: string,
): Promise<readonly ResourceServerRow[]> {
  return db
    .selectFrom('resource_servers')
    .selectAll()
    .where('owner', '=', owner)
    .where(sql<boolean>`NOT ${PROVISIONED}`)
    .where('status', '<>', 'revoked')
    .where(sql<boolean>`NOT ${LAPSED}`)
    .where(standsAt(origin))
    .orderBy('client_id')
    .limit(2)
    .execute()
}

/** Records that a PAT was issued, at most once a minute. */
export async function touchPatIssued(db: Db, owner: Owner, clientId: ClientId): Promise<void> {
  await sql`
    UPDATE resource_servers SET last_pat_issued = now()
    WHERE owner = ${owner} AND client_id = ${clientId}
      AND (last_pat_issued IS NULL OR last_pat_issued < now() - interval '1 minute')`.execute(db)
}

/** Adds a resource; does nothing if its id is taken. @returns whether it was added. */
export async function insertResource(tx: Tx, row: Insertable<ResourcesTable>): Promise<boolean> {
  const made = await tx
    .insertInto('resources')
    .values(row)
    .onConflict(conflict => conflict.columns(['owner', 'resource_id']).doNothing())
    .executeTakeFirst()
  return made.numInsertedOrUpdatedRows === 1n
}

/** Whether the resource accepts only approvals that the owner signed. */
export async function takesSignedOnly(db: Db, owner: Owner, resource_id: string): Promise<boolean> {
  const row = await db
    .selectFrom('resources')
    .select('approval')
    .where('owner', '=', owner)
    .where('resource_id', '=', resource_id)
    .executeTakeFirst()
  return row?.approval === 'signed'
}

/** The tier is null if none governs it. */
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
  page: KeyPage,
): Promise<GovernedResourceRow[]> {
  const read = sql<GovernedResourceRow>`
    SELECT r.owner, r.resource_id, r.client_id, r.name, r.type, r.resource_scopes, r.consequence, r.source, r.approval,
           t.tier_id, t.name AS tier_name, t.ask_me
    FROM resources r
    LEFT JOIN LATERAL (SELECT tier_id FROM tier_resources
      WHERE ${sql.raw(ownedBy('owner', 'r.owner'))} AND resource_id = r.resource_id OFFSET 0) tr ON true
    LEFT JOIN LATERAL (SELECT tier_id, name, ask_me FROM tiers
      WHERE ${sql.raw(ownedBy('owner', 'r.owner'))} AND tier_id = tr.tier_id AND deleted_at IS NULL OFFSET 0) t ON true
    WHERE r.owner = ${owner} AND r.resource_id > ${page.after ?? ''}
    ORDER BY r.resource_id LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}
