/**
 * Spends grants, each once. Contract: "Single-use grant".
 */
import type { ClientId, Family, Owner } from '../../../wire/identifiers.ts'
import type { OwnerEnds } from '../../../wire/documents/owner-ends.ts'
import { ASKED_FEW, gatheringOf, ownedBy, TOGETHER_MAX, WRITES_AT_ONCE } from '../../core/batch.ts'
import { prepared, type Prepared, type Runner } from '../../core/database.ts'
import {
  CONNECTED,
  CURRENT,
  HELD,
  LIVE_COLUMNS,
  OWNER_ENDS_COLUMNS,
  membershipStands,
  REACH_STANDS,
  TIER_STANDS,
} from './facts.sql.ts'

/** A grant that is to be spent, and by whom. */
interface Spending {
  owner: Owner
  rptSha256: Buffer
  client_id: ClientId
  /** That the PAT was issued under; left out: whichever is in force. */
  generation?: number | undefined
}

/** A grant that was spent, and what was known then. */
export interface ConsumedGrant {
  family: Family
  judged: OwnerEnds
}

interface ConsumedRow {
  place: number
  family: Family
  ends: number
  judged_at: number
}

/**
 * The statement spends grants and proves of each, under share locks, that the rows of its connection, the
 * asking server, the tier and the tier's hold on the resource (in this order) are still in force. Without the
 * locks, a consume that waits for a row would win after the statement that ended it had returned. A grant on
 * a governed resource proves its membership and its operator in the same way, before these; for any other
 * grant, neither is looked at. The clock is read when these are locked, not when the statement began.
 *
 * The subqueries, which lock or have an OFFSET, are planned by themselves: each row is found by its key,
 * however small its table is when the plan is made.
 */
function spending(name: string, { waits }: { waits: boolean }): Prepared<ConsumedRow> {
  const [others, itself] = waits ? ['', 'OFFSET 0'] : ['SKIP LOCKED', 'FOR NO KEY UPDATE SKIP LOCKED']
  return prepared(
    name,
    `
    WITH standing AS MATERIALIZED (
      SELECT asked.place, g.owner, g.rpt_sha256, held.resource_uri
      FROM unnest($2::bytea[], $3::text[], $4::int[])
        WITH ORDINALITY AS asked(rpt_sha256, client_id, generation, place)
      CROSS JOIN LATERAL (
        SELECT owner, rpt_sha256, client_id, handle, resource_id, ${LIVE_COLUMNS} FROM grants
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 AND client_id = asked.client_id ${itself}) g
      CROSS JOIN LATERAL (
        SELECT rs.resource_uri FROM connections c, resource_servers rs, tiers t, tier_resources tr
        WHERE c.owner = g.owner AND c.handle = g.handle AND ${CONNECTED} AND ${CURRENT}
          AND rs.owner = g.owner AND rs.client_id = g.client_id AND rs.status = 'active'
          AND rs.generation = coalesce(asked.generation, rs.generation)
          AND t.owner = g.owner AND t.tier_id = g.tier_id AND ${TIER_STANDS}
          AND ${ownedBy('tr.owner', 'g.owner')} AND tr.tier_id = g.tier_id AND tr.resource_id = g.resource_id
          AND ${HELD} AND ${REACH_STANDS}
        FOR SHARE OF c, rs, t, tr ${others}) held
      WHERE ${ASKED_FEW}
        AND ${membershipStands(`FOR SHARE ${others}`)})
    UPDATE grants g SET consumed_at = clock_timestamp() FROM standing s
    WHERE ${ownedBy('g.owner', 's.owner')} AND g.rpt_sha256 = s.rpt_sha256 AND g.single_use AND g.consumed_at IS NULL
      AND g.returned_at IS NULL AND CASE WHEN g.aud = s.resource_uri THEN g.expires_at > clock_timestamp() END
    RETURNING s.place::int, g.family, ${OWNER_ENDS_COLUMNS}`,
  )
}

/**
 * For all that are asked for at the same time. It takes only rows that nobody holds, and so waits for none:
 * what holds up one of them keeps no other, and no two of these statements deadlock. What it passes over is
 * not decided.
 */
const CONSUME = spending('consume-grants', { waits: false })
/** For what is not decided yet: it waits for the rows, in their order, and decides. */
const CONSUME_ONE = spending('consume-grant', { waits: true })

/** In their order, each that this call spent. */
async function spend(
  statement: typeof CONSUME,
  calls: Runner,
  spendings: Spending[],
): Promise<(ConsumedGrant | undefined)[]> {
  const { rows } = await statement(calls, [
    spendings[0]!.owner,
    spendings.map(({ rptSha256 }) => rptSha256),
    spendings.map(({ client_id }) => client_id),
    spendings.map(({ generation }) => generation ?? null),
  ])
  // By place and not by grant: of several that ask for one, a single one spent it.
  const spent = new Map(
    rows.map(({ place, family, ends, judged_at: at }) => [place, { family, judged: { ends, at } }]),
  )
  return spendings.map((_, n) => spent.get(n + 1))
}

const SPEND_TOGETHER = gatheringOf(
  (calls: Runner, spendings: Spending[]) => spend(CONSUME, calls, spendings),
  {
    owner: ({ owner }: Spending) => owner,
    together: TOGETHER_MAX,
    atOnce: WRITES_AT_ONCE,
  },
)

/**
 * Spends a single-use grant for the resource server it was issued for: its client_id, and the generation its
 * PAT was issued under (left out: whichever is in force). Those that are asked for at the same time share a
 * statement. What that has not spent, because it cannot be spent or because another transaction holds one of
 * its rows, is decided by a statement of its own, which waits for them. If a statement is lost, nothing is
 * sent again: it may have been done.
 * @returns what this call spent; undefined if it did not (ask `readGrant` why).
 */
export async function consumeGrant(
  calls: Runner,
  owner: Owner,
  { client_id, generation }: { client_id: ClientId; generation?: number },
  rptSha256: Buffer,
): Promise<ConsumedGrant | undefined> {
  const request = { owner, client_id, generation, rptSha256 }
  const consumed = await SPEND_TOGETHER(calls, request)
  if (consumed !== undefined) return consumed
  const [decided] = await spend(CONSUME_ONE, calls, [request])
  return decided
}
