/**
 * Owns how an owner's records distinguish what she holds jointly from what is hers alone. Contract: "Tally
 * for a jointly held resource" (on each holder's authorization server).
 */
import { canonicalize, type Json } from '../../wire/json.ts'
import { asClientId, asOwner, type ClientId, type Owner } from '../../wire/identifiers.ts'

const PREFIX = 'joint:'

/**
 * Stands for a resource server, for resources that a joint account registers: no resource server can have
 * this name, neither a plain one nor a URL.
 */
export function jointServer(account: Owner): ClientId {
  return asClientId(PREFIX + account)
}

/** The account that registered something; undefined if it is a resource server's. */
export function jointAccountOf(client_id: ClientId): Owner | undefined {
  return client_id.startsWith(PREFIX) ? asOwner(client_id.slice(PREFIX.length)) : undefined
}

/**
 * Whether a tier mixes what is held jointly with anything else, because her terms for one account are only
 * for that account. Each server is that of one of its resources.
 */
export function mixesJointAndOwn(servers: readonly ClientId[]): boolean {
  const accounts = new Set(servers.map(jointAccountOf))
  return accounts.size > 1
}

/** The members of a tier that decide what she may allow a tally under it. */
export interface AllowingTier {
  resources: readonly string[]
  ask_me: boolean
  rules: readonly { when: readonly string[]; then: string }[]
  clearance: Readonly<Record<string, readonly string[]>>
  terms: {
    scope: readonly string[]
    expires_in: number
    prohibited: readonly string[]
    per_operation: boolean
  }
}

/** Her yes. */
export interface AllowedRequest {
  resource_id: string
  scope: readonly string[]
  expires_in: number
  /** Left out: any. */
  operation?: unknown
}

/**
 * Whether what she allowed under a tier is within that tier as she edited it. If her rules or her clearance
 * requirement changed, or a prohibition is new, nobody has weighed the request by them, so her approval no
 * longer counts, and the agent asks again.
 */
export function stillAllows(before: AllowingTier, after: AllowingTier, allowed: AllowedRequest): boolean {
  const { terms } = after
  const isWithin =
    after.resources.includes(allowed.resource_id) &&
    allowed.scope.every(scope => terms.scope.includes(scope)) &&
    allowed.expires_in <= terms.expires_in &&
    terms.prohibited.every(one => before.terms.prohibited.includes(one))
  const needsOwner =
    (after.ask_me && !before.ask_me) || (terms.per_operation && allowed.operation === undefined)
  return isWithin && !needsOwner && judgedBy(before) === judgedBy(after)
}

function judgedBy({ rules, clearance }: AllowingTier): string {
  return canonicalize([rules, clearance] as unknown as Json)
}
