/**
 * Grants: issued under a connection's generation, read by the RPT's SHA-256, spent once.
 * Contract: "Grant (RPT) liveness", "Single-use grant".
 */
import { sql } from 'kysely'
import { prepared, type Database, type Db, type Tx } from './database.ts'
import { gathering } from './gathering.ts'
import type { LedgerKind } from './ledger.ts'

export interface NewGrant {
  owner: string
  rptSha256: Buffer
  jti: string
  family: string
  handle: string
  /** Of the connection when the facts were read: the grant is refused where it has moved on. */
  generation: number
  client_id: string
  aud: string
  resource_id: string
  tier_id: string
  tierEpoch: number
  single_use: boolean
  /** The RPT's claims, as introspection will answer them. */
  claims: unknown
  receipt: string
  /** Seconds since the epoch. */
  expiresAt: number
}

/** From the connection row that is active at the generation the decision was made under. Takes no lock. */
const INSERT_GRANT = `
  INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
    tier_id, tier_epoch, single_use, claims, receipt, expires_at)
  SELECT c.owner, $2::bytea, $3, $4, c.handle, c.generation, $7, $8, $9, $10, $11::int, $12::boolean, $13::json, $14,
    to_timestamp($15::float8)
  FROM connections c
  WHERE c.owner = $1 AND c.handle = $5 AND c.status = 'active' AND c.generation = $6`

/** An agent that had this tier before leaves its row alone, and so waits for no other of its negotiations. */
const insertTier = (parameters: { handle: string; tier: string }, from: string): string => `
  INSERT INTO connection_tiers (owner, handle, tier_id, granted_at)
  SELECT $1, ${parameters.handle}, ${parameters.tier}, now() ${from}
  WHERE NOT EXISTS (SELECT 1 FROM connection_tiers WHERE owner = $1 AND handle = ${parameters.handle}
    AND tier_id = ${parameters.tier} AND granted_at IS NOT NULL)
  ON CONFLICT (owner, handle, tier_id) DO UPDATE SET granted_at = now()
  WHERE connection_tiers.granted_at IS NULL`

const INSERT = prepared('insert-grant', INSERT_GRANT)
const TIER = prepared('insert-granted-tier', insertTier({ handle: '$2', tier: '$3' }, ''))

/**
 * Records a grant from the connection row that is active at the generation the decision was made under.
 * Takes no lock: a grant inserted while a revoke commits carries the old generation and is dead at birth.
 * @returns false where the connection is no longer that one (revoked meanwhile).
 */
export async function insertGrant(tx: Tx, grant: NewGrant): Promise<boolean> {
  const { affected } = await INSERT(tx, valuesOf(grant))
  if (affected !== 1n) return false
  await TIER(tx, [grant.owner, grant.handle, grant.tier_id])
  return true
}

const RECORD = prepared<{ made: number }>(
  'record-grant',
  `WITH made AS (${INSERT_GRANT} RETURNING handle),
    tier AS (${insertTier({ handle: '$5', tier: '$10' }, 'FROM made')}),
    ended AS (
      UPDATE families f SET state = 'granted', ticket_hash = NULL FROM made
      WHERE f.owner = $1 AND f.family = $4 AND f.state IN ('need_info', 'awaiting_owner')),
    told AS (
      INSERT INTO ledger (owner, kind, family, handle, data)
      SELECT $1, entry.kind, $4, $5, entry.data::json
      FROM made, unnest($16::text[], $17::text[]) WITH ORDINALITY AS entry(kind, data, place) ORDER BY place)
  SELECT count(*)::int AS made FROM made`,
)

/**
 * Records a grant as `insertGrant` does, ends its negotiation, and tells the ledger of both: one statement, which is one
 * transaction, for the negotiation of an agent that the owner knows.
 * @returns false where the connection is no longer that one; then nothing was written.
 */
export async function recordGrant(
  db: Db,
  grant: NewGrant,
  entries: readonly { kind: LedgerKind; data: Record<string, unknown> }[],
): Promise<boolean> {
  const kinds = entries.map(({ kind }) => kind)
  const data = entries.map(entry => JSON.stringify(entry.data))
  const { rows } = await RECORD(db, [...valuesOf(grant), kinds, data])
  return rows[0]!.made === 1
}

function valuesOf(grant: NewGrant): unknown[] {
  const { owner, rptSha256, jti, family, handle, generation, client_id, aud, resource_id } = grant
  return [
    owner,
    rptSha256,
    jti,
    family,
    handle,
    generation,
    client_id,
    aud,
    resource_id,
    grant.tier_id,
    grant.tierEpoch,
    grant.single_use,
    JSON.stringify(grant.claims),
    grant.receipt,
    grant.expiresAt,
  ]
}

/** What introspection reads, in one statement: the asking server's record and, if there is one, the grant. */
export interface GrantReading {
  /** Of the asking resource server, as recorded now. */
  server: { status: 'pending' | 'active' | 'revoked'; generation: number; resource_uri: string }
  grant?: {
    claims: Record<string, unknown>
    client_id: string
    aud: string
    family: string
    single_use: boolean
    consumed: boolean
    expired: boolean
    /** The connection is active. */
    connected: boolean
    /** The grant's generation is the connection's present one. */
    current: boolean
    /** The tier it was issued under still stands and still governs the resource. */
    governed: boolean
  }
}

const READ = {
  name: 'read-grants',
  text: `
    SELECT asked.place::int, rs.status AS rs_status, rs.generation AS rs_generation, rs.resource_uri,
      g.claims, g.client_id, g.aud, g.family, g.single_use,
      g.consumed_at IS NOT NULL AS consumed, g.expires_at <= clock_timestamp() AS expired,
      c.status = 'active' AS connected, c.generation = g.generation AS current,
      tr.resource_id IS NOT NULL AS governed
    FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS asked(client_id, rpt_sha256, place)
    JOIN resource_servers rs ON rs.owner = $1 AND rs.client_id = asked.client_id
    LEFT JOIN grants g ON g.owner = $1 AND g.rpt_sha256 = asked.rpt_sha256
    LEFT JOIN connections c ON c.owner = g.owner AND c.handle = g.handle
    LEFT JOIN tiers t ON t.owner = g.owner AND t.tier_id = g.tier_id
      AND t.epoch = g.tier_epoch AND t.deleted_at IS NULL
    LEFT JOIN tier_resources tr ON tr.owner = t.owner AND tr.tier_id = t.tier_id
      AND tr.resource_id = g.resource_id`,
}

interface ReadRow {
  /** Of the question, from 1. */
  place: number
  rs_status: 'pending' | 'active' | 'revoked'
  rs_generation: number
  resource_uri: string
  claims: Record<string, unknown> | null
  client_id: string
  aud: string
  family: string
  single_use: boolean
  consumed: boolean
  expired: boolean
  connected: boolean | null
  current: boolean | null
  governed: boolean
}

/** One grant that is asked about, and the server that asks. */
interface GrantQuestion {
  owner: string
  clientId: string
  rptSha256: Buffer
}

type GrantReader = (question: GrantQuestion) => Promise<GrantReading | undefined>

const readers = new WeakMap<Database, GrantReader>()

/**
 * Reads a grant for a resource server, never consuming it. Always from the primary, never from a cache; those asked for at the same
 * time are read by one statement.
 * @returns undefined where the owner has no such resource server; without `grant` where no such RPT was
 * issued over this owner's resources. Whether the grant concerns the asking server is the caller's check.
 */
export async function readGrant(
  database: Database,
  owner: string,
  clientId: string,
  rptSha256: Buffer,
): Promise<GrantReading | undefined> {
  let read = readers.get(database)
  if (read === undefined) {
    read = gathering(questions => readGrants(database, questions), {
      group: ({ owner }) => owner,
      together: 100,
      atOnce: 4,
    })
    readers.set(database, read)
  }
  return read({ owner, clientId, rptSha256 })
}

/** Questions of one owner, answered in their order. */
async function readGrants(
  database: Database,
  questions: GrantQuestion[],
): Promise<(GrantReading | undefined)[]> {
  const { rows } = await database.pool.query<ReadRow>({
    ...READ,
    values: [
      questions[0]!.owner,
      questions.map(({ clientId }) => clientId),
      questions.map(({ rptSha256 }) => rptSha256),
    ],
  })
  const answers: (GrantReading | undefined)[] = questions.map(() => undefined)
  for (const row of rows) answers[row.place - 1] = readingOf(row)
  return answers
}

function readingOf(row: ReadRow): GrantReading {
  const server = { status: row.rs_status, generation: row.rs_generation, resource_uri: row.resource_uri }
  if (row.claims === null) return { server }
  const { claims, client_id, aud, family, single_use, consumed, expired, governed } = row
  const connected = row.connected === true
  const current = row.current === true
  return {
    server,
    grant: { claims, client_id, aud, family, single_use, consumed, expired, connected, current, governed },
  }
}

/**
 * One statement spends the grant and proves, under share locks on the rows of the connection and of the asking
 * server, that both stand: without them a consume waiting for a row would win after the revoke, or the
 * withdrawal, had returned. The clock is read when the row is judged, not when the statement began to wait.
 */
const CONSUME = {
  name: 'consume-grant',
  text: `
    WITH standing AS MATERIALIZED (
      SELECT c.handle, c.generation, rs.client_id, rs.resource_uri FROM grants g
      JOIN connections c ON c.owner = g.owner AND c.handle = g.handle
      JOIN resource_servers rs ON rs.owner = g.owner AND rs.client_id = g.client_id
      WHERE g.owner = $1 AND g.rpt_sha256 = $2 AND c.status = 'active' AND c.generation = g.generation
        AND rs.client_id = $3 AND rs.status = 'active' AND rs.generation = coalesce($4, rs.generation)
      FOR SHARE OF c, rs)
    UPDATE grants g SET consumed_at = clock_timestamp() FROM standing s
    WHERE g.owner = $1 AND g.rpt_sha256 = $2 AND g.handle = s.handle AND g.generation = s.generation
      AND g.client_id = s.client_id AND g.aud = s.resource_uri
      AND g.single_use AND g.consumed_at IS NULL AND g.expires_at > clock_timestamp()
      AND EXISTS (SELECT 1 FROM tiers t JOIN tier_resources tr ON tr.owner = t.owner AND tr.tier_id = t.tier_id
        WHERE t.owner = $1 AND t.tier_id = g.tier_id AND t.epoch = g.tier_epoch AND t.deleted_at IS NULL
        AND tr.resource_id = g.resource_id)
    RETURNING g.family`,
}

/**
 * Spends a single-use grant for the resource server it was issued for: its client_id, and the generation its PAT
 * was issued under (left out: whichever is in force).
 * @returns the family where this call spent it; undefined where it did not (ask `readGrant` why).
 */
export async function consumeGrant(
  database: Database,
  owner: string,
  server: string | { client_id: string; generation: number },
  rptSha256: Buffer,
): Promise<string | undefined> {
  const { client_id, generation } =
    typeof server === 'string' ? { client_id: server, generation: null } : server
  const { rows } = await database.pool.query<{ family: string }>({
    ...CONSUME,
    values: [owner, rptSha256, client_id, generation],
  })
  return rows[0]?.family
}

export const LIVE_GRANTS_COUNTED_MAX = 1_000

/** How many live grants the handles' present generations hold, counted to at most 1,001, by index. */
export async function countLiveGrants(tx: Tx, owner: string, handles: string[]): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    SELECT count(*)::int AS n FROM (
      SELECT 1 FROM connections c
      JOIN grants g ON g.owner = c.owner AND g.handle = c.handle AND g.generation = c.generation
      WHERE c.owner = ${owner} AND c.handle = ANY(${handles})
        AND g.expires_at > now() AND g.consumed_at IS NULL
      LIMIT ${LIVE_GRANTS_COUNTED_MAX + 1}) live`.execute(tx)
  return rows[0]?.n ?? 0
}
