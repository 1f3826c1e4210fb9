/**
 * Owns whose ledger this browser knows as hers: that of the first owner it saw with her credential. The log
 * of her authority signs the ledgers of others, too, so an entry that is theirs must never seem to be hers.
 * Contract: "Events" (row 5).
 */
import { parseJsonObject } from '../../wire/json.ts'
import { s256, textOfBase64url } from '../bytes.ts'
import { storedObject, type KeyStore } from './log-keys.ts'

/** The credential by which a ledger is read, as far as it says whose it is. */
type LedgerCredential =
  | { by: 'nobody' }
  | { by: 'key'; key: { kid: string } }
  | { by: 'server'; token: string }
  | { by: 'login'; login: { token: string } }

const NAME = 'usher-ledger-owners'

/**
 * Whether entries of this owner's ledger are hers: she is the one that was seen first with this credential,
 * and from now on if none was. Digests are kept, so that a later user of the browser reads no names.
 */
export async function isOwnLedger(
  store: KeyStore,
  access: { issuer: string; proof: LedgerCredential },
  owner: string,
): Promise<boolean> {
  const credential = await s256(JSON.stringify([access.issuer, ...credentialOf(access.proof)]))
  const digest = await s256(owner)
  const known = storedObject(store, NAME)
  const first = known[credential]
  if (typeof first === 'string') return first === digest
  store.setItem(NAME, JSON.stringify({ ...known, [credential]: digest }))
  return true
}

/** What stays the same of a credential for as long as it is one owner's. */
function credentialOf(proof: LedgerCredential): string[] {
  if (proof.by === 'key') return [proof.by, proof.key.kid]
  if (proof.by === 'login') return [proof.by, subjectOf(proof.login.token) ?? proof.login.token]
  return proof.by === 'server' ? [proof.by, proof.token] : [proof.by]
}

/** Who logged in, by the token; undefined if it does not say so. */
function subjectOf(token: string): string | undefined {
  try {
    const { sub } = parseJsonObject(textOfBase64url(token.split('.')[1] ?? '') ?? '')
    return typeof sub === 'string' ? sub : undefined
  } catch {
    return undefined
  }
}
