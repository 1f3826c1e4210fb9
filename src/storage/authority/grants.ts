/**
 * Grants: issued under a connection's generation, read by the RPT's SHA-256, spent once.
 * Contract: "Grant (RPT) liveness", "Single-use grant".
 */
import { sql, type Selectable } from 'kysely'
import { TAKES_NO_WRITES, takesNoWrites } from '../core/connection.ts'
import { prepared, retriedAlone, type Runner } from '../core/database.ts'
import type { Db, Tx } from './database.ts'
import { ASKED_FEW, gatheringOf, READS_AT_ONCE, TOGETHER_MAX, WRITES_AT_ONCE } from '../core/batch.ts'
import { note } from '../core/after-commit.ts'
import type { LedgerKind } from './ledger.ts'
import type { ResourceRow, ResourceServerRow } from './resources.ts'
import type { GrantsTable } from './tables.ts'
import type { GrantClaims } from '../../rules/grant-content.ts'
import type { OrganizationEpochs } from '../../rules/membership.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'

export interface NewGrant {
  owner: Owner
  rptSha256: Buffer
  jti: string
  family: Family
  handle: Handle
  /** Of the connection when the facts were read: the grant is refused where it has moved on. */
  generation: number
  client_id: ClientId
  aud: string
  resource_id: string
  tier_id: string
  tierEpoch: number
  /** The rest of what was read and judged: where any of it has changed since, the grant is refused likewise. */
  restsOn: {
    tierVersion: number
    /** Of the resource server. */
    serverGeneration: number
    /** Scopes that the resource must still have. */
    resourceScopes: readonly string[]
    /** Class that the resource declares. */
    consequence: string | null
    /** Classes of its tools; undefined where they were not read, so that they are not compared. */
    tools: ResourceRow['tools'] | undefined
    /** Operator that the request names, which must not be blocked. */
    operator: string | null
    /** Of an organization that governs the resource and shares it: epochs that must be the present ones still. */
    organization?: OrganizationEpochs | undefined
  }
  single_use: boolean
  /** The RPT's claims, as introspection will answer them. */
  claims: GrantClaims
  receipt: string
  /** Seconds since the epoch. */
  expiresAt: number
}

/** What `recordGrant` writes, of grants of one owner. */
interface Recorded {
  grant: NewGrant
  entries: readonly { kind: LedgerKind; data: Record<string, unknown> }[]
}

/**
 * Each fact that a grant rests on is read once more by the statement that writes it, for each grant of a batch by itself, and
 * no lock is taken: what had returned before the statement began is seen. An agent that had its tier before leaves that row alone,
 * and so waits for no other of its negotiations.
 */
const RECORD = prepared<{ jti: string }>(
  'record-grants',
  `WITH asked AS (
      SELECT * FROM ROWS FROM (
        unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[],
          $11::int[], $12::boolean[], $13::text[], $14::float8[], $19::int[], $20::int[], $21::text[], $22::text[], $24::text[],
          $25::int[], $26::int[], $27::int[]),
        json_array_elements($15::json), json_array_elements($23::json))
        WITH ORDINALITY AS asked(rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id, tier_id,
          tier_epoch, single_use, receipt, expires_at, tier_version, server_generation, consequence, operator,
          tools, org_epoch, org_handle_epoch, org_operator_epoch, claims, resource_scopes, place)
      WHERE ${ASKED_FEW}),
    made AS (
      INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
        tier_id, tier_epoch, single_use, claims, expires_at, org_epoch, org_handle_epoch, org_operator, org_operator_epoch)
      SELECT c.owner, a.rpt_sha256, a.jti, a.family, c.handle, c.generation, a.client_id, a.aud, a.resource_id,
        a.tier_id, a.tier_epoch, a.single_use, a.claims, to_timestamp(a.expires_at), a.org_epoch, a.org_handle_epoch,
        CASE WHEN a.org_epoch IS NOT NULL THEN a.operator END, a.org_operator_epoch
      FROM asked a JOIN connections c ON c.owner = $1 AND c.handle = a.handle
        AND c.status = 'active' AND c.generation = a.generation
      JOIN resource_servers rs ON rs.owner = $1 AND rs.client_id = a.client_id AND rs.resource_uri = a.aud
        AND rs.status = 'active' AND rs.generation = a.server_generation
      JOIN resources r ON r.owner = $1 AND r.resource_id = a.resource_id AND r.client_id = a.client_id
        AND r.consequence IS NOT DISTINCT FROM a.consequence
        AND (a.tools IS NULL OR coalesce(r.tools, 'null') = a.tools::jsonb)
        AND r.resource_scopes @> ARRAY(SELECT json_array_elements_text(a.resource_scopes))
      JOIN tiers t ON t.owner = $1 AND t.tier_id = a.tier_id AND t.epoch = a.tier_epoch
        AND t.version = a.tier_version AND t.deleted_at IS NULL
      JOIN tier_resources tr ON tr.owner = $1 AND tr.resource_id = a.resource_id AND tr.tier_id = a.tier_id
      WHERE NOT EXISTS (SELECT FROM operators o
        WHERE o.owner = $1 AND o.origin = a.operator AND o.blocked_at IS NOT NULL)
        AND CASE WHEN a.org_epoch IS NULL THEN r.org IS NULL
          ELSE r.org = 'shared' AND c.org_epoch = a.org_handle_epoch
            AND a.org_epoch = (SELECT m.org_epoch FROM memberships m WHERE m.owner = $1)
            AND a.org_operator_epoch = coalesce((SELECT o.org_epoch FROM operators o
              WHERE o.owner = $1 AND o.origin = a.operator), 0) END
      RETURNING jti, handle, family, tier_id),
    tier AS (
      INSERT INTO connection_tiers (owner, handle, tier_id, granted_at)
      SELECT DISTINCT $1, m.handle, m.tier_id, now() FROM made m
      WHERE NOT EXISTS (SELECT 1 FROM connection_tiers ct WHERE ct.owner = $1 AND ct.handle = m.handle
        AND ct.tier_id = m.tier_id AND ct.granted_at IS NOT NULL)
      ORDER BY m.handle, m.tier_id
      ON CONFLICT (owner, handle, tier_id) DO UPDATE SET granted_at = now()
      WHERE connection_tiers.granted_at IS NULL),
    receipt AS (
      INSERT INTO receipts (owner, jti, family, handle, receipt)
      SELECT $1, m.jti, m.family, m.handle, a.receipt FROM made m JOIN asked a ON a.jti = m.jti),
    placed AS (
      INSERT INTO receipt_positions (owner, jti) SELECT $1, m.jti FROM made m),
    ended AS (
      UPDATE families f SET state = 'granted', ticket_hash = NULL FROM made
      WHERE f.owner = $1 AND f.family = made.family AND f.state IN ('need_info', 'awaiting_owner')),
    told AS (
      INSERT INTO ledger (owner, kind, family, handle, data)
      SELECT $1, entry.kind, made.family, made.handle, entry.data
      FROM made JOIN ROWS FROM (unnest($16::text[], $17::text[]), json_array_elements($18::json))
        WITH ORDINALITY AS entry(jti, kind, data, place) ON entry.jti = made.jti
      ORDER BY entry.place)
  SELECT jti FROM made`,
)

/**
 * Records a grant from the connection row that is active at the generation the decision was made under, while all else that
 * it rests on is as it was judged; ends its negotiation, and tells the ledger of both: one statement, which is one transaction.
 * Takes no lock: a grant inserted while a revoke commits carries the old generation and is dead at birth. Those recorded at
 * the same time are one statement.
 * @returns false where something it rests on is no longer so; then nothing was written, and the request is to be weighed anew.
 */
export function recordGrant(db: Db, grant: NewGrant, entries: Recorded['entries']): Promise<boolean> {
  return RECORD_GRANT(db, { grant, entries })
}

async function recordGrants(db: Db, asked: Recorded[]): Promise<boolean[]> {
  // Whoever writes several does so in one order, so that no two wait for each other.
  const sorted = asked.toSorted((a, b) => compare(a.grant.handle, b.grant.handle))
  const of = <Value>(read: (grant: NewGrant) => Value): Value[] => sorted.map(({ grant }) => read(grant))
  const told = sorted.flatMap(({ grant: { jti }, entries }) => entries.map(entry => ({ jti, ...entry })))
  const { rows } = await RECORD(db, [
    sorted[0]!.grant.owner,
    of(grant => grant.rptSha256),
    of(grant => grant.jti),
    of(grant => grant.family),
    of(grant => grant.handle),
    of(grant => grant.generation),
    of(grant => grant.client_id),
    of(grant => grant.aud),
    of(grant => grant.resource_id),
    of(grant => grant.tier_id),
    of(grant => grant.tierEpoch),
    of(grant => grant.single_use),
    of(grant => grant.receipt),
    of(grant => grant.expiresAt),
    JSON.stringify(of(grant => grant.claims)),
    told.map(({ jti }) => jti),
    told.map(({ kind }) => kind),
    JSON.stringify(told.map(({ data }) => data)),
    of(({ restsOn }) => restsOn.tierVersion),
    of(({ restsOn }) => restsOn.serverGeneration),
    of(({ restsOn }) => restsOn.consequence),
    of(({ restsOn }) => restsOn.operator),
    JSON.stringify(of(({ restsOn }) => restsOn.resourceScopes)),
    of(({ restsOn }) => (restsOn.tools === undefined ? null : JSON.stringify(restsOn.tools))),
    of(({ restsOn }) => restsOn.organization?.membership ?? null),
    of(({ restsOn }) => restsOn.organization?.handle ?? null),
    of(({ restsOn }) => restsOn.organization?.operator ?? null),
  ])
  if (rows.length > 0) note(db, sorted[0]!.grant.owner)
  const made = new Set(rows.map(({ jti }) => jti))
  return asked.map(({ grant }) => made.has(grant.jti))
}

const RECORD_GRANT = gatheringOf(
  (db: Db, asked: Recorded[]) => retriedAlone(db, () => recordGrants(db, asked)),
  {
    owner: ({ grant }: Recorded) => grant.owner,
    together: TOGETHER_MAX,
    atOnce: WRITES_AT_ONCE,
  },
)

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

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
 * Whether an organization ended a grant, by the epochs that it carries. Where the resource was never governed, only the tier's hold on it is looked at,
 * which is read anyway: no membership, no further look.
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
 * Reads a grant for a resource server, never consuming it. Always from the primary, which the statement itself makes sure of, never
 * from a cache; those asked for at the same time are read by one statement.
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
 * One statement spends the grant and proves, under share locks on the rows of the connection, the asking server, the tier and
 * the tier's hold on the resource, in this order, that each stands: without them a consume waiting for a row would win after
 * what ended it had returned. A grant on what an organization governs proves its membership and its operator likewise, before these; of any other,
 * neither is looked at. The clock is read when the row is judged, not when the statement began to wait.
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
 * Spends a single-use grant for the resource server it was issued for: its client_id, and the generation its PAT
 * was issued under (left out: whichever is in force).
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
/** Unexpired grants that are looked at for that. Which of them are spent stands in no index, so that spending one stays a heap-only update. */
const GRANTS_LOOKED_AT_MAX = 2_000

/**
 * How many live grants the handles' present generations hold: by index, those that expire last first, counted to at most 1,000 and among at most 2,000
 * that have not expired, so that the cost of a revocation does not grow with what was spent. `more`: not all could be counted.
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
