/**
 * Owns how far a later charter reaches a member who agreed to an earlier one. Contract: "What the service
 * does" (nothing above the owner can widen) and "Versioning" (join names the version agreed): it narrows at
 * once, and takes nothing more before she has agreed again.
 */
import type { Charter } from '../../wire/organization/charter.ts'
import { coveredBy } from './charter-patterns.ts'

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

/**
 * The patterns of either list that one pattern of the other covers. Two patterns that only overlap give
 * nothing, because what she did not agree to stays hers.
 */
function within(some: readonly string[], others: readonly string[]): string[] {
  return [...new Set([...coveredBy(others, some), ...coveredBy(some, others)])]
}
