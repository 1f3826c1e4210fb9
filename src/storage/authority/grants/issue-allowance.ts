/**
 * The issue of a grant within an allowance of its owner: one statement reads everything again, adds to the
 * windows concerned and writes the grant. Where a window is not there yet, or somebody holds it, that is one
 * transaction of two statements, of which the first makes and locks the windows. Contract: "Grant answer
 * (beat 4)", "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import { gatheringOf, ownedBy } from '../../core/batch.ts'
import { inTransaction, prepared, sqlState } from '../../core/database.ts'
import type { AllowanceCeiling } from '../../../wire/organization/charter.ts'
import type { Db, Tx } from '../database.ts'
import {
  isUnreadable,
  lineageIn,
  unspentPlaces,
  UNSPENT_MAX,
  type AllowanceWindow,
} from '../policies/allowance-windows.ts'
import { GrantsFull, lockCount, NEAR, recordStatement, runRecord, type GrantRecording } from './issue.ts'

/** What one grant takes of an allowance. */
export interface AllowanceShare {
  allowance: string
  /** The one by which it was judged. */
  version: number
  /** What that says, as it is stored: it must stand there still. Left out, the version alone must. */
  content?: string
  /** Whose windows they are. */
  whose: string
  /** Every window of the allowance that was the present one, and how much of it the grant takes. */
  windows: readonly (Pick<AllowanceWindow, 'of' | 'per' | 'max' | 'start' | 'ends'> & { amount: string })[]
  /**
   * At what her organization governs: how the view that she agreed to and the present one bound allowances.
   * No `max` is above either.
   */
  bounds?: readonly (readonly AllowanceCeiling[] | undefined)[]
}

/** A grant to be recorded, and what it takes. */
interface WithinRecording extends GrantRecording {
  share: AllowanceShare
}

/**
 * `beyond`: a window has no room any more, the agent lacks a place for one more unspent grant, or nobody can
 * tell which windows are the present ones. `facts-moved`: anything else that the grant rests on has changed,
 * the allowance and the calendar too.
 */
export type WithinFault = 'beyond' | 'facts-moved'
export type WithinOutcome = 'recorded' | WithinFault
/**
 * What one attempt found. `near`: she has few places left for live grants, which must be counted. `taken`:
 * another grant of the agent took its place among the unspent ones, since the statement began.
 */
type Attempt = WithinOutcome | 'near' | 'taken'

/** The windows are made and locked in the order of their key, here and when a share goes back. */
const LOCK = prepared(
  'lock-allowance-windows',
  `INSERT INTO allowance_windows AS w (owner, allowance, whose, of, per, start, ends)
    SELECT $1, $2, $3, s.of, s.per, s.start, s.ends
    FROM json_to_recordset($4::json) AS s(of text, per text, start timestamptz, ends timestamptz)
    ORDER BY s.of, s.per, s.start
    -- Locks the row that is there, and writes nothing.
    ON CONFLICT (owner, allowance, whose, of, per, start) DO UPDATE SET used = w.used WHERE false`,
)

/** SQL: the first place that is not among those in the array; null if there is none. */
const firstPlaceBeside = (array: string): string => {
  const places = Array.from({ length: UNSPENT_MAX }, (_, n) => n + 1)
  return `CASE ${places.map(place => `WHEN ${place} <> ALL(${array}) THEN ${place}`).join(' ')} END`
}

/**
 * `$9` the allowance, `$10` its version, `$11` whose windows, `$12` what is taken of which, `$13` how her
 * organization bounds allowances, both as JSON. `$14`: it is a transaction by itself. `$15` what the version
 * says. It writes everything or nothing, unless another grant took the place meanwhile; then it fails, if it
 * is by itself. It waits for no window, because what it read would grow old: one that somebody else has
 * locked counts as one without room. Each node of the plan costs time at every grant, so what any grant rests
 * on is asked in the `condition`, where its records are read anyway.
 */
const RECORD_WITHIN = recordStatement<{ outcome: 'made' | 'taken' | WithinFault | null }>(
  'record-grant-within',
  {
    before: `
    share AS MATERIALIZED (
      SELECT * FROM json_to_recordset($12::json)
        AS s(of text, per text, start timestamptz, ends timestamptz, max numeric, amount numeric)),
    allowed AS MATERIALIZED (
      SELECT g.handle, g.rpt_sha256, g.exp, a.among
      FROM (SELECT *, to_timestamp(expires_at) AS exp FROM asked) g
      CROSS JOIN (SELECT clock_timestamp() AS at OFFSET 0) clock
      JOIN LATERAL (SELECT * FROM allowances WHERE owner = $1 AND id = $9 OFFSET 0) a ON a.version = $10
      WHERE g.exp > clock.at AND g.exp <= clock.at + a.hold_s * interval '1 second'
        AND (a.until IS NULL OR g.exp <= a.until) AND a.content::text = coalesce($15, a.content::text)
        AND NOT EXISTS (SELECT FROM share s WHERE g.exp > s.ends
          OR s.start <> CASE s.per WHEN 'all' THEN a.made_at ELSE date_trunc(s.per, clock.at, a.zone) END)),
    -- Each is judged as it is now, even if others have added to it meanwhile. None is locked for nothing.
    roomy AS MATERIALIZED (
      SELECT w.of, w.per, w.start, s.amount FROM share s JOIN allowance_windows w
        ON w.owner = $1 AND w.allowance = $9 AND w.whose = $11 AND w.of = s.of AND w.per = s.per
        AND w.start = s.start AND w.used + s.amount <= s.max AND EXISTS (SELECT FROM allowed)
      FOR NO KEY UPDATE OF w SKIP LOCKED),
    free AS MATERIALIZED (
      SELECT a.handle, a.rpt_sha256, a.exp, ${firstPlaceBeside('had.unspent')} AS place
      FROM allowed a CROSS JOIN LATERAL (SELECT coalesce(array_agg(place), '{}') AS unspent
        FROM (${unspentPlaces('a.handle', '$9')}) taken OFFSET 0) had
      WHERE (SELECT count(*) FROM roomy) = json_array_length($12::json) AND cardinality(had.unspent) < ${UNSPENT_MAX}),`,
    // The resource is `r`, and the connection `c`.
    condition: `
        AND EXISTS (SELECT FROM free)
        AND r.approval IS DISTINCT FROM 'signed'
        -- Another introducer, or she, may have admitted the agent since that was read.
        AND $11::text = CASE (SELECT among FROM allowed) WHEN 'all' THEN '' ELSE ${lineageIn('c')} END
        -- Her organization may have lowered its bound since that was read, or she may have agreed to another.
        AND (g.org_handle_epoch IS NULL OR EXISTS (SELECT FROM memberships m WHERE m.owner = $1
          AND jsonb_build_array((m.agreed->'max_allowance')::jsonb, (m.view->'max_allowance')::jsonb)
            = $13::jsonb))`,
    after: `,
    holding AS (
      INSERT INTO allowance_held AS h (owner, allowance, handle, place, rpt_sha256, whose, expires_at, due_at, shares)
      SELECT $1, $9, f.handle, f.place, f.rpt_sha256, $11, f.exp, f.exp, $12::json FROM free f
      WHERE EXISTS (SELECT FROM made)
      ON CONFLICT (owner, allowance, handle, place) DO UPDATE SET rpt_sha256 = excluded.rpt_sha256,
        whose = excluded.whose, expires_at = excluded.expires_at, due_at = excluded.due_at, shares = excluded.shares
      -- Another grant may have taken the place since this statement began: that one is not spent in its snapshot.
      WHERE EXISTS (SELECT FROM grants g WHERE ${ownedBy('g.owner', '$1')} AND g.rpt_sha256 = h.rpt_sha256
        AND (g.consumed_at IS NOT NULL OR g.returned_at IS NOT NULL) OFFSET 0)
      RETURNING h.place),
    added AS (
      UPDATE allowance_windows w SET used = w.used + s.amount,
        -- By the minute, so that a row that many take of is seldom moved in its index.
        used_at = CASE WHEN w.whose <> '' THEN date_trunc('minute', clock_timestamp()) END
      FROM roomy s
      WHERE w.owner = $1 AND w.allowance = $9 AND w.whose = $11 AND w.of = s.of AND w.per = s.per
        AND w.start = s.start AND EXISTS (SELECT FROM holding))`,
    // Text that is no number ends the statement; Postgres works a subquery out only where it comes to it.
    outcome: `CASE WHEN NOT EXISTS (SELECT FROM allowed) THEN 'facts-moved'
      WHEN NOT EXISTS (SELECT FROM free) THEN 'beyond'
      WHEN NOT EXISTS (SELECT FROM made) THEN 'facts-moved'
      WHEN EXISTS (SELECT FROM holding) THEN 'made'
      WHEN $14 THEN (SELECT 'taken back, and tried again: grant ' || jti FROM made)::int::text
      ELSE 'taken' END`,
  },
)
/** `invalid_text_representation`: what was to be a number was none. */
const TAKEN_BACK = '22P02'

/**
 * Records a grant as `recordGrant` does, if it is within the allowance and the rest stands. In a transaction
 * of the caller's, he must take everything back unless it was recorded; he holds no window, and may hold the
 * owner's queue.
 * @throws GrantsFull if she has reached her limit of live grants; then nothing was written.
 */
export async function recordWithin(db: Db, record: WithinRecording): Promise<WithinOutcome> {
  try {
    return outcomeOf(await attemptsOf(db, record))
  } catch (error) {
    // Another server than the one where it was weighed may not know the zone.
    if (isUnreadable(error)) return 'beyond'
    throw error
  }
}

async function attemptsOf(db: Db, record: WithinRecording): Promise<Attempt> {
  if (namesTwice(record.share.windows)) return 'beyond'
  return db.isTransaction ? recordCounted(db as Tx, record) : RECORD_IN_TURN(db, record)
}

/** No such allowance can be saved. The statement would add to that window once. */
const namesTwice = (windows: AllowanceShare['windows']): boolean =>
  new Set(windows.map(({ of, per }) => `${of} ${per}`)).size < windows.length

/**
 * Most grants find their windows made and locked by nobody: one statement is enough for them. The others wait
 * for the windows, and for that it takes two.
 */
async function recordInTurn(db: Db, record: WithinRecording): Promise<Attempt> {
  const alone = await recordAlone(db, record)
  if (alone === 'recorded' || alone === 'facts-moved') return alone
  const recorded =
    alone === 'near'
      ? alone
      : await attempts(db, tx => recordLocked(tx, record, { margin: NEAR, counts: db }))
  return recorded === 'near' ? attempts(db, tx => recordCounted(tx, record)) : recorded
}

/**
 * Those that take of the same windows go one after the other, because each of them would find the windows
 * locked; where there is no window, those of one agent, which take the same places. Who waits here holds no
 * connection.
 */
const RECORD_IN_TURN = gatheringOf(
  async (db: Db, [record]: WithinRecording[]) => [await recordInTurn(db, record!)],
  {
    owner: ({ grant }) => grant.owner,
    group: ({ grant: { owner, handle }, share: { allowance, whose, windows } }) =>
      `${owner} ${allowance} ${windows.length === 0 ? handle : whose}`,
    together: 1,
    ofGroupAtOnce: 1,
    // How many an owner has under way is bounded by her share of the pool: here only the turn is kept.
    atOnce: Infinity,
  },
)

async function recordAlone(db: Db, record: WithinRecording): Promise<Attempt> {
  try {
    return await recordWhole(db, record, { margin: NEAR, alone: true })
  } catch (error) {
    if (sqlState(error) === TAKEN_BACK) return 'taken'
    throw error
  }
}

/** An agent that lacks a place is beyond the allowance: its request waits for no grant of others to end. */
function outcomeOf(found: Attempt): WithinOutcome {
  if (found === 'near') throw new GrantsFull()
  return found === 'taken' ? 'beyond' : found
}

/**
 * Without a window, an agent's grants wait for each other only at a place. Whoever finds one taken looks for
 * the next, and for no more than there are: an agent that asks for several at once is not refused for it.
 */
async function attempts(db: Db, work: (tx: Tx) => Promise<Attempt>): Promise<Attempt> {
  let found = await attempt(db, work)
  for (let place = 1; place <= UNSPENT_MAX && found === 'taken'; place++) found = await attempt(db, work)
  return found
}

/** Takes everything back unless it was recorded. */
async function attempt(db: Db, work: (tx: Tx) => Promise<Attempt>): Promise<Attempt> {
  try {
    return await inTransaction(db, async tx => {
      const outcome = await work(tx)
      if (outcome !== 'recorded') throw new NotRecorded(outcome)
      return outcome
    })
  } catch (error) {
    if (error instanceof NotRecorded) return error.outcome
    throw error
  }
}

class NotRecorded extends Error {
  readonly outcome: Attempt

  constructor(outcome: Attempt) {
    super(outcome)
    this.outcome = outcome
  }
}

/** Counts her grants first, because who holds a window waits for no other lock of hers. */
async function recordCounted(tx: Tx, record: WithinRecording): Promise<Attempt> {
  if (record.most !== undefined) await lockCount(tx, record.grant.owner)
  return recordLocked(tx, record, { margin: 0, counts: tx })
}

async function recordLocked(tx: Tx, record: WithinRecording, counting: Counting): Promise<Attempt> {
  const { allowance, whose, windows } = record.share
  if (windows.length > 0) await LOCK(tx, [record.grant.owner, allowance, whose, JSON.stringify(windows)])
  return recordWhole(tx, record, counting)
}

/** How near her limit may be, and the database whose count of her live grants serves. */
interface Counting {
  margin: number
  counts?: Db
}

async function recordWhole(
  db: Db,
  { share, ...record }: WithinRecording,
  { alone = false, ...counting }: Counting & { alone?: boolean },
): Promise<Attempt> {
  const { allowance, version, content = null, whose, windows, bounds } = share
  const boundsJson = bounds === undefined ? null : JSON.stringify(bounds.map(list => list ?? null))
  const more = [allowance, version, whose, JSON.stringify(windows), boundsJson, alone, content]
  const recorded = await runRecord(RECORD_WITHIN, db, [record], { ...counting, more })
  if (recorded === 'near') return 'near'
  const outcome = recorded.rows.find(row => row.outcome !== null)?.outcome
  return outcome === 'made' ? 'recorded' : (outcome ?? 'facts-moved')
}
