/**
 * Calls that enforcement points let through: each is stored once, and co-holders can read them. Contract:
 * "Protection API" (/audit/access), "Tally for a jointly held resource".
 */
import { sql } from 'kysely'
import type { ClientId, Family, Owner } from '../../wire/identifiers.ts'
import type { JointAccess } from '../../wire/documents/joint-accesses.ts'
import type { Db } from './database.ts'

export interface TallyAccess {
  /** The same for the same call, however often it is reported. */
  key: string
  family: Family
  jti: string | undefined
  tool: string
  summary: string | undefined
  /** Seconds since the epoch. */
  at: number
}

/**
 * Stores the calls that are not known yet, in one statement. @returns the outcome of each, in order;
 * `unknown` if it names no grant that was made for this resource server.
 */
export async function recordAccesses(
  db: Db,
  { account, client_id }: { account: Owner; client_id: ClientId },
  accesses: readonly TallyAccess[],
): Promise<('recorded' | 'known' | 'unknown')[]> {
  const each = <T>(read: (access: TallyAccess) => T): T[] => accesses.map(read)
  // Which of several of one key was recorded is found here: Postgres takes each part of this statement for
  // one row, and would compare all with all.
  const { rows } = await sql<{ place: number | null; key: string }>`
    WITH reported AS (
      SELECT * FROM unnest(${each(({ key }) => key)}::text[], ${each(({ family }) => family)}::text[],
        ${each(({ jti }) => jti ?? null)}::text[], ${each(({ tool }) => storable(tool))}::text[],
        ${each(({ summary }) => storable(summary ?? null))}::text[], ${each(({ at }) => at)}::float8[])
        WITH ORDINALITY AS r (key, family, jti, tool, summary, at, place)),
    used AS (
      SELECT r.*, g.jti AS of, g.resource_id, g.claims->>'sub' AS handle FROM reported r
      JOIN grants g ON g.account = ${account} AND g.family = r.family AND g.client_id = ${client_id}
        AND g.jti = coalesce(r.jti, g.jti)),
    kept AS (
      INSERT INTO accesses (account, client_id, key, family, jti, tool, summary, at, resource_id, handle)
      SELECT ${account}, ${client_id}, key, family, of, tool, summary, to_timestamp(at), resource_id, handle
      FROM used ORDER BY place
      ON CONFLICT (account, client_id, key) DO NOTHING RETURNING key)
    SELECT place::int AS place, key FROM used UNION ALL SELECT NULL, key FROM kept`.execute(db)
  const storedKeys = new Set(rows.flatMap(({ place, key }) => (place === null ? [key] : [])))
  const named = new Set(rows.flatMap(({ place }) => place ?? []))
  return accesses.map(({ key }, at) => {
    if (!named.has(at + 1)) return 'unknown'
    return storedKeys.delete(key) ? 'recorded' : 'known'
  })
}

/** Calls on an account that were reported before that one (0 means all), the newest first. */
export async function listAccesses(
  db: Db,
  account: Owner,
  { before, limit }: { before: number; limit: number },
): Promise<JointAccess[]> {
  const { rows } = await sql<JointAccess>`
    SELECT n::float8 AS n, at, client_id, resource_id, handle AS agent, family, tool, summary FROM accesses
    WHERE account = ${account} AND (${before}::bigint = 0 OR n < ${before}::bigint)
    ORDER BY n DESC LIMIT ${limit}`.execute(db)
  return rows
}

/**
 * Text without NUL, which no column holds. A call that was let through is told, whatever it was called, and
 * one odd report takes none of the others with it.
 */
function storable<T extends string | null>(text: T): T {
  return (text?.replaceAll('\0', '\ufffd') ?? null) as T
}
