/**
 * Gives shares of allowances back: of grants that expired unspent, and of no others. Contract: "Policy
 * vocabulary and tiers", "Single-use grant"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import { ASKED_FEW, ownedBy, takeOldest } from '../../core/batch.ts'
import { inTransaction, prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'

/** Most places of one call: their windows are locked together. */
const RETURNS_MAX = 100

/** A place that was looked for, and until when (as Postgres writes it) the taker has it alone. */
export interface ReturnClaim {
  owner: Owner
  /** Of the grant that has the place. */
  rpt_sha256: Buffer
  until: string
}

const TAKE = prepared<ReturnClaim>(
  'take-returns',
  takeOldest({
    table: 'allowance_held',
    key: ['owner', 'rpt_sha256'],
    due: 'due_at',
    // Of an owner who comes or goes, the cell where she then is does it.
    where: `NOT EXISTS (SELECT FROM moves m WHERE m.owner = t.owner AND m.state <> 'here')`,
    limit: '$1',
    seconds: '$2',
  }),
)

/**
 * Takes the places that have been due for longest, at most `RETURNS_MAX`, of any owners; only one replica
 * gets each. If it does nothing about one, because it ended or failed, that is due again after `seconds`.
 */
export async function takeReturns(db: Db, seconds: number): Promise<ReturnClaim[]> {
  return (await TAKE(db, [RETURNS_MAX, seconds])).rows
}

/**
 * SQL: what the place `e` took of each window, `s`. Postgres takes a list in JSON to be long, and would then
 * read all windows of an owner; `ASKED_FEW` says that they are few.
 */
const SHARES = `CROSS JOIN LATERAL ROWS FROM (
        json_to_recordset(e.shares) AS (of text, per text, start timestamptz, amount numeric))
        WITH ORDINALITY AS s(of, per, start, amount, place)
      WHERE ${ASKED_FEW.replace('asked', 's')}`

/**
 * Finds what expired in the places that came due, and locks the windows that it was taken from, in the order
 * of their key, before anything else is read of them.
 */
const LOCK = prepared<{ rpt_sha256: Buffer }>(
  'lock-returned-windows',
  `WITH expired AS MATERIALIZED (
      SELECT h.* FROM unnest($2::bytea[]) WITH ORDINALITY AS asked(rpt_sha256, place)
      JOIN LATERAL (SELECT * FROM allowance_held
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 OFFSET 0) h ON true
      WHERE ${ASKED_FEW} AND h.expires_at <= clock_timestamp()),
    windows AS MATERIALIZED (
      SELECT DISTINCT e.allowance, e.whose, s.of, s.per, s.start FROM expired e ${SHARES}),
    locked AS MATERIALIZED (
      SELECT w.start FROM allowance_windows w JOIN windows s ON ${ownedBy('w.owner', '$1')} AND w.allowance = s.allowance
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
        FROM back JOIN expired e ON e.rpt_sha256 = back.rpt_sha256 ${SHARES}
        GROUP BY 1, 2, 3, 4, 5) s
      WHERE ${ownedBy('w.owner', '$1')} AND w.allowance = s.allowance AND w.whose = s.whose AND w.of = s.of AND w.per = s.per
        AND w.start = s.start),
    left_over AS (
      SELECT e.rpt_sha256 FROM expired e LEFT JOIN LATERAL (SELECT true AS unspent FROM grants
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = e.rpt_sha256
          AND consumed_at IS NULL AND returned_at IS NULL OFFSET 0) g ON true WHERE g.unspent IS NULL),
    given_up AS (
      DELETE FROM allowance_held h
      USING unnest(ARRAY(TABLE back UNION TABLE left_over)) WITH ORDINALITY AS asked(rpt_sha256, place)
      WHERE ${ASKED_FEW} AND ${ownedBy('h.owner', '$1')} AND h.rpt_sha256 = asked.rpt_sha256)
    SELECT count(*)::int AS returned FROM back`,
)

/** What has not expired yet was looked at too soon; it is due when it does. */
const DEFER = prepared(
  'defer-returns',
  `UPDATE allowance_held h SET due_at = h.expires_at
    FROM unnest($2::bytea[], $3::timestamptz[]) WITH ORDINALITY AS asked(rpt_sha256, until, place)
    WHERE ${ASKED_FEW} AND ${ownedBy('h.owner', '$1')} AND h.rpt_sha256 = asked.rpt_sha256 AND h.due_at = asked.until
      AND h.expires_at > clock_timestamp()`,
)

/**
 * Gives back what expired unspent in the places of one owner that came due, at most `RETURNS_MAX` of them.
 * @returns how many shares went back.
 */
export async function returnShares(db: Db, claims: readonly ReturnClaim[]): Promise<number> {
  const { owner } = claims[0]!
  const places = claims.map(({ rpt_sha256 }) => rpt_sha256)
  const found = await inTransaction(db, tx => returnExpired(tx, owner, places))
  if (found.expired < claims.length) await DEFER(db, [owner, places, claims.map(({ until }) => until)])
  return found.returned
}

/** Does so in a transaction, which holds the windows until it ends. @internal */
export async function returnExpired(
  tx: Tx,
  owner: Owner,
  places: readonly Buffer[],
): Promise<{ expired: number; returned: number }> {
  const { rows } = await LOCK(tx, [owner, places])
  if (rows.length === 0) return { expired: 0, returned: 0 }
  const { rows: counted } = await RETURN(tx, [owner, rows.map(({ rpt_sha256 }) => rpt_sha256)])
  return { expired: rows.length, returned: counted[0]!.returned }
}

/**
 * Lets what is held of her allowances count as used for good: after a restore nobody can tell any more
 * whether a grant that is unspent here was spent. The caller ends every connection, so none is spent later.
 */
export async function keepShares(tx: Tx, owner: Owner): Promise<void> {
  await sql`DELETE FROM allowance_held WHERE owner = ${owner}`.execute(tx)
}
