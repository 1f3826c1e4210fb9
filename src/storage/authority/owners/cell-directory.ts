/**
 * The directory of all cells: in which Postgres cluster an owner is, and which owner a ticket tag, a device
 * key, a passkey or a login belongs to, in any cell. It is in the database of DATABASE_URL; for owners in
 * that database it is the directory that they have anyway. Contract: "What the service does" (many owners at
 * one authority).
 */
import { sql } from 'kysely'
import { prepared } from '../../core/database.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'
import type { DirectoryTable } from '../tables.ts'

/** An owner and her cell; null means the directory's own cell. */
export interface OwnerPlace {
  owner: Owner
  cell: string | null
}

const PLACED = prepared<OwnerPlace>(
  'placed',
  `SELECT d.owner, n.cell FROM directory d JOIN directory n ON n.kind = 'name' AND n.key = d.owner
    WHERE d.kind = $1 AND d.key = $2 AND d.owner <> ''`,
)

/**
 * The owner that this belongs to, and her cell; undefined if it is nobody's. A name may be one of her
 * namespaces.
 */
export async function placedBy(
  directory: Db,
  kind: DirectoryTable['kind'],
  key: string,
): Promise<OwnerPlace | undefined> {
  return (await PLACED(directory, [kind, key])).rows[0]
}

/** Those of these owners who are in another database than the directory's, with their cells. */
export async function placedElsewhere(
  directory: Db,
  owners: readonly string[],
): Promise<Map<string, string>> {
  const { rows } = await sql<{ owner: string; cell: string }>`
    SELECT owner, cell FROM directory
    WHERE kind = 'name' AND key = ANY(${[...owners]}::text[]) AND key = owner AND cell IS NOT NULL`.execute(
    directory,
  )
  return new Map(rows.map(({ owner, cell }) => [owner, cell]))
}

/** Owners of all cells, at most `limit`. */
export async function listPlaced(directory: Db, limit: number): Promise<Owner[]> {
  const { rows } = await sql<{ owner: Owner }>`
    SELECT owner FROM directory WHERE kind = 'tag' LIMIT ${limit}`.execute(directory)
  return rows.map(({ owner }) => owner)
}

/** The cells that have owners, besides the directory's own. */
export async function namedCells(directory: Db): Promise<string[]> {
  const { rows } = await sql<{ cell: string }>`
    SELECT DISTINCT cell FROM directory WHERE cell IS NOT NULL ORDER BY cell`.execute(directory)
  return rows.map(({ cell }) => cell)
}

/**
 * The owners who are in a cell (other than the directory's own) according to that cell, after the given one.
 */
export async function listHere(db: Db, page: { after: string; limit: number }): Promise<Owner[]> {
  const { rows } = await sql<{ owner: Owner }>`
    SELECT owner FROM moves WHERE state = 'here' AND owner > ${page.after}
    ORDER BY owner LIMIT ${page.limit}`.execute(db)
  return rows.map(({ owner }) => owner)
}

type DirectoryEntry = Pick<DirectoryTable, 'kind' | 'key' | 'owner'>

/**
 * Claims a device key, a passkey, a login or a namespace for an owner of another cell, before it is written
 * there, because each belongs to one owner in all cells. @returns the owner it belongs to.
 */
export async function claimIn(directory: Db, { kind, key, owner }: DirectoryEntry): Promise<Owner> {
  const { rows } = await sql<{ owner: Owner }>`
    INSERT INTO directory (kind, key, owner) VALUES (${kind}, ${key}, ${owner})
    -- Changes nothing, and so answers whose it is where somebody else was first.
    ON CONFLICT (kind, key) DO UPDATE SET owner = directory.owner RETURNING owner`.execute(directory)
  return rows[0]!.owner
}

/** Gives one back when it is no longer in her cell. */
export async function releaseIn(directory: Db, { kind, key, owner }: DirectoryEntry): Promise<void> {
  await sql`DELETE FROM directory WHERE kind = ${kind} AND key = ${key} AND owner = ${owner}`.execute(
    directory,
  )
}

/** Gives one to another owner. @returns false if it no longer belongs to its holder. */
export async function takeOverIn(
  directory: Db,
  { kind, key, owner }: DirectoryEntry,
  holder: Owner,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    UPDATE directory SET owner = ${owner} WHERE kind = ${kind} AND key = ${key} AND owner = ${holder}`.execute(
    directory,
  )
  return numAffectedRows === 1n
}

/** Gives back everything by which a removed owner of another cell was found; her names stay hers. */
export async function releaseAllIn(directory: Db, owner: Owner): Promise<void> {
  await sql`DELETE FROM directory WHERE owner = ${owner} AND kind <> 'name'`.execute(directory)
}
