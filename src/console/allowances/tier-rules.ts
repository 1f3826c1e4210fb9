/**
 * Owns how a tier is opened within an allowance: one rule lets agents through, another asks her about what is
 * beyond; and to whom that opens at once. Contract: "Policy vocabulary and tiers", "Owner API"
 * (`/owner/policies`).
 */
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import type { Connection, Tier } from '../../wire/owner/owner-api.ts'
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
