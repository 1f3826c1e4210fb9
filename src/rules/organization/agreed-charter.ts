/**
 * Owns how far a later charter reaches a member who agreed to an earlier one. Contract: "What the service
 * does" (nothing above the owner can widen) and "Versioning" (join names the version agreed): it narrows at
 * once, and takes nothing more before she has agreed again.
 */
import type { MemberView } from '../../wire/documents/member-view.ts'
import { CHARTER_LIST_MAX, type Charter } from '../../wire/organization/charter.ts'
import { coveredBy, overlapping } from './charter-patterns.ts'

/**
 * The parts of a charter that bind a member beyond its ceiling: what is governed, and what an emergency
 * allows.
 */
export type CharterBinding = Pick<Charter, 'claims' | 'break_glass'>

/** The part of the charter in force that is also within the one that she agreed to. */
export function agreedCharter(inForce: CharterBinding, agreed: CharterBinding): CharterBinding {
  const [now, then] = [inForce.break_glass, agreed.break_glass]
  return {
    claims: within(inForce.claims, agreed.claims),
    break_glass: {
      enabled: now.enabled && then.enabled,
      resources: within(now.resources, then.resources),
      max_expires_in: Math.min(now.max_expires_in, then.max_expires_in),
      require_reason: now.require_reason || then.require_reason,
      invokers: now.invokers.filter(one => then.invokers.includes(one)),
    },
  }
}

/** The parts of a view that say where every operation needs somebody's approval. */
export type ApprovalBinding = Pick<MemberView, 'claims' | 'always_ask'>

/**
 * Where every operation needs somebody's approval by the view that she agreed to, or by one of the later
 * ones. Together they may have more patterns than a charter has. Then it is each claim that she agreed to and
 * that one of the patterns overlaps with: nothing else is governed before she agrees again.
 */
export function approvalsNeeded(
  agreed: ApprovalBinding,
  later: readonly Pick<ApprovalBinding, 'always_ask'>[],
): string[] {
  let patterns = agreed.always_ask
  for (const { always_ask } of later) {
    const earlier = notCovered(patterns, always_ask)
    patterns = [...earlier, ...notCovered(always_ask, earlier)]
  }
  return patterns.length > CHARTER_LIST_MAX ? overlapping(patterns, agreed.claims) : patterns
}

/**
 * Where operations no longer need somebody's approval by a later view, among `claims`, which are those that
 * both views cover. Each resource that this is so for is named by one of these patterns. A pattern of hers
 * that only overlaps with a claim stands whole, so that it may name more: she rather hears of too much.
 */
export function approvalsDropped(
  agreed: Pick<ApprovalBinding, 'always_ask'>,
  later: Pick<ApprovalBinding, 'always_ask'>,
  claims: readonly string[],
): string[] {
  const patterns = notCovered(agreed.always_ask, later.always_ask)
  if (patterns.length === 0) return []
  const unasked = notCovered(claims, later.always_ask)
  const whole = new Set(overlapping(notCovered(unasked, patterns), patterns))
  const others = patterns.filter(one => !whole.has(one))
  return [...new Set([...whole, ...within(others, unasked)])]
}

/** Those of `patterns` that none of `list` covers. */
function notCovered(patterns: readonly string[], list: readonly string[]): string[] {
  const covered = new Set(coveredBy(list, patterns))
  return patterns.filter(one => !covered.has(one))
}

/**
 * The patterns of either list that one pattern of the other covers. Two patterns that only overlap give
 * nothing, because what she did not agree to stays hers.
 */
function within(some: readonly string[], others: readonly string[]): string[] {
  return [...new Set([...coveredBy(others, some), ...coveredBy(some, others)])]
}
