/**
 * What an owner's records hold that is the operator's to say, by the provisioning file: how a resource server
 * proves itself, where its resource is, the names, and which server serves a resource. Contract:
 * "Authentication" (resource server at the token endpoint), "Policy vocabulary and tiers".
 */
import { sql } from 'kysely'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { dueNow } from '../due.ts'

/** A resource server, as the file has it. */
export interface ServerValues {
  owner: Owner
  client_id: ClientId
  name: string
  resource_uri: string
  secret_sha256: Buffer
}

/** A resource, as the file has it. */
export interface ResourceValues {
  owner: Owner
  resource_id: string
  client_id: ClientId
  name: string
}

/**
 * The owners of whom one of these is stored with other values. What is not stored, or does not come from the
 * file, is no difference.
 */
export async function listOutdated(
  db: Db,
  servers: readonly ServerValues[],
  resources: readonly ResourceValues[],
): Promise<Set<Owner>> {
  const { rows } = await sql<{ owner: Owner }>`
    SELECT s.owner FROM unnest(${servers.map(({ owner }) => owner)}::text[],
      ${servers.map(({ client_id }) => client_id)}::text[], ${servers.map(({ name }) => name)}::text[],
      ${servers.map(({ resource_uri }) => resource_uri)}::text[],
      ${servers.map(({ secret_sha256 }) => secret_sha256.toString('hex'))}::text[])
      AS file(owner, client_id, name, resource_uri, secret)
    JOIN resource_servers s USING (owner, client_id)
    WHERE s.auth = 'secret' AND (s.name, s.resource_uri, encode(s.secret_sha256, 'hex'))
      IS DISTINCT FROM (file.name, file.resource_uri, file.secret)
    UNION
    SELECT r.owner FROM unnest(${resources.map(({ owner }) => owner)}::text[],
      ${resources.map(({ resource_id }) => resource_id)}::text[],
      ${resources.map(({ client_id }) => client_id)}::text[], ${resources.map(({ name }) => name)}::text[])
      AS file(owner, resource_id, client_id, name)
    JOIN resources r USING (owner, resource_id)
    WHERE r.source = 'provisioned' AND (r.client_id, r.name) IS DISTINCT FROM (file.client_id, file.name)`.execute(
    db,
  )
  return new Set(rows.map(({ owner }) => owner))
}

/**
 * Takes over what the file says of a resource server that proves itself by a secret; one that registered
 * itself stays as it is. A secret that it replaces stays in force until the newer one was used. Whether the
 * owner let the server in is not touched. @returns the members that changed.
 */
export async function takeServerValues(
  tx: Tx,
  { owner, client_id, name, resource_uri, secret_sha256: secret }: ServerValues,
): Promise<string[]> {
  const row = await tx
    .selectFrom('resource_servers')
    .select(['name', 'resource_uri', 'secret_sha256', 'former_secret_sha256', 'status', 'publishes'])
    .where('owner', '=', owner)
    .where('client_id', '=', client_id)
    .where('auth', '=', 'secret')
    .forUpdate()
    .executeTakeFirst()
  if (row?.secret_sha256 == null) return []
  const moved = row.resource_uri !== resource_uri
  const isSame = (one: Buffer | null): boolean => one?.equals(secret) === true
  const changed = [
    ...(row.name === name ? [] : ['name']),
    ...(moved ? ['resource_uri'] : []),
    ...(isSame(row.secret_sha256) ? [] : ['secret']),
  ]
  if (changed.length === 0) return []
  const { secret_sha256: current, former_secret_sha256: former } = row
  // While nobody used the current one, the former is what the server has, and is the one that must go on.
  const inUse = former === null || isSame(former) ? current : former
  await tx
    .updateTable('resource_servers')
    .set({
      name,
      resource_uri,
      secret_sha256: secret,
      former_secret_sha256: isSame(current) ? former : inUse,
    })
    .where('owner', '=', owner)
    .where('client_id', '=', client_id)
    .execute()
  if (moved) {
    // A grant is for the resource at the address that it names, so grants for the former address end.
    endsLeases(tx, owner)
    if (row.status === 'active' && row.publishes) await dueNow(tx, owner, 'pull', client_id)
  }
  return changed
}

/**
 * Takes over what the file says of a resource that it declares; one that a listing names stays as the listing
 * has it. @returns the members that changed.
 */
export async function takeResourceValues(
  tx: Tx,
  { owner, resource_id, client_id, name }: ResourceValues,
): Promise<string[]> {
  const row = await tx
    .selectFrom('resources')
    .select(['client_id', 'name'])
    .where('owner', '=', owner)
    .where('resource_id', '=', resource_id)
    .where('source', '=', 'provisioned')
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) return []
  const changed = [
    ...(row.client_id === client_id ? [] : ['client_id']),
    ...(row.name === name ? [] : ['name']),
  ]
  if (changed.length === 0) return []
  await tx
    .updateTable('resources')
    .set({ client_id, name })
    .where('owner', '=', owner)
    .where('resource_id', '=', resource_id)
    .execute()
  return changed
}

/**
 * Ends the former secret of a resource server, after it used the newer one. @returns whether there was one.
 */
export async function endFormerSecret(
  db: Db,
  { owner, client_id, secret_sha256 }: Pick<ServerValues, 'owner' | 'client_id' | 'secret_sha256'>,
): Promise<boolean> {
  const ended = await db
    .updateTable('resource_servers')
    .set({ former_secret_sha256: null })
    .where('owner', '=', owner)
    .where('client_id', '=', client_id)
    .where('secret_sha256', '=', secret_sha256)
    .where('former_secret_sha256', 'is not', null)
    .executeTakeFirst()
  return ended.numUpdatedRows === 1n
}
