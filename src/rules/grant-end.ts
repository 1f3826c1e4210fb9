/**
 * Owns why a grant is no longer live, and how the enforcement point reacts to each reason.
 * Contract: "Grant (RPT) liveness", "Introspection and consume answers", "Errors".
 */

/** Reasons in the order in which the authority tests them; the first that applies is the answer. */
export const INACTIVE_REASONS = [
  'invalid_signature',
  'unknown_token',
  'connection_revoked',
  'organization_revoked',
  'revoked',
  'already_consumed',
  'expired',
] as const
export type InactiveReason = (typeof INACTIVE_REASONS)[number]

/** The established facts about one presented token. A missing fact about a known grant counts against it. */
export interface LivenessFacts {
  /** Signed by one of our keys; a token found by its hash counts as valid, since we stored what we signed. */
  readonly signatureValid: boolean
  /** There is a grant row, its owner is the PAT's, and its `aud` is the asking resource server's resource. */
  readonly known: boolean
  /**
   * Why it ended before its time, according to its issuer (`grantEnd` at an authority); null if it did not.
   */
  readonly ended?: GrantEnd | null | undefined
  readonly consumed?: boolean | undefined
  readonly expired?: boolean | undefined
}

/** The events that end a grant before its time. */
export type GrantEnd = 'connection_revoked' | 'organization_revoked' | 'revoked'

/**
 * The facts that an authority's grant depends on. A missing fact counts against it, except for
 * `organizationEnded` if no organization is above the owner.
 */
export interface GrantHold {
  /** The connection is active. */
  readonly connected?: boolean | undefined
  /** The organization ended the agent's reach. */
  readonly organizationEnded?: boolean | undefined
  /** The grant was issued under the connection's present generation. */
  readonly current?: boolean | undefined
  /** The tier under which it was issued still governs the resource. */
  readonly governed?: boolean | undefined
}

/** The reason why a grant of an authority ended, or null. */
export function grantEnd(hold: GrantHold): GrantEnd | null {
  if (hold.connected !== true) return 'connection_revoked'
  if (hold.organizationEnded === true) return 'organization_revoked'
  return hold.current === true && hold.governed === true ? null : 'revoked'
}

/**
 * Why the token is not live, or undefined if it is. If the caller may not know the token, nothing more is
 * said.
 */
export function livenessReason(facts: LivenessFacts): InactiveReason | undefined {
  if (!facts.signatureValid) return 'invalid_signature'
  if (!facts.known) return 'unknown_token'
  if (facts.ended !== null) return facts.ended ?? 'connection_revoked'
  if (facts.consumed !== false) return 'already_consumed'
  if (facts.expired !== false) return 'expired'
  return undefined
}

export type ConsumeError = InactiveReason | 'not_single_use'

/**
 * The `error` of a consume that spent nothing: the reason that introspection would give now, or that a live
 * grant never was single-use. Undefined if it is live and single-use: it became live again between the
 * statement and these facts, and nothing was spent (503 `temporarily_unavailable`, so that the caller asks
 * again).
 */
export function consumeError(facts: LivenessFacts, singleUse: boolean): ConsumeError | undefined {
  return livenessReason(facts) ?? (singleUse ? undefined : 'not_single_use')
}

/** What the agent is told of a grant after which it may negotiate again, before it is told to do so. */
const CHALLENGED: ReadonlyMap<unknown, string> = new Map<InactiveReason, string>([
  ['already_consumed', 'The grant was for one call, and it is spent.'],
  ['revoked', 'The owner has ended the grant.'],
  ['expired', 'The grant has expired.'],
  ['unknown_token', 'No grant for this resource is known by that text.'],
  ['invalid_signature', 'No grant for this resource is known by that text.'],
])

/**
 * The enforcement point's reaction to an inactive grant: a fresh challenge, and a sentence that says why, or
 * `terminal` (403 `access_revoked`, no new challenge). Every reason that is not in the contract's table, or a
 * missing one, is terminal.
 */
export function inactiveReaction(reason: unknown): { kind: 'challenge'; because: string } | 'terminal' {
  const because = CHALLENGED.get(reason)
  return because === undefined ? 'terminal' : { kind: 'challenge', because }
}

/**
 * The code of the 403 after a consume that answered `consumed: false`: the code itself, except that
 * `connection_revoked`, `organization_revoked` and every unknown code become `access_revoked`.
 */
export function consumeRefusal(
  reason: unknown,
): Exclude<ConsumeError, 'connection_revoked' | 'organization_revoked'> | 'access_revoked' {
  switch (reason) {
    case 'already_consumed':
    case 'not_single_use':
    case 'revoked':
    case 'expired':
    case 'unknown_token':
    case 'invalid_signature':
      return reason
    default:
      return 'access_revoked'
  }
}
