/**
 * How long what she approves lasts, what it opens, and whether she is asked again then. Contract: "Owner API"
 * (`item`): she is never shown less than she opens.
 */
import { isFirstContact } from '../../rules/owner-statement.ts'
import { LATER_TIERS, NO_LATER_TIERS } from '../../rules/words/request-sentences.ts'
import { opensByGrant, secondsText, wasOpen } from '../../rules/words/rule-words.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { WORDS } from '../words.ts'

const W = WORDS.waiting

/**
 * Whether she can approve less than it asks for: a first contact for its tier alone, or an operation that
 * opens a tier for this one call. What is held jointly opens nothing.
 */
export function mayApproveOnly(item: DecisionItem): boolean {
  if (item.account !== undefined) return false
  return isFirstContact(item) || (item.kind === 'operation' && item.opens.length > 0)
}

/** The tiers that the approval opens as she chose it. */
export function opensBy({ kind, tier, opens }: DecisionItem, only: boolean): string[] {
  if (!only) return opens
  return kind === 'operation' ? [] : opens.filter(one => one === tier)
}

/** `opens` are the tiers that the approval opens as she chose it. */
export function lastingText(item: DecisionItem, opens: readonly string[]): string {
  const { expires_in, single_use, kind, tier } = item
  const time = secondsText(expires_in)
  const lasts = single_use ? `${W.once} ${W.onceWithin(time)}` : W.lasts(time)
  if (kind === 'operation' && opens.includes(tier)) return `${lasts} ${WORDS.allowances.againWithin}`
  if (kind !== 'connection') return `${lasts} ${opensByGrant(item.because) ? W.goesOn : W.again}`
  return `${lasts} ${opens.includes(tier) ? W.againUnasked : W.again} ${W.staysKnown}`
}

/** How it is with tiers that she gets later; undefined for what lets no agent in at more than it asks for. */
export function laterText({ kind }: DecisionItem, only: boolean): string | undefined {
  if (kind !== 'connection') return undefined
  return only ? NO_LATER_TIERS : `${LATER_TIERS} ${W.orOnly}`
}

/** What is said before the tiers that approving these opens: never less than one of them opens. */
export function opensText(items: readonly DecisionItem[]): string {
  if (items.some(({ kind }) => kind !== 'operation')) return W.opens
  const wereOpen = items.every(({ because }) => wasOpen(because))
  return wereOpen ? WORDS.allowances.opensNoMore : WORDS.allowances.opensHere
}
