/**
 * Owns the check that an acceptance is for one grant of an emergency window. Contract: "The organization's
 * authority" (`/break-glass`) and "What the service does" (nothing above the owner can widen): it is for one
 * call of one operation with one key, and for nothing else.
 */
import type { BreakGlassAcceptance } from '../../wire/organization/break-glass.ts'

/** A grant as it is presented; `exp` in seconds since the epoch. */
export interface PresentedBreakGlass {
  readonly owner: string
  readonly jti: string | undefined
  readonly permissions: readonly { resource_id: string; resource_scopes: readonly string[]; exp: number }[]
  readonly cnf_jkt: string
  readonly operation: { tool: string; params_s256: string } | undefined
  readonly single_use: boolean
}

/**
 * Whether everything that the grant gives was accepted: the grant that it names, with no additional resource,
 * scope, second or operation.
 */
export function acceptsGrant(accepted: BreakGlassAcceptance, grant: PresentedBreakGlass): boolean {
  const { operation } = grant
  return (
    grant.single_use &&
    operation !== undefined &&
    operation.tool === accepted.operation.tool &&
    operation.params_s256 === accepted.operation.params_s256 &&
    grant.owner === accepted.owner &&
    grant.jti === accepted.jti &&
    grant.cnf_jkt === accepted.cnf_jkt &&
    grant.permissions.every(
      ({ resource_id, resource_scopes, exp }) =>
        resource_id === accepted.resource_id &&
        exp <= accepted.exp &&
        resource_scopes.every(scope => accepted.scopes.includes(scope)),
    )
  )
}
