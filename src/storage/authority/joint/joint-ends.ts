/**
 * What ends with an owner's part in a joint account: agents that she let in for it alone, and what waited for
 * her about it. Contract: "Tally for a jointly held resource" (`DELETE /owner/joint/{account}`).
 */
import { sql } from 'kysely'
import { jointServer } from '../../../rules/joint/joint.ts'
import type { DecidedBy } from '../../../wire/owner/actor.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Tx } from '../database.ts'

/**
 * Takes an account out of the reach of every agent: one that was let in for it alone is an agent no more,
 * without that counting as a revocation of hers. Requests that wait about it are denied. The caller holds the
 * queue's lock. @returns whose connections ended, and what no longer waits.
 */
export async function endWithin(
  tx: Tx,
  owner: Owner,
  account: Owner,
  { actor }: Pick<DecidedBy, 'actor'>,
): Promise<{ handles: Handle[]; families: Family[] }> {
  endsLeases(tx, owner)
  const { rows } = await sql<{ handle: Handle; ended: boolean }>`
    WITH within AS MATERIALIZED (
      SELECT handle, array_remove(string_to_array(substr(reach, 7), ','), ${account}) AS rest FROM connections
      WHERE owner = ${owner} AND status = 'active' AND reach LIKE 'joint:%'
        AND ${account} = ANY(string_to_array(substr(reach, 7), ','))
      ORDER BY handle FOR UPDATE)
    UPDATE connections c SET
      status = CASE WHEN within.rest = '{}' THEN 'revoked' ELSE c.status END,
      generation = c.generation + 1,
      reach = CASE WHEN within.rest = '{}' THEN c.reach ELSE 'joint:' || array_to_string(within.rest, ',') END
    FROM within WHERE c.owner = ${owner} AND c.handle = within.handle
    RETURNING c.handle, c.status = 'revoked' AS ended`.execute(tx)
  const waiting = await sql<{ family: Family }>`
    UPDATE families SET decision = 'denied', decided_by = 'leaving', decided_actor = ${JSON.stringify(actor)},
      decided_at = now(), generation = NULL
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND client_id = ${jointServer(account)}
      AND decision IS DISTINCT FROM 'denied'
    RETURNING family`.execute(tx)
  return {
    handles: rows.flatMap(({ handle, ended }) => (ended ? [handle] : [])).sort(),
    families: waiting.rows.map(({ family }) => family),
  }
}
