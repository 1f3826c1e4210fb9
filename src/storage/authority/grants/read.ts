/**
 * Reads grants by the RPT's SHA-256, for introspection, and counts those that a connection holds. Contract:
 * "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import type { GrantRecord } from '../../../rules/grant-content.ts'
import type { ClientId, Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { OwnerEnds } from '../../../wire/documents/owner-ends.ts'
import { ownedBy } from '../../core/batch.ts'
import { prepared, type Runner } from '../../core/database.ts'
import {
  grantColumns,
  grantReads,
  recordsOf,
  type GrantLookup,
  type GrantRecords,
  type GrantRow,
} from '../../core/grant-reads.ts'
import type { Tx } from '../database.ts'
import type { ResourceServerRow } from '../registry/resources.ts'
import {
  CONNECTED,
  CURRENT,
  EXPIRED,
  HELD,
  OWNER_ENDS_COLUMNS,
  membershipStands,
  REACH_STANDS,
  TIER_STANDS,
} from './facts.sql.ts'

/** What introspection reads. */
export interface AuthorityGrantReading extends Pick<GrantRecords<ResourceServerRow['status']>, 'server'> {
  /** Whoever ends the grant asks the sidecar, which holds the lease that it named. */
  leased: boolean
  /** What was known when it was read. */
  judged: OwnerEnds
  grant?: GrantRecord & {
    family: Family
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

interface GrantReadRow extends GrantRow<ResourceServerRow['status']> {
  family: Family
  connected: boolean | null
  current: boolean | null
  governed: boolean
  /** Null if it cannot be told. */
  organization_ended: boolean | null
  ends: number
  judged_at: number
  /** Only of `READ_LEASED`. */
  leased?: boolean
}

const COLUMNS = `${grantColumns(EXPIRED)}, g.family,
      ${CONNECTED} AS connected, ${CURRENT} AS current, coalesce(${HELD}, false) AS governed,
      ${OWNER_ENDS_COLUMNS},
      NOT (${REACH_STANDS} AND ${membershipStands()}) AS organization_ended`

const OF_EACH_ASKED = `
    LEFT JOIN LATERAL (SELECT * FROM resource_servers
      WHERE owner = $1 AND client_id = asked.client_id OFFSET 0) rs ON true
    LEFT JOIN LATERAL (SELECT * FROM grants
      WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = asked.rpt_sha256 OFFSET 0) g ON true
    LEFT JOIN LATERAL (SELECT * FROM connections
      WHERE owner = g.owner AND handle = g.handle OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT * FROM tiers t WHERE owner = g.owner AND tier_id = g.tier_id
      AND ${TIER_STANDS} OFFSET 0) t ON true
    LEFT JOIN LATERAL (SELECT * FROM tier_resources WHERE ${ownedBy('owner', 't.owner')} AND tier_id = t.tier_id
      AND resource_id = g.resource_id OFFSET 0) tr ON true`

const READ = prepared<GrantReadRow>(
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
const READ_LEASED = prepared<GrantReadRow>(
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
): Promise<AuthorityGrantReading | undefined> {
  return READ_GRANT(calls, { owner, clientId, rptSha256 })
}

/** The same, and whether the sidecar holds the lease that it names. */
export async function readLeasedGrant(
  calls: Runner,
  question: GrantLookup & { lease: string },
): Promise<AuthorityGrantReading | undefined> {
  return READ_LEASED_GRANT(calls, question)
}

const READ_GRANT = grantReads(READ, readingOf)
const READ_LEASED_GRANT = grantReads(READ_LEASED, readingOf, { leases: true })

function readingOf(row: GrantReadRow): AuthorityGrantReading | undefined {
  const read = recordsOf(row)
  if (read === undefined) return undefined
  const { server, grant } = read
  const leased = row.leased === true
  const judged = { ends: row.ends, at: row.judged_at }
  if (grant === undefined) return { server, leased, judged }
  const { family, governed } = row
  const organizationEnded = row.organization_ended !== false
  const connected = row.connected === true
  const current = row.current === true
  return {
    server,
    leased,
    judged,
    grant: { ...grant, family, connected, current, governed, organizationEnded },
  }
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
