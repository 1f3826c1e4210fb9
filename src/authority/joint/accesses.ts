/**
 * The calls that were made on an account that she holds with others, as its tally lists them. Contract:
 * "Tally for a jointly held resource"; docs/choices.md says why co-holders may know.
 */
import { readJointAccount } from '../../storage/authority/joint/joint-accounts.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { JointAccesses } from '../../wire/documents/joint-accesses.ts'
import { ACCESSES_REQUEST_SECONDS, signAccessesRequest } from '../../wire/joint/joint-accesses.ts'
import { refuse } from '../../wire/refusal.ts'
import type { OwnerApi } from '../owner/api.ts'
import { asRefused } from './holding.ts'

/**
 * One page, requested in her name. Refuses 404 if she holds no such account, 502 if the tally gives no page,
 * 503 if it cannot be asked.
 */
export async function accessesOf(
  { database, tallies, issuer, keys, now }: OwnerApi,
  owner: Owner,
  { account, ...page }: { account: Owner; before: number; limit: number },
): Promise<JointAccesses> {
  const known = await readJointAccount(database.of(owner), owner, account)
  if (known === undefined) refuse('not_found', 'You hold no account of that name with others.')
  const { tally } = known
  const iat = now()
  const times = { iat, exp: iat + ACCESSES_REQUEST_SECONDS }
  const request = signAccessesRequest({ iss: issuer, aud: tally, holder: owner, account, ...times }, keys[0])
  return tallies.accesses(tally, account, { request, ...page }).catch(asRefused)
}
