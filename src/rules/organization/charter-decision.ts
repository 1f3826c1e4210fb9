/**
 * Owns what a charter answers for one request. Contract: "The organization's authority" (`/decision`: allow,
 * ask or refuse; never widens). The strictest statement decides, so that nothing that is added to a charter
 * can make an answer milder.
 */
import type { Charter } from '../../wire/organization/charter.ts'
import { namedBy } from './charter-patterns.ts'
import { unmetFact } from './clearance.ts'
import type { RequestFacts } from '../conditions.ts'
import { evaluateTier } from '../tier.ts'

/** What a member's authorization server sends about a request: no free text, and no parameters. */
export interface DecisionFacts {
  readonly resource_id: string
  readonly scopes: readonly string[]
  readonly expires_in: number
  readonly reason_absent: boolean
  readonly mission_absent: boolean
  readonly assurance: Readonly<Record<'binding' | 'provenance' | 'accountability', number>>
  readonly standing: Readonly<Record<'connected' | 'first_party' | 'introduced', boolean>>
}

export interface CharterMember {
  readonly charter: Charter
  /** Her group; null: none. */
  readonly role: string | null
  /** The facts attested about her. */
  readonly clearance: Readonly<Record<string, string>>
}

/**
 * The answer, and in `because` a word for each of its reasons; the word of a rule is
 * `<then>:<condition>+<condition>`. `governed` is false if the charter does not claim the resource: then
 * nothing is said about it.
 */
export interface CharterDecision {
  effect: 'allow' | 'ask' | 'refuse'
  because: string[]
  governed: boolean
}

/**
 * The answer of the charter. Rules whose conditions cannot be evaluated count as met, because unknown facts
 * must not make an answer milder.
 */
export function decideUnderCharter(governing: CharterMember, facts: DecisionFacts): CharterDecision {
  const { charter } = governing
  const { resource_id } = facts
  if (!namedBy(charter.claims)(resource_id)) return { effect: 'allow', because: [], governed: false }
  const rules = charter.rules.filter(({ resources }) => namedBy(resources)(resource_id))
  const ruled = evaluateTier({ ask_me: false, rules }, requestFacts(facts))
  const matched = ruled.because.slice(1)
  const refused = [
    ...sharingWords(governing, facts),
    ...conditionWords(charter, facts),
    ...ceilingWords(governing, facts),
    ...matched.filter(word => word.startsWith('refuse:')),
  ]
  if (refused.length > 0) return { effect: 'refuse', because: refused, governed: true }
  const reasons = [...matched, ...(namedBy(charter.envelope.always_ask)(resource_id) ? ['always_ask'] : [])]
  return { effect: reasons.length > 0 ? 'ask' : 'allow', because: reasons, governed: true }
}

function sharingWords({ charter, role }: CharterMember, { resource_id, standing }: DecisionFacts): string[] {
  const group = role !== null && Object.hasOwn(charter.roles, role) ? charter.roles[role] : undefined
  if (group === undefined || !namedBy(group.grants)(resource_id)) return ['not_shared']
  return words({
    delegation_none: group.delegation === 'none',
    not_first_party: group.delegation === 'first-party-only' && !standing.first_party,
  })
}

function conditionWords({ conditions }: Charter, facts: DecisionFacts): string[] {
  const { assurance } = facts
  return words({
    binding_below_minimum: assurance.binding < conditions.min_binding,
    provenance_below_minimum: assurance.provenance < conditions.min_provenance,
    accountability_below_minimum: assurance.accountability < conditions.min_accountability,
    reason_required: conditions.require_reason && facts.reason_absent,
    mission_required: conditions.require_mission && facts.mission_absent,
  })
}

function ceilingWords(
  { charter, clearance }: CharterMember,
  { scopes, expires_in }: DecisionFacts,
): string[] {
  const { max_expires_in, allowed_scopes, require_clearance } = charter.envelope
  return words({
    expires_in_above_ceiling: expires_in > max_expires_in,
    scope_above_ceiling: allowed_scopes !== null && scopes.some(scope => !allowed_scopes.includes(scope)),
    clearance_unmet: unmetFact(require_clearance, clearance) !== undefined,
  })
}

function words(spoken: Readonly<Record<string, boolean>>): string[] {
  return Object.keys(spoken).filter(word => spoken[word])
}

/**
 * The facts as conditions read them. How grave the operation is, and everything that she remembers about the
 * agent, is not known here.
 */
function requestFacts({ assurance, standing, ...facts }: DecisionFacts): RequestFacts {
  return {
    connection: standing.connected ? 'active' : 'none',
    standing: {
      approvedAtTier: undefined,
      neverRevoked: undefined,
      firstParty: standing.first_party,
      firstAtTier: undefined,
      revokedBefore: undefined,
      introduced: standing.introduced,
      lineageNewAtTier: undefined,
    },
    assurance,
    request: {
      expiresInSeconds: facts.expires_in,
      reasonAbsent: facts.reason_absent,
      missionAbsent: facts.mission_absent,
    },
  }
}
