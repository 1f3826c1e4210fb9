/**
 * Credentials of owners who are divided between two Postgres clusters of one authority. Contract:
 * "Authentication" (owner at the owner API), "Owner API" (`/owner/pending/{family}/decision`).
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeOwner } from '../../src/authority/administration/owner-accounts.ts'
import { placedBy } from '../../src/storage/authority/owners/cell-directory.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { moveOwner } from '../../src/storage/authority/owners/moving.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { startTestAuthority, type TestAuthority, type TestOwner } from '../support/authority.ts'
import { hardware, passkeyCalls } from '../support/passkey-calls.ts'
import { approvalByPasskey, ORIGIN, RP_ID, type SoftPasskey } from '../support/passkeys.ts'
import { freshDatabase } from '../support/postgres.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'
import { newKey } from '../support/wire-samples.ts'

const [alice, bob, carol] = [asOwner('alice'), asOwner('bob'), asOwner('carol')]

let east: Database
let [first, second] = [] as unknown as [TestAuthority, TestAuthority]
let [ofAlice, ofBob] = [] as unknown as [TestOwner, TestOwner]
const closing: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  east = await freshDatabase()
  closing.push(() => east.close())
  const environment = {
    UMA_AS_CELLS: `east=${east.url}`,
    UMA_AS_PASSKEY_RP_ID: RP_ID,
    UMA_AS_PASSKEY_ORIGINS: ORIGIN,
  }
  first = await startTestAuthority({ owners: [alice, bob, carol], environment })
  closing.unshift(() => first.close())
  second = await startTestAuthority({ beside: first })
  closing.unshift(() => second.close())
  ofAlice = first.owners[alice]!
  ofBob = first.owners[bob]!
  await moveBob('east')
})
afterAll(async () => {
  for (const close of closing) await close()
})

const moveBob = (to: string) => {
  const cells = new Map([
    ['home', first.database.url],
    ['east', east.url],
  ])
  return moveOwner({ owner: bob, cells, home: 'home', to, restSeconds: 0 })
}

/** A first contact of a new agent: approved by what the passkey signs, sent with the key that it let in. */
async function decides(at: TestAuthority, as: TestOwner, passkey: SoftPasskey): Promise<void> {
  const agent = testAgent({ ...at, alice: as })
  const { ticket } = (await agent.ask()).body as { ticket: string }
  const { status, body } = await at.call(as, { target: '/owner/pending?limit=1000' })
  expect(status).toBe(200)
  const { item, family } = (body as PendingItem[]).find(({ handle }) => handle === agent.handle)!
  const iat = Math.floor(Date.now() / 1_000)
  const statement = approvalByPasskey(item, passkey, { aud: at.issuer, iat, admits: 'all' })
  const target = `/owner/pending/${family}/decision`
  const decided = await at.call(as, { method: 'POST', target, json: { decision: 'approved', statement } })
  expect(decided.status).toBe(200)
  const { access_token: token } = (await agent.present(ticket)).body as { access_token: string }
  expect((await protectionCall({ ...at, alice: as }, '/introspect', { token })).body).toMatchObject({
    active: true,
    owner_decision: { statement },
  })
  const { body: several } = await protectionCall({ ...at, alice: as }, '/introspect', {
    tokens: [token, 'nobodys'],
  })
  expect(several.answers).toMatchObject([{ active: true }, { active: false }])
}

describe('A passkey of an owner in the second cell', () => {
  it('lets a key in and signs what she decides at every replica, and both go with her', async () => {
    const { registered, login } = passkeyCalls(first)
    const [passkey, device] = [await registered(ofBob), newKey()]
    expect(await login(passkey, device)).toMatchObject({ status: 201, body: { owner: bob } })
    const letIn = { ...ofBob, key: device }
    for (const to of ['east', 'home', 'east']) {
      await moveBob(to)
      for (const at of [first, second]) await decides(at, letIn, passkey)
      const again = await passkeyCalls(second).login(passkey)
      expect(again).toMatchObject({ status: 201, body: { owner: bob } })
    }
    const removal = { method: 'DELETE', target: `/owner/passkeys/${passkey.id}` } as const
    expect((await second.call(letIn, removal)).status).toBe(200)
    expect((await first.call(letIn, { target: '/owner/pending' })).status).toBe(401)
    expect((await login(passkey)).status).toBe(401)
    expect(await placedBy(first.database.db, 'passkey', passkey.id)).toEqual({ owner: bob, cell: 'east' })
  })

  it('is registered for one owner of all cells, and so is what it lets in', async () => {
    const { register, registered, login } = passkeyCalls(first)
    const [hers, his] = [await registered(ofAlice), await registered(ofBob)]
    expect(await register(ofAlice, his)).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect(await register(ofBob, hers)).toMatchObject({ status: 409, body: { error: 'conflict' } })
    const [one, other] = [newKey(), newKey()]
    expect([(await login(his, one)).status, (await login(hers, one)).status]).toEqual([201, 409])
    expect([(await login(hers, other)).status, (await login(his, other)).status]).toEqual([201, 409])
    expect((await login(hardware())).status).toBe(401)
  })
})

describe('A device key of an owner who was removed', () => {
  it('is found where the owner is who enrolled it since, by a replica that knew it too', async () => {
    const ofCarol = first.owners[carol]!
    const read = (as: TestOwner) => first.call(as, { target: '/owner/pending' })
    expect((await read(ofCarol)).status).toBe(200)
    const archives = await mkdtemp(join(tmpdir(), 'archives-'))
    closing.push(() => rm(archives, { recursive: true }))
    const actor = { kind: 'authority' } as const
    await (await removeOwner(first.database, { owner: carol, actor, archives })).finish()
    expect((await read(ofCarol)).status).toBe(401)
    const json = { name: 'hers once', jwk: publicJwk(ofCarol.key) }
    const enrolled = await first.call(ofBob, { method: 'POST', target: '/owner/device-keys', json })
    expect(enrolled.status).toBe(201)
    expect((await read({ ...ofBob, key: ofCarol.key })).status).toBe(200)
  })
})

describe('A removal that was killed before the directory was told', () => {
  it('gives back what it claimed over all cells when it is asked for again', async () => {
    const archives = await mkdtemp(join(tmpdir(), 'archives-'))
    closing.push(() => rm(archives, { recursive: true }))
    await (await removeOwner(east, { owner: bob, actor: { kind: 'authority' }, archives })).finish()
    const { db } = first.database
    const kid = ofBob.key.thumbprint
    expect(await placedBy(db, 'device_key', kid)).toMatchObject({ owner: bob })
    const again = promisify(execFile)(
      process.execPath,
      [usherProgram(), 'authority', 'owner', 'remove', bob, '--archives', archives],
      {
        env: {
          PATH: process.env['PATH'] ?? '',
          DATABASE_URL: first.database.url,
          UMA_AS_CELLS: `east=${east.url}`,
        },
      },
    )
    await expect(again).rejects.toMatchObject({
      stderr: expect.stringContaining('bob was removed already') as string,
    })
    expect(await placedBy(db, 'device_key', kid)).toBeUndefined()
    const json = { name: 'his once', jwk: publicJwk(ofBob.key) }
    const enrolled = await first.call(ofAlice, { method: 'POST', target: '/owner/device-keys', json })
    expect(enrolled.status).toBe(201)
  })
})
