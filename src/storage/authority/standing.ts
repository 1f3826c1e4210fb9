/**
 * What the owner's records say of an agent, as facts for the tier's rules: read, never judged here.
 * Contract: "Policy vocabulary and tiers".
 */
import { prepared, type Prepared } from '../core/database.ts'
import type { Db } from './database.ts'
import { ASKED_FEW, gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from '../core/batch.ts'
import type { Handle, Owner } from '../../wire/identifiers.ts'

export interface StandingFacts {
  status: 'none' | 'active' | 'revoked'
  generation: number | null
  first_party: boolean
  revocations: number
  introduced_by: Handle | null
  /** The key that stands on record. */
  jkt: string | null
  /** The owner blocked the operator that the request names, or one that stands beside the connection. */
  operatorBlocked: boolean
  /** The operator that the request names stands beside the connection. */
  operatorStands: boolean
  /** How many operators do. */
  operators: number
  /** Seconds since the current admission; null where there is none in force. */
  ageSeconds: number | null
  /** The owner herself approved this agent, or one of its live lineage, at this tier since its admission. */
  approvedAtTier: boolean
  /** This agent was granted something under this tier before. */
  grantedAtTier: boolean
  /** An agent of its live lineage was granted something under this tier before. */
  lineageGrantedAtTier: boolean
  /** Within the window, counted up to `countTo`; null where not asked for. */
  denials: number | null
  tiers: number | null
  calls: number | null
  /** Where these counts stopped. */
  countedTo: number | null
}

/**
 * Reads an agent's standing at a tier in one statement; the window is in seconds before now. What happened
 * within it is counted only with `countTo`, and no further than to that number: whoever asks knows what more
 * would not change. With `introducedBy`, an agent without a connection is read as if that one had just
 * brought it in; it has no generation then.
 */
export function readStanding(
  db: Db,
  owner: Owner,
  of: Omit<StandingQuestion, 'owner'>,
): Promise<StandingFacts> {
  return READ_STANDING(db, { owner, ...of })
}

interface StandingQuestion {
  owner: Owner
  handle: Handle
  tier_id: string
  windowSeconds: number
  /** Where counts within the window are asked for: the highest number that matters. */
  countTo: number | undefined
  introducedBy?: Handle | undefined
  /** Origin of the operator that the request names. */
  operator?: string | undefined
}

async function readStandings(db: Db, asked: StandingQuestion[]): Promise<StandingFacts[]> {
  const { owner, countTo, windowSeconds } = asked[0]!
  const values = [
    owner,
    asked.map(({ handle }) => handle),
    asked.map(({ tier_id }) => tier_id),
    asked.map(({ introducedBy }) => introducedBy ?? null),
    asked.map(({ operator }) => operator ?? null),
  ]
  const { rows } =
    countTo === undefined
      ? await STANDING.withoutTrajectory(db, values)
      : await STANDING.withTrajectory(db, [...values, windowSeconds, asked.map(one => one.countTo)])
  const facts: StandingFacts[] = []
  for (const { place, ...found } of rows) facts[place - 1] = found
  return facts
}

const READ_STANDING = gatheringOf(readStandings, {
  owner: ({ owner }: StandingQuestion) => owner,
  group: ({ owner, countTo, windowSeconds }: StandingQuestion) =>
    JSON.stringify([owner, countTo !== undefined, windowSeconds]),
  together: TOGETHER_MAX,
  atOnce: READS_AT_ONCE,
})

/** Counting the window reads up to so many entries of an index: only where a rule of the tier asks for it. */
const STANDING = {
  withTrajectory: standingStatement('read-standings-and-trajectories', {
    countTo: '$7::int[]',
    counted: rows => `(SELECT count(*)::int FROM (SELECT ${rows} LIMIT asked.count_to) counted)`,
  }),
  withoutTrajectory: standingStatement('read-standings', {
    countTo: 'NULL::int[]',
    counted: () => 'NULL::int',
  }),
}

/**
 * `me` is the agent as it is to be read. Its live lineage is itself, who brought it in, and whom either of
 * them brought in: each looked up by its key, as an owner may have any number of agents.
 */
function standingStatement(
  name: string,
  { countTo, counted }: { countTo: string; counted: (rows: string) => string },
): Prepared<StandingFacts & { place: number }> {
  const since = `now() - $6::float8 * interval '1 second'`
  // One kind at a time, the latest first: only so does the planner, which cannot know the limit, always walk
  // the index `ledger_recent`.
  const lately = (kind: string) => `FROM ledger WHERE owner = $1 AND handle = asked.handle
        AND kind = '${kind}' AND ts > ${since} ORDER BY ts DESC`
  return prepared(
    name,
    `SELECT asked.place::int, me.status, own.generation,
      coalesce(own.first_party, false) AS first_party, coalesce(own.revocations, 0) AS revocations,
      me.introduced_by, own.jkt,
      EXISTS (SELECT FROM operators o WHERE o.owner = $1 AND o.blocked_at IS NOT NULL
        AND o.origin = ANY(beside.origins || asked.operator)) AS "operatorBlocked",
      coalesce(asked.operator = ANY(beside.origins), false) AS "operatorStands",
      cardinality(beside.origins) AS operators,
      CASE WHEN me.status = 'active' THEN extract(epoch FROM now() - coalesce(own.admitted_at, now()))::float8 END
        AS "ageSeconds",
      coalesce(me.status = 'active' AND mine.approved_generation = own.generation, false) OR kin.approved
        AS "approvedAtTier",
      mine.granted_at IS NOT NULL AS "grantedAtTier",
      (me.status = 'active' AND mine.granted_at IS NOT NULL) OR kin.granted AS "lineageGrantedAtTier",
      least(asked.count_to, ${counted(lately('denied'))} + ${counted(lately('refused'))}) AS denials,
      ${counted(`DISTINCT tier_id FROM connection_tiers WHERE owner = $1
        AND handle = asked.handle AND granted_at > ${since}`)} AS tiers,
      ${counted(lately('touched'))} AS calls,
      asked.count_to AS "countedTo"
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], ${countTo})
      WITH ORDINALITY AS asked(handle, tier_id, introduced_by, operator, count_to, place)
    LEFT JOIN connections own ON own.owner = $1 AND own.handle = asked.handle
    LEFT JOIN connection_tiers mine ON mine.owner = $1 AND mine.handle = asked.handle
      AND mine.tier_id = asked.tier_id
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT origin FROM connection_operators
      WHERE owner = $1 AND handle = asked.handle) AS origins) beside
    CROSS JOIN LATERAL (SELECT
      CASE WHEN own.handle IS NOT NULL THEN own.status WHEN asked.introduced_by IS NOT NULL THEN 'active'
        ELSE 'none' END AS status,
      CASE WHEN own.handle IS NOT NULL THEN own.introduced_by ELSE asked.introduced_by END AS introduced_by) me
    CROSS JOIN LATERAL (
      SELECT coalesce(bool_or(ct.approved_generation = c.generation), false) AS approved,
        coalesce(bool_or(ct.granted_at IS NOT NULL), false) AS granted
      FROM (
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND handle = me.introduced_by
        UNION ALL
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND introduced_by = asked.handle
        UNION ALL
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND introduced_by = me.introduced_by
      ) c
      JOIN connection_tiers ct ON ct.owner = $1 AND ct.handle = c.handle AND ct.tier_id = asked.tier_id
      WHERE c.status = 'active' AND me.status <> 'none') kin
    WHERE ${ASKED_FEW}`,
  )
}
