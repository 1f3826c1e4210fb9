/**
 * Owns what a membership reaches: which resources are an organization's to govern, what it shares, what a
 * later version of its charter takes away at once and what it takes only after she agreed again. Contract:
 * "Organization membership, on the member's authorization server" and "The organization's authority".
 */
import type { CharterBreakGlass, Delegation } from '../wire/charter.ts'
import { agreedCharter } from './agreed-charter.ts'
import { claimFault, covers, patternFault, patternMatches } from './charter-patterns.ts'
import { CEILING_SECONDS_MAX } from './charter.ts'
import { bindingDigest, type MemberView } from './member-view.ts'

/** What she agreed to, and what the organization says now. */
export interface Bound {
  readonly agreed: MemberView
  readonly view: MemberView
}

/** How a resource stands under a membership; null: it is her own. */
export type Reach = 'governed' | 'shared'

/**
 * Whether the organization governs a resource, and shares it with her. What is newly claimed is hers until
 * she agrees, what is claimed no more is hers at once; what is shared is as the organization says now.
 */
export function reachOf(resource_id: string, { agreed, view }: Bound): Reach | null {
  const names = (patterns: readonly string[]): boolean =>
    patterns.some(pattern => patternMatches(pattern, resource_id))
  if (!names(agreedCharter(view, agreed).claims)) return null
  return names(view.grants) ? 'shared' : 'governed'
}

/**
 * Why a view is not one that a charter could make, as a clause; undefined where it is. Its digest is made
 * anew, whatever it says.
 */
export function viewFault(view: MemberView): string | undefined {
  const within = (patterns: readonly string[]): boolean =>
    patterns.every(one => patternFault(one) === undefined && view.claims.some(claim => covers(claim, one)))
  if (view.claims.some(claim => claimFault(claim) !== undefined)) return 'it claims what is no claim'
  if (!within(view.grants)) return 'it shares more than it claims'
  if (!within(view.always_ask)) return 'it always asks about more than it claims'
  if (!within(view.break_glass.resources)) return 'its emergency clause names more than it claims'
  if (view.max_expires_in < 1 || view.max_expires_in > CEILING_SECONDS_MAX)
    return 'its longest lifetime is out of bounds'
  if (view.view < 1 || view.charter_version < 1) return 'it has no number'
  return view.binds_s256 === bindingDigest(view)
    ? undefined
    : 'its digest is not that of what it binds her to'
}

/**
 * What a later version would bind her to beyond what she agreed to, as sentences; it does so only after she
 * agreed again.
 */
export function enlargements({ agreed, view }: Bound): string[] {
  const claimed = view.claims.filter(claim => !agreed.claims.some(known => covers(known, claim)))
  return [
    ...claimed.map(claim => `It would govern ${claim}, too.`),
    ...breakGlassEnlargements(agreed.break_glass, view.break_glass, view.claims),
    ...(view.identity_provider !== null && view.identity_provider.issuer !== agreed.identity_provider?.issuer
      ? [`${view.identity_provider.issuer} would vouch for who you are.`]
      : []),
  ]
}

function breakGlassEnlargements(
  agreed: CharterBreakGlass,
  now: CharterBreakGlass,
  claims: readonly string[],
): string[] {
  if (!now.enabled) return []
  const known = agreed.enabled ? agreed : { ...agreed, resources: [], invokers: [] }
  const further = now.resources.filter(
    one => claims.some(claim => covers(claim, one)) && !known.resources.some(had => covers(had, one)),
  )
  return [
    ...(agreed.enabled ? [] : ['It could open an emergency window.']),
    ...further.map(one => `In an emergency it could let an agent use ${one}, too.`),
    ...(agreed.enabled && now.max_expires_in > agreed.max_expires_in
      ? [`An emergency grant could last ${now.max_expires_in} seconds.`]
      : []),
    ...(agreed.enabled && agreed.require_reason && !now.require_reason
      ? ['An emergency would need no reason.']
      : []),
    ...now.invokers
      .filter(one => !known.invokers.includes(one))
      .map(one => `${one} could invoke an emergency.`),
  ]
}

/**
 * What a grant on a governed resource hangs on: of the membership, of the connection, and of the operator
 * that the request names (0: none).
 */
export interface OrganizationEpochs {
  readonly membership: number
  readonly handle: number
  readonly operator: number
}

/** A view that nobody has confirmed for so many seconds is not relied on. */
export const STALE_SECONDS = 600

/**
 * Why nobody is let in to a governed resource at the first presentation, as a word and a sentence; undefined
 * where the rest decides.
 */
export function governedFault(
  reach: Reach,
  { view }: Pick<Bound, 'view'>,
): { code: string; fault: string } | undefined {
  if (reach === 'governed')
    return { code: 'not_shared', fault: 'The organization that governs this resource does not share it.' }
  if (view.delegation === 'none')
    return {
      code: 'not_delegated',
      fault: 'The organization that governs this resource lets no agent use it.',
    }
  return undefined
}

/** Whether an agent may use what is shared: any, or only one that the owner activated herself. */
export function mayDelegateTo({ view }: Pick<Bound, 'view'>, agent: { first_party: boolean }): boolean {
  return view.delegation === 'any-agent' || (view.delegation === 'first-party-only' && agent.first_party)
}

const DELEGATED: Record<Delegation, number> = { none: 0, 'first-party-only': 1, 'any-agent': 2 }

/**
 * Whether a later view takes access away, so that no grant made before it may live on: another group, or less
 * that she may pass on. What is shared no more is told by `reachOf`, resource by resource.
 */
export function takesAccess(before: MemberView, after: MemberView): boolean {
  return before.role !== after.role || DELEGATED[after.delegation] < DELEGATED[before.delegation]
}
