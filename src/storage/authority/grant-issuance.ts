/**
 * The issue of grants: under the generation of a connection, and with every fact that a grant rests on read
 * once more. Contract: "Grant (RPT) liveness", "Grant answer (beat 4)".
 */
import { sql } from 'kysely'
import { inTransaction, prepared } from '../core/database.ts'
import type { Db, Tx } from './database.ts'
import { ASKED_FEW, gatheringOf, ownedBy, TOGETHER_MAX, WRITES_AT_ONCE } from '../core/batch.ts'
import { note } from '../core/after-commit.ts'
import type { LedgerKind } from './ledger.ts'
import type { ResourceRow } from './resources.ts'
import type { GrantClaims } from '../../rules/grant-content.ts'
import type { OrganizationEpochs } from '../../rules/membership.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'

export interface NewGrant {
  owner: Owner
  rptSha256: Buffer
  jti: string
  family: Family
  handle: Handle
  /** Generation of the connection when the facts were read: the grant is refused if it has changed. */
  generation: number
  client_id: ClientId
  aud: string
  resource_id: string
  tier_id: string
  tierEpoch: number
  /**
   * The other facts that were read and judged. If any of them has changed since, the grant is refused, too.
   */
  restsOn: {
    tierVersion: number
    /** Of the resource server. */
    serverGeneration: number
    /** Scopes that the resource must still have. */
    resourceScopes: readonly string[]
    /** Class that the resource declares. */
    consequence: string | null
    /** Classes of its tools; undefined if they were not read, so that they are not compared. */
    tools: ResourceRow['tools'] | undefined
    /** Operator that the request names, which must not be blocked. */
    operator: string | null
    /**
     * If an organization governs and shares the resource, or attested something that was required: the epochs
     * that must still be the present ones.
     */
    organization?: OrganizationEpochs | undefined
  }
  single_use: boolean
  /** The RPT's claims, as introspection will answer them. */
  claims: GrantClaims
  receipt: string
  /** Seconds since the epoch. */
  expiresAt: number
}

/** The rows that `recordGrant` writes, for grants of one owner. */
interface Recorded {
  grant: NewGrant
  /** The limit; undefined means no limit. */
  most: number | undefined
  entries: readonly { kind: LedgerKind; data: Record<string, unknown> }[]
}

/**
 * The statement that writes a grant reads each fact behind it again, separately for each grant of a batch,
 * and takes no lock: it sees every change that had returned before the statement began. If an agent had its
 * tier before, the statement does not touch that row, so it waits for no other negotiation of that agent.
 * Her live grants are counted, unless that was done a moment ago and left much room.
 */
const RECORD = prepared<{ jti: string } | { jti: null; enough: boolean; live: number }>(
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
    room AS MATERIALIZED (
      SELECT live, live + (SELECT count(*) FROM asked) <= $28::int - $29::int AS enough FROM (
        SELECT coalesce($30::int, (SELECT count(*) FROM (
          SELECT FROM grants WHERE owner = $1 AND expires_at > now() LIMIT $28) found)) AS live
        WHERE $28::int IS NOT NULL OFFSET 0) known),
    made AS (
      INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
        tier_id, tier_epoch, hold, single_use, claims, expires_at, org_epoch, org_handle_epoch, org_operator, org_operator_epoch)
      SELECT c.owner, a.rpt_sha256, a.jti, a.family, c.handle, c.generation, a.client_id, a.aud, a.resource_id,
        a.tier_id, a.tier_epoch, tr.hold, a.single_use, a.claims, to_timestamp(a.expires_at), a.org_epoch, a.org_handle_epoch,
        CASE WHEN a.org_handle_epoch IS NOT NULL THEN a.operator END, a.org_operator_epoch
      FROM asked a
      JOIN LATERAL (SELECT * FROM connections WHERE owner = $1 AND handle = a.handle OFFSET 0) c
        ON c.status = 'active' AND c.generation = a.generation
        AND (c.reach IS NULL OR (c.reach = 'organization' AND a.org_handle_epoch IS NOT NULL))
      JOIN LATERAL (SELECT * FROM resource_servers WHERE owner = $1 AND client_id = a.client_id OFFSET 0) rs
        ON rs.resource_uri = a.aud AND rs.status = 'active' AND rs.generation = a.server_generation
      JOIN LATERAL (SELECT * FROM resources WHERE ${ownedBy('owner', '$1')} AND resource_id = a.resource_id OFFSET 0) r
        ON r.client_id = a.client_id AND r.consequence IS NOT DISTINCT FROM a.consequence
        AND (a.tools IS NULL OR coalesce(r.tools, 'null') = a.tools::jsonb)
        AND r.resource_scopes @> ARRAY(SELECT json_array_elements_text(a.resource_scopes))
      JOIN LATERAL (SELECT * FROM tiers WHERE owner = $1 AND tier_id = a.tier_id OFFSET 0) t
        ON t.epoch = a.tier_epoch AND t.version = a.tier_version AND t.deleted_at IS NULL
      JOIN LATERAL (SELECT * FROM tier_resources
        WHERE ${ownedBy('owner', '$1')} AND resource_id = a.resource_id AND tier_id = a.tier_id OFFSET 0) tr ON true
      WHERE coalesce((SELECT enough FROM room), true) AND NOT EXISTS (SELECT FROM operators o
        WHERE o.owner = $1 AND o.origin = a.operator AND o.blocked_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM owners s WHERE s.owner = $1 AND s.suspended_at IS NOT NULL)
        AND (a.org_epoch IS NULL OR a.org_epoch = (SELECT m.org_epoch FROM memberships m WHERE m.owner = $1))
        AND CASE WHEN a.org_handle_epoch IS NULL THEN r.org IS NULL
          ELSE r.org = 'shared' AND a.org_epoch IS NOT NULL AND c.org_epoch = a.org_handle_epoch
            AND a.org_operator_epoch = coalesce((SELECT o.org_epoch FROM operators o
              WHERE o.owner = $1 AND o.origin = a.operator), 0) END
      RETURNING owner, jti, handle, family, tier_id, CASE WHEN org_handle_epoch IS NOT NULL THEN resource_id END AS governed),
    tier AS (
      INSERT INTO connection_tiers (owner, handle, tier_id, granted_at)
      SELECT DISTINCT $1, m.handle, m.tier_id, now() FROM made m
      WHERE NOT EXISTS (SELECT 1 FROM connection_tiers ct WHERE ct.owner = $1 AND ct.handle = m.handle
        AND ct.tier_id = m.tier_id AND ct.granted_at IS NOT NULL OFFSET 0)
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
      WHERE ${ownedBy('f.owner', 'made.owner')} AND f.family = made.family AND f.state IN ('need_info', 'awaiting_owner')),
    told AS (
      INSERT INTO ledger (owner, kind, family, handle, data, resource_id)
      SELECT $1, entry.kind, made.family, made.handle, entry.data, made.governed
      FROM made JOIN ROWS FROM (unnest($16::text[], $17::text[]), json_array_elements($18::json))
        WITH ORDINALITY AS entry(jti, kind, data, place) ON entry.jti = made.jti
      ORDER BY entry.place)
  SELECT jti, NULL AS enough, NULL AS live FROM made UNION ALL SELECT NULL, enough, live FROM room`,
)

/**
 * Records a grant from the connection row that is active at the generation of the decision, if all other
 * facts are unchanged. It ends the negotiation and writes both to the ledger: one statement, which is one
 * transaction. Takes no lock: a grant inserted while a revoke commits carries the old generation and is dead
 * at birth. Grants that are recorded at the same time share one statement.
 * @param most how many grants of the owner may be live at a time, including spent ones.
 * @returns false if a fact that it rests on has changed; then nothing was written, and the request must be
 * weighed again.
 * @throws GrantsFull if she has reached her limit; then nothing was written, either.
 */
// oxlint-disable-next-line eslint/max-params -- where, what, what is told of it, and how many there may be
export async function recordGrant(
  db: Db,
  grant: NewGrant,
  entries: Recorded['entries'],
  most?: number,
): Promise<boolean> {
  const recorded = await RECORD_GRANT(db, { grant, entries, most })
  if (recorded !== 'near') return recorded
  const counted = db.isTransaction
    ? await recordCounted(db as Tx, { grant, entries, most })
    : await inTransaction(db, tx => recordCounted(tx, { grant, entries, most }))
  if (counted === 'near') throw new GrantsFull()
  return counted
}

/** An owner has reached her limit of live grants. */
export class GrantsFull extends Error {
  override readonly name = 'GrantsFull'
}

/**
 * When this few places are left, grants are written one by one. The number is larger than what all replicas
 * can write while a count serves, and in statements that are under way and do not see each other. With more
 * places left, nobody waits.
 */
export const NEAR = 4_000

/** Writes one grant, while nobody else writes a counted grant of hers. */
async function recordCounted(tx: Tx, asked: Recorded): Promise<boolean | 'near'> {
  // Rows that refer to her can still be written, because only her key is locked.
  await sql`SELECT FROM owners WHERE owner = ${asked.grant.owner} FOR NO KEY UPDATE`.execute(tx)
  const [recorded] = await recordGrants(tx, [asked], 0)
  return recorded!
}

/** How many grants of an owner may live: those that were counted, and what this process issued since. */
interface Counted {
  live: number
  /** When it was counted, by `performance.now()`. */
  at: number
}

/**
 * For how long a count serves, in milliseconds. What other processes issue meanwhile is not in it, as what is
 * being written is in no count: `NEAR` leaves room for both.
 */
export const COUNTED_MS = 250
/** Owners whose counts are remembered. */
const COUNTED_MAX = 10_000
/** By database. One that is forgotten is counted again. */
const COUNTED = new WeakMap<Db, Map<Owner, Counted>>()

function countsOf(db: Db): Map<Owner, Counted> {
  const counts = COUNTED.get(db) ?? new Map<Owner, Counted>()
  COUNTED.set(db, counts)
  return counts
}

/** What was counted a moment ago, if it leaves room for so many more. */
function countedFor(db: Db, owner: Owner, room: number): Counted | undefined {
  if (db.isTransaction) return undefined
  const counted = countsOf(db).get(owner)
  if (counted === undefined || performance.now() - counted.at >= COUNTED_MS) return undefined
  return counted.live <= room ? counted : undefined
}

function remember(db: Db, owner: Owner, counted: Counted): void {
  if (db.isTransaction) return
  const counts = countsOf(db)
  counts.delete(owner)
  counts.set(owner, counted)
  const [oldest] = counts.keys()
  if (counts.size > COUNTED_MAX) counts.delete(oldest!)
}

async function recordGrants(db: Db, asked: Recorded[], margin = NEAR): Promise<(boolean | 'near')[]> {
  // Rows are written in one order, so that no two callers deadlock.
  const sorted = asked.toSorted((a, b) => compare(a.grant.handle, b.grant.handle))
  const of = <Value>(read: (grant: NewGrant) => Value): Value[] => sorted.map(({ grant }) => read(grant))
  const { grant, most } = sorted[0]!
  const { owner } = grant
  const counted = most === undefined ? undefined : countedFor(db, owner, most - margin - sorted.length)
  const at = performance.now()
  const told = sorted.flatMap(({ grant: { jti }, entries }) => entries.map(entry => ({ jti, ...entry })))
  const { rows } = await RECORD(db, [
    owner,
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
    most ?? null,
    margin,
    counted?.live ?? null,
  ])
  const room = rows.find(row => row.jti === null)
  if (room?.enough === false) return asked.map(() => 'near')
  const made = new Set(rows.flatMap(({ jti }) => jti ?? []))
  if (counted !== undefined) counted.live += made.size
  else if (room !== undefined) remember(db, owner, { live: room.live + made.size, at })
  if (made.size > 0) note(db, owner)
  return asked.map(({ grant }) => made.has(grant.jti))
}

const RECORD_GRANT = gatheringOf((db: Db, asked: Recorded[]) => recordGrants(db, asked), {
  owner: ({ grant }: Recorded) => grant.owner,
  together: TOGETHER_MAX,
  atOnce: WRITES_AT_ONCE,
})

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
