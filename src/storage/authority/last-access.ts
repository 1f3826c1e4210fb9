/**
 * Allowed calls, as enforcement points report them: each once in the ledger, and the connection touched.
 * Contract: "Events" (row 2), "Protection API" (/audit/access).
 */
import { sql } from 'kysely'
import { note } from '../core/after-commit.ts'
import type { Db, Tx } from './database.ts'
import type { ClientId, Family, Owner } from '../../wire/identifiers.ts'

export interface ReportedCall {
  /**
   * What makes it this call and no other (`touchKey`): a second report under it is the same call. Without one
   * every report is another call.
   */
  key: string | null
  /** Of the grant that was used. */
  jti: string
  family: Family
  /** Members of the ledger entry beside the tier of the grant; snake_case, no token. */
  data: Record<string, unknown>
}

/**
 * The grants that these negotiations ended in, by family; the last one where an approval was collected twice.
 */
export async function grantsOfFamilies(
  db: Db,
  owner: Owner,
  families: readonly Family[],
): Promise<ReadonlyMap<Family, string>> {
  if (families.length === 0) return new Map()
  const { rows } = await sql<{ family: Family; jti: string }>`
    SELECT family, jti FROM receipts WHERE owner = ${owner} AND family = ANY(${[...new Set(families)]})
    ORDER BY issued_at`.execute(db)
  return new Map(rows.map(({ family, jti }) => [family, jti]))
}

/**
 * The key of a reported call: by run and number where it has them, for these a report keeps however often it
 * is sent and by whomever; else by the report's own id, and null without one.
 */
export function touchKey(
  client_id: ClientId,
  { id, instance, n }: { id?: string | undefined; instance?: string | undefined; n?: number | undefined },
): string | null {
  if (instance !== undefined && n !== undefined) return `touched ${client_id} ${n} of ${instance}`
  return id === undefined ? null : `touched ${client_id} ${id}`
}

/**
 * Records calls reported by a resource server, in order, in one statement for all of them: there is one for
 * every call that any agent makes.
 * @returns how many were newly recorded, and the positions of those that name no grant of this owner for this
 * server.
 */
export async function recordTouches(
  tx: Tx,
  by: { owner: Owner; client_id: ClientId; aud: string },
  calls: readonly ReportedCall[],
): Promise<{ recorded: number; unknown: number[] }> {
  const { owner, client_id, aud } = by
  const { rows } = await sql<{ recorded: number; unknown: number[] }>`
    WITH reported AS (
      SELECT * FROM unnest(${calls.map(({ jti }) => jti)}::text[], ${calls.map(({ family }) => family)}::text[],
        ${calls.map(({ key }) => key)}::text[],
        ${calls.map(({ data }) => JSON.stringify(data))}::text[])
        WITH ORDINALITY AS r(jti, family, once_key, data, place)),
    known AS MATERIALIZED (
      -- Joined as text: JSON of others may hold what jsonb refuses.
      SELECT r.place, r.once_key, '{"tier":' || to_json(g.tier_id) || CASE r.data WHEN '{}' THEN '}' ELSE ',' || substr(r.data, 2) END AS data,
        g.family, g.handle
      FROM reported r
      JOIN grants g ON g.owner = ${owner} AND g.jti = r.jti AND g.family = r.family
        AND g.client_id = ${client_id} AND g.aud = ${aud}),
    made AS (
      INSERT INTO ledger (owner, kind, family, handle, data, once_key)
      SELECT ${owner}, 'touched', family, handle, data::json, once_key FROM known ORDER BY place
      ON CONFLICT (owner, once_key) WHERE once_key IS NOT NULL DO NOTHING
      RETURNING handle),
    stale AS (
      SELECT c.handle FROM connections c
      WHERE c.owner = ${owner} AND c.handle IN (SELECT handle FROM made)
        AND (c.last_access IS NULL OR c.last_access < now() - interval '1 minute')
      -- As what ends them locks them: who introduces before whom they introduced.
      ORDER BY c.introduced_by IS NOT NULL, c.handle FOR NO KEY UPDATE),
    touched AS (
      UPDATE connections c SET last_access = now() FROM stale
      WHERE c.owner = ${owner} AND c.handle = stale.handle)
    SELECT (SELECT count(*)::int FROM made) AS recorded,
      ARRAY(SELECT (place - 1)::int FROM reported WHERE place NOT IN (SELECT place FROM known) ORDER BY place)
        AS unknown`.execute(tx)
  note(tx, owner)
  return rows[0]!
}

/** Whether any call is recorded under one of these keys (`touchKey`). */
export async function isTouched(tx: Tx, owner: Owner, keys: readonly (string | null)[]): Promise<boolean> {
  const { rows } = await sql<{ touched: boolean }>`
    SELECT EXISTS (SELECT 1 FROM ledger WHERE owner = ${owner} AND once_key = ANY(${keys}::text[])) AS touched`.execute(
    tx,
  )
  return rows[0]!.touched
}
