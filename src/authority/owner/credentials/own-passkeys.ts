/**
 * Her passkeys as this authority accepts them: by the keys that it stores, at the origins in its
 * configuration. Contract: "Authentication" (owner at the owner API), "Owner API".
 */
import type { Db } from '../../../storage/authority/database.ts'
import { ownPasskey, type PasskeyRow } from '../../../storage/authority/credentials/passkeys.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { readPasskey, type PinnedPasskey } from '../../../wire/signatures/pinned-keys.ts'
import type { RelyingParty } from '../../../wire/passkeys/relying-party.ts'

/** One passkey; undefined if it was registered for another relying party than the configured one. */
export function pinnedPasskey(row: PasskeyRow, party: RelyingParty | undefined): PinnedPasskey | undefined {
  if (party?.rp_id !== row.rp_id) return undefined
  const { jwk, id: kid, rp_id } = row
  return readPasskey({ ...jwk, kid, rp_id, origins: [...party.origins] })
}

/** Her passkey with this id, if it is accepted now. Only this one is read, however many she has. */
export async function passkeyOf(
  db: Db,
  owner: Owner,
  { id, party }: { id: string; party: RelyingParty | undefined },
): Promise<PinnedPasskey | undefined> {
  const row = await ownPasskey(db, owner, id)
  return row && pinnedPasskey(row, party)
}
