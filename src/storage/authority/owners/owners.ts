/**
 * Owners, their routing tags, who has which name, and signatures that are accepted once. Contract:
 * "Authentication" (owner at the owner API).
 */
import { sql, type Selectable } from 'kysely'
import { BoundedMap } from '../../../limits/bounded-map.ts'
import type { KeyPage } from '../../core/columns.ts'
import { prepared } from '../../core/database.ts'
import type { Db, Pools, Tx } from '../database.ts'
import { asOwner, type Owner } from '../../../wire/identifiers.ts'
import type { OwnersTable } from '../tables.ts'

export type OwnerRow = Pick<Selectable<OwnersTable>, 'owner' | 'tag'>

/**
 * Makes an owner with her routing tag; does nothing if she exists. @returns whether she was made.
 * @throws NameConflict if her name is a namespace of another owner, who owns the resource ids below it, and
 * if it was the name or a namespace of a removed owner.
 */
export async function insertOwner(tx: Tx, row: OwnerRow): Promise<boolean> {
  const made = await tx
    .insertInto('owners')
    .values(row)
    .onConflict(conflict => conflict.column('owner').doNothing())
    .executeTakeFirst()
  if (made.numInsertedOrUpdatedRows === 0n) return false
  if (await isRetiredName(tx, row.owner)) throw new NameConflict(row.owner, NOBODY)
  const holder = await holdName(tx, row.owner, row.owner)
  if (holder !== row.owner) throw new NameConflict(row.owner, holder)
  await tx.insertInto('queues').values({ owner: row.owner }).execute()
  await tx.insertInto('directory').values({ kind: 'tag', key: row.tag, owner: row.owner }).execute()
  await tx.insertInto('due').values({ owner: row.owner, kind: 'sweep' }).execute()
  return true
}

/** The holder of removed owners' names in the directory: nobody, for ever. */
export const NOBODY = asOwner('')

/** A name that no owner may be given. */
export class NameConflict extends Error {
  override readonly name = 'NameConflict'
  constructor(owner: Owner, holder: Owner) {
    super(
      holder === NOBODY
        ? `The owner ${owner} cannot be made: the name was a removed owner's, or is one's in another cell, and is never given again.`
        : `The owner ${owner} cannot be made: her name is a namespace of ${holder}.`,
    )
  }
}

/**
 * Whether it is a removed owner's name, ignoring case, because gateways fold the case of paths with names;
 * or the name of an owner who was moved to another cell.
 */
async function isRetiredName(tx: Tx, name: string): Promise<boolean> {
  const { rows } = await sql`
    SELECT FROM directory WHERE kind = 'name' AND owner = '' AND lower(key) = lower(${name})
    UNION ALL SELECT FROM moves WHERE owner = ${name} AND state <> 'here' LIMIT 1`.execute(tx)
  return rows.length === 1
}

/** The owner of a name in resource ids: the first owner who asked for it, for ever. */
async function holdName(tx: Tx, owner: Owner, name: string): Promise<Owner> {
  const { rows } = await sql<{ owner: Owner }>`
    INSERT INTO directory (kind, key, owner) VALUES ('name', ${name}, ${owner})
    -- Changes nothing, and so answers whose it is where somebody else was first.
    ON CONFLICT (kind, key) DO UPDATE SET owner = directory.owner RETURNING owner`.execute(tx)
  return rows[0]!.owner
}

/**
 * Gives the owner a namespace: her resource ids may begin with it, as with her name. It is never taken back.
 * @returns the owner that has it: another owner, if it is her name or one of her namespaces.
 */
export async function insertNamespace(tx: Tx, owner: Owner, namespace: string): Promise<Owner> {
  if (await isRetiredName(tx, namespace)) return NOBODY
  const holder = await holdName(tx, owner, namespace)
  if (holder === owner)
    await tx
      .insertInto('namespaces')
      .values({ owner, namespace })
      .onConflict(conflict => conflict.doNothing())
      .execute()
  return holder
}

/** The owner's row, or undefined if this authority does not serve her, or no longer does. */
export function readOwner(db: Db, owner: Owner): Promise<OwnerRow | undefined> {
  return db.selectFrom('owners').select(['owner', 'tag']).where('owner', '=', owner).executeTakeFirst()
}

/** Whether access to her resources may be granted: she is served here, and nobody has suspended her. */
export async function isOpen(db: Db, owner: Owner): Promise<boolean> {
  const { rows } = await sql`SELECT FROM owners WHERE owner = ${owner} AND suspended_at IS NULL`.execute(db)
  return rows.length === 1
}

/** The owners served here after the given name, by name. */
export function listOwners(db: Db, page: KeyPage): Promise<OwnerRow[]> {
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

/** The owner of a ticket tag, a device key (by kid), a passkey (by id) or a login; undefined if nobody's. */
export async function ownerOf(
  db: Db,
  kind: 'tag' | 'device_key' | 'login' | 'passkey',
  key: string,
): Promise<Owner | undefined> {
  const { rows } = await OWNER_OF(db, [kind, key])
  return rows[0]?.owner
}

const TAGS_KEPT_MAX = 10_000
const ownersByTag = new WeakMap<Pools, BoundedMap<string, Owner>>()

/**
 * The owner of a ticket tag; undefined if there is none. A tag is made with its owner and never changes
 * hands, so a found owner is cached; a missing one is looked up again each time. The tag only says where to
 * look.
 */
export async function ownerOfTag(database: Pools, tag: string): Promise<Owner | undefined> {
  const tags = ownersByTag.get(database) ?? new BoundedMap<string, Owner>(TAGS_KEPT_MAX)
  ownersByTag.set(database, tags)
  const known = tags.get(tag)
  if (known !== undefined) return known
  const owner = await ownerOf(database.ofNobody, 'tag', tag)
  if (owner === undefined) return undefined
  tags.set(tag, owner)
  return owner
}

/**
 * Remembers the digest of a signature that is about to change something, in that change's transaction.
 * @param retentionSeconds how long it is kept: until the window of the signature has passed.
 * @returns false if it was presented before: the request must be refused and nothing changed.
 */
export async function spendSignature(
  tx: Tx,
  owner: Owner,
  digest: Buffer,
  retentionSeconds: number,
): Promise<boolean> {
  const inserted = await sql`
    INSERT INTO spent_signatures (owner, digest, expires_at)
    VALUES (${owner}, ${digest}, now() + ${retentionSeconds} * interval '1 second')
    ON CONFLICT DO NOTHING`.execute(tx)
  return inserted.numAffectedRows === 1n
}

/** How many were spent for as long as `keptSeconds` within the last hour; counted to `countTo`. */
export async function countSpentWithinHour(
  tx: Tx,
  owner: Owner,
  { retentionSeconds, countTo }: { retentionSeconds: number; countTo: number },
): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    SELECT count(*)::int AS spent FROM (
      SELECT FROM spent_signatures WHERE owner = ${owner}
        AND expires_at > now() + ${retentionSeconds} * interval '1 second' - interval '1 hour' LIMIT ${countTo}) found`.execute(
    tx,
  )
  return rows[0]!.spent
}

/**
 * Marks an item of the provisioning file as applied. @returns false if it was applied before: then it
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
 * Which of these items were not marked as applied, by their places in the list. It handles many owners at
 * once, for a start with a large file.
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

/**
 * Locks the owner's queue row, the first in the lock order (queue, membership, operator, parent, child by
 * handle).
 */
export async function lockQueue(tx: Tx, owner: Owner): Promise<void> {
  await sql`SELECT 1 FROM queues WHERE owner = ${owner} FOR UPDATE`.execute(tx)
}
