/**
 * What the owner's records say about an agent, as facts for the tier's rules. They are read here, never
 * judged. Contract: "Policy vocabulary and tiers".
 */
import { connectionFacts, type FactsOf } from '../../../rules/grant.ts'
import { prepared, type Prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'
import { ASKED_FEW, gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from '../../core/batch.ts'
import { factsColumn } from '../grants/facts.sql.ts'
import {
  allowanceUse,
  isUnreadable,
  useFrom,
  type AllowanceUse,
  type AllowanceUseJson,
} from '../policies/allowance-windows.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'

export interface StandingReading extends FactsOf<'connection'> {
  status: 'none' | 'active' | 'revoked'
  generation: number | null
  first_party: boolean
  revocations: number
  introduced_by: Handle | null
  /** The key on record. */
  jkt: string | null
  /** The owner blocked the operator that the request names, or one that is on record for the connection. */
  operatorBlocked: boolean
  /** The owner blocked this agent, by its handle or by the key that the request is signed with. */
  agentBlocked: boolean
  /**
   * Her organization ended the agent's reach, or blocked one of these operators; only for what it governs.
   */
  endedByOrganization: boolean
  /** Somebody other than the owner let it in. */
  narrow: boolean
  /** She let it in for one tier only, or she did so for the agent that brought it in. */
  forOneTier: boolean
  /** The operator that the request names is on record for the connection. */
  operatorStands: boolean
  /** How many operators are on record. */
  operators: number
  /** Seconds since the current admission; null if none is in force. */
  ageSeconds: number | null
  /** The owner herself approved this agent, or one of its live lineage, at this tier since its admission. */
  approvedAtTier: boolean
  /** This agent was granted something under this tier before. */
  grantedAtTier: boolean
  /** An agent of its live lineage was granted something under this tier before. */
  lineageGrantedAtTier: boolean
  /** Counts within the window, up to `countTo`; null if not requested. */
  denials: number | null
  tiers: number | null
  calls: number | null
  /** The number at which these counts stopped. */
  countedTo: number | null
  /** Undefined if the question names no allowance, if she has no such one, and if it cannot be read. */
  allowanceUse: AllowanceUse | undefined
}

/**
 * Reads an agent's standing at a tier in one statement; the window is in seconds before now. Events within it
 * are counted only if `countTo` is given, and only up to that number, because a higher count would not change
 * the caller's result. With `introducedBy`, an agent without a connection is read as if that agent had just
 * brought it in; it has no generation then. An allowance that Postgres cannot read fails the statement, which
 * is then sent without it; that ends a transaction, so there none is named.
 */
export async function readStanding(
  db: Db,
  owner: Owner,
  of: Omit<StandingQuestion, 'owner'>,
): Promise<StandingReading> {
  try {
    return await READ_STANDING(db, { owner, ...of })
  } catch (error) {
    if (of.allowance === undefined || !isUnreadable(error)) throw error
    return READ_STANDING(db, { owner, ...of, allowance: undefined })
  }
}

interface StandingQuestion {
  owner: Owner
  handle: Handle
  /** The key that signed; left out, only the handle is looked at. */
  jkt?: string | undefined
  tier_id: string
  windowSeconds: number
  /** If counts within the window are requested: the highest number that matters. */
  countTo: number | undefined
  introducedBy?: Handle | undefined
  /** Origin of the operator that the request names. */
  operator?: string | undefined
  /** If an organization governs the requested resource: the membership, by the id of its join. */
  membership?: string | undefined
  /** If the requested resource is held jointly: the account. */
  joint?: Owner | undefined
  /** An allowance of hers: its use by this agent at this resource is read as well. */
  allowance?: { id: string; resource_id: string } | undefined
}

type StandingRow = Omit<StandingReading, 'allowanceUse'> & {
  place: number
  connection_facts: object
  /** Only a statement that reads allowances has it. */
  allowance_use?: AllowanceUseJson | null
}

async function readStandings(db: Db, questions: StandingQuestion[]): Promise<StandingReading[]> {
  const { owner, countTo, windowSeconds, allowance } = questions[0]!
  const values = [
    owner,
    questions.map(({ handle }) => handle),
    questions.map(({ tier_id }) => tier_id),
    questions.map(({ introducedBy }) => introducedBy ?? null),
    questions.map(({ operator }) => operator ?? null),
    questions.map(({ membership }) => membership ?? null),
    questions.map(({ joint }) => joint ?? null),
    questions.map(({ jkt }) => jkt ?? null),
    ...(countTo === undefined ? [] : [windowSeconds, questions.map(one => one.countTo)]),
    ...(allowance === undefined
      ? []
      : [questions.map(one => one.allowance!.id), questions.map(one => one.allowance!.resource_id)]),
  ]
  const { alone, withAllowance } = countTo === undefined ? WITHOUT_TRAJECTORY : WITH_TRAJECTORY
  const { rows } = await (allowance === undefined ? alone : withAllowance)(db, values)
  const readings: StandingReading[] = []
  for (const { place, connection_facts, allowance_use = null, ...found } of rows) {
    const use = useFrom(allowance_use)
    readings[place - 1] = { ...found, ...connectionFacts(connection_facts), allowanceUse: use }
  }
  return readings
}

const READ_STANDING = gatheringOf(readStandings, {
  owner: ({ owner }: StandingQuestion) => owner,
  group: ({ owner, countTo, windowSeconds, allowance }: StandingQuestion) =>
    JSON.stringify([owner, countTo !== undefined, windowSeconds, allowance !== undefined]),
  together: TOGETHER_MAX,
  atOnce: READS_AT_ONCE,
})

/** SQL: what the live lineage of `me` was granted and approved at the tier. */
const KIN = `(
      SELECT coalesce(bool_or(ct.approved_generation = c.generation), false) AS approved,
        coalesce(bool_or(ct.granted_at IS NOT NULL), false) AS granted
      FROM (
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND handle = me.introduced_by
        UNION ALL
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND introduced_by = asked.handle
        UNION ALL
        SELECT handle, generation, status FROM connections WHERE owner = $1 AND introduced_by = me.introduced_by
      ) c
      JOIN LATERAL (SELECT * FROM connection_tiers
        WHERE owner = $1 AND handle = c.handle AND tier_id = asked.tier_id OFFSET 0) ct ON true
      WHERE c.status = 'active' AND me.status <> 'none' AND own.reach IS NULL)`

/** What a statement reads beside what each of them does. */
interface StandingParts {
  countTo: string
  counted: (rows: string) => string
  /** The parameters that name allowances and resources; left out, it reads no allowance, which costs less. */
  named?: string
}

/**
 * Counting the window reads up to so many index entries, so it is done only if a rule of the tier needs it.
 */
const COUNTED = {
  countTo: '$10::int[]',
  counted: rows => `(SELECT count(*)::int FROM (SELECT ${rows} LIMIT asked.count_to) counted)`,
} satisfies StandingParts
const UNCOUNTED = { countTo: 'NULL::int[]', counted: () => 'NULL::int' } satisfies StandingParts

const WITH_TRAJECTORY = {
  alone: standingStatement('read-standings-and-trajectories', COUNTED),
  withAllowance: standingStatement('read-standings-trajectories-and-allowances', {
    ...COUNTED,
    named: '$11::text[], $12::text[]',
  }),
}
const WITHOUT_TRAJECTORY = {
  alone: standingStatement('read-standings', UNCOUNTED),
  withAllowance: standingStatement('read-standings-and-allowances', {
    ...UNCOUNTED,
    named: '$9::text[], $10::text[]',
  }),
}

/**
 * `me` is the agent that is read. Its live lineage is the agent itself, the one that brought it in, and those
 * that either of them brought in. Each is looked up by its key, because an owner may have any number of
 * agents.
 */
function standingStatement(name: string, { countTo, counted, named }: StandingParts): Prepared<StandingRow> {
  const since = `now() - $9::float8 * interval '1 second'`
  // Reads one kind at a time, the latest first. Only then does the planner, which cannot know the limit,
  // always use the index `ledger_recent`.
  const lately = (kind: string) => `FROM ledger WHERE owner = $1 AND handle = asked.handle
        AND kind = '${kind}' AND ts > ${since} ORDER BY ts DESC`
  const [parameters, columns, use] =
    named === undefined
      ? ['', '', '']
      : [`, ${named}`, ', allowance, resource_id', `, ${allowanceUse('clock_timestamp()')} AS allowance_use`]
  return prepared(
    name,
    `SELECT asked.place::int, me.status, own.generation, ${factsColumn('connection', 'own')},
      coalesce(own.first_party, false) AS first_party, coalesce(own.revocations, 0) AS revocations,
      me.introduced_by, own.jkt,
      EXISTS (SELECT FROM operators o WHERE o.owner = $1 AND o.blocked_at IS NOT NULL
        AND o.origin = ANY(beside.origins || asked.operator)) AS "operatorBlocked",
      own.blocked_at IS NOT NULL OR EXISTS (SELECT FROM connections c WHERE c.owner = $1
        AND c.jkt = asked.jkt AND c.blocked_at IS NOT NULL) AS "agentBlocked",
      asked.membership IS NOT NULL AND (coalesce(own.org_ended_in = asked.membership, false)
        OR EXISTS (SELECT FROM operators o WHERE o.owner = $1 AND o.org_blocked_in = asked.membership
          AND o.origin = ANY(beside.origins || asked.operator))) AS "endedByOrganization",
      coalesce(own.reach = 'organization', false) AS narrow,
      coalesce(own.admits = 'tier', false) OR EXISTS (SELECT FROM connections c WHERE c.owner = $1
        AND c.handle = me.introduced_by AND c.admits = 'tier') AS "forOneTier",
      coalesce(asked.operator = ANY(beside.origins), false) AS "operatorStands",
      cardinality(beside.origins) AS operators,
      CASE WHEN me.status = 'active' THEN extract(epoch FROM now() - coalesce(own.admitted_at, now()))::float8 END
        AS "ageSeconds",
      coalesce(me.status = 'active' AND mine.approved_generation = own.generation, false) OR kin.approved
        AS "approvedAtTier",
      me.status <> 'none' AND mine.granted_at IS NOT NULL AS "grantedAtTier",
      (me.status = 'active' AND mine.granted_at IS NOT NULL) OR kin.granted AS "lineageGrantedAtTier",
      least(asked.count_to, ${counted(lately('denied'))} + ${counted(lately('refused'))}) AS denials,
      ${counted(`DISTINCT tier_id FROM connection_tiers WHERE owner = $1
        AND handle = asked.handle AND granted_at > ${since}`)} AS tiers,
      ${counted(lately('touched'))} AS calls,
      asked.count_to AS "countedTo"${use}
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], ${countTo}${parameters})
      WITH ORDINALITY AS asked(handle, tier_id, introduced_by, operator, membership, joint, jkt, count_to${columns}, place)
    LEFT JOIN LATERAL (SELECT * FROM connections WHERE owner = $1 AND handle = asked.handle OFFSET 0) own ON true
    LEFT JOIN LATERAL (SELECT * FROM connection_tiers
      WHERE owner = $1 AND handle = asked.handle AND tier_id = asked.tier_id OFFSET 0) mine ON true
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT origin FROM connection_operators
      WHERE owner = $1 AND handle = asked.handle) AS origins) beside
    CROSS JOIN LATERAL (SELECT
      CASE
        -- Outside of what it holds for it is a stranger's.
        WHEN own.reach IS NOT NULL AND NOT (own.reach = 'organization' AND asked.membership IS NOT NULL)
          AND NOT (own.reach LIKE 'joint:%' AND coalesce(asked.joint = ANY(string_to_array(substr(own.reach, 7), ',')), false))
          THEN 'none'
        WHEN own.handle IS NOT NULL THEN own.status WHEN asked.introduced_by IS NOT NULL THEN 'active'
        ELSE 'none' END AS status,
      CASE WHEN own.handle IS NOT NULL THEN own.introduced_by ELSE asked.introduced_by END AS introduced_by) me
    CROSS JOIN LATERAL ${KIN} kin
    WHERE ${ASKED_FEW}`,
  )
}
