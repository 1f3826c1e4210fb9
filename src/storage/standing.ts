/**
 * What the owner's records say of an agent, as facts for the tier's rules: read, never judged here.
 * Contract: "Policy vocabulary and tiers".
 */
import { prepared, type Db, type Prepared } from './database.ts'

export interface StandingFacts {
  status: 'none' | 'active' | 'revoked'
  generation: number | null
  first_party: boolean
  revocations: number
  introduced_by: string | null
  /** The operator and the key that stand on record. */
  operator: string | null
  jkt: string | null
  /** Seconds since the current admission; null where there is none in force. */
  ageSeconds: number | null
  /** The owner herself approved this agent, or one of its live lineage, at this tier since its admission. */
  approvedAtTier: boolean
  /** This agent was granted something under this tier before. */
  grantedAtTier: boolean
  /** An agent of its live lineage was granted something under this tier before. */
  lineageGrantedAtTier: boolean
  /** Within the window; null where not asked for. */
  denials: number | null
  tiers: number | null
  calls: number | null
}

/**
 * Reads an agent's standing at a tier in one statement; the window is in seconds before now, and is counted
 * only with `trajectory`. With `introducedBy`, an agent without a connection is read as if that one had just
 * brought it in; it has no generation then.
 */
export async function readStanding(
  db: Db,
  owner: string,
  of: {
    handle: string
    tier_id: string
    windowSeconds: number
    trajectory: boolean
    introducedBy?: string | undefined
  },
): Promise<StandingFacts> {
  const { handle, tier_id, windowSeconds, introducedBy } = of
  const values = [owner, handle, tier_id, introducedBy ?? null]
  const { rows } = of.trajectory
    ? await STANDING.withTrajectory(db, [...values, windowSeconds])
    : await STANDING.withoutTrajectory(db, values)
  return rows[0]!
}

/** Counting the window costs a range scan: only where a rule of the tier asks for it. */
const STANDING = {
  withTrajectory: standingStatement('read-standing-and-trajectory', count => count),
  withoutTrajectory: standingStatement('read-standing', () => 'NULL::int'),
}

function standingStatement(name: string, counted: (count: string) => string): Prepared<StandingFacts> {
  const since = `now() - $5::float8 * interval '1 second'`
  return prepared(
    name,
    `WITH own AS (
      SELECT handle, status, generation, first_party, revocations, introduced_by, operator, jkt, admitted_at
      FROM connections WHERE owner = $1 AND handle = $2),
    me AS (
      SELECT * FROM own UNION ALL
      SELECT $2, 'active', NULL, false, 0, $4::text, NULL, NULL, now()
      WHERE $4::text IS NOT NULL AND NOT EXISTS (SELECT FROM own)),
    lineage AS (
      SELECT c.handle, c.generation FROM connections c, me
      WHERE c.owner = $1 AND c.status = 'active'
        AND (c.handle = me.introduced_by OR c.introduced_by IN (me.handle, me.introduced_by))
      UNION SELECT handle, generation FROM me WHERE status = 'active')
    SELECT coalesce((SELECT status FROM me), 'none') AS status,
      (SELECT generation FROM me) AS generation,
      coalesce((SELECT first_party FROM me), false) AS first_party,
      coalesce((SELECT revocations FROM me), 0) AS revocations,
      (SELECT introduced_by FROM me) AS introduced_by,
      (SELECT operator FROM me) AS operator, (SELECT jkt FROM me) AS jkt,
      (SELECT extract(epoch FROM now() - admitted_at)::float8 FROM me WHERE status = 'active') AS "ageSeconds",
      EXISTS (SELECT 1 FROM connection_tiers ct JOIN lineage l ON l.handle = ct.handle
        AND l.generation = ct.approved_generation
        WHERE ct.owner = $1 AND ct.tier_id = $3) AS "approvedAtTier",
      EXISTS (SELECT 1 FROM connection_tiers ct WHERE ct.owner = $1 AND ct.handle = $2
        AND ct.tier_id = $3 AND ct.granted_at IS NOT NULL) AS "grantedAtTier",
      EXISTS (SELECT 1 FROM connection_tiers ct JOIN lineage l ON l.handle = ct.handle
        WHERE ct.owner = $1 AND ct.tier_id = $3 AND ct.granted_at IS NOT NULL)
        AS "lineageGrantedAtTier",
      ${counted(`(SELECT count(*)::int FROM ledger WHERE owner = $1 AND handle = $2
        AND kind IN ('denied', 'refused') AND ts > ${since})`)} AS denials,
      ${counted(`(SELECT count(DISTINCT tier_id)::int FROM connection_tiers WHERE owner = $1
        AND handle = $2 AND granted_at > ${since})`)} AS tiers,
      ${counted(`(SELECT count(*)::int FROM ledger WHERE owner = $1 AND handle = $2
        AND kind = 'touched' AND ts > ${since})`)} AS calls`,
  )
}
