/**
 * What every endpoint of the owner API is handed. Contract: "Owner API".
 */
import { signatureBase, type SignatureBase } from '../../http/servers/signed-request.ts'
import { sourceShares } from '../../http/source-share.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { createRateShares, type RateShares } from '../../limits/rate-shares.ts'
import type { Authority } from '../context.ts'
import type { Notifier } from '../notifications/sending.ts'
import type { RelyingParty } from '../../wire/passkeys/relying-party.ts'
import type { InvitationAnswer } from '../organization/client.ts'
import { createEventFeeds, type EventFeeds, type StreamCaps } from './events/event-feeds.ts'
import { createAttemptLimit, type AttemptLimit } from '../../credentials/attempt-limit.ts'
import type { AcceptedCredentials } from '../../credentials/presentation.ts'

/** An organization's last answer about an invitation; `until` is in milliseconds since the epoch. */
export interface KnownInvitation {
  issuer: string
  answer: InvitationAnswer | null | 'silent'
  until: number
}

export interface OwnerApi extends Authority {
  /** The kinds of credentials that are accepted. */
  readonly accepted: AcceptedCredentials
  /** The relying party of passkeys; if undefined, passkeys are not accepted. */
  readonly relyingParty: () => RelyingParty | undefined
  /** The address that device keys sign over. */
  readonly base: SignatureBase
  /** Answers of organizations about whom they invited. */
  readonly invitations: BoundedMap<string, KnownInvitation>
  /** The limit on codes that were not good. */
  readonly attempts: AttemptLimit
  /** The limit on logins by passkey, per source. */
  readonly logins: RateShares
  readonly heartbeatSeconds: number
  /** Development only: http to literal loopback hosts is admitted. */
  readonly devLoopback: boolean
  /** Event streams that are open, and what is sent to them. */
  readonly feeds: EventFeeds
  /** The key by which notifications are sent; if undefined, none are sent. */
  readonly notifier: Notifier | undefined
  /** The limit on test notifications, per owner. */
  readonly tests: RateShares
}

const FAILURES_PER_MINUTE = 20
const TESTS_PER_MINUTE = 6
/** This only bounds work, because nobody can guess the signature of a passkey. */
const LOGINS_PER_MINUTE = 600
const OWNERS_MAX = 10_000
const INVITATIONS_MAX = 10_000

export function createOwnerApi(
  authority: Authority,
  {
    accepted,
    relyingParty,
    heartbeatSeconds,
    devLoopback,
    streams,
    notifier,
  }: Pick<OwnerApi, 'accepted' | 'relyingParty' | 'heartbeatSeconds' | 'devLoopback' | 'notifier'> & {
    streams: StreamCaps
  },
): OwnerApi {
  return {
    ...authority,
    accepted,
    relyingParty,
    base: signatureBase(authority.issuer),
    attempts: createAttemptLimit({ failuresPerMinute: FAILURES_PER_MINUTE, clock: () => Date.now() }),
    logins: sourceShares(LOGINS_PER_MINUTE),
    invitations: new BoundedMap(INVITATIONS_MAX),
    heartbeatSeconds,
    devLoopback,
    notifier,
    tests: createRateShares({ perMinute: TESTS_PER_MINUTE, sourcesMax: OWNERS_MAX, clock: () => Date.now() }),
    feeds: createEventFeeds({ ...authority, heartbeatSeconds, caps: streams }),
  }
}
