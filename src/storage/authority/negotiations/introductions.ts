/**
 * What the owner's records say about an introduction: facts for rules/connection.ts. They are read and locked
 * here, never judged. Contract: "Connection" (introduced by an active connection), "Owner API" (introduction
 * of a sibling agent).
 */
import { sql } from 'kysely'
import type { Db, Tx } from '../database.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'

type State = 'none' | 'active' | 'revoked'

export interface IntroductionRecord {
  /**
   * The state of the newcomer; 'revoked' also if its key had a connection under another handle that was
   * ended.
   */
  newcomer: State
  introducer: State
  /** The newcomer's operator is on record for the introducer's connection. */
  operatorStands: boolean
  /** The recorded key of the introducer: the one that was last approved on its connection. */
  jkt: string | null
  /** The introducer was itself introduced. */
  wasIntroduced: boolean
  /** The owner herself approved the introducer at some tier, in its present generation. */
  approvedInPerson: boolean
  /** The number of live agents that it introduced. */
  liveIntroduced: number
}

/**
 * Reads what an introduction is checked against. This decides nothing unless the caller has locked the
 * introducer.
 */
export async function readIntroduction(
  db: Db,
  owner: Owner,
  of: { introducer: Handle; newcomer: Handle; newcomerJkt: string; operator: string | null },
): Promise<IntroductionRecord> {
  const { introducer, newcomer, newcomerJkt, operator } = of
  const { rows } = await sql<IntroductionRecord>`
    WITH introducer AS (SELECT * FROM connections WHERE owner = ${owner} AND handle = ${introducer})
    SELECT
      CASE
        WHEN EXISTS (SELECT FROM connections WHERE owner = ${owner} AND handle = ${newcomer} AND status = 'active')
          THEN 'active'
        WHEN EXISTS (SELECT FROM connections WHERE owner = ${owner} AND handle = ${newcomer})
          OR EXISTS (SELECT FROM connections WHERE owner = ${owner} AND jkt = ${newcomerJkt} AND status = 'revoked')
          THEN 'revoked'
        ELSE 'none' END AS newcomer,
      -- Whoever was let in by somebody else than the owner brings nobody in.
      coalesce((SELECT status FROM introducer WHERE reach IS NULL), 'none') AS introducer,
      EXISTS (SELECT FROM connection_operators
        WHERE owner = ${owner} AND handle = ${introducer} AND origin = ${operator}) AS "operatorStands",
      (SELECT jkt FROM introducer) AS jkt,
      coalesce((SELECT introduced_by IS NOT NULL FROM introducer), false) AS "wasIntroduced",
      EXISTS (SELECT FROM introducer i JOIN connection_tiers ct ON ct.owner = i.owner AND ct.handle = i.handle
        AND ct.approved_generation = i.generation) AS "approvedInPerson",
      (SELECT count(*)::int FROM connections
        WHERE owner = ${owner} AND introduced_by = ${introducer} AND status = 'active') AS "liveIntroduced"`.execute(
    db,
  )
  return rows[0]!
}

/**
 * Locks the introducer's row, so that nothing ends it before this transaction has. The caller holds the
 * queue's lock and the operator's, in this order.
 */
export async function lockIntroducer(tx: Tx, owner: Owner, handle: Handle): Promise<void> {
  await sql`SELECT FROM connections WHERE owner = ${owner} AND handle = ${handle} FOR UPDATE`.execute(tx)
}
