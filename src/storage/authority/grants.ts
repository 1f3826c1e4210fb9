/**
 * Grants, once issued: read by the RPT's SHA-256, spent once, counted. Contract: "Grant (RPT) liveness",
 * "Single-use grant".
 */
import { sql, type Selectable } from 'kysely'
import { TAKES_NO_WRITES, takesNoWrites } from '../core/connection.ts'
import { prepared, retriedAlone, type Runner } from '../core/database.ts'
import type { Tx } from './database.ts'
import { gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from '../core/batch.ts'
import type { ResourceServerRow } from './resources.ts'
import type { GrantsTable } from './tables.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'

/** What introspection reads, in one statement: the asking server's record and, if there is one, the grant. */
export interface GrantReading {
  /** Of the asking resource server, as recorded now. */
  server: Pick<ResourceServerRow, 'status' | 'generation' | 'resource_uri'>
  grant?: GrantColumns & {
    consumed: boolean
    expired: boolean
    /** The connection is active. */
    connected: boolean
    /** The grant's generation is the connection's present one. */
    current: boolean
    /** The tier it was issued under still stands and still governs the resource. */
    governed: boolean
    /** An organization ended the agent's reach, or governs the resource since the grant was made. */
    organizationEnded: boolean
  }
}

type GrantColumns = Pick<Selectable<GrantsTable>, 'claims' | 'client_id' | 'aud' | 'family' | 'single_use'>

interface ReadRow extends Omit<GrantColumns, 'claims'>, Pick<ResourceServerRow, 'resource_uri'> {
  /** Of the question, from 1. */
  place: number
  /** Nothing else of the row is an answer then. */
  standby: boolean
  /** Null where the owner has no such resource server. */
  rs_status: ResourceServerRow['status'] | null
  rs_generation: ResourceServerRow['generation']
  /** Null where no such grant was made. */
  claims: GrantColumns['claims'] | null
  consumed: boolean
  expired: boolean
  connected: boolean | null
  current: boolean | null
  governed: boolean
  /** Null where it cannot be told. */
  organization_ended: boolean | null
}

/**
 * Whether an organization ended a grant, by the epochs that it carries. Where the resource was never
 * governed, only the tier's hold on it is looked at, which is read anyway: no membership, no further look.
 */
const ORGANIZATION_ENDED = `CASE WHEN g.org_epoch IS NULL THEN tr.org IS NOT NULL
        ELSE g.org_epoch <> coalesce((SELECT m.org_epoch FROM memberships m WHERE m.owner = g.owner), -1)
          OR g.org_handle_epoch <> c.org_epoch
          OR g.org_operator_epoch <> coalesce((SELECT o.org_epoch FROM operators o
            WHERE o.owner = g.owner AND o.origin = g.org_operator), 0) END`

const READ = prepared<ReadRow>(
  'read-grants',
  `
    SELECT asked.place::int, ${TAKES_NO_WRITES} AS standby, rs.status AS rs_status, rs.generation AS rs_generation, rs.resource_uri,
      g.claims, g.client_id, g.aud, g.family, g.single_use,
      g.consumed_at IS NOT NULL AS consumed, g.expires_at <= clock_timestamp() AS expired,
      c.status = 'active' AS connected, c.generation = g.generation AS current,
      tr.resource_id IS NOT NULL AS governed,
      ${ORGANIZATION_ENDED} AS organization_ended
    FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS asked(client_id, rpt_sha256, place)
    LEFT JOIN resource_servers rs ON rs.owner = $1 AND rs.client_id = asked.client_id
    LEFT JOIN grants g ON g.owner = $1 AND g.rpt_sha256 = asked.rpt_sha256
    LEFT JOIN connections c ON c.owner = g.owner AND c.handle = g.handle
    LEFT JOIN tiers t ON t.owner = g.owner AND t.tier_id = g.tier_id
      AND t.epoch = g.tier_epoch AND t.deleted_at IS NULL
    LEFT JOIN tier_resources tr ON tr.owner = t.owner AND tr.tier_id = t.tier_id
      AND tr.resource_id = g.resource_id`,
)

/** One grant that is asked about, and the server that asks. */
interface GrantQuestion {
  owner: Owner
  clientId: ClientId
  rptSha256: Buffer
}

/**
 * Reads a grant for a resource server, never consuming it. Always from the primary, which the statement
 * itself makes sure of, never from a cache; those asked for at the same time are read by one statement.
 * @returns undefined where the owner has no such resource server; without `grant` where no such RPT was
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

/** Questions of one owner, answered in their order. */
async function readGrants(calls: Runner, questions: GrantQuestion[]): Promise<(GrantReading | undefined)[]> {
  const { rows } = await READ(calls, [
    questions[0]!.owner,
    questions.map(({ clientId }) => clientId),
    questions.map(({ rptSha256 }) => rptSha256),
  ])
  const answers: (GrantReading | undefined)[] = questions.map(() => undefined)
  for (const row of rows) {
    if (row.standby) throw takesNoWrites()
    answers[row.place - 1] = readingOf(row)
  }
  return answers
}

const READ_GRANT = gatheringOf(readGrants, {
  owner: ({ owner }: GrantQuestion) => owner,
  together: TOGETHER_MAX,
  atOnce: READS_AT_ONCE,
})

function readingOf(row: ReadRow): GrantReading | undefined {
  if (row.rs_status === null) return undefined
  const server = { status: row.rs_status, generation: row.rs_generation, resource_uri: row.resource_uri }
  if (row.claims === null) return { server }
  const { claims, client_id, aud, family, single_use, consumed, expired, governed } = row
  const organizationEnded = row.organization_ended !== false
  const connected = row.connected === true
  const current = row.current === true
  return {
    server,
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

/**
 * One statement spends the grant and proves, under share locks on the rows of the connection, the asking
 * server, the tier and the tier's hold on the resource, in this order, that each stands: without them a
 * consume waiting for a row would win after what ended it had returned. A grant on what an organization
 * governs proves its membership and its operator likewise, before these; of any other, neither is looked at.
 * The clock is read when the row is judged, not when the statement began to wait.
 */
const CONSUME = prepared<{ family: Family }>(
  'consume-grant',
  `
    WITH member AS MATERIALIZED (
      SELECT m.owner FROM grants g JOIN memberships m ON m.owner = g.owner AND m.org_epoch = g.org_epoch
      WHERE g.owner = $1 AND g.rpt_sha256 = $2
      FOR SHARE OF m),
    operator AS MATERIALIZED (
      SELECT o.owner FROM grants g JOIN operators o ON o.owner = g.owner AND o.origin = g.org_operator
        AND o.org_epoch = g.org_operator_epoch
      WHERE g.owner = $1 AND g.rpt_sha256 = $2
      FOR SHARE OF o),
    standing AS MATERIALIZED (
      SELECT c.handle, c.generation, rs.client_id, rs.resource_uri FROM grants g
      JOIN connections c ON c.owner = g.owner AND c.handle = g.handle
      JOIN resource_servers rs ON rs.owner = g.owner AND rs.client_id = g.client_id
      JOIN tiers t ON t.owner = g.owner AND t.tier_id = g.tier_id
      JOIN tier_resources tr ON tr.owner = t.owner AND tr.tier_id = t.tier_id AND tr.resource_id = g.resource_id
      WHERE g.owner = $1 AND g.rpt_sha256 = $2 AND c.status = 'active' AND c.generation = g.generation
        AND rs.client_id = $3 AND rs.status = 'active' AND rs.generation = coalesce($4, rs.generation)
        AND t.epoch = g.tier_epoch AND t.deleted_at IS NULL
        AND CASE WHEN g.org_epoch IS NULL THEN tr.org IS NULL
          ELSE EXISTS (SELECT FROM member) AND (g.org_operator IS NULL OR EXISTS (SELECT FROM operator))
            AND c.org_epoch = g.org_handle_epoch END
      FOR SHARE OF c, rs, t, tr)
    UPDATE grants g SET consumed_at = clock_timestamp() FROM standing s
    WHERE g.owner = $1 AND g.rpt_sha256 = $2 AND g.handle = s.handle AND g.generation = s.generation
      AND g.client_id = s.client_id AND g.aud = s.resource_uri
      AND g.single_use AND g.consumed_at IS NULL AND g.expires_at > clock_timestamp()
    RETURNING g.family`,
)

/**
 * Spends a single-use grant for the resource server it was issued for: its client_id, and the generation its
 * PAT was issued under (left out: whichever is in force).
 * @returns the family where this call spent it; undefined where it did not (ask `readGrant` why).
 */
export async function consumeGrant(
  calls: Runner,
  owner: Owner,
  { client_id, generation }: { client_id: ClientId; generation?: number },
  rptSha256: Buffer,
): Promise<Family | undefined> {
  const { rows } = await retriedAlone(calls, () =>
    CONSUME(calls, [owner, rptSha256, client_id, generation ?? null]),
  )
  return rows[0]?.family
}

const LIVE_GRANTS_COUNTED_MAX = 1_000
/**
 * Unexpired grants that are looked at for that. Which of them are spent stands in no index, so that spending
 * one stays a heap-only update.
 */
const GRANTS_LOOKED_AT_MAX = 2_000

/**
 * How many live grants the handles' present generations hold: by index, those that expire last first, counted
 * to at most 1,000 and among at most 2,000 that have not expired, so that the cost of a revocation does not
 * grow with what was spent. `more`: not all could be counted.
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
