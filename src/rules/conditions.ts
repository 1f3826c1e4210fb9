/**
 * Owns the vocabulary of policy conditions: their class, their value, and what each means on the facts of a
 * request. Contract: "Policy vocabulary and tiers", "Owner API" (`/owner/policy-vocabulary`).
 */
import { ALLOWANCE_ID } from '../wire/names.ts'
import type { ConnectionState } from './connection.ts'
import { CONSEQUENCES, consequenceRank, parseConsequence, type Consequence } from './permission.ts'

type Fact<T> = T | undefined

/**
 * Everything that a tier's rules may see of a request. A fact is undefined if it could not be evaluated.
 * There is no free text: the agent's reason and mission are only two booleans.
 */
export interface RequestFacts {
  readonly connection: Fact<ConnectionState>
  readonly standing: StandingFacts
  readonly assurance: AssuranceFacts
  readonly request: RequestedFacts
  /** `approved`: she approved the operation herself, so no allowance bounds it. */
  readonly operation?: Fact<AllowanceFacts | 'approved'>
}

/** The owner's record of this agent. Counts are within the trajectory window. */
export interface StandingFacts {
  /** The owner herself approved this agent, or its live lineage, at this tier. */
  readonly approvedAtTier: Fact<boolean>
  readonly neverRevoked: Fact<boolean>
  /** The owner marked it as her own. */
  readonly firstParty: Fact<boolean>
  /** Seconds since the current admission. */
  readonly ageSeconds?: Fact<number>
  /** The agent never had a grant of this tier. */
  readonly firstAtTier: Fact<boolean>
  readonly revokedBefore: Fact<boolean>
  readonly introduced: Fact<boolean>
  /** Nobody in its lineage ever had a grant of this tier. */
  readonly lineageNewAtTier: Fact<boolean>
  /** The number at which the counts below stopped; the true numbers may be higher. */
  readonly countedTo?: number | undefined
  readonly denials?: Fact<number>
  /** The number of different tiers under which it was granted something. */
  readonly tiers?: Fact<number>
  readonly calls?: Fact<number>
}

/** Three independent axes from checks that ran; they are never added up. */
export interface AssuranceFacts {
  /** 1: signed by a known key. */
  readonly binding: Fact<number>
  /** 0 self-made, 1 issuer-verified agent token. */
  readonly provenance: Fact<number>
  /**
   * 0 none, 1 the client document claims its own URL, 2 the operator's same-origin directory lists the
   * signing key.
   */
  readonly accountability: Fact<number>
}

export interface RequestedFacts {
  /** The lifetime the agreement asks for. */
  readonly expiresInSeconds: Fact<number>
  readonly reasonAbsent: Fact<boolean>
  readonly missionAbsent: Fact<boolean>
  /** `undeclared` = nobody described the operation; see `consequenceFact`. */
  readonly consequence?: Fact<Consequence | 'undeclared'>
}

/** How the operation stands to the allowance that its tier names. */
interface AllowanceFacts {
  readonly allowance: string
  readonly version: number
  /** It is not within the allowance, or that could not be found out. */
  readonly beyond: boolean
  /**
   * The first limit that it does not keep, as rules/allowance/judge-operation.ts names it; or `approval` (the
   * resource takes only what she approves), `unspent` (the agent has as many unspent grants as it may),
   * `ends` (a grant would end at once), `issue` (there was no room any more when it was to be issued).
   */
  readonly limit?: string
}

/** How that limit is written among the reasons of an answer: `limit:window:price:day`. */
export const LIMIT_WORD = 'limit:'

/**
 * The fact for a declared word: an absent or unknown word is `undeclared`, which is neither safe nor grave.
 */
export function consequenceFact(declared: unknown): Consequence | 'undeclared' {
  return parseConsequence(declared) ?? 'undeclared'
}

export type ConditionTakes = null | 'duration' | 'count' | 'level' | 'class' | 'allowance'

/**
 * One word of the vocabulary. `value` is seconds, a count, a level or a consequence rank, depending on
 * `takes`; 0 if that is null. `allowance` is an id, if it takes one.
 */
export interface ConditionWord {
  readonly condition: string
  readonly may_relax: boolean
  readonly takes: ConditionTakes
  readonly label: string
  /** Highest level of the axis, if it takes a level. */
  readonly levelMax: number
  /** true, false, or undefined if a needed fact is undefined. */
  readonly holds: (facts: RequestFacts, value: number, allowance?: string) => boolean | undefined
}

export interface Condition {
  readonly word: ConditionWord
  readonly value: number
  readonly allowance?: string
}

const above = (fact: Fact<number>, value: number): Fact<boolean> =>
  fact === undefined ? undefined : fact > value
/**
 * A count that stopped at `countedTo` says nothing about higher numbers, which a changed tier may ask for in
 * a dry run.
 */
const countAbove = (
  { standing: { countedTo } }: RequestFacts,
  fact: Fact<number>,
  value: number,
): Fact<boolean> =>
  fact !== undefined && countedTo !== undefined && fact >= countedTo && value >= fact
    ? undefined
    : above(fact, value)
const below = (fact: Fact<number>, value: number): Fact<boolean> =>
  fact === undefined ? undefined : fact < value

function word(
  condition: string,
  takes: ConditionTakes,
  label: string,
  holds: ConditionWord['holds'],
): ConditionWord {
  return { condition, may_relax: false, takes, label, levelMax: 0, holds }
}

/** The contract's four relaxing facts, all of them about what the owner herself did. */
const RELAXING: readonly ConditionWord[] = [
  word(
    'standing.approved_at_tier',
    null,
    'you approved this agent here yourself',
    f => f.standing.approvedAtTier,
  ),
  word('standing.never_revoked', null, 'you never revoked this agent', f => f.standing.neverRevoked),
  word('standing.age_above', 'duration', 'you have known this agent longer than', (f, seconds) =>
    above(f.standing.ageSeconds, seconds),
  ),
  word('standing.first_party', null, 'you activated this agent yourself', f => f.standing.firstParty),
].map(entry => ({ ...entry, may_relax: true }))

const OBSERVED: readonly ConditionWord[] = [
  word('standing.none', null, 'this agent has no active connection', f =>
    f.connection === undefined ? undefined : f.connection !== 'active',
  ),
  word('standing.first_at_tier', null, 'this agent was never granted this tier', f => f.standing.firstAtTier),
  word('standing.revoked_before', null, 'you revoked this agent before', f => f.standing.revokedBefore),
  word('standing.introduced', null, 'another agent introduced this one', f => f.standing.introduced),
  word(
    'standing.lineage_new_at_tier',
    null,
    'neither this agent nor its introducer was granted this tier',
    f => f.standing.lineageNewAtTier,
  ),
  word('standing.age_below', 'duration', 'you have known this agent for less than', (f, seconds) =>
    below(f.standing.ageSeconds, seconds),
  ),
  word('standing.denials_above', 'count', 'its recent denials are more than', (f, count) =>
    countAbove(f, f.standing.denials, count),
  ),
  word('standing.tiers_above', 'count', 'the tiers it recently reached are more than', (f, count) =>
    countAbove(f, f.standing.tiers, count),
  ),
  word('standing.calls_above', 'count', 'its recent calls are more than', (f, count) =>
    countAbove(f, f.standing.calls, count),
  ),
  assurance('binding', 1, 'the proof of its key is weaker than'),
  assurance('provenance', 1, 'the proof of its origin is weaker than'),
  assurance('accountability', 2, 'the proof of its operator is weaker than'),
  word('request.max_expiry', 'duration', 'it asks for access longer than', (f, seconds) =>
    above(f.request.expiresInSeconds, seconds),
  ),
  word('request.reason_absent', null, 'it gives no reason', f => f.request.reasonAbsent),
  word('request.mission_absent', null, 'it names no mission', f => f.request.missionAbsent),
  word('request.consequence_unknown', null, 'nobody described what the operation can do', f =>
    f.request.consequence === undefined ? undefined : f.request.consequence === 'undeclared',
  ),
  word(
    'request.consequence_at_or_above',
    'class',
    'the operation is declared at least as grave as',
    consequenceAtOrAbove,
  ),
  word('operation.beyond', 'allowance', 'the operation is not within your allowance', beyondAllowance),
]

function assurance(axis: keyof AssuranceFacts, levelMax: number, label: string): ConditionWord {
  const entry = word(`assurance.${axis}_below`, 'level', label, (f, level) => below(f.assurance[axis], level))
  return { ...entry, levelMax }
}

function consequenceAtOrAbove(facts: RequestFacts, rank: number): boolean | undefined {
  const { consequence } = facts.request
  if (consequence === undefined) return undefined
  return consequence !== 'undeclared' && consequenceRank(consequence) >= rank
}

/**
 * A first contact is hers to decide, whatever the allowance, and so was what she approved. Facts about
 * another allowance say nothing of this one.
 */
function beyondAllowance(
  { connection, operation }: RequestFacts,
  _value: number,
  allowance?: string,
): boolean | undefined {
  if (operation === 'approved' || (connection !== undefined && connection !== 'active')) return false
  return operation?.allowance === allowance ? operation?.beyond : undefined
}

/** The whole vocabulary by name. */
export const CONDITIONS: ReadonlyMap<string, ConditionWord> = new Map(
  [...RELAXING, ...OBSERVED].map(entry => [entry.condition, entry]),
)

/** The body of GET `/owner/policy-vocabulary`. */
export function vocabulary(): {
  condition: string
  takes: ConditionTakes
  label: string
  may_relax: boolean
}[] {
  return [...CONDITIONS.values()].map(({ condition, takes, label, may_relax }) => ({
    condition,
    takes,
    label,
    may_relax,
  }))
}

/** A condition as written, `name` or `name:value`; or a sentence naming it and why it cannot be used. */
export function parseCondition(text: string): Condition | { readonly fault: string } {
  const colon = text.indexOf(':')
  const name = colon === -1 ? text : text.slice(0, colon)
  const entry = CONDITIONS.get(name)
  if (entry === undefined)
    return { fault: `\`${quoted(name)}\` is not a condition; use one that the policy vocabulary lists.` }
  const written = colon === -1 ? undefined : text.slice(colon + 1)
  if (entry.takes === null)
    return written === undefined
      ? { word: entry, value: 0 }
      : { fault: `\`${name}\` takes no value; write it without \`:\`.` }
  if (entry.takes === 'allowance')
    return written !== undefined && ALLOWANCE_ID.test(written)
      ? { word: entry, value: 0, allowance: written }
      : { fault: `\`${name}\` ${needs(entry)}.` }
  const value = written === undefined ? undefined : parseValue(entry, written)
  return value === undefined ? { fault: `\`${name}\` ${needs(entry)}.` } : { word: entry, value }
}

const SECONDS = { d: 86_400, h: 3600, m: 60 } as const

function parseValue(entry: ConditionWord, written: string): number | undefined {
  switch (entry.takes) {
    case 'duration': {
      const unit = /^[1-9]\d{0,5}([dhm])$/.exec(written)?.[1] as keyof typeof SECONDS | undefined
      return unit === undefined ? undefined : Number.parseInt(written, 10) * SECONDS[unit]
    }
    case 'count':
      return /^(0|[1-9]\d{0,8})$/.test(written) ? Number(written) : undefined
    case 'level':
      return /^[1-9]$/.test(written) && Number(written) <= entry.levelMax ? Number(written) : undefined
    case 'class': {
      const consequence = parseConsequence(written)
      return consequence === undefined ? undefined : consequenceRank(consequence)
    }
    case 'allowance':
    case null:
      return undefined
  }
}

function needs(entry: ConditionWord): string {
  const example = `write \`${entry.condition}:`
  switch (entry.takes) {
    case 'duration':
      return `needs a duration in days, hours or minutes; ${example}90d\`, \`12h\` or \`30m\``
    case 'count':
      return `needs a count, a whole number from 0; ${example}3\``
    case 'level':
      return `needs a level from 1 to ${entry.levelMax}, as nothing is below 0; ${example}${entry.levelMax}\``
    case 'class':
      return `needs a consequence class (${CONSEQUENCES.join(', ')}); ${example}irreversible\``
    case 'allowance':
      return `needs the id of an allowance of yours: small letters, digits or \`-\`, at most 32; ${example}weekend\``
    case null:
      return 'takes no value'
  }
}

/** A written name as a sentence may show it: short, and nothing but visible ASCII. */
function quoted(text: string): string {
  const visible = text.replace(/[^\x21-\x5f\x61-\x7e]/g, '?')
  return visible.length > 64 ? `${visible.slice(0, 64)}…` : visible
}
