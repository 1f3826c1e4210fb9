/** Owns what tests of passkeys ask of an authority: registrations and logins, as wrong as they are told. */
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { canonicalize, type JsonObject } from '../../src/wire/json.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { PasskeyOptions } from '../../src/wire/owner/owner-credentials.ts'
import type { OwnerCall, Reply, TestAuthority, TestOwner } from './authority.ts'
import {
  assertionOf,
  base64url,
  newPasskey,
  registrationOf,
  sha256,
  type SoftPasskey,
  type Wrongly,
  type WrongRegistration,
} from './passkeys.ts'
import { seedOwnerWithKey } from './seed.ts'
import { newKey } from './wire-samples.ts'

/** A new one, as devices name theirs. */
export const hardware = (): SoftPasskey => newPasskey({ id: base64url(randomBytes(16)) })

/** What may be changed of a registration or a login before it is sent. */
export interface Changes {
  payload?: JsonObject
  registration?: WrongRegistration
  assertion?: Wrongly
  body?: object
}

/** Of one authority. */
export function passkeyCalls(authority: TestAuthority) {
  /** An owner of her own, with one device key. */
  async function newOwner(): Promise<TestOwner> {
    return { ...authority.alice, ...(await seedOwnerWithKey(authority.database.db)) }
  }

  async function options(use: string, owner?: TestOwner): Promise<Reply> {
    const asked: OwnerCall = { method: 'POST', target: '/owner/passkeys/options', json: { use } }
    return authority.call(owner ?? authority.alice, owner === undefined ? { ...asked, sign: false } : asked)
  }

  async function register(owner: TestOwner, key: SoftPasskey, changes: Changes = {}): Promise<Reply> {
    const { nonce, exp, user } = (await options('passkey', owner)).body as PasskeyOptions
    const payload = { use: 'passkey', owner: user!.name, nonce, exp, ...changes.payload }
    const webauthn = registrationOf(key, sha256(canonicalize(payload)), changes.registration)
    const json = { name: 'phone', payload, webauthn, ...changes.body }
    return authority.call(owner, { method: 'POST', target: '/owner/passkeys', json })
  }

  async function loginCall(by: SoftPasskey, device: PrivateKey, changes: Changes = {}): Promise<OwnerCall> {
    const { nonce, exp } = (await options('device-key')).body as PasskeyOptions
    const payload = { use: 'device-key', jkt: device.thumbprint, nonce, exp, ...changes.payload }
    const webauthn = assertionOf(by, sha256(canonicalize(payload)), changes.assertion)
    const json = { name: 'browser', jwk: publicJwk(device), payload, webauthn, ...changes.body }
    return { method: 'POST', target: '/owner/passkeys/login', json }
  }

  async function login(by: SoftPasskey, device = newKey(), changes: Changes = {}): Promise<Reply> {
    return authority.call({ ...authority.alice, key: device }, await loginCall(by, device, changes))
  }

  async function registered(owner: TestOwner): Promise<SoftPasskey> {
    const key = hardware()
    expect((await register(owner, key)).status).toBe(201)
    return key
  }

  async function ledger(owner: TestOwner, kind: string): Promise<Record<string, unknown>[]> {
    const { body } = await authority.call(owner, { target: `/owner/ledger?kind=${kind}&first=newest` })
    return body.entries as Record<string, unknown>[]
  }
  return { newOwner, options, register, registered, loginCall, login, ledger }
}
