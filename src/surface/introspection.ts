/**
 * POST /introspect and POST /consume: whether a grant is live, for the resource server that it was issued
 * for, and the spending of one that is for a single use. What it hangs on is the party's; the order of the
 * reasons is the same for all. Contract: "Introspection and consume answers", "Grant (RPT) liveness",
 * "Single-use grant".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/endpoint.ts'
import type { GrantClaims } from '../rules/grant-content.ts'
import { consumeError, livenessReason, type GrantEnd, type LivenessFacts } from '../rules/liveness.ts'
import { sha256 } from '../wire/encoding.ts'
import { refuse } from '../wire/refusal.ts'
import { verifyRpt } from '../wire/tokens.ts'
import type { Issuer } from './issuer.ts'
import { invalidPat, PAT, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
import type { OnBehalfOf, ResourceServer } from './resource-servers.ts'
import type { ClientId } from '../wire/identifiers.ts'

/** What is asked about (RFC 7662 §2.1). */
export const TOKEN_QUERY = z.object({
  token: z.string().min(1).max(16_384),
  token_type_hint: z.string().optional(),
})

/** What a party knows of one token that a resource server asks about. */
export interface GrantReading {
  /** Who asks, as recorded now. */
  server: Pick<ResourceServer, 'status' | 'generation' | 'resource_uri'>
  /** The grant of the asked owner; for which resource server it is, is looked at here. */
  grant?: {
    /** The RPT's claims, and whatever else introspection is to tell. */
    claims: GrantClaims
    client_id: ClientId
    aud: string
    single_use: boolean
    consumed: boolean
    expired: boolean
    /** What ended it before its time; null: nothing did. */
    ended: GrantEnd | null
  }
}

/** The grants of a party, found by the SHA-256 of their RPTs; never from a cache. */
export interface Grants {
  /** undefined where the owner has no such resource server. */
  read(holder: PatHolder, rptSha256: Buffer): Promise<GrantReading | undefined>
  /**
   * Spends a live single-use grant of the holder's resource server, once, in one statement that proves all it
   * hangs on.
   * @returns its family where this call spent it.
   */
  consume(holder: PatHolder, rptSha256: Buffer): Promise<string | undefined>
}

export interface Introspection {
  guard: PatGuard
  onBehalfOf: OnBehalfOf
  issuer: Pick<Issuer, 'keys'>
  grants: Grants
}

const text = z.string()
const seconds = z.int()

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
  }),
])
type Introspected = z.output<typeof INTROSPECTED>

/** What it answers who would spend one. */
export const CONSUMED = z.union([
  z.object({ consumed: z.literal(true), family: text }),
  z.object({ consumed: z.literal(false), error: text }),
])
type Consumed = z.output<typeof CONSUMED>

const asked = { credential: PAT, body: { schema: TOKEN_QUERY, form: true } } as const
const headers = { 'cache-control': 'no-store' }

/** RFC 7662 with the permissions array. */
export const INTROSPECT: Endpoint<Introspection> = endpoint({
  ...asked,
  method: 'post',
  path: '/introspect',
  rows: ['post-introspect'],
  summary: 'Whether a grant is live (RFC 7662); never consumes',
  answers: { 200: { says: 'Live with its permissions, or why not.', schema: INTROSPECTED, headers } },
  handle: async (of: Introspection, { caller, body, answer }) =>
    answer(200, await introspect(of, caller, body.token)),
})

export const CONSUME: Endpoint<Introspection> = endpoint({
  ...asked,
  method: 'post',
  path: '/consume',
  rows: ['post-consume'],
  summary: 'Spends a single-use grant; atomic',
  answers: { 200: { says: 'Spent by this call, or why not.', schema: CONSUMED, headers } },
  handle: async (of: Introspection, { caller, body, answer }) =>
    answer(200, await consume(of, caller, body.token)),
})

async function introspect(of: Introspection, holder: PatHolder, token: string): Promise<Introspected> {
  const reading = await read(of, holder, token)
  const reason = livenessReason(factsOf(reading, holder, () => isOurs(of, token)))
  if (reason !== undefined) return { active: false, reason, error: reason }
  const grant = reading.grant!
  return { active: true, ...grant.claims, single_use: grant.single_use }
}

/** The conditional update decides, and only a lost one asks why. */
async function consume(of: Introspection, holder: PatHolder, token: string): Promise<Consumed> {
  const family = await of.grants.consume(holder, sha256(token))
  if (family !== undefined) return { consumed: true, family }
  const reading = await read(of, holder, token)
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

async function read({ grants }: Introspection, holder: PatHolder, token: string): Promise<GrantReading> {
  const reading = await grants.read(holder, sha256(token))
  if (reading === undefined || !standsFor(reading.server, holder)) throw invalidPat()
  return reading
}

/** What is established about a token that this server asks about. */
function factsOf(reading: GrantReading, holder: PatHolder, isOurs: () => boolean): LivenessFacts {
  const { grant, server } = reading
  const known =
    grant !== undefined && grant.client_id === holder.client_id && grant.aud === server.resource_uri
  return {
    // Verified only where no grant was found by its hash: a live look-up costs no signature check.
    signatureValid: grant !== undefined || isOurs(),
    known,
    ...(known ? { ended: grant.ended, consumed: grant.consumed, expired: grant.expired } : {}),
  }
}

function isOurs({ issuer }: Introspection, token: string): boolean {
  try {
    verifyRpt(token, issuer.keys)
    return true
  } catch {
    return false
  }
}
