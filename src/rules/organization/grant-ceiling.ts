/**
 * Judges whether a grant that is used is within the ceiling of an organization: it cuts no grant, and a grant
 * that exceeds the ceiling is refused whole. What cuts a tier, before any grant is made, is tier-ceiling.ts.
 * Contract: "Authorized call", order 2 (`organization_envelope_exceeded`), and "What the service does" (the
 * organization may only narrow): it can refuse a grant of the owner's authority, and never makes one.
 */
import type { EnforcedMembership } from '../../wire/documents/enforced-membership.ts'
import { namedBy } from './charter-patterns.ts'

/** The facts of a grant that a ceiling limits, for the resource that is called. */
export interface GrantExtent {
  readonly resource_id: string
  /** Every scope that the grant gives there. */
  readonly scopes: readonly string[]
  /** From its issue to its end. */
  readonly lifetimeSeconds: number
  readonly single_use: boolean
}

/** The part of the ceiling that a grant exceeds, the first that applies. */
export type CeilingFault =
  | 'not_a_member'
  | 'not_shared'
  | 'not_delegated'
  | 'scope'
  | 'lifetime'
  | 'operation'
  | 'no_break_glass'

/**
 * The part that an ordinary grant exceeds; undefined if it is within the ceiling, or if the organization does
 * not govern the resource.
 */
export function grantCeilingFault(
  membership: EnforcedMembership,
  grant: GrantExtent,
): CeilingFault | undefined {
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
 * The part that an emergency grant exceeds. In an emergency, it does not matter whether the resource is
 * shared with her and may be passed on.
 */
export function breakGlassCeilingFault(
  membership: EnforcedMembership,
  grant: GrantExtent,
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
  return namedBy(patterns)(resource_id)
}

/** Whether each scope is allowed; null allows any. */
export function withinScopes(allowed: readonly string[] | null, scopes: readonly string[]): boolean {
  return allowed === null || scopes.every(scope => allowed.includes(scope))
}
