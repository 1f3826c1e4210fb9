/**
 * By which keys a decision may be signed: contract, "Owner API" (`/owner/pending/{family}/decision`),
 * "Authentication" (each credential is independently revocable), "Algorithms" (the algorithm is the key's).
 */
import { readFileSync } from 'node:fs'
import { sign } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { statementPayload } from '../../src/wire/owner/decision-statement.ts'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import {
  importPrivateJwk,
  publicJwk,
  type PrivateJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { approvalOf } from '../support/decision-samples.ts'
import { passkeyCalls } from '../support/passkey-calls.ts'
import { approvalByPasskey, ORIGIN, RP_ID } from '../support/passkeys.ts'
import { authorityStand } from '../support/stands.ts'
import { denyAll, testAgent } from '../support/test-agent.ts'
import { newKey } from '../support/wire-samples.ts'

const authority = authorityStand({
  owners: ['alice', 'bea'],
  environment: { UMA_AS_PASSKEY_RP_ID: RP_ID, UMA_AS_PASSKEY_ORIGINS: ORIGIN },
})
const { registered, login } = passkeyCalls(authority)
// Few strangers may wait at once.
afterEach(() => denyAll(authority))

const now = () => Math.floor(Date.now() / 1_000)
const asked = (method: 'POST' | 'DELETE', target: string, json?: object) =>
  authority.call(authority.alice, { method, target, ...(json && { json }) })

async function waiting(): Promise<PendingItem> {
  const agent = testAgent(authority)
  await agent.ask()
  const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
  return (body as PendingItem[]).find(one => one.handle === agent.handle)!
}
const approve = ({ family }: PendingItem, statement: unknown) =>
  asked('POST', `/owner/pending/${family}/decision`, { decision: 'approved', statement })
const by = ({ item }: PendingItem, key: PrivateKey): string =>
  approvalOf(item, key, { aud: authority.issuer, iat: now(), admits: 'all' })

async function enrolled(): Promise<PrivateKey> {
  const key = newKey()
  const json = { name: 'tablet', jwk: publicJwk(key) }
  expect((await asked('POST', '/owner/device-keys', json)).status).toBe(201)
  return key
}
async function letIn(): Promise<PrivateKey> {
  const key = newKey()
  expect((await login(await registered(authority.alice), key)).status).toBe(201)
  return key
}
async function removed(key: PrivateKey): Promise<PrivateKey> {
  expect((await asked('DELETE', `/owner/device-keys/${key.thumbprint}`)).status).toBe(200)
  return key
}
async function ended(key: PrivateKey): Promise<PrivateKey> {
  await authority.database.db
    .updateTable('session_keys')
    .set({ expires_at: new Date(Date.now() - 1_000).toISOString() })
    .where('kid', '=', key.thumbprint)
    .execute()
  return key
}
async function own(): Promise<PrivateKey> {
  const file = readFileSync(authority.environment['UMA_AS_KEYS_FILE']!, 'utf8')
  return importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
}

describe('A decision is signed', () => {
  it.each<[string, () => Promise<PrivateKey>]>([
    ['a device key of hers', enrolled],
    ['a device key that a passkey let in', letIn],
  ])('by %s', async (_what, keyOf) => {
    const pending = await waiting()
    expect((await approve(pending, by(pending, await keyOf()))).status).toBe(200)
  })

  it.each<[string, () => Promise<PrivateKey>]>([
    ['a device key that she removed', async () => removed(await enrolled())],
    ['a device key that a passkey let in, once she removed it', async () => removed(await letIn())],
    ['a device key that a passkey let in, once it has ended', async () => ended(await letIn())],
    ['a device key of another owner', async () => authority.owners['bea']!.key],
    ['the key of the authority', own],
  ])('by no other key, as %s, and the item stays', async (_what, keyOf) => {
    const key = await keyOf()
    const pending = await waiting()
    expect(await approve(pending, by(pending, key))).toMatchObject({
      status: 403,
      body: { error: 'statement_key' },
    })
    const { body } = await authority.call(authority.alice, {
      target: `/owner/ledger?kind=approved&handle=${pending.handle}`,
    })
    expect(body.entries).toEqual([])
    expect((await approve(pending, by(pending, authority.alice.key))).status).toBe(200)
  })

  it('by a passkey in its own form alone: neither as a JWS, nor by a device key in the form of a passkey', async () => {
    const passkey = await registered(authority.alice)
    const pending = await waiting()
    const told = { aud: authority.issuer, iat: now(), admits: 'all' } as const
    const good = approvalByPasskey(pending.item, passkey, told)
    const header = encodeBase64url(JSON.stringify({ typ: TYP.decision, alg: 'ES256', kid: passkey.id }))
    const input = `${header}.${encodeBase64url(JSON.stringify(good.payload))}`
    const es256 = sign('sha256', Buffer.from(input), { key: passkey.privateKey, dsaEncoding: 'ieee-p1363' })
    const device = statementPayload(by(pending, authority.alice.key))
    const jws = await approve(pending, `${input}.${es256.toString('base64url')}`)
    expect(jws).toMatchObject({ status: 400, body: { error: 'invalid_statement' } })
    const borrowed = await approve(pending, { ...good, payload: device })
    expect(borrowed).toMatchObject({ status: 403, body: { error: 'statement_key' } })
    expect((await approve(pending, good)).status).toBe(200)
  })
})
