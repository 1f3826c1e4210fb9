/**
 * Owns how far a later charter reaches a member who agreed to an earlier one. Contract: "What the service
 * does" (nothing above the owner can widen) and "Versioning" (join names the version agreed): it narrows at
 * once, and takes nothing more before she agreed again.
 */
import type { Charter } from '../wire/charter.ts'
import { covers } from './charter-patterns.ts'

/** What binds a member of a charter beyond its ceiling: what is governed, and in an emergency. */
export type Bound = Pick<Charter, 'claims' | 'break_glass'>

/** Of the charter in force, what lies within the one that she agreed to, too. */
export function agreedCharter(inForce: Bound, agreed: Bound): Bound {
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
 * The patterns of either list that one pattern of the other covers. Two that only overlap name nothing
 * together: what is not agreed is hers.
 */
function within(some: readonly string[], others: readonly string[]): string[] {
  const inside = (pattern: string, list: readonly string[]): boolean => list.some(one => covers(one, pattern))
  return [
    ...new Set([
      ...some.filter(pattern => inside(pattern, others)),
      ...others.filter(pattern => inside(pattern, some)),
    ]),
  ]
}
