/**
 * Owns whether a grant lies within the ceiling of an organization at the call. Contract: "Authorized call",
 * order 2 (`organization_envelope_exceeded`), and "What the service does" (the organization may only narrow):
 * it can refuse a grant of the owner's authority, and never makes one.
 */
import type { EnforcedMembership } from '../wire/enforced-membership.ts'
import { patternMatches } from './charter-patterns.ts'

/** What of a grant a ceiling is about: on the resource that is called. */
export interface HeldGrant {
  readonly resource_id: string
  /** Every scope that it gives there. */
  readonly scopes: readonly string[]
  /** From its issue to its end. */
  readonly lifetimeSeconds: number
  readonly single_use: boolean
}

/** What of the ceiling a grant exceeds, the first that applies. */
export type CeilingFault =
  'not_a_member' | 'not_shared' | 'not_delegated' | 'scope' | 'lifetime' | 'operation' | 'no_break_glass'

/**
 * What an ordinary grant exceeds; undefined where it lies within, or where the organization does not govern
 * the resource.
 */
export function ceilingFault(membership: EnforcedMembership, grant: HeldGrant): CeilingFault | undefined {
  const { resource_id } = grant
  if (!isNamed(membership.claims, resource_id)) return undefined
  if (!membership.member) return 'not_a_member'
  if (!isNamed(membership.grants, resource_id)) return 'not_shared'
  if (membership.delegation === 'none') return 'not_delegated'
  if (!withinScopes(membership.allowed_scopes, grant.scopes)) return 'scope'
  if (grant.lifetimeSeconds > membership.max_expires_in) return 'lifetime'
  return isNamed(membership.always_ask, resource_id) && !grant.single_use ? 'operation' : undefined
}

/**
 * What a grant of an emergency window exceeds. Whether the resource is shared with her, and may be passed on,
 * is not asked in an emergency.
 */
export function breakGlassCeilingFault(
  membership: EnforcedMembership,
  grant: HeldGrant,
): CeilingFault | undefined {
  const { resource_id } = grant
  if (!membership.member) return 'not_a_member'
  const { enabled, resources, max_expires_in } = membership.break_glass
  const isOpen = enabled && isNamed(membership.claims, resource_id) && isNamed(resources, resource_id)
  if (!isOpen || !grant.single_use) return 'no_break_glass'
  if (!withinScopes(membership.allowed_scopes, grant.scopes)) return 'scope'
  return grant.lifetimeSeconds > max_expires_in ? 'lifetime' : undefined
}

/** Whether one of the patterns names the resource. */
export function isNamed(patterns: readonly string[], resource_id: string): boolean {
  return patterns.some(pattern => patternMatches(pattern, resource_id))
}

/** Whether each scope is among those allowed; null allows any. */
export function withinScopes(allowed: readonly string[] | null, scopes: readonly string[]): boolean {
  return allowed === null || scopes.every(scope => allowed.includes(scope))
}
