/**
 * Checks that a document comes from a holder: her authorization server signs for her, with a key that it
 * publishes. Contract: "Tally for a jointly held resource", "Authentication" (published keys).
 */
import type { JwksCache } from '../../http/outbound/jwks-cache.ts'
import { holderOf } from '../../rules/joint/mandate.ts'
import { readAccount } from '../../storage/tally/accounts.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { Refusal, refuse, unavailable } from '../../wire/refusal.ts'
import type { VerificationKeys } from '../../wire/negotiation/tokens.ts'
import type { Issuer } from '../../surface/issuer.ts'
import type { TallyStore } from '../context.ts'

/** What looking up a holder's keys needs. */
export interface HolderProofContext extends Issuer, TallyStore {
  /** The documents of holders' authorization servers. */
  holderKeys: JwksCache
}

/** The holder that a document names, not verified. */
export interface ProofSigner {
  issuer: string
  holder: Owner
  account: Owner
  /** The id of the key. */
  kid: unknown
}

/**
 * The keys with which a holder's server may have signed it. Refuses 404 an unknown account, 401 a caller that
 * is no holder of it, whose server is not asked, and 503 if the keys cannot be fetched.
 */
export async function keysOfHolder(
  of: HolderProofContext,
  signer: ProofSigner,
  what: string,
): Promise<VerificationKeys> {
  const { issuer, holder, account, kid } = signer
  const row = await readAccount(of.database.ofNobody, account)
  if (row === undefined) refuse('not_found', 'No such account is counted for here.')
  if (holderOf(row.mandate, { owner: holder, issuer }) === undefined) throw unproven(what)
  const url = issuer + AUTHORITY_PATH.jwks
  try {
    const named = typeof kid === 'string' ? await of.holderKeys.find(url, kid) : undefined
    return named === undefined ? await of.holderKeys.keys(url) : [named]
  } catch (cause) {
    throw unavailable('Send it again: the keys of the holder cannot be had.', 5, cause)
  }
}

/** Refuses 401: no holder's server signed it. */
export function unproven(what: string): Refusal {
  return new Refusal(
    'invalid_token',
    `Sign the ${what}, to this tally, by a key of the authorization server of a holder of the account.`,
    { headers: { 'www-authenticate': 'Bearer' } },
  )
}
