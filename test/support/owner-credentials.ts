/**
 * Owns what tests of an owner's device keys and logins ask: the requests that add and remove them, and
 * owners with one key.
 */
import { beforeEach } from 'vitest'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { OwnerCall, TestOwner } from './authority.ts'
import { startRealmAuthority, type RealmAuthority } from './realm-authority.ts'
import { seedOwnerWithKey } from './seed.ts'
import { nowIn, startedOnce } from './started.ts'

/** A request that any credential of the owner suffices for. */
export const PENDING: OwnerCall = { target: '/owner/pending' }

export const addKey = (key: PrivateKey, name = 'phone'): OwnerCall => ({
  method: 'POST',
  target: '/owner/device-keys',
  json: { name, jwk: publicJwk(key) },
})
export const removeKey = (key: PrivateKey): OwnerCall => ({
  method: 'DELETE',
  target: `/owner/device-keys/${key.thumbprint}`,
})
export const addLogin = (access_token: string, name = 'realm'): OwnerCall => ({
  method: 'POST',
  target: '/owner/logins',
  json: { name, access_token },
})
export const removeLogin = (id: string): OwnerCall => ({ method: 'DELETE', target: `/owner/logins/${id}` })

/** An owner of her own with one device key, called laptop. */
export async function newcomer({ authority }: RealmAuthority): Promise<TestOwner> {
  return { ...authority.alice, ...(await seedOwnerWithKey(authority.database.db)) }
}

/**
 * Registers the hooks of a suite. `alice` is another owner for each test: with one device key, called laptop,
 * and no other credential.
 */
export function newcomerStand() {
  const both = startedOnce(() => startRealmAuthority({ owners: ['alice', 'bea'] }))
  const holder: { current?: TestOwner } = {}
  beforeEach(async () => {
    holder.current = await newcomer(both)
  })
  const alice = nowIn(holder)
  const as = (key: PrivateKey): TestOwner => ({ ...alice, key })
  const call = (owner: TestOwner, request: OwnerCall) => both.authority.call(owner, request)
  return { both, alice, as, call }
}
