/**
 * The providers that may vouch for the person behind an agent: the ones that the operator of this server
 * lists, and what those publish. Contract: "need_info answer (beat 2)" (format id-jag). No other provider is
 * asked, even if a charter names it.
 */
import { createRealmKeys, RealmUnreachable, type RealmKeys } from '../../credentials/realm-keys.ts'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import { Refusal, unavailable } from '../../wire/refusal.ts'

export interface IdentityProviders {
  lists(issuer: string): boolean
  /** Where a listed provider says that its tokens are issued. Throws `temporarily_unavailable`. */
  tokenEndpoint(issuer: string): Promise<string>
  /**
   * What `prove` finds with the keys of a listed provider. Throws `temporarily_unavailable` if the keys
   * cannot be read, also because a document is too large: only keys that were read can refuse an assertion.
   */
  proving<T>(issuer: string, prove: (keys: RealmKeys) => Promise<T>): Promise<T>
}

/** The providers of these issuers. Nothing is fetched until one of them is needed. */
export function createIdentityProviders(issuers: readonly string[], outbound: Outbound): IdentityProviders {
  const known = new Map(
    issuers.map(issuer => [issuer, createRealmKeys({ issuer, outbound, clock: Date.now })]),
  )
  const proving = async <T>(issuer: string, prove: (keys: RealmKeys) => Promise<T>): Promise<T> => {
    const keys = known.get(issuer)
    if (keys === undefined) throw new Error('only a listed identity provider is asked')
    const proved = await waitAtMost(REMOTE_MS_MAX, prove(keys)).catch((cause: unknown) => {
      throw isOutage(cause) ? outage(cause) : cause
    })
    if (proved === LATE) throw outage()
    return proved
  }
  return {
    lists: issuer => known.has(issuer),
    tokenEndpoint: issuer => proving(issuer, keys => keys.tokenEndpoint()),
    proving,
  }
}

/** Also where `prove` has made a refusal of its own out of keys that it could not read. */
function isOutage(error: unknown): boolean {
  if (unreachable(error) !== undefined) return true
  return error instanceof Refusal && error.code === 'temporarily_unavailable'
}

function unreachable(error: unknown): RealmUnreachable | undefined {
  if (error instanceof RealmUnreachable) return error
  return error instanceof Refusal && error.cause instanceof RealmUnreachable ? error.cause : undefined
}

/** Whoever runs the provider must hear of a document that is too large: waiting makes it no smaller. */
function outage(cause?: unknown): Refusal {
  const why =
    unreachable(cause)?.isTooLarge === true
      ? 'the identity provider publishes a document that is larger than any that is read, so its administrator must shorten it.'
      : 'the identity provider cannot be asked.'
  return unavailable(`Present the ticket of this answer later: ${why}`, 5, cause)
}
