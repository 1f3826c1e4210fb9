/**
 * Allowed calls, as enforcement points report them. Each is written to the ledger once, and updates the last
 * access of its connection. Contract: "Events" (row 2), "Protection API" (/audit/access).
 */
import { sql } from 'kysely'
import { announceOwner } from '../../core/after-commit.ts'
import { ASKED_FEW, ownedBy } from '../../core/batch.ts'
import { prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import type { ClientId, Family, Owner } from '../../../wire/identifiers.ts'

export interface ReportedCall {
  /**
   * What identifies the call (`touchKey`): a second report under the same key is the same call. Without a
   * key, every report is another call.
   */
  key: string | null
  /** The id of the grant that was used. */
  jti: string
  family: Family
  /** Members of the ledger entry besides the tier of the grant; snake_case, no token. */
  data: Record<string, unknown>
}

/**
 * The grants that these negotiations ended in, by family; the last one if an approval was collected twice.
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
 * The key of a reported call: run and number if it has them, because a report keeps them however often it is
 * sent and by any process; otherwise the report's own id, or null if it has none.
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
 * @returns how many were newly recorded, and the positions of the reports that name no grant of this owner
 * for this server.
 */
export async function recordTouches(
  tx: Tx,
  by: { owner: Owner; client_id: ClientId; aud: string },
  calls: readonly ReportedCall[],
): Promise<{ recorded: number; unknown: number[] }> {
  const { rows } = await RECORD(tx, [
    by.owner,
    by.client_id,
    by.aud,
    calls.map(({ jti }) => jti),
    calls.map(({ family }) => family),
    calls.map(({ key }) => key),
    calls.map(({ data }) => JSON.stringify(data)),
  ])
  announceOwner(tx, by.owner)
  return rows[0]!
}

const RECORD = prepared<{ recorded: number; unknown: number[] }>(
  'record-touches',
  `
    WITH asked AS (
      SELECT * FROM unnest($4::text[], $5::text[], $6::text[], $7::text[])
        WITH ORDINALITY AS r(jti, family, once_key, data, place)),
    known AS MATERIALIZED (
      -- Joined as text: JSON of others may hold what jsonb refuses.
      SELECT asked.place, asked.once_key,
        '{"tier":' || to_json(g.tier_id) || CASE asked.data WHEN '{}' THEN '}' ELSE ',' || substr(asked.data, 2) END AS data,
        -- One of hers alone under a clearance hangs on the membership, too, and its calls are nobody else's to know.
        g.family, g.handle, CASE WHEN g.org_handle_epoch IS NOT NULL THEN g.resource_id END AS resource_id
      FROM asked
      JOIN LATERAL (SELECT * FROM grants WHERE ${ownedBy('owner', '$1')} AND jti = asked.jti OFFSET 0) g
        ON g.family = asked.family AND g.client_id = $2 AND g.aud = $3
      WHERE ${ASKED_FEW}),
    made AS (
      INSERT INTO ledger (owner, kind, family, handle, data, once_key, resource_id)
      SELECT $1, 'touched', family, handle, data::json, once_key, resource_id FROM known ORDER BY place
      ON CONFLICT (owner, once_key) WHERE once_key IS NOT NULL DO NOTHING
      RETURNING handle),
    stale AS (
      SELECT c.owner, c.handle FROM connections c
      WHERE c.owner = $1 AND c.handle = ANY(ARRAY(SELECT handle FROM made))
        AND (c.last_access IS NULL OR c.last_access < now() - interval '1 minute')
      -- As what ends them locks them: who introduces before whom they introduced.
      ORDER BY c.introduced_by IS NOT NULL, c.handle FOR NO KEY UPDATE),
    touched AS (
      UPDATE connections c SET last_access = now() FROM stale
      WHERE c.owner = stale.owner AND c.handle = stale.handle)
    SELECT (SELECT count(*)::int FROM made) AS recorded,
      ARRAY(SELECT (place - 1)::int FROM asked WHERE place NOT IN (SELECT place FROM known) ORDER BY place)
        AS unknown`,
)

/** Whether any call is recorded under one of these keys (`touchKey`). */
export async function isTouched(tx: Tx, owner: Owner, keys: readonly (string | null)[]): Promise<boolean> {
  const { rows } = await sql<{ touched: boolean }>`
    SELECT EXISTS (SELECT 1 FROM ledger WHERE owner = ${owner} AND once_key = ANY(${keys}::text[])) AS touched`.execute(
    tx,
  )
  return rows[0]!.touched
}
