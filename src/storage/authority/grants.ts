/**
 * Grants, once issued: read by the RPT's SHA-256, spent once, counted. Contract: "Grant (RPT) liveness",
 * "Single-use grant".
 */
import { sql, type Selectable } from 'kysely'
import { TAKES_NO_WRITES } from '../core/connection.ts'
import { prepared, type Prepared, type Runner } from '../core/database.ts'
import { ASKED_FEW, gatheringOf, ownedBy, TOGETHER_MAX, WRITES_AT_ONCE } from '../core/batch.ts'
import type { Tx } from './database.ts'
import { grantReads, type GrantQuestion, type PlacedRow } from '../core/grant-reads.ts'
import type { ResourceServerRow } from './resources.ts'
import type { GrantsTable } from './tables.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'

/**
 * The row that introspection reads, in one statement: the asking server's record and, if there is one, the
 * grant.
 */
export interface GrantReading {
  /** Of the asking resource server, as recorded now. */
  server: Pick<ResourceServerRow, 'status' | 'generation' | 'resource_uri'>
  /** Whoever ends the grant asks the sidecar, which holds the lease that it named. */
  leased: boolean
  grant?: GrantColumns & {
    consumed: boolean
    expired: boolean
    /** The connection is active. */
    connected: boolean
    /** The grant's generation is the connection's present one. */
    current: boolean
    /** The tier it was issued under still exists and has governed the resource without a break. */
    governed: boolean
    /** An organization ended the agent's reach, or governs the resource since the grant was made. */
    organizationEnded: boolean
  }
}

type GrantColumns = Pick<Selectable<GrantsTable>, 'claims' | 'client_id' | 'aud' | 'family' | 'single_use'>

interface ReadRow extends PlacedRow, Omit<GrantColumns, 'claims'>, Pick<ResourceServerRow, 'resource_uri'> {
  /** Null if the owner has no such resource server. */
  rs_status: ResourceServerRow['status'] | null
  rs_generation: ResourceServerRow['generation']
  /** Null if no such grant was made. */
  claims: GrantColumns['claims'] | null
  consumed: boolean
  expired: boolean
  connected: boolean | null
  current: boolean | null
  governed: boolean
  /** Null if it cannot be told. */
  organization_ended: boolean | null
  /** Only of `READ_LEASED`. */
  leased?: boolean
}

/**
 * Whether an organization ended a grant, by the epochs that it carries. If the resource was not governed,
 * only the tier's hold on it is checked, which is read anyway: no membership, no further look. That hold is
 * another one once the resource has been governed, so that the grant stays ended when that is over. The
 * exception is a grant whose clearance was checked, because that depends on the membership.
 */
const ORGANIZATION_ENDED = `CASE WHEN g.org_handle_epoch IS NULL THEN tr.org IS NOT NULL
          OR (g.org_epoch IS NOT NULL
            AND g.org_epoch <> coalesce((SELECT m.org_epoch FROM memberships m WHERE m.owner = g.owner), -1))
        ELSE g.org_epoch <> coalesce((SELECT m.org_epoch FROM memberships m WHERE m.owner = g.owner), -1)
          OR g.org_handle_epoch <> c.org_epoch
          OR g.org_operator_epoch <> coalesce((SELECT o.org_epoch FROM operators o
            WHERE o.owner = g.owner AND o.origin = g.org_operator), 0) END`

const COLUMNS = `asked.place::int, ${TAKES_NO_WRITES} AS standby, rs.status AS rs_status, rs.generation AS rs_generation, rs.resource_uri,
      g.claims, g.client_id, g.aud, g.family, g.single_use,
      g.consumed_at IS NOT NULL AS consumed, g.expires_at <= clock_timestamp() AS expired,
      c.status = 'active' AS connected, c.generation = g.generation AS current,
      coalesce(tr.hold = g.hold, false) AS governed,
      ${ORGANIZATION_ENDED} AS organization_ended`

const OF_EACH_ASKED = `
    LEFT JOIN LATERAL (SELECT * FROM resource_servers
      WHERE owner = $1 AND client_id = asked.client_id OFFSET 0) rs ON true
    LEFT JOIN LATERAL (SELECT * FROM grants
      WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 OFFSET 0) g ON true
    LEFT JOIN LATERAL (SELECT * FROM connections
      WHERE owner = g.owner AND handle = g.handle OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT * FROM tiers WHERE owner = g.owner AND tier_id = g.tier_id
      AND epoch = g.tier_epoch AND deleted_at IS NULL OFFSET 0) t ON true
    LEFT JOIN LATERAL (SELECT * FROM tier_resources WHERE ${ownedBy('owner', 't.owner')} AND tier_id = t.tier_id
      AND resource_id = g.resource_id OFFSET 0) tr ON true`

const READ = prepared<ReadRow>(
  'read-grants',
  `
    SELECT ${COLUMNS}
    FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS asked(client_id, rpt_sha256, place)${OF_EACH_ASKED}`,
)

/**
 * The same for sidecars that name a lease, a statement of its own so that it costs the others nothing.
 * Whoever ends the grant looks for holders after he has committed; in this snapshot the grant and the
 * holder's row stand together, so he finds it.
 */
const READ_LEASED = prepared<ReadRow>(
  'read-leased-grants',
  `
    SELECT ${COLUMNS},
      EXISTS (SELECT FROM lease_holders h
        WHERE h.owner = $1 AND h.id = asked.lease AND h.client_id = asked.client_id) AS leased
    FROM unnest($2::text[], $3::bytea[], $4::text[]) WITH ORDINALITY
      AS asked(client_id, rpt_sha256, lease, place)${OF_EACH_ASKED}`,
)

/**
 * Reads a grant for a resource server, never consuming it. Always from the primary, which the statement
 * itself makes sure of, never from a cache; those asked for at the same time are read by one statement.
 * @returns undefined if the owner has no such resource server; without `grant` if no such RPT was
 * issued over this owner's resources. Whether the grant concerns the asking server is the caller's check.
 */
export async function readGrant(
  calls: Runner,
  owner: Owner,
  clientId: ClientId,
  rptSha256: Buffer,
): Promise<GrantReading | undefined> {
  return READ_GRANT(calls, { owner, clientId, rptSha256 })
}

/** The same, and whether the sidecar holds the lease that it names. */
export async function readLeasedGrant(
  calls: Runner,
  question: GrantQuestion & { lease: string },
): Promise<GrantReading | undefined> {
  return READ_LEASED_GRANT(calls, question)
}

const READ_GRANT = grantReads(READ, readingOf)
const READ_LEASED_GRANT = grantReads(READ_LEASED, readingOf, { leases: true })

function readingOf(row: ReadRow): GrantReading | undefined {
  if (row.rs_status === null) return undefined
  const server = { status: row.rs_status, generation: row.rs_generation, resource_uri: row.resource_uri }
  const leased = row.leased === true
  if (row.claims === null) return { server, leased }
  const { claims, client_id, aud, family, single_use, consumed, expired, governed } = row
  const organizationEnded = row.organization_ended !== false
  const connected = row.connected === true
  const current = row.current === true
  return {
    server,
    leased,
    grant: {
      claims,
      client_id,
      aud,
      family,
      single_use,
      consumed,
      expired,
      connected,
      current,
      governed,
      organizationEnded,
    },
  }
}

/** A grant that is to be spent, and by whom. */
interface Spending {
  owner: Owner
  rptSha256: Buffer
  client_id: ClientId
  /** That the PAT was issued under; left out: whichever is in force. */
  generation?: number | undefined
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
function spending(name: string, { waits }: { waits: boolean }): Prepared<{ place: number; family: Family }> {
  const [others, itself] = waits ? ['', 'OFFSET 0'] : ['SKIP LOCKED', 'FOR NO KEY UPDATE SKIP LOCKED']
  return prepared(
    name,
    `
    WITH standing AS MATERIALIZED (
      SELECT asked.place, g.owner, g.rpt_sha256, held.resource_uri
      FROM unnest($2::bytea[], $3::text[], $4::int[])
        WITH ORDINALITY AS asked(rpt_sha256, client_id, generation, place)
      CROSS JOIN LATERAL (
        SELECT owner, rpt_sha256, client_id, handle, generation, tier_id, tier_epoch, resource_id,
          hold, org_epoch, org_handle_epoch, org_operator, org_operator_epoch FROM grants
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 AND client_id = asked.client_id ${itself}) g
      CROSS JOIN LATERAL (
        SELECT rs.resource_uri FROM connections c, resource_servers rs, tiers t, tier_resources tr
        WHERE c.owner = g.owner AND c.handle = g.handle AND c.status = 'active' AND c.generation = g.generation
          AND rs.owner = g.owner AND rs.client_id = g.client_id AND rs.status = 'active'
          AND rs.generation = coalesce(asked.generation, rs.generation)
          AND t.owner = g.owner AND t.tier_id = g.tier_id AND t.epoch = g.tier_epoch AND t.deleted_at IS NULL
          AND ${ownedBy('tr.owner', 'g.owner')} AND tr.tier_id = g.tier_id AND tr.resource_id = g.resource_id AND tr.hold = g.hold
          AND CASE WHEN g.org_handle_epoch IS NULL THEN tr.org IS NULL ELSE c.org_epoch = g.org_handle_epoch END
        FOR SHARE OF c, rs, t, tr ${others}) held
      WHERE ${ASKED_FEW}
        AND CASE WHEN g.org_epoch IS NULL THEN g.org_handle_epoch IS NULL
          WHEN EXISTS (SELECT FROM memberships m WHERE m.owner = g.owner AND m.org_epoch = g.org_epoch FOR SHARE ${others})
          THEN g.org_handle_epoch IS NULL OR g.org_operator IS NULL
            OR EXISTS (SELECT FROM operators o WHERE o.owner = g.owner AND o.origin = g.org_operator
              AND o.org_epoch = g.org_operator_epoch FOR SHARE ${others})
            -- Of whom nothing is known, nobody has acted on it.
            OR (g.org_operator_epoch = 0 AND NOT EXISTS (SELECT FROM operators o
              WHERE o.owner = g.owner AND o.origin = g.org_operator)) END)
    UPDATE grants g SET consumed_at = clock_timestamp() FROM standing s
    WHERE ${ownedBy('g.owner', 's.owner')} AND g.rpt_sha256 = s.rpt_sha256 AND g.single_use AND g.consumed_at IS NULL
      AND CASE WHEN g.aud = s.resource_uri THEN g.expires_at > clock_timestamp() END
    RETURNING s.place::int, g.family`,
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

/** In their order, the family of each that this call spent. */
async function spend(
  statement: typeof CONSUME,
  calls: Runner,
  asked: Spending[],
): Promise<(Family | undefined)[]> {
  const { rows } = await statement(calls, [
    asked[0]!.owner,
    asked.map(({ rptSha256 }) => rptSha256),
    asked.map(({ client_id }) => client_id),
    asked.map(({ generation }) => generation ?? null),
  ])
  // By place and not by grant: of several that ask for one, a single one spent it.
  const spent = new Map(rows.map(({ place, family }) => [place, family]))
  return asked.map((_, n) => spent.get(n + 1))
}

const SPEND_TOGETHER = gatheringOf((calls: Runner, asked: Spending[]) => spend(CONSUME, calls, asked), {
  owner: ({ owner }: Spending) => owner,
  together: TOGETHER_MAX,
  atOnce: WRITES_AT_ONCE,
})

/**
 * Spends a single-use grant for the resource server it was issued for: its client_id, and the generation its
 * PAT was issued under (left out: whichever is in force). Those that are asked for at the same time share a
 * statement. What that has not spent, because it cannot be spent or because another transaction holds one of
 * its rows, is decided by a statement of its own, which waits for them. If a statement is lost, nothing is
 * sent again: it may have been done.
 * @returns the family where this call spent it; undefined if it did not (ask `readGrant` why).
 */
export async function consumeGrant(
  calls: Runner,
  owner: Owner,
  { client_id, generation }: { client_id: ClientId; generation?: number },
  rptSha256: Buffer,
): Promise<Family | undefined> {
  const asked = { owner, client_id, generation, rptSha256 }
  const family = await SPEND_TOGETHER(calls, asked)
  if (family !== undefined) return family
  const [decided] = await spend(CONSUME_ONE, calls, [asked])
  return decided
}

const LIVE_GRANTS_COUNTED_MAX = 1_000
/**
 * Unexpired grants that are looked at for that. No index contains which of them are spent, so that spending
 * one stays a heap-only update.
 */
const GRANTS_LOOKED_AT_MAX = 2_000

/**
 * How many live grants the handles' present generations hold: by index, those that expire last first, counted
 * to at most 1,000 and among at most 2,000 that have not expired, so that the cost of a revocation does not
 * grow with the number of spent grants. `more`: not all could be counted.
 */
export async function countLiveGrants(
  tx: Tx,
  owner: Owner,
  handles: Handle[],
): Promise<{ live: number; more: boolean }> {
  const { rows } = await sql<{ live: number; looked_at: number }>`
    SELECT count(*) FILTER (WHERE consumed_at IS NULL)::int AS live, count(*)::int AS looked_at FROM (
      SELECT g.consumed_at FROM connections c, LATERAL (
        SELECT consumed_at FROM grants
        WHERE owner = c.owner AND handle = c.handle AND generation = c.generation AND expires_at > now()
        ORDER BY expires_at DESC LIMIT ${GRANTS_LOOKED_AT_MAX + 1}) g
      WHERE c.owner = ${owner} AND c.handle = ANY(${handles})
      LIMIT ${GRANTS_LOOKED_AT_MAX + 1}) found`.execute(tx)
  const { live, looked_at } = rows[0]!
  return {
    live: Math.min(live, LIVE_GRANTS_COUNTED_MAX),
    more: live > LIVE_GRANTS_COUNTED_MAX || looked_at > GRANTS_LOOKED_AT_MAX,
  }
}
