/**
 * What an access token of an OIDC realm proves: the identity of a person there, and until when. Contract:
 * "Authentication" (owner at the owner API: an OIDC access token).
 */
import { ownerTokenFault, type ReadToken, type RealmPolicy } from '../rules/owner-token.ts'
import { decodeBase64url } from '../wire/encoding.ts'
import { parseJsonObject } from '../wire/json.ts'
import { Refusal, refuse, unavailable } from '../wire/refusal.ts'
import { NAMED_KEYS_BYTES_MAX } from '../wire/document-bounds.ts'
import { RealmUnreachable, type RealmEndpoints, type RealmKeys } from './realm-keys.ts'

/** A login that a token proved, until the token ends: a subject means something only at its issuer. */
export interface ProvenLogin {
  issuer: string
  subject: string
  /** Seconds since the epoch. */
  expiresAt: number
}

export interface Realm {
  readonly issuer: string
  /**
   * The identity of the token's bearer. Throws `invalid_token` with a sentence if it is no access token for
   * us, and `temporarily_unavailable` if the realm's keys cannot be fetched, because an outage is no fault of
   * the token.
   */
  prove(token: string): Promise<ProvenLogin>
  /** Where people log in there. Throws `RealmUnreachable` if that cannot be found out. */
  endpoints(): Promise<RealmEndpoints>
}

const TOKEN_BYTES_MAX = 16 * 1_024

/** A realm whose tokens are judged by `policy`; `now` is in seconds since the epoch. */
export function createRealm(policy: RealmPolicy, keys: RealmKeys, now: () => number): Realm {
  const algorithms = policy.algorithms.includes('EdDSA')
    ? [...policy.algorithms, 'Ed25519']
    : policy.algorithms
  return {
    issuer: policy.issuer,
    endpoints: () => keys.endpoints(),
    // Claims are checked first: a token that they rule out needs no key, and nothing is fetched for a token
    // of another realm.
    prove: async token => {
      const read = readToken(token)
      const fault = ownerTokenFault(read, policy, now())
      if (fault !== undefined) refuse('invalid_token', fault)
      if (!(await isSigned(keys, token, read, algorithms)))
        refuse('invalid_token', 'Send the token as the realm signed it: its signature does not verify.')
      const { sub, exp } = read.payload
      return { issuer: policy.issuer, subject: sub as string, expiresAt: exp as number }
    },
  }
}

/**
 * Whether the realm signed a token that was read. Throws `temporarily_unavailable` if its keys cannot be
 * fetched.
 */
// oxlint-disable-next-line eslint/max-params -- the keys, and the token in its two forms
export async function isSigned(
  keys: RealmKeys,
  token: string,
  { header }: ReadToken,
  algorithms: readonly string[],
): Promise<boolean> {
  try {
    return await keys.signed(token, header, algorithms)
  } catch (cause) {
    if (!(cause instanceof RealmUnreachable)) throw cause
    if (cause.isTooLarge) throw tooLarge(cause)
    throw unavailable('Try again shortly: the keys of your realm cannot be fetched.', 5, cause)
  }
}

/** A token as it is written; nothing in it is verified. Throws `invalid_token` if it is no JWT. */
export function readToken(token: string): ReadToken {
  const [header, payload, signature, ...more] = token.split('.')
  const isJws = header !== undefined && payload !== undefined && signature !== undefined && more.length === 0
  if (!isJws || token.length > TOKEN_BYTES_MAX)
    refuse('invalid_token', 'Send an access token that is a signed JWT (RFC 9068): this one cannot be read.')
  try {
    return {
      header: parseJsonObject(decodeBase64url(header)),
      payload: parseJsonObject(decodeBase64url(payload)),
    }
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    return refuse('invalid_token', 'Send an access token that is a well-formed JWT.', { cause })
  }
}

/** No outage, and no fault of the token: the realm's administrator can mend it, and waiting cannot. */
function tooLarge(cause: RealmUnreachable): Refusal {
  const detail = `The keys of the realm are in a document larger than ${NAMED_KEYS_BYTES_MAX} bytes, and are not read: have its administrator publish fewer.`
  return new Refusal('server_error', detail, { cause })
}
