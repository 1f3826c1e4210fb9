/**
 * Owns what the authority's answer about a grant must look like before anything follows from it. Contract:
 * "Introspection and consume answers" and "RPT claims". An answer that is not exactly for this route is no
 * answer.
 */
import { z } from 'zod'
import { stricterPermissions } from '../rules/permission.ts'
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { importPublicJwk, type PublicKey } from '../wire/signatures/keys.ts'
import type { OwnerEnds } from '../wire/documents/owner-ends.ts'
import type { RptOperation } from '../wire/negotiation/tokens.ts'
import { outage } from './outage.ts'
import { asFamily, asHandle, asOwner, type Owner } from '../wire/identifiers.ts'

const seconds = z.int()
/** A value that is passed on in header fields: plain ASCII. */
const fieldText = z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/)
const permission = z.object({
  resource_id: z.string(),
  resource_scopes: z.array(z.string()),
  exp: seconds,
  nbf: seconds.optional(),
})
const operation = z.object({ tool: z.string(), params_s256: z.string() })

/**
 * RFC 7662 §2.2 makes every member but `active` optional, but nothing else can say these two (contract,
 * "Introspection and consume answers").
 */
const activeSchema = z.object({
  active: z.literal(true),
  permissions: z.array(permission.extend({ exp: seconds.nullish(), nbf: seconds.nullish() })),
  cnf: z.object({ jwk: z.record(z.string(), z.unknown()) }),
})

/** The RPT may contain these too; its members count if an answer leaves them out or sets them to null. */
const sharedSchema = z.object({
  iss: z.string(),
  sub: fieldText.transform(asHandle),
  aud: z.string(),
  owner: z.string().transform(asOwner),
  family: fieldText.transform(asFamily),
  contract: fieldText,
})

const optionalSchema = z.object({
  exp: seconds.nullish(),
  single_use: z.boolean().nullish(),
  operation: operation.nullish(),
  consequence: z.string().nullish(),
  consequences: z.record(z.string(), z.string()).nullish(),
  jti: z.string().nullish(),
  iat: z.unknown().optional(),
})

const inactiveSchema = z.object({
  active: z.literal(false),
  reason: z.unknown().optional(),
  error: z.unknown().optional(),
})

/** A live grant: the answer's own members, and the agent's key that it is bound to. */
export interface LiveGrant extends z.output<typeof sharedSchema> {
  permissions: z.output<typeof permission>[]
  single_use: boolean
  operation?: z.output<typeof operation> | undefined
  /**
   * The class that the grant was given for, and the class of each tool if the authority distinguishes them.
   */
  consequence?: string | undefined
  consequences?: Readonly<Record<string, string>> | undefined
  /** The grant's id, by the answer or else by the token that it called active. */
  jti?: string | undefined
  /** When the grant ends, in seconds since the epoch; left out if its permissions alone say so. */
  exp?: number | undefined
  key: PublicKey
  /** Seconds since the epoch; left out if neither the answer nor the RPT has it. */
  issuedAt?: number | undefined
  /** `exp` - `iat`, if the authority gave both; otherwise undefined. */
  lifetimeSeconds?: number | undefined
  /** The signed statement, according to the authority; nothing in it is trusted. */
  ownerDecision?: { item: JsonObject; statement: Json } | undefined
  /** What the authority knew when it judged; left out if it does not say. */
  judged?: OwnerEnds | undefined
  /** A tally's description of the verdicts behind the grant; nothing in it is trusted. */
  joint?: JsonObject | undefined
  /**
   * An organization made it for an emergency, and the owner's authority accepted it until `exp` (seconds).
   */
  breakGlass?: { exp: number } | undefined
  /** The names by which a signature may refer to that key: its thumbprint, or the kid in the grant. */
  keyNames: string[]
}

export type Introspection =
  /** `leased`: said of an earlier call, under a lease. */
  { active: true; grant: LiveGrant; leased?: true } | { active: false; reason: unknown }

/** What a route expects of every grant that is used on it. */
export interface ExpectedGrant {
  /** Issuer of the owner's authority. */
  authority: string
  owner: Owner
  /** The RFC 9728 resource value of the route. */
  resource: string
  /**
   * Whether the owner is an account that a tally answers for. If a tally answers with a grant that is not the
   * route's, there is no grant. This is not treated as an authority's fault, because a tally decides nothing.
   */
  isJoint?: boolean
}

/** The RPT besides the answer. Both methods throw if they cannot tell. */
export interface PresentedRpt {
  /** Its claims as they are in it, unverified. They may only narrow what the authority said. */
  claims(): JsonObject
  /** Its claims, after checking that a key of the configured authority signed it. */
  verified(): Promise<JsonObject>
}

/**
 * Reads a parsed answer about `rpt`. Members that it leaves out or nulls are taken from the RPT, verified; of
 * single use, operation, expiry and scopes the stricter of both counts. Throws `temporarily_unavailable` for
 * an answer that is malformed or about something else.
 */
export async function readIntrospection(
  answer: unknown,
  expected: ExpectedGrant,
  rpt: PresentedRpt,
): Promise<Introspection> {
  const active = activeSchema.safeParse(answer)
  if (!active.success) {
    const inactive = inactiveSchema.safeParse(answer)
    if (inactive.success) return { active: false, reason: inactive.data.reason ?? inactive.data.error }
    throw unreadable(active.error)
  }
  const reply = answer as JsonObject
  const isWhole = SHARED.every(name => isPresent(reply[name])) && endsByItself(reply, active.data.permissions)
  const claims = isWhole ? rpt.claims() : await rpt.verified()
  const shared = parsed(sharedSchema, isWhole ? reply : filled(reply, claims))
  const fault = mismatch(shared, expected)
  const joint = isJsonObject(reply['joint']) ? reply['joint'] : undefined
  if (expected.isJoint === true && (fault !== undefined || isOfAnother(joint, expected)))
    return { active: false, reason: 'unknown_token' }
  if (fault !== undefined) throw outage(`The authority answered about a grant with ${fault}.`)
  const key = boundKey(active.data.cnf.jwk)
  const { kid } = active.data.cnf.jwk
  const keyNames = typeof kid === 'string' ? [key.thumbprint, kid] : [key.thumbprint]
  const terms = narrowed({ ...active.data, ...parsed(optionalSchema, reply) }, claims)
  const lifetimeSeconds = lifetimeOf(reply)
  const ownerDecision = ownerDecisionOf(reply)
  return {
    active: true,
    grant: { ...shared, ...terms, joint, key, keyNames, lifetimeSeconds, ownerDecision },
  }
}

function lifetimeOf({ exp, iat }: JsonObject): number | undefined {
  return typeof exp === 'number' && typeof iat === 'number' ? exp - iat : undefined
}

function ownerDecisionOf({ owner_decision }: JsonObject): LiveGrant['ownerDecision'] {
  if (!isJsonObject(owner_decision)) return undefined
  const { item, statement } = owner_decision
  return isJsonObject(item) && statement !== undefined ? { item, statement } : undefined
}

/** A grant without `joint` is refused later, as one that its holders did not allow. */
function isOfAnother(joint: JsonObject | undefined, { owner }: ExpectedGrant): boolean {
  return joint !== undefined && joint['account'] !== owner
}

const SHARED = Object.keys(sharedSchema.shape)

const isPresent = (member: unknown): boolean => member !== undefined && member !== null

function endsByItself(reply: JsonObject, permissions: readonly { exp?: unknown }[]): boolean {
  return isPresent(reply['exp']) || permissions.every(({ exp }) => isPresent(exp))
}

function filled(reply: JsonObject, claims: JsonObject): JsonObject {
  return Object.fromEntries(SHARED.map(name => [name, reply[name] ?? claims[name]])) as JsonObject
}

function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (!result.success) throw unreadable(result.error)
  return result.data
}

const unreadable = (cause: unknown): Error =>
  outage('The authority gave an introspection answer that cannot be read.', cause)

type ReplyTerms = z.output<typeof activeSchema> & z.output<typeof optionalSchema>

/** The RPT's own limits, and its id; each may be absent. */
const limitsSchema = z.object({
  exp: seconds.optional(),
  single_use: z.boolean().optional(),
  operation: operation.optional(),
  permissions: z.array(permission).optional(),
  /** It limits nothing: it names the grant in a report, and an unusable name names none. */
  jti: z.string().min(1).optional().catch(undefined),
})

/** The terms of the grant: the stricter of what the authority said and what the RPT says. */
function narrowed(
  reply: ReplyTerms,
  claims: JsonObject,
): Pick<
  LiveGrant,
  'permissions' | 'single_use' | 'operation' | 'consequence' | 'consequences' | 'jti' | 'exp' | 'issuedAt'
> {
  const rpt = parsed(limitsSchema, claims)
  const single_use = reply.single_use === true || rpt.single_use === true
  const operation = reply.operation ?? rpt.operation
  // Must never count as a standing grant (contract, "RPT claims": only ask-me grants have an operation).
  if (operation !== undefined && !single_use)
    throw outage('The authority answered about a grant with an operation that is not single-use.')
  if (reply.operation && rpt.operation && !sameOperation(reply.operation, rpt.operation))
    throw outage('The authority answered about a grant with another operation than the grant itself names.')
  const end = Math.min(reply.exp ?? Infinity, rpt.exp ?? Infinity)
  return {
    permissions: stricterPermissions(reply.permissions, rpt.permissions, end),
    single_use,
    operation,
    consequence: reply.consequence ?? undefined,
    consequences: reply.consequences ?? undefined,
    jti: reply.jti ?? rpt.jti,
    exp: end === Infinity ? undefined : end,
    issuedAt: earliest(reply.iat, claims['iat']),
  }
}

/**
 * The times may be anything: only a ceiling needs them, and an unreadable one leaves everything else as it
 * is.
 */
function earliest(one: unknown, other: unknown): number | undefined {
  if (typeof one !== 'number') return typeof other === 'number' ? other : undefined
  return typeof other === 'number' ? Math.min(one, other) : one
}

function sameOperation(one: RptOperation, other: RptOperation): boolean {
  return one.tool === other.tool && one.params_s256 === other.params_s256
}

function mismatch(
  claims: { iss: string; aud: string; owner: Owner },
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
/** The answer about one of several grants. */
const notKnown = z.object({ error: z.literal('temporarily_unavailable') })

export type Consumption =
  /** `judged`: what the authority knew when it spent the grant, if it says so. */
  { consumed: true; judged?: OwnerEnds | undefined } | { consumed: false; error: unknown }

/**
 * Reads a consume answer. Throws `temporarily_unavailable` if it is neither yes nor no, because the call must
 * then be denied.
 */
export function readConsumption(answer: unknown): Consumption {
  const result = consumeSchema.safeParse(answer)
  if (!result.success && notKnown.safeParse(answer).success)
    throw outage('The authority does not know whether the grant was spent.')
  if (!result.success) throw outage('The authority gave a consume answer that cannot be read.', result.error)
  return result.data.consumed ? { consumed: true } : { consumed: false, error: result.data.error }
}
