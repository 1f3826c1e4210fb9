/**
 * Gives shares of allowances back: of grants that expired unspent, and of no others. Contract: "Policy
 * vocabulary and tiers", "Single-use grant"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import { ASKED_FEW, ownedBy } from '../../core/batch.ts'
import { inTransaction, prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import type { DueClaim } from '../due.ts'
import { isNamedPlace } from './allowance-windows.ts'

/** Most places of one call: their windows are locked together. */
export const RETURNS_MAX = 100

/**
 * Finds what expired in the places that came due, and locks the windows that it was taken from, in the order
 * of their key, before anything else is read of them.
 */
const LOCK = prepared<{ rpt_sha256: Buffer }>(
  'lock-returned-windows',
  `WITH expired AS MATERIALIZED (
      SELECT h.* FROM unnest($2::text[]) WITH ORDINALITY AS asked(name, place)
      JOIN LATERAL (SELECT * FROM allowance_held h WHERE ${isNamedPlace('asked.name')} OFFSET 0) h ON true
      WHERE ${ASKED_FEW} AND h.expires_at <= clock_timestamp()),
    windows AS MATERIALIZED (
      SELECT DISTINCT e.allowance, e.whose, s.of, s.per, s.start
      FROM expired e CROSS JOIN LATERAL json_to_recordset(e.shares) AS s(of text, per text, start timestamptz)),
    locked AS MATERIALIZED (
      SELECT w.start FROM allowance_windows w JOIN windows s ON w.owner = $1 AND w.allowance = s.allowance
        AND w.whose = s.whose AND w.of = s.of AND w.per = s.per AND w.start = s.start
      ORDER BY w.allowance, w.whose, w.of, w.per, w.start FOR NO KEY UPDATE OF w)
    SELECT rpt_sha256 FROM expired WHERE (SELECT count(*) FROM locked) >= 0`,
)

/**
 * Begun once the windows are locked. A grant is taken back only where nobody has spent it or taken it back,
 * which is proved on its row, and its share is what that row's update answers for. The place of a grant that
 * was spent, or is no more, is given up as well; one that is being spent just now comes due again.
 */
const RETURN = prepared<{ returned: number }>(
  'return-shares',
  `WITH asked AS (
      SELECT rpt_sha256 FROM unnest($2::bytea[]) WITH ORDINALITY AS asked(rpt_sha256, place) WHERE ${ASKED_FEW}),
    expired AS MATERIALIZED (
      SELECT h.* FROM asked JOIN LATERAL (SELECT * FROM allowance_held
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 OFFSET 0) h ON true),
    back AS (
      UPDATE grants g SET returned_at = clock_timestamp() FROM asked a
      WHERE ${ownedBy('g.owner', '$1')} AND g.rpt_sha256 = a.rpt_sha256
        AND g.consumed_at IS NULL AND g.returned_at IS NULL AND g.expires_at <= clock_timestamp()
      RETURNING g.rpt_sha256),
    lowered AS (
      UPDATE allowance_windows w SET used = w.used - s.amount
      FROM (SELECT e.allowance, e.whose, s.of, s.per, s.start, sum(s.amount) AS amount
        FROM back JOIN expired e ON e.rpt_sha256 = back.rpt_sha256
        CROSS JOIN LATERAL json_to_recordset(e.shares) AS s(of text, per text, start timestamptz, amount numeric)
        GROUP BY 1, 2, 3, 4, 5) s
      WHERE w.owner = $1 AND w.allowance = s.allowance AND w.whose = s.whose AND w.of = s.of AND w.per = s.per
        AND w.start = s.start),
    left_over AS (
      SELECT e.rpt_sha256 FROM expired e WHERE NOT EXISTS (SELECT FROM grants g
        WHERE ${ownedBy('g.owner', '$1')} AND g.rpt_sha256 = e.rpt_sha256
          AND g.consumed_at IS NULL AND g.returned_at IS NULL)),
    given_up AS (
      DELETE FROM allowance_held h USING (TABLE back UNION TABLE left_over) gone
      WHERE ${ownedBy('h.owner', '$1')} AND h.rpt_sha256 = gone.rpt_sha256)
    SELECT count(*)::int AS returned FROM back`,
)

/** Where nothing is left, nothing comes due any more; otherwise it does when the claim has passed. */
const FORGET = prepared(
  'forget-returns',
  `DELETE FROM due d USING unnest($2::text[], $3::timestamptz[]) AS claim(name, until)
    WHERE d.owner = $1 AND d.kind = 'allowance' AND d.client_id = claim.name AND d.at = claim.until
      AND NOT EXISTS (SELECT FROM allowance_held h WHERE ${isNamedPlace('d.client_id')})`,
)

/**
 * Gives back what expired unspent in the places of one owner that came due, at most `RETURNS_MAX` of them.
 * @returns how many shares went back.
 */
export async function returnShares(db: Db, claims: readonly DueClaim[]): Promise<number> {
  const { owner } = claims[0]!
  const names = claims.map(({ client_id }) => client_id)
  const returned = await inTransaction(db, async tx => {
    const { rows } = await LOCK(tx, [owner, names])
    if (rows.length === 0) return 0
    const { rows: counted } = await RETURN(tx, [owner, rows.map(({ rpt_sha256 }) => rpt_sha256)])
    return counted[0]!.returned
  })
  await FORGET(db, [owner, names, claims.map(({ until }) => until)])
  return returned
}

/**
 * Lets what is held of her allowances count as used for good: after a restore nobody can tell any more
 * whether a grant that is unspent here was spent. The caller ends every connection, so none is spent later.
 */
export async function keepShares(tx: Tx, owner: Owner): Promise<void> {
  await sql`DELETE FROM allowance_held WHERE owner = ${owner}`.execute(tx)
}
