/**
 * What every endpoint of the owner API is handed. Contract: "Owner API".
 */
import { signatureBase, type SignatureBase } from '../../http/signed-request.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Authority } from '../context.ts'
import type { Invitation } from '../organization/client.ts'
import { createEventFeeds, type EventFeeds, type StreamCaps } from './event-feeds.ts'
import { createAttemptLimit, type AttemptLimit } from '../../credentials/attempt-limit.ts'
import type { AcceptedCredentials } from '../../credentials/presentation.ts'

type Needed =
  | 'issuer'
  | 'database'
  | 'operators'
  | 'organizations'
  | 'registry'
  | 'announcements'
  | 'log'
  | 'clock'
  | 'now'

/** What an organization last said of an invitation; `until` is in milliseconds since the epoch. */
interface KnownInvitation {
  issuer: string
  answer: Invitation | null | 'silent'
  until: number
}

export interface OwnerApi extends Pick<Authority, Needed> {
  /** Which credentials are taken. */
  readonly accepted: AcceptedCredentials
  /** What device keys sign over. */
  readonly base: SignatureBase
  /** What organizations said of whom they asked for. */
  readonly invitations: BoundedMap<string, KnownInvitation>
  /** Of codes that were not good. */
  readonly attempts: AttemptLimit
  readonly heartbeatSeconds: number
  /** Development only: http to literal loopback hosts is admitted. */
  readonly devLoopback: boolean
  /** Event streams that are open, and what is sent to them. */
  readonly feeds: EventFeeds
}

const FAILURES_PER_MINUTE = 20
const INVITATIONS_MAX = 10_000

export function createOwnerApi(
  authority: Pick<Authority, Needed>,
  {
    accepted,
    heartbeatSeconds,
    devLoopback,
    streams,
  }: Pick<OwnerApi, 'accepted' | 'heartbeatSeconds' | 'devLoopback'> & { streams: StreamCaps },
): OwnerApi {
  return {
    ...authority,
    accepted,
    base: signatureBase(authority.issuer),
    attempts: createAttemptLimit({ failuresPerMinute: FAILURES_PER_MINUTE, clock: () => Date.now() }),
    invitations: new BoundedMap(INVITATIONS_MAX),
    heartbeatSeconds,
    devLoopback,
    feeds: createEventFeeds({ ...authority, heartbeatSeconds, caps: streams }),
  }
}
