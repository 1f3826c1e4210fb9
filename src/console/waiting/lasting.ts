/**
 * How long what she approves lasts, and whether she is asked again then. Contract: "Owner API" (`item`):
 * she is never shown less than she opens.
 */
import { secondsText } from '../../rules/words/rule-words.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { WORDS } from '../words.ts'

const W = WORDS.waiting

/** `opens` are the tiers that the approval opens as she chose it. */
export function lastingText(item: DecisionItem, opens: readonly string[]): string {
  const { expires_in, single_use, kind, tier } = item
  const time = secondsText(expires_in)
  const lasts = single_use ? `${W.once} ${W.onceWithin(time)}` : W.lasts(time)
  if (kind !== 'connection') return `${lasts} ${W.again}`
  return `${lasts} ${opens.includes(tier) ? W.againUnasked : W.again} ${W.staysKnown}`
}
