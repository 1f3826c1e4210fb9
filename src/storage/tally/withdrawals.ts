/**
 * What holders take back: it is marked, counted again and announced in one transaction. Contract: "Tally for
 * a jointly held resource", "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import type { Family, Owner } from '../../wire/identifiers.ts'
import { inTransaction } from '../core/database.ts'
import { notify } from '../core/notify.ts'
import type { Db, Tx } from './database.ts'
import { ACCOUNTS_CHANNEL } from './negotiations.ts'

export interface ReceivedWithdrawal {
  account: Owner
  holder: Owner
  issuer: string
  jti: string
  /** Seconds since the epoch. */
  exp: number
  /** The negotiations; all of hers if none are named. */
  negotiations: readonly Family[] | 'all'
}

/**
 * How long it is kept after its end. A withdrawal that was not acknowledged is signed again under its `jti`
 * for as long as it matters.
 */
const REMEMBERED_DAYS = 8

/**
 * Marks her answers as withdrawn. A grant is counted by the allowances that it carries, because a grant that
 * came too late to be collected carries nothing: if the remaining ones weigh less than the threshold, it is
 * dead. A negotiation under way is counted again at the next poll, without her. @returns from how many
 * negotiations this withdraws her; undefined if it was received before.
 */
export function withdraw(db: Db, withdrawal: ReceivedWithdrawal): Promise<number | undefined> {
  const { account, holder, issuer, jti, exp } = withdrawal
  return inTransaction(db, async tx => {
    const insertion = await sql`
      INSERT INTO withdrawals (issuer, jti, expires_at)
      VALUES (${issuer}, ${jti}, to_timestamp(${exp}) + ${REMEMBERED_DAYS} * interval '1 day')
      ON CONFLICT DO NOTHING`.execute(tx)
    if (insertion.numAffectedRows !== 1n) return undefined
    const families = await lockNegotiations(tx, withdrawal)
    const marked = await sql<{ family: Family }>`
      UPDATE answers SET withdrawn = true
      WHERE account = ${account} AND family = ANY(${families}) AND holder = ${holder} AND issuer = ${issuer}
        AND NOT withdrawn
      RETURNING family`.execute(tx)
    const touched = marked.rows.map(({ family }) => family)
    await sql`
      UPDATE negotiations n SET withdrawn = true
      WHERE n.account = ${account} AND n.family = ANY(${touched}) AND n.state = 'granted' AND NOT n.withdrawn
        AND (SELECT coalesce(sum(weight), 0) FROM answers s JOIN grants g USING (account, family)
          WHERE s.account = n.account AND s.family = n.family AND s.state = 'allowed' AND NOT s.withdrawn
            AND (g.claims->'joint'->'verdicts')::jsonb ? s.verdict)
          < (SELECT (mandate->'rule'->>'threshold')::int FROM mandates m
            WHERE m.account = n.account AND m.version = n.version)`.execute(tx)
    // An approved but uncollected negotiation is counted again before it can be collected.
    await sql`
      UPDATE negotiations SET decision = NULL
      WHERE account = ${account} AND family = ANY(${touched}) AND state = 'awaiting_holders'
        AND decision = 'approved'`.execute(tx)
    await notify(tx, ACCOUNTS_CHANNEL, account)
    return touched.length
  })
}

/** Rows are locked in one order, so that no two withdrawals deadlock. */
async function lockNegotiations(tx: Tx, { account, negotiations }: ReceivedWithdrawal): Promise<Family[]> {
  const named = negotiations === 'all' ? sql`true` : sql`family = ANY(${[...negotiations]})`
  const { rows } = await sql<{ family: Family }>`
    SELECT family FROM negotiations
    WHERE account = ${account} AND ${named} AND (state = 'awaiting_holders' OR (state = 'granted' AND NOT withdrawn))
    ORDER BY family FOR UPDATE`.execute(tx)
  return rows.map(({ family }) => family)
}
