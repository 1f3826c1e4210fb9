/**
 * Owns what the authority's answer about a grant must look like before anything follows from it. contract, "Introspection and
 * consume answers" and "RPT claims". An answer that is not exactly for this route is no answer.
 */
import { z } from 'zod'
import { importPublicJwk, type PublicKey } from '../wire/keys.ts'
import { outage } from './deadline.ts'

const seconds = z.int()
/** What is passed on in header fields: plain ASCII. */
const fieldText = z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/)
const permission = z.object({
  resource_id: z.string(),
  resource_scopes: z.array(z.string()),
  exp: seconds,
  nbf: seconds.optional(),
})

const activeSchema = z.object({
  active: z.literal(true),
  iss: z.string(),
  sub: fieldText,
  aud: z.string(),
  owner: z.string(),
  family: fieldText,
  permissions: z.array(permission),
  cnf: z.object({ jwk: z.record(z.string(), z.unknown()) }),
  contract: fieldText,
  single_use: z.boolean().default(false),
  operation: z.object({ tool: z.string(), params_s256: z.string() }).optional(),
  consequence: z.string().optional(),
  jti: z.string().optional(),
})

const inactiveSchema = z.object({
  active: z.literal(false),
  reason: z.unknown().optional(),
  error: z.unknown().optional(),
})

/** What a live grant is: the answer's own members, and the agent's key it is bound to. */
export interface LiveGrant extends Omit<z.output<typeof activeSchema>, 'active' | 'cnf'> {
  key: PublicKey
  /** What a signature may name that key by: its thumbprint, or the kid under which the grant gives it. */
  keyNames: string[]
}

export type Introspection = { active: true; grant: LiveGrant } | { active: false; reason: unknown }

/** What a route expects of every grant that is used on it. */
export interface ExpectedGrant {
  /** Issuer of the owner's authority. */
  authority: string
  owner: string
  /** The RFC 9728 resource value of the route. */
  resource: string
}

/** Reads a parsed answer. Throws `temporarily_unavailable` for one that is malformed or about something else. */
export function readIntrospection(answer: unknown, expected: ExpectedGrant): Introspection {
  const active = activeSchema.safeParse(answer)
  if (!active.success) {
    const inactive = inactiveSchema.safeParse(answer)
    if (inactive.success) return { active: false, reason: inactive.data.reason ?? inactive.data.error }
    throw outage('The authority gave an introspection answer that cannot be read.', active.error)
  }
  const { cnf, active: _active, ...claims } = active.data
  // Never to be taken for a standing grant (contract, "RPT claims": an operation stands on ask-me grants only).
  if (claims.operation !== undefined && !claims.single_use) {
    throw outage('The authority answered about a grant with an operation that is not single-use.')
  }
  const fault = mismatch(claims, expected)
  if (fault !== undefined) throw outage(`The authority answered about a grant with ${fault}.`)
  const key = boundKey(cnf.jwk)
  const { kid } = cnf.jwk
  const keyNames = typeof kid === 'string' ? [key.thumbprint, kid] : [key.thumbprint]
  return { active: true, grant: { ...claims, key, keyNames } }
}

function mismatch(
  claims: { iss: string; aud: string; owner: string },
  expected: ExpectedGrant,
): string | undefined {
  if (claims.iss !== expected.authority) return 'another issuer'
  if (claims.aud !== expected.resource) return 'another audience'
  if (claims.owner !== expected.owner) return 'another owner'
  return undefined
}

function boundKey(jwk: unknown): PublicKey {
  try {
    return importPublicJwk(jwk)
  } catch (cause) {
    throw outage('The authority answered with a grant that is bound to no usable key.', cause)
  }
}

const consumeSchema = z.union([
  z.object({ consumed: z.literal(true) }),
  z.object({ consumed: z.literal(false), error: z.unknown().optional() }),
])

export type Consumption = { consumed: true } | { consumed: false; error: unknown }

/** Reads a consume answer. Throws `temporarily_unavailable` for one that is neither yes nor no: the call must be denied. */
export function readConsumption(answer: unknown): Consumption {
  const result = consumeSchema.safeParse(answer)
  if (!result.success) throw outage('The authority gave a consume answer that cannot be read.', result.error)
  return result.data.consumed ? { consumed: true } : { consumed: false, error: result.data.error }
}
