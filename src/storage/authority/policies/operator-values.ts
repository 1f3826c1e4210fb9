/**
 * What an owner's records hold that is the operator's to say, by the provisioning file: how a resource server
 * proves itself, where its resource is, the names, and which server serves a resource. Contract:
 * "Authentication" (resource server at the token endpoint), "Policy vocabulary and tiers".
 */
import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'
import type { PublicJwk } from '../../../wire/signatures/keys.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { dueNow } from '../due.ts'
import { PROVISIONED } from '../registry/resources.ts'

/** A resource server, as the file has it: it proves itself by a secret, or else by one of `client_keys`. */
export interface ServerValues {
  owner: Owner
  client_id: ClientId
  name: string
  resource_uri: string
  secret_sha256: Buffer | null
  client_keys?: readonly PublicJwk[] | null | undefined
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
      ${servers.map(({ secret_sha256 }) => secret_sha256?.toString('hex') ?? null)}::text[],
      ${servers.map(({ client_keys }) => keysColumn(client_keys))}::text[])
      AS file(owner, client_id, name, resource_uri, secret, keys)
    JOIN resource_servers s USING (owner, client_id)
    WHERE (s.auth = 'secret' OR s.client_keys IS NOT NULL)
      AND (s.name, s.resource_uri, encode(s.secret_sha256, 'hex'), s.client_keys)
      IS DISTINCT FROM (file.name, file.resource_uri, file.secret, file.keys::jsonb)
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

/** How keys are written into their column, in which there is never an empty list. */
export function keysColumn(keys: readonly PublicJwk[] | null | undefined): string | null {
  return keys == null || keys.length === 0 ? null : JSON.stringify(keys)
}

/** A member with its former value and its new one, if they differ. For what is no secret. */
function changeOf(member: string, before: string, now: string): string[] {
  return before === now ? [] : [`${member} (${JSON.stringify(before)} → ${JSON.stringify(now)})`]
}

/** What proves a server: a secret, or keys. */
interface StoredProof {
  secret: Buffer | null
  keys: readonly PublicJwk[]
}

/** What of a proof is not in the next one; undefined if that is nothing. */
function leftOf(proof: StoredProof, next: StoredProof): StoredProof | undefined {
  const isSame = proof.secret !== null && next.secret?.equals(proof.secret) === true
  const secret = isSame ? null : proof.secret
  const keys = proof.keys.filter(key => !next.keys.some(one => isDeepStrictEqual(one, key)))
  return secret === null && keys.length === 0 ? undefined : { secret, keys }
}

/**
 * Takes over what the file says of a resource server that the file declared; one that registered itself stays
 * as it is. A secret or keys that it replaces stay in force until what takes their place was used. Whether
 * the owner let the server in is not touched. @returns the members that changed, with both values unless they
 * prove the server.
 */
export async function takeServerValues(
  tx: Tx,
  { owner, client_id, name, resource_uri, secret_sha256: secret, client_keys }: ServerValues,
): Promise<string[]> {
  const row = await tx
    .selectFrom('resource_servers')
    .select(['name', 'resource_uri', 'secret_sha256', 'former_secret_sha256', 'client_keys', 'former_keys'])
    .select(['status', 'publishes'])
    .where('owner', '=', owner)
    .where('client_id', '=', client_id)
    .where(PROVISIONED)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) return []
  const moved = row.resource_uri !== resource_uri
  const next = { secret, keys: client_keys ?? [] }
  const current = { secret: row.secret_sha256, keys: row.client_keys ?? [] }
  const changed = [
    ...changeOf('name', row.name, name),
    ...changeOf('resource_uri', row.resource_uri, resource_uri),
    ...(secret === null || current.secret?.equals(secret) === true ? [] : ['secret']),
    ...(secret !== null || isDeepStrictEqual(current.keys, next.keys) ? [] : ['jwks']),
  ]
  if (changed.length === 0) return []
  // While nobody used the current one, the former is what the server has, and is the one that must go on.
  const before = { secret: row.former_secret_sha256, keys: row.former_keys ?? [] }
  const former = leftOf(before, next) ?? leftOf(current, next)
  await tx
    .updateTable('resource_servers')
    .set({
      name,
      resource_uri,
      auth: secret === null ? 'signature' : 'secret',
      secret_sha256: secret,
      client_keys: keysColumn(next.keys),
      former_secret_sha256: former?.secret ?? null,
      former_keys: keysColumn(former?.keys),
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
 * has it. @returns the members that changed, with both values.
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
  const changed = [...changeOf('client_id', row.client_id, client_id), ...changeOf('name', row.name, name)]
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
 * Ends the former secret or keys of a resource server, after it proved itself by what is on record now.
 * @returns whether there were any.
 */
export async function endFormerProof(
  db: Db,
  { owner, client_id, secret_sha256, client_keys }: Omit<ServerValues, 'name' | 'resource_uri'>,
): Promise<boolean> {
  const ended = await db
    .updateTable('resource_servers')
    .set({ former_secret_sha256: null, former_keys: null })
    .where('owner', '=', owner)
    .where('client_id', '=', client_id)
    .where(sql<boolean>`secret_sha256 IS NOT DISTINCT FROM ${secret_sha256}`)
    .where(sql<boolean>`client_keys IS NOT DISTINCT FROM ${keysColumn(client_keys)}::jsonb`)
    .where(sql<boolean>`(former_secret_sha256 IS NOT NULL OR former_keys IS NOT NULL)`)
    .executeTakeFirst()
  return ended.numUpdatedRows === 1n
}
