/**
 * Grants: each is made from verdicts once, read by the SHA-256 of its RPT, and spent once. Contract: "Grant
 * (RPT) liveness", "Single-use grant".
 */
import { sql } from 'kysely'
import type { GrantContent, GrantRecord, SignedGrant } from '../../rules/grant-content.ts'
import type { ClientId, Family, Owner } from '../../wire/identifiers.ts'
import { ASKED_FEW, ownedBy } from '../core/batch.ts'
import {
  grantColumns,
  grantReads,
  LAPSED,
  recordsOf,
  type GrantRecords,
  type GrantRow,
} from '../core/grant-reads.ts'
import { inTransaction, prepared, type Runner } from '../core/database.ts'
import { readAnswers, type AnswerRow } from './answers.ts'
import type { Db } from './database.ts'
import { isInForce } from './negotiations.ts'
import type { AccountServersTable } from './tables.ts'

export interface NewTallyGrant
  extends SignedGrant, Pick<GrantContent, 'family' | 'client_id' | 'aud' | 'resource_id' | 'single_use'> {
  account: Owner
  /** The version of the mandate under which it was counted. */
  version: number
}

/** It rests on a fact that has changed. */
class GrantFactsMoved extends Error {}

/**
 * Writes the grant of a negotiation, its receipt and its end together. Checks again the mandate, the resource
 * server and, with `stands`, the answers: each stays locked until this is done. @returns `gone` if another
 * caller ended it, `moved` if it rests on a fact that has changed.
 */
export async function recordGrant(
  db: Db,
  grant: NewTallyGrant,
  stands: (answers: readonly AnswerRow[]) => boolean,
): Promise<'granted' | 'gone' | 'moved'> {
  const { account, family } = grant
  try {
    return await inTransaction(db, async tx => {
      if (!(await isInForce(tx, account, grant.version))) throw new GrantFactsMoved()
      const done = await sql`
        UPDATE negotiations SET state = 'granted', ticket_hash = NULL,
          ticket_expires_at = greatest(ticket_expires_at, to_timestamp(${grant.expiresAt}))
        WHERE account = ${account} AND family = ${family} AND state = 'awaiting_holders'
          AND decision = 'approved' AND version = ${grant.version}`.execute(tx)
      if (done.numAffectedRows !== 1n) return 'gone'
      if (!stands(await readAnswers(tx, { account, family }))) throw new GrantFactsMoved()
      const served = await sql`
        SELECT FROM resource_servers rs JOIN resources r ON r.account = rs.account AND r.client_id = rs.client_id
        WHERE rs.account = ${account} AND rs.client_id = ${grant.client_id} AND rs.status = 'active'
          AND rs.resource_uri = ${grant.aud} AND r.resource_id = ${grant.resource_id} FOR SHARE`.execute(tx)
      if (served.rows.length !== 1) throw new GrantFactsMoved()
      await tx.insertInto('receipts').values({ account, jti: grant.jti, receipt: grant.receipt }).execute()
      await sql`
        INSERT INTO grants (account, rpt_sha256, jti, family, client_id, aud, resource_id, version, single_use,
          claims, expires_at)
        VALUES (${account}, ${grant.rptSha256}, ${grant.jti}, ${family}, ${grant.client_id}, ${grant.aud},
          ${grant.resource_id}, ${grant.version}, ${grant.single_use}, ${JSON.stringify(grant.claims)},
          to_timestamp(${grant.expiresAt}))`.execute(tx)
      return 'granted'
    })
  } catch (error) {
    if (error instanceof GrantFactsMoved) return 'moved'
    throw error
  }
}

/** What introspection reads. */
export interface TallyGrantReading extends Pick<GrantRecords<Status>, 'server'> {
  grant?: GrantRecord & {
    /** The allowances that are left are too few. */
    withdrawn: boolean
    /** It was counted under the mandate in force, on a resource that is still registered. */
    current: boolean
  }
}

type Status = AccountServersTable['status']

interface TallyGrantReadRow extends GrantRow<Status> {
  withdrawn: boolean | null
  current: boolean | null
}

const READ = prepared<TallyGrantReadRow>(
  'read-joint-grants',
  `
    SELECT ${grantColumns(LAPSED)},
      n.withdrawn, a.version = g.version AND r.resource_id IS NOT NULL AS current
    FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS asked(client_id, rpt_sha256, place)
    LEFT JOIN LATERAL (SELECT * FROM resource_servers
      WHERE account = $1 AND client_id = asked.client_id OFFSET 0) rs ON true
    LEFT JOIN LATERAL (SELECT * FROM grants
      WHERE ${ownedBy('account', '$1')} AND rpt_sha256 = asked.rpt_sha256 OFFSET 0) g ON true
    LEFT JOIN LATERAL (SELECT * FROM negotiations
      WHERE account = g.account AND family = g.family OFFSET 0) n ON true
    LEFT JOIN accounts a ON a.account = g.account
    LEFT JOIN LATERAL (SELECT * FROM resources WHERE account = g.account
      AND resource_id = g.resource_id AND client_id = g.client_id OFFSET 0) r ON true
    WHERE ${ASKED_FEW}`,
)

/**
 * Reads a grant for a resource server, never consuming it; from the primary, never from a cache; concurrent
 * reads share one statement. @returns undefined if the account has no such resource server; without `grant`
 * if no such RPT was issued.
 */
export const readGrant = grantReads(READ, readingOf)

function readingOf(row: TallyGrantReadRow): TallyGrantReading | undefined {
  const read = recordsOf(row)
  if (read?.grant === undefined) return read && { server: read.server }
  // A missing fact counts against the grant.
  const withdrawn = row.withdrawn !== false
  const current = row.current === true
  return { server: read.server, grant: { ...read.grant, withdrawn, current } }
}

/**
 * One statement spends the grant and proves, under share locks on the rows of the account, the negotiation
 * and the asking server (in this order), that the mandate, the counted verdicts and the server are still in
 * force: a consume that waited for a row must not win after the statement that ended the row has returned.
 */
const CONSUME = prepared<{ family: Family }>(
  'consume-joint-grant',
  `
    WITH counted AS MATERIALIZED (
      SELECT a.account FROM grants g JOIN accounts a ON a.account = g.account AND a.version = g.version
      WHERE g.account = $1 AND g.rpt_sha256 = $2
      FOR SHARE OF a),
    standing AS MATERIALIZED (
      SELECT held.* FROM counted
      JOIN LATERAL (SELECT * FROM grants WHERE ${ownedBy('account', 'counted.account')} AND rpt_sha256 = $2 OFFSET 0) g ON true
      CROSS JOIN LATERAL (
        SELECT n.family, rs.client_id, rs.resource_uri FROM negotiations n, resource_servers rs, resources r
        WHERE n.account = g.account AND n.family = g.family AND n.state = 'granted' AND NOT n.withdrawn
          AND rs.account = g.account AND rs.client_id = g.client_id
          AND rs.client_id = $3 AND rs.status = 'active' AND rs.generation = $4
          AND r.account = g.account AND r.resource_id = g.resource_id AND r.client_id = g.client_id
        FOR SHARE OF n, rs, r) held)
    UPDATE grants g SET consumed_at = clock_timestamp() FROM standing s
    WHERE g.account = $1 AND g.rpt_sha256 = $2 AND g.family = s.family AND g.client_id = s.client_id
      AND g.aud = s.resource_uri
      AND g.single_use AND g.consumed_at IS NULL AND g.expires_at > clock_timestamp()
    RETURNING g.family`,
)

/** Spends a single-use grant. @returns the family, if this call spent it. */
export async function consumeGrant(
  calls: Runner,
  of: { account: Owner; client_id: ClientId; generation: number; rptSha256: Buffer },
): Promise<Family | undefined> {
  const { account, client_id, generation, rptSha256 } = of
  const { rows } = await CONSUME(calls, [account, rptSha256, client_id, generation])
  return rows[0]?.family
}
