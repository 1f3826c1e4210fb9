/**
 * Cuts a member's tier by the ceiling of her organization: the lifetime, scopes, prohibitions, clearances and
 * questions of its terms. Grants are judged apart, in grant-ceiling.ts, when they are used. Contract:
 * "Organization membership, on the member's authorization server" (what the ceiling does to each tier) and
 * "What the service does" (nothing above the owner can widen). The result is never wider than the input;
 * cutting again changes nothing, and a lower ceiling never leaves more.
 */
import type { CharterEnvelope } from '../../wire/organization/charter.ts'
import type { TierRules } from '../tier.ts'
import { namedBy } from './charter-patterns.ts'

/** The part of a member's view that limits tiers. */
export type Ceiling = { readonly [M in keyof CharterEnvelope]: Readonly<CharterEnvelope[M]> }

/** The members of a tier that can be cut. */
export interface TierUnderCeiling {
  ask_me: boolean
  clearance: Record<string, string[]>
  resources: string[]
  terms: { scope: string[]; expires_in: number; prohibited: string[]; per_operation: boolean }
}

/** A member of a tier that a ceiling cut, as it was and as it is; `text` is a sentence for the owner. */
export interface Cut {
  field: 'expires_in' | 'scope' | 'prohibited' | 'ask_me' | 'clearance'
  was: unknown
  now: unknown
  text: string
}

/**
 * The tier under the ceiling: lifetime lowered, scopes left out, prohibitions added, each use asked about if
 * a resource of it always is, clearances intersected. If the organization governs one resource of a tier, the
 * whole tier is cut; if it governs none, the tier stays as it is.
 */
export function cutTier<Tier extends TierUnderCeiling>(
  tier: Tier,
  ceiling: Ceiling,
  governed: (resource_id: string) => boolean,
): Tier {
  const reached = tier.resources.filter(governed)
  if (reached.length === 0) return tier
  const asks = reached.some(id => needsApproval(id, ceiling))
  const { terms } = tier
  const { allowed_scopes, require_prohibited } = ceiling
  return {
    ...tier,
    ask_me: tier.ask_me || asks,
    clearance: intersectClearances(tier.clearance, ceiling.require_clearance),
    terms: {
      ...terms,
      scope: allowed_scopes === null ? terms.scope : terms.scope.filter(one => allowed_scopes.includes(one)),
      expires_in: Math.min(terms.expires_in, ceiling.max_expires_in),
      prohibited: [...terms.prohibited, ...require_prohibited.filter(one => !terms.prohibited.includes(one))],
      per_operation: terms.per_operation || asks,
    },
  }
}

/** Whether every operation on the resource needs somebody's approval. */
export function needsApproval(resource_id: string, { always_ask }: Pick<Ceiling, 'always_ask'>): boolean {
  return namedBy(always_ask)(resource_id)
}

/**
 * The rules of a tier that count at a resource that an organization governs. If every operation there needs
 * somebody's approval, none of her rules lets one through. That stays so if the organization no longer asks
 * for it, until she has agreed to that. But she may turn `ask_me` off at once, because her own act widens her
 * terms then.
 */
export function underApproval(
  tier: TierRules,
  resource_id: string,
  { agreed, view }: Readonly<Record<'agreed' | 'view', Pick<Ceiling, 'always_ask'>>>,
): TierRules {
  const asksNow = needsApproval(resource_id, view)
  if (!asksNow && !needsApproval(resource_id, agreed)) return tier
  return { ask_me: tier.ask_me || asksNow, rules: tier.rules.filter(rule => rule.then !== 'auto') }
}

/**
 * Combines both requirements, fact by fact. If no value of a fact is accepted by both, nobody can meet it.
 */
export function intersectClearances(
  one: Readonly<Record<string, readonly string[]>>,
  other: Readonly<Record<string, readonly string[]>>,
): Record<string, string[]> {
  const facts = new Set([...Object.keys(one), ...Object.keys(other)])
  return Object.fromEntries(
    [...facts].map(fact => {
      const values = [one, other].filter(of => Object.hasOwn(of, fact)).map(of => of[fact]!)
      return [fact, values[0]!.filter(value => values.every(accepted => accepted.includes(value)))]
    }),
  )
}

/** The differences between a tier and what a ceiling left of it; empty if nothing was cut. */
export function cutsBetween(before: TierUnderCeiling, after: TierUnderCeiling): Cut[] {
  const cuts: Cut[] = []
  const cut = (field: Cut['field'], was: unknown, now: unknown, text: string): void => {
    if (JSON.stringify(was) !== JSON.stringify(now)) cuts.push({ field, was, now, text })
  }
  const [{ terms: had }, { terms: has }] = [before, after]
  cut(
    'expires_in',
    had.expires_in,
    has.expires_in,
    `Grants last at most ${has.expires_in} seconds, not ${had.expires_in}.`,
  )
  const lost = had.scope.filter(one => !has.scope.includes(one))
  cut(
    'scope',
    had.scope,
    has.scope,
    `No longer granted: ${lost.join(', ')}.${has.scope.length === 0 ? ' Nothing is left to grant.' : ''}`,
  )
  const more = has.prohibited.filter(one => !had.prohibited.includes(one))
  cut('prohibited', had.prohibited, has.prohibited, `Agents must also promise not to: ${more.join(', ')}.`)
  cut('ask_me', before.ask_me, after.ask_me, 'You are asked about each operation.')
  cut(
    'clearance',
    before.clearance,
    after.clearance,
    'An agent needs a clearance that it did not need before.',
  )
  return cuts
}
