/**
 * Owns the signed revocation: by it whoever keeps the record of a call can show that the call came after the
 * access was ended. Extension: docs/choices.md, "Revocations that prove themselves". Contract: "Grant (RPT)
 * liveness".
 */
import { s256Json } from '../encoding.ts'
import { asHandle, asOwner, type Handle, type Owner } from '../identifiers.ts'
import { digestMember, integerMember, member, textMember, textsMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey, PublishedKey } from '../signatures/keys.ts'
import { readLedgerHead, type LedgerHead } from './ledger-head.ts'

/** Handles that a revocation names one by one; of more it has the hash of their list. */
export const ENDED_NAMED_MAX = 50

/** The claims of `ext-revocation+jwt`. */
export type RevocationClaims = {
  iss: string
  owner: Owner
  jti: string
  /** When the entry of the ledger was made, in seconds since the epoch. */
  iat: number
  /**
   * The database's time after the act had committed, no enforcement point relied on what it ended, and a
   * checkpoint covered the entry; in milliseconds since the epoch.
   */
  at: number
  /** How many acts had ended something of hers, with this one. */
  ends: number
  /** The handles of all connections that ended; left out if they are more than 50. */
  ended?: Handle[]
  /** In place of it then: the s256 of the JCS of the list. */
  ended_s256?: string
  /** The position of the entry in her ledger. */
  seq: number
  /** A head that covers it. */
  ledger_head: LedgerHead
}

/** The compact JWT; `ended` are the handles of all connections that ended. */
export function signRevocation(
  { ended, ...claims }: Omit<RevocationClaims, 'ended' | 'ended_s256'> & { ended: Handle[] },
  key: PrivateKey,
): string {
  const named = ended.length > ENDED_NAMED_MAX ? { ended_s256: s256Json(ended) } : { ended }
  return signJws({ typ: TYP.revocation, payload: { ...claims, ...named } }, key)
}

/** Fifty handles, each as long as a handle may be. */
export const REVOCATION_BYTES_MAX = 256 * 1024

/** As far as `checkClaims` lets `iat` be ahead. */
const SKEW_SECONDS = 60

/**
 * Verifies a revocation of this issuer at `now` (seconds): `typ`, signature by one of its keys, `iss`, every
 * claim of its type. Refuses with `invalid_request`. The head in it is read, and its own signature is not
 * verified: `verifyLedgerHead` does that with the keys of the log.
 */
export function verifyRevocation(
  jwt: string,
  keys: readonly PublishedKey[],
  expected: { issuer: string; now: number },
): Verified<RevocationClaims> {
  const document = { typ: TYP.revocation, maxBytes: REVOCATION_BYTES_MAX }
  const { payload } = verifyJws(jwt, findByKid(keys), document)
  checkClaims(payload, { iss: expected.issuer, now: expected.now })
  const isNamed = member(payload, 'ended') !== undefined
  if (isNamed === (member(payload, 'ended_s256') !== undefined))
    refuse('invalid_request', 'Give a revocation with either ended or ended_s256.')
  const claims: RevocationClaims = {
    iss: expected.issuer,
    owner: asOwner(textMember(payload, 'owner')),
    jti: textMember(payload, 'jti'),
    iat: integerMember(payload, 'iat'),
    at: integerMember(payload, 'at'),
    ends: integerMember(payload, 'ends'),
    ...(isNamed
      ? { ended: textsMember(payload, 'ended').map(asHandle) }
      : { ended_s256: digestMember(payload, 'ended_s256') }),
    seq: integerMember(payload, 'seq', 1),
    ledger_head: readLedgerHead(member(payload, 'ledger_head')),
  }
  // A time to come would excuse every call until then.
  if (claims.at > (expected.now + SKEW_SECONDS) * 1_000)
    refuse('invalid_request', 'Give a revocation whose at is not ahead of time.')
  if (claims.ledger_head.size < claims.seq)
    refuse('invalid_request', 'Give a revocation whose ledger_head covers its entry.')
  return claims as Verified<RevocationClaims>
}
