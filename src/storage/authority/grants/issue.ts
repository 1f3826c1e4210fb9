/**
 * The issue of grants: under the generation of a connection, and with every fact that a grant rests on read
 * once more. Contract: "Grant (RPT) liveness", "Grant answer (beat 4)".
 */
import { sql } from 'kysely'
import { SAME_FACTS, type GrantBasis, type BasisFacts } from '../../../rules/grant.ts'
import type { SignedGrant } from '../../../rules/grant-content.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { announceOwner } from '../../core/after-commit.ts'
import { ASKED_FEW, gatheringOf, ownedBy, TOGETHER_MAX, WRITES_AT_ONCE } from '../../core/batch.ts'
import { inTransaction, prepared, type Prepared } from '../../core/database.ts'
import { wholeOf } from '../../core/shares.ts'
import type { Db, Tx } from '../database.ts'
import type { LedgerKind } from '../ledger/ledger.ts'
import {
  andSame,
  CONNECTED,
  CURRENT,
  LIVE_COLUMNS,
  LIVE_VALUES,
  membershipStands,
  REACH_STANDS,
  TIER_STANDS,
} from './facts.sql.ts'

/** A grant that was weighed and signed, to be recorded if all that it rests on still stands. */
export interface NewGrant
  extends
    SignedGrant,
    Pick<
      GrantBasis,
      | keyof BasisFacts
      | 'owner'
      | 'family'
      | 'handle'
      | 'client_id'
      | 'resource_id'
      | 'tier_id'
      | 'resource_scopes'
      | 'consequence'
      | 'declared'
      | 'operator'
      | 'organization'
      | 'single_use'
    > {
  /** The generation of the connection when the facts were read. */
  generation: number
}

/** The rows that `recordGrant` writes, for grants of one owner. */
export interface GrantRecording {
  grant: NewGrant
  /** The limit; undefined means no limit. */
  most: number | undefined
  entries: readonly { kind: LedgerKind; data: Record<string, unknown> }[]
}

/**
 * The columns of a grant that is asked for: the type of each, and its value as JSON. Those that `grants` has
 * too are called as there. The claims are not among them, nor is what the ledger is told: texts of agents may
 * hold a NUL, which only JSON that nobody reads can keep.
 */
const ASKED: Record<string, [type: string, of: (grant: NewGrant) => unknown]> = {
  rpt_sha256: ['bytea', ({ rptSha256 }) => `\\x${rptSha256.toString('hex')}`],
  jti: ['text', ({ jti }) => jti],
  family: ['text', ({ family }) => family],
  handle: ['text', ({ handle }) => handle],
  generation: ['int', ({ generation }) => generation],
  client_id: ['text', ({ client_id }) => client_id],
  resource_id: ['text', ({ resource_id }) => resource_id],
  resource_scopes: ['text[]', ({ resource_scopes }) => resource_scopes],
  /** The class that the resource declares. */
  consequence: [
    'text',
    ({ consequence, declared }) => (declared === undefined ? consequence : declared.consequence),
  ],
  /** The classes of its tools, as text, because `null` is one; null if they were not read. */
  tools: ['text', ({ declared }) => declared && JSON.stringify(declared.tools)],
  tier_id: ['text', ({ tier_id }) => tier_id],
  operator: ['text', ({ operator }) => operator],
  org_epoch: ['int', ({ organization }) => organization?.membership],
  org_handle_epoch: ['int', ({ organization }) => organization?.handle],
  org_operator: ['text', ({ organization, operator }) => (organization?.handle == null ? null : operator)],
  org_operator_epoch: ['int', ({ organization }) => organization?.operator],
  single_use: ['boolean', ({ single_use }) => single_use],
  receipt: ['text', ({ receipt }) => receipt],
  expires_at: ['float8', ({ expiresAt }) => expiresAt],
  ...Object.fromEntries(
    Object.entries(SAME_FACTS).map(([member, { type }]) => [
      member,
      [type, grant => grant[member as keyof BasisFacts]],
    ]),
  ),
}
const ASKED_NAMES = Object.keys(ASKED).join(', ')
const ASKED_TYPES = Object.entries(ASKED)
  .map(([name, [type]]) => `${name} ${type}`)
  .join(', ')

function columnsOf(grant: NewGrant): Record<string, unknown> {
  return Object.fromEntries(Object.entries(ASKED).map(([name, [, of]]) => [name, of(grant)]))
}

/** What such a statement answers: each grant that it made, and how many of hers live. */
interface RecordRow {
  jti: string | null
  enough: boolean | null
  live: number | null
}

/**
 * The statement that writes a grant reads each fact behind it again, separately for each grant of a batch,
 * and takes no lock: it sees every change that had returned before the statement began. If an agent had its
 * tier before, the statement does not touch that row, so it waits for no other negotiation of that agent.
 * Her live grants are counted, unless that was done a moment ago and left much room.
 */
const recordParts = ({ before = '', condition = '' }): string => `WITH asked AS (
      SELECT * FROM ROWS FROM (json_to_recordset($2::json) AS (${ASKED_TYPES}), json_array_elements($3::json))
        WITH ORDINALITY AS asked(${ASKED_NAMES}, claims, place)
      WHERE ${ASKED_FEW}),${before}
    room AS MATERIALIZED (
      SELECT live, live + (SELECT count(*) FROM asked) <= $6::int - $7::int AS enough FROM (
        SELECT coalesce($8::int, (SELECT count(*) FROM (
          SELECT FROM grants WHERE owner = $1 AND expires_at > now() LIMIT $6) found)) AS live
        WHERE $6::int IS NOT NULL OFFSET 0) known),
    made AS (
      INSERT INTO grants (owner, rpt_sha256, jti, family, handle, client_id, aud, resource_id, single_use, claims,
        expires_at, ${LIVE_COLUMNS})
      SELECT c.owner, g.rpt_sha256, g.jti, g.family, c.handle, g.client_id, g.aud, g.resource_id, g.single_use, g.claims,
        to_timestamp(g.expires_at), ${LIVE_VALUES}
      FROM (SELECT $1 AS owner, * FROM asked) g
      JOIN LATERAL (SELECT * FROM connections WHERE owner = $1 AND handle = g.handle OFFSET 0) c
        ON ${CONNECTED} AND ${CURRENT}${andSame('connection', 'c')}
        AND (c.reach IS NULL OR (c.reach = 'organization' AND g.org_handle_epoch IS NOT NULL))
      JOIN LATERAL (SELECT * FROM resource_servers WHERE owner = $1 AND client_id = g.client_id OFFSET 0) rs
        ON rs.status = 'active'${andSame('server', 'rs')}
      JOIN LATERAL (SELECT * FROM resources WHERE ${ownedBy('owner', '$1')} AND resource_id = g.resource_id OFFSET 0) r
        ON r.client_id = g.client_id AND r.consequence IS NOT DISTINCT FROM g.consequence
        AND (g.tools IS NULL OR coalesce(r.tools, 'null') = g.tools::jsonb) AND r.resource_scopes @> g.resource_scopes${andSame('resource', 'r')}
        AND r.org IS NOT DISTINCT FROM CASE WHEN g.org_handle_epoch IS NOT NULL THEN 'shared' END
      JOIN LATERAL (SELECT * FROM tiers WHERE owner = $1 AND tier_id = g.tier_id OFFSET 0) t
        ON ${TIER_STANDS}${andSame('tier', 't')}
      JOIN LATERAL (SELECT * FROM tier_resources
        WHERE ${ownedBy('owner', '$1')} AND resource_id = g.resource_id AND tier_id = g.tier_id OFFSET 0) tr
        ON ${REACH_STANDS}
      WHERE coalesce((SELECT enough FROM room), true) AND NOT EXISTS (SELECT FROM operators o
        WHERE o.owner = $1 AND o.origin = g.operator AND o.blocked_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM owners s WHERE s.owner = $1 AND s.suspended_at IS NOT NULL)
        AND ${membershipStands()}${condition}
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
      FROM made JOIN ROWS FROM (json_to_recordset($4::json) AS (jti text, kind text), json_array_elements($5::json))
        WITH ORDINALITY AS entry(jti, kind, data, place) ON entry.jti = made.jti
      ORDER BY entry.place)`

/**
 * That statement. `more` are further parts of it, whose parameters begin with `$9`: some before the grant is
 * made, on which its `condition` may rest, and some after it; and the SQL of what they answer, which is the
 * column `outcome` of a row of its own. `asked` has the columns of `ASKED` for them.
 */
export function recordStatement<More>(
  name: string,
  more?: { before: string; condition: string; after: string; outcome: string },
): Prepared<RecordRow & More> {
  const answers =
    more === undefined
      ? 'SELECT jti, NULL AS enough, NULL AS live FROM made UNION ALL SELECT NULL, enough, live FROM room'
      : `SELECT jti, NULL AS enough, NULL AS live, NULL AS outcome FROM made
  UNION ALL SELECT NULL, enough, live, NULL FROM room UNION ALL SELECT NULL, NULL, NULL, ${more.outcome}`
  return prepared<RecordRow & More>(name, `${recordParts(more ?? {})}${more?.after ?? ''}\n  ${answers}`)
}

const RECORD = recordStatement('record-grants')

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
  entries: GrantRecording['entries'],
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
async function recordCounted(tx: Tx, record: GrantRecording): Promise<boolean | 'near'> {
  await lockCount(tx, record.grant.owner)
  const [recorded] = await recordGrants(tx, [record], 0)
  return recorded!
}

/** While it is held, nobody else writes a counted grant of hers. */
export async function lockCount(tx: Tx, owner: Owner): Promise<void> {
  // Rows that refer to her can still be written, because only her key is locked.
  await sql`SELECT FROM owners WHERE owner = ${owner} FOR NO KEY UPDATE`.execute(tx)
}

/** How many grants of an owner may live: those that were counted, and what this process issued since. */
interface LiveCount {
  live: number
  /** When it was counted, by `performance.now()`. */
  at: number
}

/**
 * For how long a count serves, in milliseconds. What other processes issue meanwhile is not in it, as what is
 * being written is in no count: `NEAR` leaves room for both.
 */
export const LIVE_COUNT_AGE_MS = 250
/** Owners whose counts are remembered. */
const COUNTED_MAX = 10_000
/** The counts of each database. An owner who is forgotten is counted again. */
const COUNTED = new WeakMap<Db, Map<Owner, LiveCount>>()

function countsOf(db: Db): Map<Owner, LiveCount> {
  const whole = wholeOf(db)
  const counts = COUNTED.get(whole) ?? new Map<Owner, LiveCount>()
  COUNTED.set(whole, counts)
  return counts
}

/** What was counted a moment ago, if it leaves room for so many more. */
function countedFor(db: Db, owner: Owner, room: number): LiveCount | undefined {
  if (db.isTransaction) return undefined
  const counted = countsOf(db).get(owner)
  if (counted === undefined || performance.now() - counted.at >= LIVE_COUNT_AGE_MS) return undefined
  return counted.live <= room ? counted : undefined
}

function remember(db: Db, owner: Owner, counted: LiveCount): void {
  if (db.isTransaction) return
  const counts = countsOf(db)
  counts.delete(owner)
  counts.set(owner, counted)
  const [oldest] = counts.keys()
  if (counts.size > COUNTED_MAX) counts.delete(oldest!)
}

async function recordGrants(db: Db, records: GrantRecording[], margin = NEAR): Promise<(boolean | 'near')[]> {
  // Rows are written in one order, so that no two callers deadlock.
  const sorted = records.toSorted((a, b) => compare(a.grant.handle, b.grant.handle))
  const recorded = await runRecord(RECORD, db, sorted, { margin })
  if (recorded === 'near') return records.map(() => 'near')
  return records.map(({ grant }) => recorded.made.has(grant.jti))
}

/**
 * Runs a statement that `recordStatement` made, for grants of one owner. `counts`: the database whose count
 * of her live grants serves; left out, the one that it runs in. `more` are its values from `$9` on.
 * @returns the ids of what it made, and its rows; `near` if it made nothing because it would come within
 * `margin` of her limit.
 */
export async function runRecord<More>(
  statement: Prepared<RecordRow & More>,
  db: Db,
  records: readonly GrantRecording[],
  { margin, counts = db, more = [] }: { margin: number; counts?: Db; more?: readonly unknown[] },
): Promise<{ made: ReadonlySet<string>; rows: (RecordRow & More)[] } | 'near'> {
  const { grant, most } = records[0]!
  const { owner } = grant
  const counted = most === undefined ? undefined : countedFor(counts, owner, most - margin - records.length)
  const at = performance.now()
  const lines = records.flatMap(({ grant: { jti }, entries }) => entries.map(entry => ({ jti, ...entry })))
  const { rows } = await statement(db, [
    owner,
    JSON.stringify(records.map(({ grant: one }) => columnsOf(one))),
    JSON.stringify(records.map(({ grant: { claims } }) => claims)),
    JSON.stringify(lines.map(({ jti, kind }) => ({ jti, kind }))),
    JSON.stringify(lines.map(({ data }) => data)),
    most ?? null,
    margin,
    counted?.live ?? null,
    ...more,
  ])
  const room = rows.find(({ enough }) => enough !== null)
  if (room?.enough === false) return 'near'
  const made = new Set(rows.flatMap(({ jti }) => jti ?? []))
  if (counted !== undefined) counted.live += made.size
  else if (room !== undefined) remember(counts, owner, { live: room.live! + made.size, at })
  if (made.size > 0) announceOwner(db, owner)
  return { made, rows }
}

const RECORD_GRANT = gatheringOf((db: Db, records: GrantRecording[]) => recordGrants(db, records), {
  owner: ({ grant }: GrantRecording) => grant.owner,
  together: TOGETHER_MAX,
  atOnce: WRITES_AT_ONCE,
})

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
