/**
 * Owns the question to an organization about one request, and the effect of its answer on that of the owner's
 * tier. Contract: "The organization's authority" (`/decision`: allow, ask or refuse; never widens), "What the
 * service does" (nothing above the owner can widen).
 */
import type { DecisionFacts } from './charter-decision.ts'
import type { TierAnswer } from '../tier.ts'

/**
 * Everything that is sent to an organization: none of her words, no parameters, and no name or purpose of a
 * tier.
 */
export interface DecisionQuestion extends DecisionFacts {
  readonly operation?: { readonly tool: string; readonly params_s256: string }
  readonly tier: null
  readonly purpose: null
}

/** An organization's answer, with its reasons. */
export interface Ruling {
  readonly effect: 'allow' | 'ask' | 'refuse'
  readonly because: readonly string[]
}

/** The prefix of an organization's reasons among those of her tier. */
export const ORGANIZATION_WORD = 'organization:'

const EFFECTS = { allow: 'auto', ask: 'ask', refuse: 'refuse' } as const
const STRICTNESS = { auto: 0, ask: 1, refuse: 2 } as const

/** The stricter of both: an organization's permission adds nothing to the answer of her tier. */
export function underRuling(answer: TierAnswer, { effect, because }: Ruling): TierAnswer {
  const ruled = EFFECTS[effect]
  const stricter = STRICTNESS[ruled] > STRICTNESS[answer.effect] ? ruled : answer.effect
  return {
    effect: stricter,
    because: [...answer.because, ...because.map(word => ORGANIZATION_WORD + word)],
    relaxed: answer.relaxed && stricter === 'auto',
  }
}

/** What an agent gets where an organization, or its administrator, refuses and no word says why. */
export const ORGANIZATION_REFUSED = 'organization_refused'

/** The words of a charter that an agent gets as they are; those about delegation become our own code. */
const REASONS: ReadonlySet<string> = new Set([
  'not_shared',
  'binding_below_minimum',
  'provenance_below_minimum',
  'accountability_below_minimum',
  'reason_required',
  'mission_required',
  'expires_in_above_ceiling',
  'scope_above_ceiling',
  'clearance_unmet',
  'not_delegated',
])
const OF_DELEGATION: ReadonlySet<string> = new Set(['delegation_none', 'not_first_party'])
const OF_A_RULE = /^refuse:[a-z0-9_.:+?]{1,200}$/

/**
 * The code by which an agent learns why an organization refuses: the first of `because` that comes from a
 * charter. `code` is for records, which are counted by it, so it is the same for every rule.
 */
export function refusalWords({ because }: Pick<Ruling, 'because'>): { code: string; reason: string } {
  for (const word of because) {
    if (OF_DELEGATION.has(word)) return { code: 'not_delegated', reason: 'not_delegated' }
    if (REASONS.has(word)) return { code: word, reason: word }
    if (OF_A_RULE.test(word)) return { code: 'charter_rule', reason: word }
  }
  return { code: ORGANIZATION_REFUSED, reason: ORGANIZATION_REFUSED }
}
