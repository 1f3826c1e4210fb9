/**
 * What an identity provider's assertion proves: the identity of a person, once. Contract: "The organization's
 * authority" (join by identity-provider vouching), "need_info answer (beat 2)" (format id-jag).
 */
import {
  agentAssertionFault,
  ASSERTION_ALGORITHMS,
  assertionFault,
  boundBy,
  type AcceptedIdentity,
  type ExpectedAgent,
  type ExpectedAssertion,
} from '../rules/identity-assertion.ts'
import type { ReadToken } from '../rules/owner-token.ts'
import { s256, sha256 } from '../wire/encoding.ts'
import { refuse } from '../wire/refusal.ts'
import { isSigned, readToken } from './oidc.ts'
import type { RealmKeys } from './realm-keys.ts'

/** A verified assertion. It may be used once, and the caller must ensure that. */
export interface ProvenAssertion {
  /** The key under which to remember it, made from issuer and jti. */
  digest: Buffer
  /** Seconds since the epoch: it need not be remembered longer. */
  expiresAt: number
}

/**
 * Proves an assertion by the provider's keys at `now` (seconds). Throws `invalid_token` with a sentence if it
 * is not an assertion for us, and `temporarily_unavailable` if the keys cannot be fetched. It does not check
 * whether the assertion was presented before.
 */
export async function proveAssertion(
  assertion: string,
  keys: RealmKeys,
  { now, ...expected }: ExpectedAssertion & { now: number },
): Promise<ProvenAssertion> {
  const read = readToken(assertion)
  return proveRead(assertion, keys, { read, fault: assertionFault(read, expected, now), expected })
}

/**
 * Proves, in the same way, an assertion that an agent presents, which is bound to its key and to its call.
 */
export async function proveAgentAssertion(
  assertion: string,
  keys: RealmKeys,
  { now, ...expected }: ExpectedAssertion & ExpectedAgent & { now: number },
): Promise<{ proven: ProvenAssertion; identity: AcceptedIdentity }> {
  const read = readToken(assertion)
  const fault = assertionFault(read, expected, now) ?? agentAssertionFault(read, expected)
  const proven = await proveRead(assertion, keys, { read, fault, expected })
  const { issuer, subject } = expected
  return { proven, identity: { issuer, subject, s256: s256(assertion), ...boundBy(read) } }
}

/** Claims are checked first, because an assertion that they rule out needs no key. */
async function proveRead(
  assertion: string,
  keys: RealmKeys,
  { read, fault, expected }: { read: ReadToken; fault: string | undefined; expected: ExpectedAssertion },
): Promise<ProvenAssertion> {
  if (fault !== undefined) refuse('invalid_token', fault)
  if (!(await isSigned(keys, assertion, read, ASSERTION_ALGORITHMS)))
    refuse('invalid_token', 'Send the assertion as the provider signed it: its signature does not verify.')
  const { jti, exp } = read.payload
  const digest = sha256(JSON.stringify(['id-jag', expected.issuer, jti]))
  return { digest, expiresAt: exp as number }
}
