/**
 * Owns how a tier is opened within an allowance: one rule lets agents through, another asks her about what is
 * beyond; to whom that opens at once, and which parameters the allowance leaves unnamed. Contract: "Policy
 * vocabulary and tiers", "Owner API" (`/owner/policies`).
 */
import { pointersOf, unnamedMembers } from '../../rules/allowance/judge-operation.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { isJsonObject, type Json } from '../../wire/json.ts'
import type { Connection, PendingItem, Tier } from '../../wire/owner/owner-api.ts'
import { isSame } from '../rules/draft.ts'

type TierRulesList = Tier['rules']

/** Relaxes by what she did herself, so the vocabulary lets it be in such a rule. */
const LETS_THROUGH: TierRulesList[number] = { when: ['standing.approved_at_tier'], then: 'auto' }

/** Whether a rule of the tier keeps to the allowance. */
export function isNamedIn(rules: TierRulesList, allowance: string): boolean {
  return allowancesIn(rules).includes(allowance)
}

/** Whether the rules of the tier may name the allowance: it asks her each time, and names no other. */
export function mayName({ ask_me, rules }: Pick<Tier, 'ask_me' | 'rules'>, allowance: string): boolean {
  return ask_me && allowancesIn(rules).every(id => id === allowance)
}

/** What the tier lacks: what lets agents through, and what asks about everything beyond the allowance. */
export function missingRules(rules: TierRulesList, allowance: string): TierRulesList {
  const asks: TierRulesList[number] = { when: [`operation.beyond:${allowance}`], then: 'ask' }
  return [
    ...(rules.some(rule => isSame(rule, LETS_THROUGH)) ? [] : [LETS_THROUGH]),
    ...(isNamedIn(rules, allowance) ? [] : [asks]),
  ]
}

/** Whether agents pass at the tier also by another rule than the one that goes by her approval alone. */
export function hasOtherWay(rules: TierRulesList): boolean {
  return rules.some(rule => rule.then === 'auto' && !isSame(rule, LETS_THROUGH))
}

/** Whether the tier lets through what is within the allowance, and asks about or refuses what is beyond. */
export function isOpen({ ask_me, rules }: Pick<Tier, 'ask_me' | 'rules'>, allowance: string): boolean {
  return ask_me && isNamedIn(rules, allowance) && rules.some(({ then }) => then === 'auto')
}

/**
 * The agents that a rule that goes by her approval lets through at once; others may pass by another rule. An
 * approval at the tier counts for its agent, for the one that introduced it, and for all that either
 * introduced. A rule relaxes nothing for what others let in.
 */
export function openedAgents(connections: readonly Connection[], tier_id: string): Connection[] {
  const active = connections.filter(({ status }) => status === 'active')
  const approved = active.filter(({ tiers_approved }) => tiers_approved.includes(tier_id))
  const near = new Set(approved.flatMap(({ handle, introduced_by }) => [handle, introduced_by ?? handle]))
  return active.filter(
    ({ handle, introduced_by, reach }) =>
      (reach === null || reach === undefined) && (near.has(handle) || near.has(introduced_by ?? handle)),
  )
}

/** A request that waits for her, as far as it says which operation it is for, and where. */
export type WaitingOperation = Pick<PendingItem, 'kind' | 'tier' | 'operation'>

/**
 * Why operations of its own tools are beyond an allowance at a tier, whatever their amounts: `none` if it
 * names no parameter at all, or the parameters of operations that wait for her there and that it names
 * nowhere, as JSON pointers. Undefined if nothing of the kind is known.
 */
export function unnamedAt(
  { tiers }: Pick<OwnerAllowance, 'tiers'>,
  tier_id: string,
  waiting: readonly WaitingOperation[],
): 'none' | string[] | undefined {
  const named = Object.hasOwn(tiers, tier_id) ? tiers[tier_id] : undefined
  if (named === undefined) return undefined
  const unnamed = waiting.flatMap(({ kind, tier, operation }) => {
    // She is always asked about what she holds with others.
    if (kind === 'joint' || tier !== tier_id || operation === null) return []
    const params = operation.params as Json
    return named.tools.includes(operation.tool) && isJsonObject(params) ? unnamedMembers(named, params) : []
  })
  if (unnamed.length > 0) return [...new Set(unnamed)]
  return pointersOf(named).length === 0 ? 'none' : undefined
}
