/**
 * Owns how a tier may name an allowance: `operation.beyond:<id>` takes back a part of what an `auto` rule of
 * the tier opens, and nothing else. Contract: "Policy vocabulary and tiers", "Owner API" (`/owner/policies`).
 */
import type { ClientId } from '../../wire/identifiers.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { parseCondition } from '../conditions.ts'
import { jointAccountOf } from '../joint/joint.ts'
import type { Rule, TierDraft } from '../tier.ts'

/** The ids of the allowances that rules name, each once, in their order. */
export function allowancesIn(rules: readonly Rule[]): string[] {
  return [...new Set(rules.flatMap(({ when }) => when.flatMap(text => allowanceOf(text) ?? [])))]
}

function allowanceOf(condition: string): string | undefined {
  const parsed = parseCondition(condition)
  return 'fault' in parsed ? undefined : parsed.allowance
}

/**
 * Why a tier that names an allowance, or that named one, cannot be saved, as the sentence of a 400, or
 * undefined. Its rules passed `rulesFault`, so no `auto` rule names an allowance. `allowance` is the one that
 * it names, if she has it; `before` are the rules that an edit replaces.
 */
export function tierAllowanceFault(
  { id, ask_me, rules }: Pick<TierDraft, 'id' | 'ask_me' | 'rules'>,
  allowance: Pick<OwnerAllowance, 'tiers'> | undefined,
  before: readonly Rule[] = [],
): string | undefined {
  const [name, another] = allowancesIn(rules)
  if (name === undefined) return removalFault(rules, allowancesIn(before)[0])
  if (another !== undefined)
    return `rules: \`${name}\` and \`${another}\` are two allowances; name one, because a tier has one at most.`
  const at = rules.findIndex(({ when }) => when.some(text => allowanceOf(text) !== undefined))
  if (rules.some(rule => rule.when.length > 1 && rule.when.some(text => allowanceOf(text) !== undefined)))
    return `rules: let \`operation.beyond:${name}\` be alone in its rule, and put the other conditions into a rule of their own.`
  if (!ask_me)
    return `rules[${at}]: only an ask-me tier may name an allowance, because no other binds a grant to one operation; set \`ask_me\` to true as well.`
  if (allowance === undefined)
    return `rules[${at}]: you have no allowance \`${name}\`; make it first, or name another.`
  return Object.hasOwn(allowance.tiers, id)
    ? undefined
    : `rules[${at}]: the allowance \`${name}\` says nothing of this tier; add \`${id}\` to its \`tiers\` first.`
}

/** Without the condition, an `auto` rule would let through everything that the allowance bounded. */
function removalFault(rules: readonly Rule[], before: string | undefined): string | undefined {
  const auto = rules.findIndex(({ then }) => then === 'auto')
  return before === undefined || auto === -1
    ? undefined
    : `rules[${auto}]: take out the \`auto\` rules together with \`operation.beyond:${before}\`, or keep it: they would let through what the allowance bounds.`
}

/** A registered resource as a warning needs it. */
interface BoundResource {
  readonly resource_id: string
  readonly client_id: ClientId
  readonly approval: 'signed' | null
}

/** Warnings about resources at which every operation is beyond an allowance, so that she is always asked. */
export function tierAllowanceWarnings(
  { rules }: Pick<TierDraft, 'rules'>,
  governed: readonly BoundResource[],
): string[] {
  if (allowancesIn(rules).length === 0) return []
  return governed.flatMap(({ resource_id, client_id, approval }) => {
    if (jointAccountOf(client_id) !== undefined)
      return [
        `\`${resource_id}\` is held jointly, so you are asked about each operation there, whatever the allowance.`,
      ]
    return approval === 'signed'
      ? [
          `\`${resource_id}\` takes only what you sign, so you are asked about each operation there, whatever the allowance.`,
        ]
      : []
  })
}
