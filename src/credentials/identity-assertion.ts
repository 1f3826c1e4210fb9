/**
 * What an identity provider's assertion proves: who somebody is, once. Contract: "The organization's
 * authority" (join by identity-provider vouching), "need_info answer (beat 2)" (format id-jag).
 */
import { ASSERTION_ALGORITHMS, assertionFault, type ExpectedAssertion } from '../rules/identity-assertion.ts'
import { sha256 } from '../wire/encoding.ts'
import { refuse } from '../wire/refusal.ts'
import { isSigned, readToken } from './oidc.ts'
import type { RealmKeys } from './realm-keys.ts'

/** An assertion that was proved; it is good once, which its taker must see to. */
export interface ProvenAssertion {
  /** What to remember it by: of issuer and jti. */
  digest: Buffer
  /** Seconds since the epoch: it need not be remembered longer. */
  expiresAt: number
}

/**
 * Proves an assertion by the provider's keys at `now` (seconds). Throws `invalid_token` with a sentence where
 * it is none for us, and `temporarily_unavailable` where the keys cannot be had. Says nothing of whether it
 * was presented before.
 */
export async function proveAssertion(
  assertion: string,
  keys: RealmKeys,
  { now, ...expected }: ExpectedAssertion & { now: number },
): Promise<ProvenAssertion> {
  const read = readToken(assertion)
  const fault = assertionFault(read, expected, now)
  if (fault !== undefined) refuse('invalid_token', fault)
  if (!(await isSigned(keys, assertion, read, ASSERTION_ALGORITHMS)))
    refuse('invalid_token', 'Send the assertion as the provider signed it: its signature does not verify.')
  const { jti, exp } = read.payload
  const digest = sha256(JSON.stringify(['id-jag', expected.issuer, jti]))
  return { digest, expiresAt: exp as number }
}
