/**
 * Owns when a member's authorization server accepts one grant of an emergency window. Contract: "The
 * organization's authority" (`/break-glass`) and "What the service does" (nothing above the owner can widen):
 * within the clause that she agreed to, and never against one of her revocations or blocks.
 */
import { operatorOrigin } from '../../wire/agents/agent-identity.ts'
import type { BreakGlassGrant } from '../../wire/organization/notice.ts'
import { agreedCharter } from './agreed-charter.ts'
import { isNamed, withinScopes } from './grant-ceiling.ts'
import type { AgreedView } from './membership.ts'

/** The organization's request for an acceptance. */
export interface EmergencyRequest {
  readonly grant: BreakGlassGrant
  readonly reason: string | null
  /** An administrator, or the origin of an invoker. */
  readonly authorised_by: string
  /** When it asked, in seconds since the epoch. */
  readonly iat: number
}

/** Her own records, and her server's clock in seconds since the epoch. */
export interface EmergencyRecord {
  /** The resource is registered for her, and nobody else holds it. */
  readonly isHers: boolean
  readonly scopes: readonly string[]
  /** She ended a connection of the key. */
  readonly isRevoked: boolean
  /** She blocked the invoker, or an operator on record for a connection of the key. */
  readonly isBlocked: boolean
  readonly now: number
}

/** Why it was not accepted, for her ledger; the organization does not get these words. */
export type EmergencyFault =
  | 'outside_clause'
  | 'invoker'
  | 'reason'
  | 'lifetime'
  | 'scope'
  | 'operator_blocked'
  | 'key_revoked'

/**
 * The first reason against an acceptance; undefined if there is none. A permission of a later charter counts
 * only as far as she agreed to it; a prohibition counts at once.
 */
export function emergencyFault(
  { agreed, view }: AgreedView,
  { grant, reason, authorised_by, iat }: EmergencyRequest,
  { isHers, scopes: registered, isRevoked, isBlocked, now }: EmergencyRecord,
): EmergencyFault | undefined {
  const { claims, break_glass: clause } = agreedCharter(view, agreed)
  const { resource_id, scopes, exp } = grant
  const isNamedByBoth = isNamed(claims, resource_id) && isNamed(clause.resources, resource_id)
  if (!clause.enabled || !isHers || !isNamedByBoth) return 'outside_clause'
  if (isOrigin(authorised_by) && !isInvoker(authorised_by, clause.invokers)) return 'invoker'
  if (clause.require_reason && (reason === null || reason.trim() === '')) return 'reason'
  if (exp <= now || exp - iat > clause.max_expires_in) return 'lifetime'
  // What she says yes to is scopes of hers: the empty set, or a scope that the resource has not, is none.
  if (scopes.length === 0 || !scopes.every(scope => registered.includes(scope))) return 'scope'
  if (![agreed, view].every(({ allowed_scopes }) => withinScopes(allowed_scopes, scopes))) return 'scope'
  if (isBlocked) return 'operator_blocked'
  return isRevoked ? 'key_revoked' : undefined
}

/** Whether it names an invoker: no administrator's name has the form of a URL. */
function isOrigin(authorised_by: string): boolean {
  return authorised_by.includes('://')
}

/** Written in the same spelling as one of her blocks. */
function isInvoker(origin: string, invokers: readonly string[]): boolean {
  return operatorOrigin(`${origin}/`) === origin && invokers.includes(origin)
}
