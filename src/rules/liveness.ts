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

/** What is established about one presented token. A fact left out of a known grant counts against it. */
export interface LivenessFacts {
  /** Signed by one of our keys; a token found by its hash counts as valid, since we stored what we signed. */
  readonly signatureValid: boolean
  /** There is a grant row, its owner is the PAT's, and its `aud` is the asking resource server's resource. */
  readonly known: boolean
  /**
   * What ended it before its time, by what the party that issued it knows (`grantEnd` at an authority); null:
   * nothing.
   */
  readonly ended?: GrantEnd | null | undefined
  readonly consumed?: boolean | undefined
  readonly expired?: boolean | undefined
}

/** What ends a grant before its time. */
export type GrantEnd = 'connection_revoked' | 'organization_revoked' | 'revoked'

/**
 * What an authority's grant hangs on. Left out counts against it; but `organizationEnded`, where none stands
 * above the owner.
 */
export interface GrantHold {
  /** The connection is active. */
  readonly connected?: boolean | undefined
  /** The organization ended the agent's reach. */
  readonly organizationEnded?: boolean | undefined
  /** The grant was issued under the connection's present generation. */
  readonly current?: boolean | undefined
  /** The tier it was issued under still governs the resource. */
  readonly governed?: boolean | undefined
}

/** What ended a grant of an authority, or null. */
export function grantEnd(hold: GrantHold): GrantEnd | null {
  if (hold.connected !== true) return 'connection_revoked'
  if (hold.organizationEnded === true) return 'organization_revoked'
  return hold.current === true && hold.governed === true ? null : 'revoked'
}

/**
 * Why the token is not live, or undefined when it is. A token unknown to the asker says nothing more about
 * itself.
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
 * The `error` of a consume that spent nothing: the reason introspection would now give; else that a live
 * grant never was single-use. Undefined where it is live and single-use: it came to stand again between the
 * statement and these facts, and nothing was spent (503 `temporarily_unavailable`, so that the caller asks
 * again).
 */
export function consumeError(facts: LivenessFacts, singleUse: boolean): ConsumeError | undefined {
  return livenessReason(facts) ?? (singleUse ? undefined : 'not_single_use')
}

const CHALLENGED: ReadonlySet<string> = new Set<InactiveReason>([
  'already_consumed',
  'revoked',
  'expired',
  'unknown_token',
  'invalid_signature',
])

/**
 * What the enforcement point does about an inactive grant: a fresh challenge, or `terminal` (403
 * `access_revoked`, no new challenge). Every word not in the contract's table, and no word at all, is
 * terminal.
 */
export function reactTo(reason: unknown): 'challenge' | 'terminal' {
  return typeof reason === 'string' && CHALLENGED.has(reason) ? 'challenge' : 'terminal'
}

/**
 * The code of the 403 after a consume that answered `consumed: false`: the word itself, except that
 * `connection_revoked`, `organization_revoked` and every word we do not know become `access_revoked`.
 */
export function consumeReaction(
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
