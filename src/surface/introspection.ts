/**
 * POST /introspect and POST /consume: whether a grant is live, for the resource server that it was issued
 * for, and the spending of one that is for a single use. The party knows what ends a grant; the order of the
 * reasons is the same for all. Contract: "Introspection and consume answers", "Grant (RPT) liveness",
 * "Single-use grant".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import type { GrantRecord } from '../rules/grant-content.ts'
import { consumeError, livenessReason, type GrantEnd, type LivenessFacts } from '../rules/grant-end.ts'
import { sha256 } from '../wire/encoding.ts'
import { OWNER_ENDS, type OwnerEnds } from '../wire/documents/owner-ends.ts'
import { LEASE_ID, LEASE_MS } from '../wire/resources/leases.ts'
import { TOKENS_MAX } from '../wire/resources/authorization-server-metadata.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { verifyRpt } from '../wire/negotiation/tokens.ts'
import type { Issuer, HourHeadSource } from './issuer.ts'
import { invalidPat, PAT, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
import type { ResourceServer } from './resource-servers.ts'

/** What is asked about (RFC 7662 §2.1). */
export const TOKEN_QUERY = z.object({
  token: z.string().min(1).max(16_384),
  token_type_hint: z.string().optional(),
})

/**
 * What the asking sidecar holds (wire/resources/leases.ts); one that is not known is as if it had named none.
 */
const LEASE = {
  lease: z
    .string()
    .transform(id => (LEASE_ID.test(id) ? id : undefined))
    .optional(),
}
const LEASED_TOKEN_QUERY = TOKEN_QUERY.extend(LEASE)

/**
 * Several, each answered as if it had been sent by itself: an extension, which the metadata offers. Whatever
 * text one of them is, it is told apart like any unknown token, so that it costs no other its answer.
 */
const TOKENS = { tokens: z.array(z.string()).min(1).max(TOKENS_MAX) }
const LEASED_TOKENS_QUERY = z.strictObject({ ...TOKENS, ...LEASE })

/** What a party knows of one token that a resource server asks about. */
export interface GrantReading {
  /** What was known when it was read; left out by a party that does not say. */
  judged?: OwnerEnds
  /** Who asks, as recorded now. */
  server: Pick<ResourceServer, 'status' | 'generation' | 'resource_uri'>
  /** The grant of the asked owner; for which resource server it is, is looked at here. */
  grant?: GrantRecord & {
    /** The reason why it ended before its time; null: none. */
    ended: GrantEnd | null
    /** Whoever ends it asks the sidecar that asked; left out: he does not. */
    leased?: boolean
  }
}

/** The grants of a party, found by the SHA-256 of their RPTs; never from a cache. */
export interface Grants {
  /** undefined if the owner has no such resource server. `lease`: what the asking sidecar says it holds. */
  read(holder: PatHolder, rptSha256: Buffer, lease?: string): Promise<GrantReading | undefined>
  /**
   * Spends a live single-use grant of the holder's resource server, once, in one statement that proves all it
   * hangs on.
   * @returns its family if this call spent it, and what was known then, if the party says so.
   */
  consume(holder: PatHolder, rptSha256: Buffer): Promise<{ family: string; judged?: OwnerEnds } | undefined>
}

export interface IntrospectionEndpoint extends HourHeadSource {
  guard: PatGuard
  issuer: Pick<Issuer, 'keys'>
  grants: Grants
}

const text = z.string()
const seconds = z.int()

const ENDS_MEMBER = OWNER_ENDS.optional().describe(
  'How many acts had ended something of the owner when this was judged, and the time of the database then, in milliseconds.',
)

/** What any issuer of grants answers about one. */
export const INTROSPECTED = z.union([
  z.object({ active: z.literal(false), reason: text, error: text }),
  z.looseObject({
    active: z.literal(true),
    iss: text,
    sub: text,
    client_id: text,
    aud: text,
    exp: seconds,
    iat: seconds,
    owner: text,
    family: text,
    permissions: z.array(
      z.object({
        resource_id: text,
        resource_scopes: z.array(text),
        exp: seconds,
        nbf: seconds.optional(),
      }),
    ),
    cnf: z.object({ jwk: z.looseObject({}) }),
    contract: text,
    single_use: z.boolean(),
    operation: z.object({ tool: text, params_s256: text }).optional(),
    consequence: text.optional(),
    consequences: z.record(text, text).optional(),
    lease_ms: z.int().min(1).optional(),
    ledger_head: z
      .object({ origin: text, size: z.int().min(0), root: text, kid: text, sig: text })
      .optional()
      .describe("The head of the owner's ledger that was signed last before the present hour (UTC)."),
    judged: ENDS_MEMBER,
    owner_decision: z
      .object({ item: z.looseObject({}), statement: z.union([text, z.looseObject({})]) })
      .optional(),
  }),
])
type Introspected = z.output<typeof INTROSPECTED>

/** What it answers who would spend one. */
export const CONSUMED = z.union([
  z.object({ consumed: z.literal(true), family: text, judged: ENDS_MEMBER }),
  z.object({ consumed: z.literal(false), error: text }),
])
type Consumed = z.output<typeof CONSUMED>

/** The answer about one of several grants, which may be spent or not. */
const UNKNOWN = z.object({ error: z.literal('temporarily_unavailable') })
type Unknown = z.output<typeof UNKNOWN>

const leaseQuery = {
  credential: PAT,
  body: { schema: z.union([LEASED_TOKEN_QUERY, LEASED_TOKENS_QUERY]), form: true },
} as const
const spending = {
  credential: PAT,
  body: { schema: z.union([TOKEN_QUERY, z.strictObject(TOKENS)]), form: true },
} as const
const headers = { 'cache-control': 'no-store' }

/** RFC 7662 with the permissions array; the tokens of several calls in one request. */
export const INTROSPECT: Endpoint<IntrospectionEndpoint> = endpoint({
  ...leaseQuery,
  method: 'post',
  path: '/introspect',
  rows: ['post-introspect'],
  summary: 'Whether a grant is live (RFC 7662); never consumes',
  answers: {
    200: {
      says: 'Live with its permissions, or why not; for `tokens` one such answer each, in their order.',
      schema: z.union([...INTROSPECTED.options, z.object({ answers: z.array(INTROSPECTED) })]),
      headers,
    },
  },
  handle: async (of: IntrospectionEndpoint, { caller, body, answer }) =>
    answer(
      200,
      'tokens' in body
        ? { answers: await Promise.all(body.tokens.map(token => introspect(of, caller, { ...body, token }))) }
        : await introspect(of, caller, body),
    ),
})

/** Each by itself and atomic; the tokens of several calls in one request. */
export const CONSUME: Endpoint<IntrospectionEndpoint> = endpoint({
  ...spending,
  method: 'post',
  path: '/consume',
  rows: ['post-consume'],
  summary: 'Spends a single-use grant; atomic',
  answers: {
    200: {
      says: 'Spent by this call, or why not; for `tokens` one such answer each, in their order.',
      schema: z.union([
        ...CONSUMED.options,
        z.object({ answers: z.array(z.union([...CONSUMED.options, UNKNOWN])) }),
      ]),
      headers,
    },
  },
  handle: async (of: IntrospectionEndpoint, { caller, body, answer }) =>
    answer(
      200,
      'tokens' in body
        ? { answers: await consumeEach(of, caller, body.tokens) }
        : await consume(of, caller, body.token),
    ),
})

interface TokenQuestion {
  token: string
  /** A lease of an authority; any other text counts as none. */
  lease?: string | undefined
}

/** Only a standing grant may be used again: of another each call is asked about. */
async function introspect(
  of: IntrospectionEndpoint,
  holder: PatHolder,
  question: TokenQuestion,
): Promise<Introspected> {
  const { token } = question
  const reading = await read(of, holder, question)
  const reason = livenessReason(factsOf(reading, holder, () => isOurs(of, token)))
  if (reason !== undefined) return { active: false, reason, error: reason }
  const { claims, single_use, leased = false } = reading.grant!
  const answer: Introspected = { active: true, ...claims, single_use }
  if (leased && !single_use) answer.lease_ms = LEASE_MS
  const head = of.checkpoints?.headOfHour(holder.owner)
  if (head !== undefined) answer.ledger_head = head
  return Object.assign(answer, judgedIn(of, reading))
}

/** Sent only beside signed heads: without a signed revocation it is held against nothing. */
function judgedIn(
  { checkpoints }: IntrospectionEndpoint,
  { judged }: { judged?: OwnerEnds },
): { judged?: OwnerEnds } {
  return checkpoints === undefined || judged === undefined ? {} : { judged }
}

/** One conditional update spends the grant. Only if it changed nothing is the row read, to find out why. */
async function consume(of: IntrospectionEndpoint, holder: PatHolder, token: string): Promise<Consumed> {
  const spent = await of.grants.consume(holder, sha256(token))
  if (spent !== undefined) return { consumed: true, family: spent.family, ...judgedIn(of, spent) }
  const reading = await read(of, holder, { token })
  const singleUse = reading.grant?.single_use === true
  const error = consumeError(
    factsOf(reading, holder, () => isOurs(of, token)),
    singleUse,
  )
  if (error !== undefined) return { consumed: false, error }
  // Refused, yet live by now: admitted again between the two statements. Nothing was spent.
  return refuse(
    'temporarily_unavailable',
    'The connection changed while the grant was being spent; ask again.',
  )
}

/**
 * A token that nobody knows does not cost the others their answers. A refusal is the answer to the request
 * only if it is that of each: after a 401 all would be sent again, and a grant that was spent would be found
 * spent.
 * @internal
 */
export async function consumeEach(
  of: IntrospectionEndpoint,
  holder: PatHolder,
  tokens: readonly string[],
): Promise<(Consumed | Unknown)[]> {
  const settled = await Promise.allSettled(tokens.map(token => consume(of, holder, token)))
  const lost = settled.flatMap(one => (one.status === 'rejected' ? [one.reason as unknown] : []))
  const codes = new Set(lost.map(error => (error instanceof Refusal ? error.code : undefined)))
  if (lost.length === tokens.length && codes.size === 1) throw lost[0]
  return settled.map(one =>
    one.status === 'fulfilled' ? one.value : { error: 'temporarily_unavailable' as const },
  )
}

async function read(
  { grants }: IntrospectionEndpoint,
  holder: PatHolder,
  { token, lease }: TokenQuestion,
): Promise<GrantReading> {
  const reading = await grants.read(holder, sha256(token), lease)
  if (reading === undefined || !standsFor(reading.server, holder)) throw invalidPat()
  return reading
}

/** What is established about a token that this server asks about. */
function factsOf(reading: GrantReading, holder: PatHolder, isOurs: () => boolean): LivenessFacts {
  const { grant, server } = reading
  const known =
    grant !== undefined && grant.client_id === holder.client_id && grant.aud === server.resource_uri
  return {
    // Verified only if no grant was found by its hash: a live look-up costs no signature check.
    signatureValid: grant !== undefined || isOurs(),
    known,
    ...(known ? { ended: grant.ended, consumed: grant.consumed, expired: grant.expired } : {}),
  }
}

function isOurs({ issuer }: IntrospectionEndpoint, token: string): boolean {
  try {
    verifyRpt(token, issuer.keys)
    return true
  } catch {
    return false
  }
}
