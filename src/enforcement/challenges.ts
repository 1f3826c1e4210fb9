/**
 * Owns how a call without a sufficient grant is answered. Contract: "Challenge (beat 1)": 401 with the scheme
 * `UMA`, a ticket from the owner's authority and the address of that authority.
 */
import { resourceMetadataUrl } from '../wire/resources/resource-metadata.ts'
import {
  buildRemediation,
  challengeData,
  encodeChallenge,
  type Challenge,
} from '../wire/negotiation/challenge.ts'
import { askLater, Refusal } from '../wire/refusal.ts'
import type { Call } from './call.ts'
import { sourceOf, type ChallengeLimit } from './challenge-limit.ts'
import type { Deadline } from './deadline.ts'
import type { Route, Tool } from './request/routes.ts'
import type { Trace } from './telemetry/decision-log.ts'

export interface ChallengeSettings {
  realm: string
  specNs: string
  limit: ChallengeLimit
  trustedHops: number
}

export interface ChallengedCall {
  call: Call
  route: Route
  tool: Tool
  deadline: Deadline
  /**
   * Called with the negotiation that the challenge begins, unless the call came with a grant of another
   * negotiation.
   */
  trace: Pick<Trace, 'family'>
  /**
   * Whether it came with a token. If so, its source's share was taken before the authority was asked about
   * the token.
   */
  hasToken: boolean
  /** A sentence: why what the call came with is not enough; undefined if it came with nothing. */
  because: string | undefined
}

/** The grant is live, and has no permission now for the tool's resource with all the scopes that it needs. */
export const NOT_PERMITTED = 'The grant does not permit this call now.'

/** Says of a call without a grant that its credentials are none; undefined if it has no credentials. */
export function noGrant({ headers }: Pick<Call, 'headers'>): string | undefined {
  return headers.has('authorization')
    ? 'The Authorization header has no grant: a grant is sent as "PoP <grant>".'
    : undefined
}

const NEGOTIATE = "Present the ticket at the owner's authorization server for a grant."

/**
 * The refusal that challenges a call: 401 `insufficient_authorization` with a fresh ticket. 429
 * `temporarily_unavailable` with Retry-After if the source has used up its share; throws
 * `temporarily_unavailable` if the authority gives no ticket.
 */
export async function challengeFor(challenged: ChallengedCall, options: ChallengeSettings): Promise<Refusal> {
  const { call, route, tool, deadline } = challenged
  const waitSeconds = challenged.hasToken ? 0 : options.limit.take(sourceOf(call, options.trustedHops))
  if (waitSeconds > 0) return tooManyCalls(waitSeconds)
  const need = { resource_id: tool.resource_id, resource_scopes: [...tool.scopes] }
  const { ticket, family } = await route.client.requestTicket(need, deadline)
  if (family !== undefined) challenged.trace.family ??= family
  const challenge = buildChallenge(ticket, challenged, options)
  const detail = [challenged.because, NEGOTIATE].filter(sentence => sentence !== undefined).join(' ')
  return new Refusal('insufficient_authorization', detail, {
    headers: { 'www-authenticate': encodeChallenge(challenge), 'cache-control': 'no-store' },
    extra: challengeData(challenge),
  })
}

/** 429 `temporarily_unavailable` with Retry-After: the source has had its share. */
export function tooManyCalls(waitSeconds: number): Refusal {
  return askLater(`Call again in ${waitSeconds} seconds: too many calls without a grant.`, waitSeconds)
}

function buildChallenge(
  ticket: string,
  { route, tool }: ChallengedCall,
  { realm, specNs }: ChallengeSettings,
): Challenge {
  const { owner, resource, authority } = route
  return {
    realm,
    as_uri: authority,
    ticket,
    resource_metadata: resourceMetadataUrl(resource),
    scope: tool.scopes.join(' '),
    authorization_remediation: buildRemediation({
      specNs,
      owner,
      tool: tool.tool,
      resourceUrl: resource,
      scopes: tool.scopes,
      ticket,
      as_uri: authority,
    }),
  }
}
