/**
 * What an owner's records say against an emergency of her organization. Contract: "Organization membership,
 * on the member's authorization server" (`/org/notice`), "Connection" (revoked), "Owner API" (blocked).
 */
import { sql } from 'kysely'
import type { EmergencyRecord } from '../../rules/emergency.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Tx } from './database.ts'

/** The agent that an emergency is for: `cnf_jkt` is the thumbprint of its key. */
export interface EmergencySubject {
  readonly resource_id: string
  readonly cnf_jkt: string
  /** The origin of the invoker, or the name of an administrator, which no operator can have. */
  readonly authorised_by: string
}

/** The caller holds the queue's lock, as a revocation and a block do. */
export async function readEmergencyRecord(
  tx: Tx,
  owner: Owner,
  { resource_id, cnf_jkt, authorised_by }: EmergencySubject,
): Promise<Omit<EmergencyRecord, 'now'>> {
  const { rows } = await sql<Omit<EmergencyRecord, 'now'>>`
    WITH of_key AS (SELECT handle, status FROM connections WHERE owner = ${owner} AND jkt = ${cnf_jkt})
    SELECT
      EXISTS (SELECT 1 FROM resources
        WHERE owner = ${owner} AND resource_id = ${resource_id} AND source <> 'joint') AS "isHers",
      EXISTS (SELECT 1 FROM of_key WHERE status = 'revoked') AS "isRevoked",
      COALESCE((SELECT resource_scopes FROM resources
        WHERE owner = ${owner} AND resource_id = ${resource_id}), '{}') AS scopes,
      EXISTS (SELECT 1 FROM operators WHERE owner = ${owner} AND blocked_at IS NOT NULL AND (origin = ${authorised_by}
        OR origin IN (SELECT origin FROM connection_operators
          WHERE owner = ${owner} AND handle IN (SELECT handle FROM of_key)))) AS "isBlocked"`.execute(tx)
  return rows[0]!
}
