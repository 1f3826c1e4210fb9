/**
 * Owns what a grant conveys: the permission that covers a call, consequence classes, the exact operation, and
 * the scope and lifetime a grant may have. Contract: "RPT claims", "Authorized call" (enforcement order 2 to
 * 4).
 */
import type { RptOperation } from '../wire/negotiation/tokens.ts'

/** Consequence classes by how far a call can be undone, mildest first. */
export const CONSEQUENCES = ['reversible', 'compensatable', 'forward_recoverable', 'irreversible'] as const
export type Consequence = (typeof CONSEQUENCES)[number]

/** The class that a word names; undefined for absent, null and unknown words, which means undeclared. */
export function parseConsequence(word: unknown): Consequence | undefined {
  return CONSEQUENCES.find(known => known === word)
}

/** 0 (reversible) to 3 (irreversible). */
export function consequenceRank(consequence: Consequence): number {
  return CONSEQUENCES.indexOf(consequence)
}

/**
 * Whether the resource now declares the operation worse than the class the grant was issued against
 * (`consequence_changed`). This applies only if both sides declare a class; an unknown word declares nothing.
 */
export function worseConsequence(declared: unknown, granted: unknown): boolean {
  const now = parseConsequence(declared)
  const then = parseConsequence(granted)
  return now !== undefined && then !== undefined && consequenceRank(now) > consequenceRank(then)
}

/** The gravest class that any of the words names; undefined if none names one. */
export function gravestConsequence(words: readonly unknown[]): Consequence | undefined {
  const declared = words.map(parseConsequence).filter(one => one !== undefined)
  return declared.toSorted((a, b) => consequenceRank(b) - consequenceRank(a))[0]
}

/**
 * A resource server's declaration of a resource: the gravest class, and the class by tool if it distinguishes
 * its tools; null means undeclared.
 */
export interface DeclaredConsequences {
  readonly consequence: string | null
  readonly tools: Readonly<Record<string, string | null>> | null
}

/**
 * If an operation is given and tools are distinguished, the class of that operation, which may be undeclared
 * (null); otherwise the gravest of the resource. Give only an operation that the grant will be bound to,
 * because the agent's other statements do not limit what it may do.
 */
export function operationConsequence(
  { consequence, tools }: DeclaredConsequences,
  operation: { readonly tool: string } | undefined | null,
): string | null {
  if (!operation || tools === null || !Object.hasOwn(tools, operation.tool)) return consequence
  return tools[operation.tool] ?? null
}

/** The declared classes by tool, as a grant keeps them; empty if no tool declares one. */
export function declaredByTool({ tools }: DeclaredConsequences): Record<string, string> {
  const declared = Object.entries(tools ?? {}).filter((entry): entry is [string, string] => entry[1] !== null)
  return Object.fromEntries(declared)
}

/** One entry of the `permissions` array; `exp` and `nbf` in seconds since the epoch. */
export interface Permission {
  readonly resource_id: string
  readonly resource_scopes: readonly string[]
  readonly exp: number
  readonly nbf?: number | undefined
}

/**
 * Whether `now` (seconds) is inside the permission's own window: nbf included, exp excluded (RFC 7519 4.1.4).
 */
function permissionIsOpen(permission: Permission, now: number): boolean {
  return now < permission.exp && (permission.nbf === undefined || now >= permission.nbf)
}

/**
 * The first permission that covers the call: this resource, every needed scope in one entry, inside its own
 * exp and nbf. Undefined means challenge (enforcement order 2). Entries are not combined, because each was
 * granted on its own conditions.
 */
export function matchPermission<P extends Permission>(
  permissions: readonly P[],
  needed: { readonly resource_id: string; readonly scopes: readonly string[] },
  now: number,
): P | undefined {
  return permissions.find(
    permission =>
      permission.resource_id === needed.resource_id &&
      needed.scopes.every(scope => permission.resource_scopes.includes(scope)) &&
      permissionIsOpen(permission, now),
  )
}

/** A permission as an authority describes it; it may leave its times to the grant. */
type PermissionClaim = Omit<Permission, 'exp' | 'nbf'> & {
  readonly exp?: number | null | undefined
  readonly nbf?: number | null | undefined
}

/**
 * An authority's description of a grant, limited to what the grant itself conveys: only resources and scopes
 * that both name, inside the later beginning and the earlier end, none after `end` (seconds since the epoch).
 * Without `granted`, only the authority's description counts.
 */
export function stricterPermissions(
  claims: readonly PermissionClaim[],
  granted: readonly Permission[] | undefined,
  end: number,
): { resource_id: string; resource_scopes: string[]; exp: number; nbf?: number }[] {
  return claims.flatMap(permission => {
    const others = granted?.filter(({ resource_id }) => resource_id === permission.resource_id) ?? [
      permission,
    ]
    return others.map(other => {
      const starts = [permission.nbf, other.nbf].filter(time => typeof time === 'number')
      return {
        resource_id: permission.resource_id,
        resource_scopes: permission.resource_scopes.filter(scope => other.resource_scopes.includes(scope)),
        exp: Math.min(end, permission.exp ?? Infinity, other.exp ?? Infinity),
        ...(starts.length === 0 ? {} : { nbf: Math.max(...starts) }),
      }
    })
  })
}

/**
 * Whether the call is exactly the approved operation: the same tool and the same hash of the parameters
 * (enforcement order 4). False if there is no operation; the caller reports that case as
 * `operation_required`.
 */
export function operationMatches(
  operation: RptOperation | undefined,
  tool: string,
  params_s256: string,
): boolean {
  return operation !== undefined && operation.tool === tool && operation.params_s256 === params_s256
}

/**
 * The scopes a grant may carry: those of the ticket that the terms offer and the agreement accepted, in the
 * ticket's order, each once. Empty means `request_denied`.
 */
export function grantScope(
  ticket: readonly string[],
  terms: readonly string[],
  agreement: readonly string[],
): string[] {
  return [...new Set(ticket)].filter(scope => terms.includes(scope) && agreement.includes(scope))
}

/** Seconds a grant lives: the shorter of the terms' present offer and the agent's agreement. */
export function grantLifetimeSeconds(offeredSeconds: number, agreedSeconds: number): number {
  return Math.min(offeredSeconds, agreedSeconds)
}
