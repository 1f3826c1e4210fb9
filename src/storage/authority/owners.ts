/**
 * Owners, their routing tags, the device keys they enrolled, and signatures accepted once.
 * Contract: "Authentication" (owner at the owner API).
 */
import { sql, type Selectable } from 'kysely'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { prepared } from '../core/database.ts'
import type { Database, Db, Tx } from './database.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import type { DeviceKeysTable, OwnersTable } from './tables.ts'

export type OwnerRow = Pick<Selectable<OwnersTable>, 'owner' | 'tag'>

export type DeviceKeyRow = Selectable<DeviceKeysTable>

/**
 * Makes an owner with her routing tag; does nothing where she exists. @returns whether she was made.
 * @throws Error where her name is a namespace of another owner: resource ids below it are that owner's.
 */
export async function insertOwner(tx: Tx, row: OwnerRow): Promise<boolean> {
  const made = await tx
    .insertInto('owners')
    .values(row)
    .onConflict(conflict => conflict.column('owner').doNothing())
    .executeTakeFirst()
  if (made.numInsertedOrUpdatedRows === 0n) return false
  const holder = await holdName(tx, row.owner, row.owner)
  if (holder !== row.owner)
    throw new Error(`The owner ${row.owner} cannot be made: her name is a namespace of ${holder}.`)
  await tx.insertInto('queues').values({ owner: row.owner }).execute()
  await tx.insertInto('directory').values({ kind: 'tag', key: row.tag, owner: row.owner }).execute()
  await tx.insertInto('due').values({ owner: row.owner, kind: 'sweep' }).execute()
  return true
}

/** Whose a name in resource ids is: of the first owner who asked for it, for ever. */
async function holdName(tx: Tx, owner: Owner, name: string): Promise<Owner> {
  const { rows } = await sql<{ owner: Owner }>`
    INSERT INTO directory (kind, key, owner) VALUES ('name', ${name}, ${owner})
    -- Changes nothing, and so answers whose it is where somebody else was first.
    ON CONFLICT (kind, key) DO UPDATE SET owner = directory.owner RETURNING owner`.execute(tx)
  return rows[0]!.owner
}

/**
 * Gives the owner a namespace: resource ids of hers may stand below it, as below her name. It is never taken
 * back.
 * @returns whose it is: another owner's where it is her name, or a namespace of hers.
 */
export async function insertNamespace(tx: Tx, owner: Owner, namespace: string): Promise<Owner> {
  const holder = await holdName(tx, owner, namespace)
  if (holder === owner)
    await tx
      .insertInto('namespaces')
      .values({ owner, namespace })
      .onConflict(conflict => conflict.doNothing())
      .execute()
  return holder
}

/** The owner's row, or undefined where this authority does not serve her. */
export function readOwner(db: Db, owner: Owner): Promise<OwnerRow | undefined> {
  return db.selectFrom('owners').select(['owner', 'tag']).where('owner', '=', owner).executeTakeFirst()
}

/** The owners served here after the given name, by name. */
export function listOwners(db: Db, page: { after?: string | undefined; limit: number }): Promise<OwnerRow[]> {
  return db
    .selectFrom('owners')
    .select(['owner', 'tag'])
    .where('owner', '>', asOwner(page.after ?? ''))
    .orderBy('owner')
    .limit(page.limit)
    .execute()
}

const OWNER_OF = prepared<{ owner: Owner }>(
  'owner-of',
  'SELECT owner FROM directory WHERE kind = $1 AND key = $2',
)

/** Whose a ticket tag, a device key (by kid) or a login is; undefined where nobody's. */
export async function ownerOf(
  db: Db,
  kind: 'tag' | 'device_key' | 'login',
  key: string,
): Promise<Owner | undefined> {
  const { rows } = await OWNER_OF(db, [kind, key])
  return rows[0]?.owner
}

const TAGS_KEPT_MAX = 10_000
const ownersByTag = new WeakMap<Database, BoundedMap<string, Owner>>()

/**
 * Whose a ticket tag is; undefined where nobody's. A tag is made with its owner and never changes hands, so
 * what was once found is kept; that there is none is asked anew each time. It says where to look, and nothing
 * of what stands there.
 */
export async function ownerOfTag(database: Database, tag: string): Promise<Owner | undefined> {
  const kept = ownersByTag.get(database) ?? new BoundedMap<string, Owner>(TAGS_KEPT_MAX)
  ownersByTag.set(database, kept)
  const known = kept.get(tag)
  if (known !== undefined) return known
  const owner = await ownerOf(database.db, 'tag', tag)
  if (owner === undefined) return undefined
  kept.set(tag, owner)
  return owner
}

/**
 * Enrols a device key. One key belongs to one owner for ever.
 * @returns false where the key is already enrolled, hers or another's (alike, so that nothing is told).
 */
export async function insertDeviceKey(
  tx: Tx,
  key: { owner: Owner; kid: string; jwk: object; name: string },
): Promise<boolean> {
  const claimed = await tx
    .insertInto('directory')
    .values({ kind: 'device_key', key: key.kid, owner: key.owner })
    .onConflict(conflict => conflict.columns(['kind', 'key']).doNothing())
    .executeTakeFirst()
  if (claimed.numInsertedOrUpdatedRows === 0n) return false
  await tx
    .insertInto('device_keys')
    .values({ ...key, jwk: JSON.stringify(key.jwk) })
    .execute()
  return true
}

/** A device key by its kid (thumbprint), whoever's it is and whether or not revoked; undefined if unknown. */
export async function readDeviceKey(db: Db, kid: string): Promise<DeviceKeyRow | undefined> {
  const owner = await ownerOf(db, 'device_key', kid)
  if (owner === undefined) return undefined
  return db
    .selectFrom('device_keys')
    .selectAll()
    .where('owner', '=', owner)
    .where('kid', '=', kid)
    .executeTakeFirst()
}

/** The owner's device keys, by kid, revoked ones too. */
export function listDeviceKeys(
  db: Db,
  owner: Owner,
  page: { after?: string | undefined; limit: number },
): Promise<DeviceKeyRow[]> {
  return db
    .selectFrom('device_keys')
    .selectAll()
    .where('owner', '=', owner)
    .where('kid', '>', page.after ?? '')
    .orderBy('kid')
    .limit(page.limit)
    .execute()
}

/** Revokes a device key. @returns whether a key in force was revoked by this call. */
export async function revokeDeviceKey(tx: Tx, owner: Owner, kid: string): Promise<boolean> {
  const done = await tx
    .updateTable('device_keys')
    .set({ revoked_at: sql<string>`now()` })
    .where('owner', '=', owner)
    .where('kid', '=', kid)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return done.numUpdatedRows > 0n
}

/** The kids of the owner's device keys in force that she calls so, in order. */
export async function deviceKeysNamed(db: Db, owner: Owner, name: string): Promise<string[]> {
  const rows = await db
    .selectFrom('device_keys')
    .select('kid')
    .where('owner', '=', owner)
    .where('name', '=', name)
    .where('revoked_at', 'is', null)
    .orderBy('kid')
    .execute()
  return rows.map(({ kid }) => kid)
}

/**
 * Remembers the digest of a signature that is about to change something, in that change's transaction.
 * @param keptSeconds how long it is kept: until the signature's window has passed.
 * @returns false where it was presented before: the request must be refused and nothing changed.
 */
export async function spendSignature(
  tx: Tx,
  owner: Owner,
  digest: Buffer,
  keptSeconds: number,
): Promise<boolean> {
  const inserted = await sql`
    INSERT INTO spent_signatures (owner, digest, expires_at)
    VALUES (${owner}, ${digest}, now() + ${keptSeconds} * interval '1 second')
    ON CONFLICT DO NOTHING`.execute(tx)
  return inserted.numAffectedRows === 1n
}

/**
 * Marks an item of the provisioning file as applied. @returns false where it was applied before: then it
 * must not be made again, whatever the owner has done to it since.
 */
export async function claimProvisioned(tx: Tx, owner: Owner, kind: string, item: string): Promise<boolean> {
  const claimed = await tx
    .insertInto('provisioned')
    .values({ owner, kind, item })
    .onConflict(conflict => conflict.doNothing())
    .executeTakeFirst()
  return claimed.numInsertedOrUpdatedRows === 1n
}

/**
 * Which of these items were not marked as applied, by their places in the list: of many owners at once, as a
 * start with a large file asks.
 */
export async function listUnprovisioned(
  db: Db,
  items: readonly { owner: Owner; kind: string; item: string }[],
): Promise<number[]> {
  const { rows } = await sql<{ place: number }>`
    SELECT asked.place::int - 1 AS place
    FROM unnest(${items.map(({ owner }) => owner)}::text[], ${items.map(({ kind }) => kind)}::text[],
      ${items.map(({ item }) => item)}::text[]) WITH ORDINALITY AS asked(owner, kind, item, place)
    LEFT JOIN provisioned p ON p.owner = asked.owner AND p.kind = asked.kind AND p.item = asked.item
    WHERE p.owner IS NULL ORDER BY asked.place`.execute(db)
  return rows.map(({ place }) => place)
}

/** Locks the owner's queue row: the head of the lock order (queue, operator, parent, child by handle). */
export async function lockQueue(tx: Tx, owner: Owner): Promise<void> {
  await sql`SELECT 1 FROM queues WHERE owner = ${owner} FOR UPDATE`.execute(tx)
}
