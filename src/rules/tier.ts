/**
 * Owns what a tier may say when it is saved, and its answer to one request. Contract: "Policy vocabulary and
 * tiers", "Owner API" (`/owner/policies`).
 */
import type { TermsVersion } from '../wire/negotiation/terms.ts'
import { LIMIT_WORD, parseCondition, type RequestFacts } from './conditions.ts'
import { parseConsequence } from './permission.ts'

export type Effect = 'auto' | 'ask' | 'refuse'

/** Conditions are ANDed inside a rule; rules are ORed. */
export interface Rule {
  readonly when: readonly string[]
  readonly then: Effect
}

/** The members of a tier that deciding needs. */
export interface TierRules {
  readonly ask_me: boolean
  readonly rules: readonly Rule[]
}

/** A tier as the owner wants to save it; its shape has been checked, but not its meaning. */
export interface TierDraft extends TierRules {
  readonly id: string
  readonly name: string
  readonly resources: readonly string[]
  /** Claim name to accepted values. */
  readonly clearance?: Readonly<Record<string, readonly string[]>> | undefined
  readonly terms: Pick<TermsVersion, 'purpose' | 'scope' | 'expires_in' | 'prohibited' | 'per_operation'>
}

/** A registered resource; `tier` is the id of the tier that governs it now, if any. */
export interface GovernableResource {
  readonly resource_id: string
  readonly resource_scopes: readonly string[]
  readonly consequence?: string | null | undefined
  readonly tier?: string | null | undefined
}

export const RULES_MAX = 100
export const CONDITIONS_PER_RULE_MAX = 20
/** Ten years: anything longer is a mistake of units. */
export const TERMS_SECONDS_MAX = 315_360_000

/**
 * Why the tier cannot be saved, as the sentence of a 400, or undefined: the id fits a template id, ask_me and
 * per_operation agree, the terms can grant something if there is a resource, every resource is registered and
 * not governed by another tier, and every rule is in the vocabulary with `auto` naming only conditions that
 * may relax.
 */
export function tierFault(tier: TierDraft, registered: readonly GovernableResource[]): string | undefined {
  return namesFault(tier) ?? termsFault(tier) ?? resourcesFault(tier, registered) ?? rulesFault(tier.rules)
}

function namesFault(tier: TierDraft): string | undefined {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(tier.id))
    return 'id: use 1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit; it becomes part of the template id.'
  if (tier.name.trim() === '') return 'name: give the tier a name.'
  return undefined
}

function termsFault({ ask_me, terms, clearance, resources }: TierDraft): string | undefined {
  if (ask_me && !terms.per_operation)
    return 'ask_me: an ask-me tier is per operation; set `terms.per_operation` to true as well.'
  if (!ask_me && terms.per_operation)
    return 'terms.per_operation: only an ask-me tier is per operation; set `ask_me` to true as well.'
  if (terms.purpose.trim() === '') return 'terms.purpose: say what the access is for.'
  // Over nothing yet there is nothing to name one of: she gets them with the first resource.
  if ((terms.scope.length === 0 && resources.length > 0) || terms.scope.includes(''))
    return 'terms.scope: name at least one scope, none empty.'
  if (terms.prohibited.includes('')) return 'terms.prohibited: leave out the empty entry.'
  if (!Number.isSafeInteger(terms.expires_in) || terms.expires_in < 1 || terms.expires_in > TERMS_SECONDS_MAX)
    return `terms.expires_in: give whole seconds from 1 to ${TERMS_SECONDS_MAX}.`
  const unmeetable = Object.values(clearance ?? {}).some(values => values.length === 0)
  return unmeetable ? 'clearance: name at least one accepted value for every claim.' : undefined
}

function resourcesFault(tier: TierDraft, registered: readonly GovernableResource[]): string | undefined {
  for (const [at, resource_id] of tier.resources.entries()) {
    const resource = registered.find(known => known.resource_id === resource_id)
    if (resource === undefined)
      return `resources[${at}]: no such resource is registered; take an \`_id\` from your resources.`
    if (typeof resource.tier === 'string' && resource.tier !== tier.id)
      return `resources[${at}]: the tier \`${resource.tier}\` governs it already; take it out there first.`
    if (tier.resources.indexOf(resource_id) !== at)
      return `resources[${at}]: it is listed twice; list it once.`
  }
  return undefined
}

/**
 * Why the rules of a tier cannot be saved, as a sentence naming the rule, the condition and why; or
 * undefined.
 */
export function rulesFault(rules: readonly Rule[]): string | undefined {
  if (rules.length > RULES_MAX) return `rules: at most ${RULES_MAX} rules.`
  for (const [at, rule] of rules.entries()) {
    const fault = ruleFault(rule)
    if (fault !== undefined) return `rules[${at}]: ${fault}`
  }
  return undefined
}

function ruleFault({ when, then }: Rule): string | undefined {
  if (!['auto', 'ask', 'refuse'].includes(then)) return '`then` must be auto, ask or refuse.'
  if (when.length === 0) return 'name at least one condition; without any it would decide every request.'
  if (when.length > CONDITIONS_PER_RULE_MAX) return `at most ${CONDITIONS_PER_RULE_MAX} conditions.`
  for (const text of when) {
    const parsed = parseCondition(text)
    if ('fault' in parsed) return parsed.fault
    if (then === 'auto' && !parsed.word.may_relax)
      return `\`${parsed.word.condition}\` cannot be in an \`auto\` rule: it is observed, not the owner's own act, and may only make an answer stricter.`
  }
  return undefined
}

/** Warnings about a saved tier: things that it allows and that the owner may not have meant. */
export function tierWarnings(tier: TierDraft, registered: readonly GovernableResource[]): string[] {
  return tier.resources.flatMap(resource_id => {
    const resource = registered.find(known => known.resource_id === resource_id)
    return resource === undefined ? [] : resourceWarnings(tier, resource)
  })
}

function resourceWarnings(tier: TierDraft, resource: GovernableResource): string[] {
  const warnings: string[] = []
  if (!tier.ask_me && parseConsequence(resource.consequence) === 'irreversible')
    warnings.push(
      `\`${resource.resource_id}\` is declared irreversible and this tier does not ask you about each operation; turn ask_me on to be asked.`,
    )
  if (!tier.terms.scope.some(scope => resource.resource_scopes.includes(scope)))
    warnings.push(
      `\`${resource.resource_id}\` has none of the scopes of these terms, so nothing can be granted on it; add one of its scopes.`,
    )
  return warnings
}

/**
 * The answer of a tier. `because` holds the baseline (`baseline:ask_me` or `baseline:auto`), then every rule
 * that matched, as `<then>:<condition>+<condition>`, a condition that could not be evaluated ending in `?`;
 * then, if the operation is beyond an allowance, the first limit that it does not keep (`LIMIT_WORD`).
 * `relaxed`: a rule let through a request that the owner would otherwise be asked about.
 */
export interface TierAnswer {
  effect: Effect
  because: string[]
  relaxed: boolean
}

const STRICTNESS: Record<Effect, number> = { auto: 0, ask: 1, refuse: 2 }

/**
 * The tier's answer on these facts. Baseline: ask if ask_me, otherwise auto. Pass 1: a matching `auto` rule
 * lowers ask to auto. Pass 2: the strictest matching rule wins, whatever the order. Inside a rule, one false
 * condition decides. Otherwise, a condition that cannot be evaluated counts as met if the rule asks or
 * refuses, and as unmet if it lets through.
 */
export function evaluateTier(tier: TierRules, facts: RequestFacts): TierAnswer {
  const matched = tier.rules.map(rule => matchRule(rule, facts)).filter(match => match !== undefined)
  const relaxed = tier.ask_me && matched.some(match => match.effect === 'auto')
  const baseline: Effect = tier.ask_me && !relaxed ? 'ask' : 'auto'
  const effect = matched.reduce(
    (strictest: Effect, match) =>
      STRICTNESS[match.effect] > STRICTNESS[strictest] ? match.effect : strictest,
    baseline,
  )
  const because = [
    tier.ask_me ? 'baseline:ask_me' : 'baseline:auto',
    ...matched.map(match => match.because),
    ...limitWords(matched, facts),
  ]
  return { effect, because, relaxed: relaxed && effect === 'auto' }
}

/** A rule that matched. */
interface RuleMatch {
  effect: Effect
  because: string
  when: readonly string[]
}

/** The first limit that the operation does not keep, once, if a rule about its allowance matched. */
function limitWords(matched: readonly RuleMatch[], { operation }: RequestFacts): string[] {
  if (operation === undefined || operation === 'approved' || operation.limit === undefined) return []
  const condition = `operation.beyond:${operation.allowance}`
  return matched.some(({ when }) => when.includes(condition)) ? [LIMIT_WORD + operation.limit] : []
}

/**
 * A stored `then` that is none of the three refuses, because an unreadable rule must never let anything
 * through.
 */
function matchRule(rule: Rule, facts: RequestFacts): RuleMatch | undefined {
  const effect = Object.hasOwn(STRICTNESS, rule.then) ? rule.then : 'refuse'
  const met = rule.when.map(text => ({ text, holds: conditionHolds(text, effect, facts) }))
  if (met.some(({ holds }) => holds === false)) return undefined
  const unknown = met.length === 0 || met.some(({ holds }) => holds === undefined)
  if (effect === 'auto' && unknown) return undefined
  const written = met.map(({ text, holds }) => (holds === undefined ? `${text}?` : text))
  return { effect, because: `${effect}:${written.join('+')}`, when: rule.when }
}

/**
 * Undefined if it cannot be evaluated. An observed condition is never evaluated inside an `auto` rule, even
 * if it is stored so.
 */
function conditionHolds(text: string, effect: Effect, facts: RequestFacts): boolean | undefined {
  const parsed = parseCondition(text)
  if ('fault' in parsed || (effect === 'auto' && !parsed.word.may_relax)) return undefined
  return parsed.word.holds(facts, parsed.value, parsed.allowance)
}

/**
 * Whether the tier could let a request through unasked, assuming the best for every unknown fact, because an
 * owner who lets an agent in must never be shown less than she opens. Only a known fact closes a tier.
 */
export function mayLetThrough(tier: TierRules, facts: RequestFacts): boolean {
  const relaxed = tier.rules.some(
    ({ then, when }) => then === 'auto' && when.every(text => mayRelax(text, facts)),
  )
  if (tier.ask_me && !relaxed) return false
  return !tier.rules.some(
    ({ then, when }) => then !== 'auto' && when.every(text => conditionHolds(text, 'ask', facts) === true),
  )
}

function mayRelax(text: string, facts: RequestFacts): boolean {
  const parsed = parseCondition(text)
  return !('fault' in parsed) && parsed.word.may_relax && parsed.word.holds(facts, parsed.value) !== false
}
