/**
 * Owns the check that a call is the one that an owner approved with her signature, for a resource that pins
 * her keys. Contract: "Authorized call", order 4, and "Owner API" (`/owner/pending/{family}/decision`);
 * docs/choices.md. Everything that her authority says is compared with what the resource knows by itself.
 */
import type { StatementClaims } from '../wire/owner/decision-statement.ts'
import { s256Json } from '../wire/encoding.ts'
import { isJsonObject, type JsonObject } from '../wire/json.ts'
import { consequenceRank, parseConsequence } from './permission.ts'

/** A call and its grant, as the resource found them. */
export interface CallToApprove {
  readonly owner: string
  /** The audience of the route. */
  readonly resource: string
  readonly resource_id: string
  readonly tool: string
  readonly params: JsonObject
  readonly params_s256: string
  /** The class that the resource declares for the tool; undefined if none. */
  readonly consequence: string | undefined
  readonly grant: {
    readonly family: string
    readonly handle: string
    /** Digest of the agreement that it rests on. */
    readonly contract: string
    /** Thumbprint of the key that it is bound to. */
    readonly jkt: string
    /** The scopes of the permission that covers the call. */
    readonly scopes: readonly string[]
    /** `exp` - `iat` as introspected; undefined if either is missing. */
    readonly lifetimeSeconds: number | undefined
    readonly single_use: boolean
    /** An organization made the grant, so she decided nothing. */
    readonly isBreakGlass: boolean
  }
}

interface Compared {
  claims: StatementClaims
  item: JsonObject
  call: CallToApprove
}

/** The conditions that must hold, by the name that a missing one is reported under. */
const HOLDS = {
  'break-glass': ({ call }) => !call.grant.isBreakGlass,
  'single use': ({ call }) => call.grant.single_use,
  decision: ({ claims }) => claims.decision === 'approved',
  item_s256: ({ claims, item, call }) => claims.item_s256 === digestOf(item, call.params),
  v: ({ item }) => item['v'] === 1,
  owner: ({ claims, item, call }) => item['owner'] === call.owner && claims.owner === call.owner,
  resource: ({ item, call }) => item['resource'] === call.resource,
  family: ({ claims, item, call }) =>
    item['family'] === call.grant.family && claims.family === call.grant.family,
  'agent.handle': ({ item, call }) => within(item, 'agent', 'handle') === call.grant.handle,
  'agent.jkt': ({ item, call }) => within(item, 'agent', 'jkt') === call.grant.jkt,
  agreement_s256: ({ item, call }) => item['agreement_s256'] === call.grant.contract,
  'operation.tool': ({ item, call }) => within(item, 'operation', 'tool') === call.tool,
  params_s256: ({ item, call }) => item['params_s256'] === call.params_s256,
  resource_id: ({ item, call }) => item['resource_id'] === call.resource_id,
  scopes: ({ item, call }) => coversScopes(item['scopes'], call.grant.scopes),
  single_use: ({ claims, item }) => claims.single_use === item['single_use'],
  expires_in: ({ claims, item, call }) =>
    claims.expires_in === item['expires_in'] && isWithin(call.grant.lifetimeSeconds, item['expires_in']),
  consequence: ({ item, call }) => coversConsequence(item['consequence'], call.consequence),
} as const satisfies Record<string, (compared: Compared) => boolean>

export type ApprovalFault = keyof typeof HOLDS

/**
 * The first thing in which statement, item and call disagree, or undefined. `item` is as introspection gives
 * it, but with the parameters of the call in place of its own. Form, key, audience and times of the statement
 * were verified before. The other members of the item are bound by its digest and not judged.
 */
export function approvalFault(
  claims: StatementClaims,
  item: JsonObject,
  call: CallToApprove,
): ApprovalFault | undefined {
  const names = Object.keys(HOLDS) as ApprovalFault[]
  return names.find(name => !HOLDS[name]({ claims, item, call }))
}

function digestOf(item: JsonObject, params: JsonObject): string {
  const operation = item['operation']
  return s256Json({ ...item, operation: { ...(isJsonObject(operation) ? operation : {}), params } })
}

function within(item: JsonObject, name: string, inner: string): unknown {
  const value = item[name]
  return isJsonObject(value) ? value[inner] : undefined
}

function coversScopes(approved: unknown, granted: readonly string[]): boolean {
  return Array.isArray(approved) && granted.every(scope => approved.includes(scope))
}

function isWithin(lifetimeSeconds: number | undefined, approved: unknown): boolean {
  return lifetimeSeconds !== undefined && typeof approved === 'number' && lifetimeSeconds <= approved
}

/**
 * A tool that declares a class needs an item with a class that is at least as grave; an unknown word is no
 * class.
 */
function coversConsequence(approved: unknown, declared: string | undefined): boolean {
  if (declared === undefined) return true
  const [shown, now] = [parseConsequence(approved), parseConsequence(declared)]
  return shown !== undefined && now !== undefined && consequenceRank(now) <= consequenceRank(shown)
}
