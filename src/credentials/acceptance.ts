/**
 * Which credentials of people a listener accepts, and the realm whose tokens are among them. Contract:
 * "Authentication" (owner at the owner API).
 */
import { openOutbound } from '../http/outbound/outbound.ts'
import type { RealmPolicy } from '../rules/owner-token.ts'
import { createRealm } from './oidc.ts'
import type { AcceptedCredentials, Space } from './presentation.ts'
import { createRealmKeys } from './realm-keys.ts'

export interface Accepting {
  space: Space
  /** Whether signatures of enrolled device keys are accepted. */
  deviceKeys: boolean
  /** Requirements for access tokens; undefined if none are accepted. */
  realm: RealmPolicy | undefined
  devLoopback: boolean
  /** Seconds since the epoch. */
  now: () => number
}

/**
 * The operator chooses the realm, so it may be in a private network. Adds to `closers` everything that must
 * be closed at the end.
 */
export function openAccepted(
  { space, deviceKeys, realm: policy, devLoopback, now }: Accepting,
  closers: (() => Promise<void>)[],
): AcceptedCredentials {
  if (policy === undefined) return { space, deviceKeys, realm: undefined }
  const outbound = openOutbound({ devLoopback }, closers)
  const keys = createRealmKeys({ issuer: policy.issuer, outbound, clock: Date.now })
  return { space, deviceKeys, realm: createRealm(policy, keys, now) }
}
