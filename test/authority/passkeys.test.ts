/**
 * Her passkeys: contract, "Authentication" (owner at the owner API: each sufficient, each revocable on its
 * own), "Owner API" (`/owner/pending/{family}/decision`).
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { issueCode } from '../../src/authority/administration/recovery.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { Passkey, PasskeyOptions } from '../../src/wire/owner/owner-credentials.ts'
import { pinnedPasskeys } from '../../src/wire/passkeys/passkey-claims.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import type { OwnerCall, TestOwner } from '../support/authority.ts'
import { hardware, passkeyCalls, type Changes } from '../support/passkey-calls.ts'
import { base64url, ORIGIN, RP_ID } from '../support/passkeys.ts'
import { authorityStand } from '../support/stands.ts'
import { newKey } from '../support/wire-samples.ts'

const environment = { UMA_AS_PASSKEY_RP_ID: RP_ID, UMA_AS_PASSKEY_ORIGINS: ORIGIN }
const authority = authorityStand({ owners: ['alice', 'bea'], environment })
/** Each counts by itself how often one guesses. */
const replica = authorityStand({ beside: authority, environment })
const call = (owner: TestOwner, request: OwnerCall) => authority.call(owner, request)
const as = (owner: TestOwner, key: PrivateKey): TestOwner => ({ ...owner, key })
const { newOwner, options, register, registered, loginCall, login, ledger } = passkeyCalls(authority)
const PENDING: OwnerCall = { target: '/owner/pending' }

/** An owner of her own, with one device key. */
let alice: TestOwner
beforeEach(async () => {
  alice = await newOwner()
})

describe('A passkey of hers', () => {
  it('is registered, listed as the page served it, told of, and exported as others pin it', async () => {
    const key = hardware()
    const made = await register(alice, key)
    const { x, y } = key.jwk
    const listed = {
      id: key.id,
      name: 'phone',
      jwk: { kty: 'EC', crv: 'P-256', x, y },
      rp_id: RP_ID,
      origins: [ORIGIN],
      surface: 'served',
      added_at: expect.any(String),
      removed_at: null,
    }
    expect(made).toMatchObject({ status: 201, body: listed })
    expect((await call(alice, { target: '/owner/passkeys' })).body).toEqual([listed])
    expect(await ledger(alice, 'credential_added')).toMatchObject([
      { credential: 'passkey', id: key.id, by: 'owner', actor: { kid: alice.key.thumbprint } },
    ])
    const pinned = parsePinnedKeys(JSON.stringify(pinnedPasskeys(made.body as Passkey)))
    expect(pinned).toMatchObject({ passkeys: [{ id: key.id, rp_id: RP_ID }], served: [key.thumbprint] })
  })

  it.each<[string, number, Changes]>([
    ['over another challenge', 400, { registration: { clientData: { challenge: base64url('no') } } }],
    ['at another origin', 400, { registration: { clientData: { origin: 'https://evil.example' } } }],
    ['for another relying party', 400, { registration: { rpId: 'evil.example' } }],
    ['without the person verified', 400, { registration: { flags: 0x41 } }],
    ['for another owner', 400, { payload: { owner: 'bea' } }],
    ['over a nonce for a login', 400, { payload: { use: 'device-key' } }],
    ['over a nonce of nobody', 400, { payload: { nonce: 'pkn_invented' } }],
    ['for longer than the nonce is good', 400, { payload: { exp: 4_000_000_000 } }],
    ['with a decision beside it', 400, { payload: { decision: 'approved' } }],
    ['with an attestation', 400, { registration: { webauthn: { attestationObject: 'x' } } }],
    ['under a name that shows nothing', 400, { body: { name: ' ' } }],
  ])('%s is not registered', async (_what, status, changes) => {
    expect((await register(alice, hardware(), changes)).status).toBe(status)
    expect((await call(alice, { target: '/owner/passkeys' })).body).toEqual([])
  })

  it('is registered by a credential of hers alone, once, and never by another owner', async () => {
    expect((await options('passkey')).status).toBe(401)
    const key = await registered(alice)
    expect(await register(alice, key)).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect((await register(authority.owners['bea']!, key)).status).toBe(409)
    const asked: OwnerCall = { method: 'DELETE', target: `/owner/passkeys/${key.id}` }
    expect((await call(authority.owners['bea']!, asked)).status).toBe(404)
    expect((await call(alice, asked)).status).toBe(200)
    expect((await call(alice, asked)).status).toBe(404)
    // What was removed stays listed, for what it signed, and comes back by no registration.
    expect((await call(alice, { target: '/owner/passkeys' })).body).toMatchObject([
      { id: key.id, removed_at: expect.any(String) },
    ])
    expect((await register(alice, key)).status).toBe(409)
    expect(await ledger(alice, 'credential_removed')).toMatchObject([{ credential: 'passkey', id: key.id }])
  })
})

describe('A login by a passkey', () => {
  it('lets the device key in for twelve hours, as which it does all that any key of hers may', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    const made = await login(passkey, device)
    expect(made).toMatchObject({
      status: 201,
      body: {
        owner: alice.owner,
        kid: device.thumbprint,
        name: 'browser',
        let_in: { passkey: passkey.id, surface: 'served' },
      },
    })
    const ends = Date.parse(made.body.let_in.expires_at)
    expect(Math.abs(ends - Date.now() - 12 * 3_600_000)).toBeLessThan(60_000)
    expect((await call(as(alice, device), PENDING)).status).toBe(200)
    const { body } = await call(alice, { target: '/owner/device-keys' })
    expect((body as { kid: string }[]).find(({ kid }) => kid === device.thumbprint)).toMatchObject({
      let_in: made.body.let_in,
      revoked_at: null,
    })
    expect((await ledger(alice, 'credential_added'))[0]).toMatchObject({
      credential: 'device_key',
      kid: device.thumbprint,
      by: 'passkey',
      actor: { kind: 'owner', credential: 'passkey', id: passkey.id },
    })
  })

  it.each<[string, number, Changes]>([
    ['over another challenge', 401, { assertion: { clientData: { challenge: base64url('no') } } }],
    ['of a registration', 401, { assertion: { clientData: { type: 'webauthn.create' } } }],
    ['at another origin', 401, { assertion: { clientData: { origin: 'https://evil.example' } } }],
    ['in a frame of another origin', 401, { assertion: { clientData: { crossOrigin: true } } }],
    ['for another relying party', 401, { assertion: { rpId: 'evil.example' } }],
    ['without the person present', 401, { assertion: { flags: 0x04 } }],
    ['without the person verified', 401, { assertion: { flags: 0x01 } }],
    [
      'with a signature that does not hold',
      401,
      { assertion: { respell: der => Buffer.concat([der.subarray(0, -1), Buffer.from([der.at(-1)! ^ 1])]) } },
    ],
    [
      'with a signature in another spelling',
      401,
      { assertion: { respell: der => Buffer.concat([der, Buffer.from([0])]) } },
    ],
    ['under an id that is nobody’s', 401, { assertion: { webauthn: { id: base64url('nobody') } } }],
    ['over a nonce of nobody', 401, { payload: { nonce: 'pkn_invented' } }],
    ['for longer than the nonce is good', 401, { payload: { exp: 4_000_000_000 } }],
    ['for another device key', 400, { payload: { jkt: newKey().thumbprint } }],
    ['that is a decision', 400, { payload: { decision: 'approved' } }],
    ['for something else', 400, { payload: { use: 'passkey' } }],
    ['with a member more', 400, { body: { userHandle: 'x' } }],
    ['of a key that is none', 400, { body: { jwk: { kty: 'EC' } } }],
  ])('%s is refused, and lets nobody in', async (_what, status, changes) => {
    const [passkey, device] = [await registered(alice), newKey()]
    expect((await login(passkey, device, changes)).status).toBe(status)
    expect((await call(as(alice, device), PENDING)).status).toBe(401)
  })

  it('is by the key that signs the request, and by no other', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    expect((await call(alice, await loginCall(passkey, device))).status).toBe(401)
    const unsigned: OwnerCall = { ...(await loginCall(passkey, device)), sign: false }
    expect((await call(alice, unsigned)).status).toBe(401)
  })

  it('uses its nonce once, whoever asks at the same time', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    const { nonce, exp } = (await options('device-key')).body as PasskeyOptions
    const calls = await Promise.all(
      [device, ...Array.from({ length: 9 }, () => newKey())].map(async key => ({
        as: as(alice, key),
        call: await loginCall(passkey, key, { payload: { nonce, exp } }),
      })),
    )
    const answers = await Promise.all(
      calls.map((one, place) => (place < 7 ? replica : authority).call(one.as, one.call)),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array<number>(9).fill(401)])
    expect((await replica.call(calls[0]!.as, calls[0]!.call)).status).toBe(401)
  })

  it('is good no more once the passkey is removed, nor is what it let in', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    await login(passkey, device)
    const removed = await call(as(alice, device), {
      method: 'DELETE',
      target: `/owner/passkeys/${passkey.id}`,
    })
    expect(removed.status).toBe(200)
    expect((await call(as(alice, device), PENDING)).status).toBe(401)
    expect((await login(passkey)).status).toBe(401)
    expect(await ledger(alice, 'credential_removed')).toMatchObject([
      { credential: 'device_key', kid: device.thumbprint, passkey: passkey.id },
      { credential: 'passkey', id: passkey.id },
    ])
  })

  it('ends by itself, and the key signs nothing then', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    await login(passkey, device)
    await authority.database.db
      .updateTable('session_keys')
      .set({ expires_at: new Date(Date.now() - 1_000).toISOString() })
      .where('owner', '=', alice.owner)
      .execute()
    expect((await call(as(alice, device), PENDING)).status).toBe(401)
    const removal: OwnerCall = { method: 'DELETE', target: `/owner/device-keys/${device.thumbprint}` }
    expect((await call(alice, removal)).status).toBe(404)
    // The same key comes back by nothing.
    expect((await login(passkey, device)).status).toBe(409)
  })

  it('may be revoked alone, and the passkey goes on', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    await login(passkey, device)
    const removal: OwnerCall = { method: 'DELETE', target: `/owner/device-keys/${device.thumbprint}` }
    expect((await call(alice, removal)).status).toBe(200)
    expect((await call(as(alice, device), PENDING)).status).toBe(401)
    expect((await login(passkey)).status).toBe(201)
  })
})

describe('The last credential', () => {
  const remove = (by: TestOwner, target: string) => call(by, { method: 'DELETE', target })

  it('may be a passkey, and not a key that ends by itself', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    await login(passkey, device)
    expect((await remove(alice, `/owner/device-keys/${alice.key.thumbprint}`)).status).toBe(200)
    const left = as(alice, device)
    expect(await remove(left, `/owner/passkeys/${passkey.id}`)).toMatchObject({
      status: 409,
      body: { error: 'conflict' },
    })
    // Nothing of it stays: neither the passkey nor what it let in was removed.
    expect((await call(left, PENDING)).status).toBe(200)
    expect((await login(passkey)).status).toBe(201)
  })

  it('ends a recovery, by whatever it let in', async () => {
    const [passkey, device] = [await registered(alice), newKey()]
    expect((await remove(alice, `/owner/device-keys/${alice.key.thumbprint}`)).status).toBe(200)
    const settings = {
      enrolmentSeconds: 600,
      recoverySeconds: 3_600,
      accepted: { deviceKeys: true, issuer: undefined },
    }
    const wanted = { owner: alice.owner, recover: false, actor: { kind: 'authority' } } as const
    const issue = (recover: boolean) =>
      inTransaction(authority.database.db, tx => issueCode(tx, settings, { ...wanted, recover }))
    // A passkey is a credential: no first code is issued in addition.
    await expect(issue(false)).rejects.toMatchObject({ code: 'conflict' })
    await issue(true)
    await login(passkey, device)
    expect((await remove(as(alice, device), '/owner/recovery')).status).toBe(200)
    expect((await call(as(alice, device), { target: '/owner/recovery' })).body).toEqual({ recovery: null })
  })
})
