/**
 * Her logins, in addition to her device keys: contract, "Authentication" (each sufficient, each revocable on
 * its own), "Events".
 */
import { sql } from 'kysely'
import { describe, expect, it, vi } from 'vitest'
import { changeAs, type OwnerCredential } from '../../src/authority/owner/credentials/guard.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { appendEvent } from '../../src/storage/authority/ledger/events.ts'
import { deleteLogin, loginId } from '../../src/storage/authority/credentials/logins.ts'
import { revokeDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { EventStreamReader, type ServerSentEvent } from '../../src/wire/event-stream.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type OwnerCall, type Reply } from '../support/authority.ts'
import {
  addKey,
  addLogin,
  newcomer,
  newcomerStand,
  PENDING,
  removeKey,
  removeLogin,
} from '../support/owner-credentials.ts'
import { realmEnvironment } from '../support/realm-authority.ts'
import * as seed from '../support/seed.ts'

const WAIT = { timeout: 60_000, interval: 10 }

const { both, alice, as, call } = newcomerStand()
const newKey = () => importPrivateJwk(generatePrivateJwk())
const accessToken = async (subject: string) => (await both.realm.login(subject)).access_token

describe('Logins', () => {
  it('are bound by a device key to whom the access token proves, and then suffice by themselves', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    expect((await both.bearing(token, PENDING)).status).toBe(401)
    const bound = await call(alice, addLogin(token))
    expect(bound).toMatchObject({
      status: 201,
      body: { name: 'realm', issuer: both.realm.issuer, subject: `of-${alice.owner}` },
    })
    expect((await both.bearing(token, PENDING)).status).toBe(200)
    expect((await call(alice, { target: '/owner/logins' })).body).toEqual([bound.body])
  })

  it('bind device keys in their turn', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    await call(alice, addLogin(token))
    const phone = newKey()
    expect((await both.bearing(token, addKey(phone))).status).toBe(201)
    expect((await call(as(phone), PENDING)).status).toBe(200)
  })

  it('are removed at once, the device key going on; and the other way round', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    expect((await call(alice, removeLogin(body.id as string))).status).toBe(200)
    expect((await both.bearing(token, PENDING)).status).toBe(401)
    expect((await call(alice, PENDING)).status).toBe(200)
    await call(alice, addLogin(token))
    expect((await both.bearing(token, removeKey(alice.key))).status).toBe(200)
    expect((await call(alice, PENDING)).status).toBe(401)
    expect((await both.bearing(token, PENDING)).status).toBe(200)
  })

  it('may be bound anew once removed, here or at another owner', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    const bea = await newcomer(both)
    expect((await call(bea, addLogin(token))).status).toBe(409)
    await call(alice, removeLogin(body.id as string))
    expect((await call(bea, addLogin(token))).status).toBe(201)
  })

  it('belong to one owner: hers and another’s is the same 409', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    await call(alice, addLogin(token))
    const hers = await call(alice, addLogin(token))
    const another = await call(await newcomer(both), addLogin(token))
    expect(hers).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect(another.text).toBe(hers.text)
  })

  it('are never bound by a claim: without a good access token it is 400', async () => {
    const id = (await both.realm.login('sub-x')).id_token
    const expired = await both.realm.sign({ ...both.realm.claims('sub-x'), exp: 1 })
    for (const token of [id, expired, 'sub-x', `${await accessToken('sub-x')}x`]) {
      const reply = await call(alice, addLogin(token))
      expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
      expect(reply.body.error_description).toMatch(/^access_token: /)
    }
    const claimed = { name: 'realm', issuer: both.realm.issuer, subject: 'sub-x' }
    expect((await call(alice, { method: 'POST', target: '/owner/logins', json: claimed })).status).toBe(400)
  })

  it('that are not hers cannot be removed: foreign and unknown are the same 404', async () => {
    const bea = await newcomer(both)
    const token = await accessToken(`of-${bea.owner}`)
    const { body } = await call(bea, addLogin(token))
    const foreign = await call(alice, removeLogin(body.id as string))
    const unknown = await call(alice, removeLogin('unknown'))
    expect(foreign.status).toBe(404)
    expect(foreign.text).toBe(unknown.text)
    expect((await both.bearing(token, PENDING)).status).toBe(200)
  })

  it('whose names differ only where they meet are not each other', () => {
    const { issuer } = both.realm
    expect(loginId({ issuer: `${issuer} a`, subject: 'b' })).not.toBe(loginId({ issuer, subject: 'a b' }))
    expect(loginId({ issuer: `${issuer}","a`, subject: 'b' })).not.toBe(loginId({ issuer, subject: 'a","b' }))
  })
})

describe('The last credential', () => {
  it('is not removed: 409, and it stands', async () => {
    const reply = await call(alice, removeKey(alice.key))
    expect(reply).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect((await call(alice, PENDING)).status).toBe(200)
  })

  it('is also the last login', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    await both.bearing(token, removeKey(alice.key))
    expect((await both.bearing(token, removeLogin(body.id as string))).status).toBe(409)
    expect((await both.bearing(token, PENDING)).status).toBe(200)
  })

  it('is the last that is taken here: one of a kind that is switched off is no help', async () => {
    await call(alice, addLogin(await accessToken(`of-${alice.owner}`)))
    const environment = { ...realmEnvironment(both.realm.issuer), UMA_AS_OWNER_AUTH: 'device-key' }
    const replica = await startTestAuthority({ beside: both.authority, environment })
    expect((await replica.call(alice, removeKey(alice.key))).status).toBe(409)
    expect((await replica.call(alice, addLogin('x'))).status).toBe(409)
    await replica.close()
  })

  it('is one of two that remove each other at once: one stays', async () => {
    for (let round = 0; round < 5; round++) {
      const laptop = await newcomer(both)
      const phone = newKey()
      await call(laptop, addKey(phone))
      const replies = await Promise.all([
        call(laptop, removeKey(phone)),
        call({ ...laptop, key: phone }, removeKey(laptop.key)),
      ])
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 401])
    }
  })
})

describe('A request that races the revocation of its own key', () => {
  it('changes nothing: the key is looked at anew inside the change', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    await races(
      revoke => call(as(phone), revoke),
      tx => revokeDeviceKey(tx, alice.owner, phone.thumbprint),
    )
  })

  it('or of its own login: the same', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    await races(
      revoke => both.bearing(token, revoke),
      tx => deleteLogin(tx, alice.owner, body.id as string),
    )
  })

  /**
   * The request is judged while its credential is in force, and then waits for its turn behind the change
   * that ends it.
   */
  async function races(
    send: (revoke: OwnerCall) => Promise<Reply>,
    end: (tx: Tx) => Promise<unknown>,
  ): Promise<void> {
    const { db } = both.authority.database
    const handle = seed.name('jkt:')
    await seed.seedConnection(db, alice.owner, handle)
    const revoke: OwnerCall = { method: 'POST', target: '/owner/connections/revoke', json: { handle } }
    const { request } = await inTransaction(db, async tx => {
      await lockQueue(tx, alice.owner)
      const racing = send(revoke)
      await vi.waitFor(async () => expect(await waitingForQueue()).toBeGreaterThan(0), WAIT)
      await end(tx)
      return { request: racing }
    })
    expect(await request).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    const { body } = await call(alice, { target: '/owner/connections' })
    expect((body as { status: string }[]).map(({ status }) => status)).toEqual(['active'])
  }

  /** Statements that wait for a row lock in this database. */
  async function waitingForQueue(): Promise<number> {
    const { rows } = await sql<{ waiting: number }>`
      SELECT count(*)::int AS waiting FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(both.authority.database.db)
    return rows[0]!.waiting
  }
})

describe('A change under a credential', () => {
  it('begins only where the credential still stands', async () => {
    const credential: OwnerCredential = {
      owner: alice.owner,
      id: alice.key.thumbprint,
      actor: { kind: 'owner', credential: 'device_key', kid: alice.key.thumbprint },
      spend: async () => {
        throw new Error('it stands no more')
      },
    }
    let ran = false
    const change = changeAs(both.authority as never, credential, async () => {
      ran = true
    })
    await expect(change).rejects.toThrow('it stands no more')
    expect(ran).toBe(false)
  })
})

describe('What happens to credentials', () => {
  it('stands in the ledger and is pushed to her portal', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    await call(alice, removeKey(phone))
    const { body } = await call(alice, { target: '/owner/ledger' })
    const actor = { kind: 'owner', credential: 'device_key', kid: alice.key.thumbprint }
    const told = { kid: phone.thumbprint, by: 'owner', actor }
    expect(body.entries).toMatchObject([
      { kind: 'credential_added', ...told },
      { kind: 'credential_removed', ...told },
    ])
    const { rows } = await sql<{ event: string; data: unknown }>`
      SELECT event, data FROM events WHERE owner = ${alice.owner} ORDER BY id`.execute(
      both.authority.database.db,
    )
    expect(rows).toMatchObject([
      { event: 'credential_added', data: told },
      { event: 'credential_removed', data: told },
    ])
  })

  it('names the login that did it, if she did it logged in', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body: bound } = await call(alice, addLogin(token))
    const phone = newKey()
    expect((await both.bearing(token, addKey(phone))).status).toBe(201)
    const { body } = await call(alice, { target: '/owner/ledger?after=1' })
    expect(body.entries).toMatchObject([
      {
        kind: 'credential_added',
        kid: phone.thumbprint,
        by: 'owner',
        actor: { kind: 'owner', credential: 'login', id: bound.id },
      },
    ])
  })
})

describe('An event stream ends when its credential does', () => {
  async function open(
    headers: Record<string, string>,
  ): Promise<{ events: ServerSentEvent[]; ended: Promise<void> }> {
    const response = await fetch(`${both.authority.ownerUrl}/owner/events`, { headers })
    expect(response.status).toBe(200)
    const reader = new EventStreamReader()
    const events: ServerSentEvent[] = []
    const ended = (async () => {
      for await (const chunk of response.body!) events.push(...reader.read(chunk))
    })()
    return { events, ended }
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  it('its login is removed', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    const stream = await open(bearer(token))
    await call(alice, removeLogin(body.id as string))
    await stream.ended
    // Not even its own removal is told to what was removed.
    expect(stream.events.map(({ type }) => type)).toEqual([])
  })

  it('its device key is revoked, over the API', async () => {
    const phone = newKey()
    await call(alice, addKey(phone))
    const stream = await open(both.authority.prepare(as(phone), { target: '/owner/events' }).headers)
    await call(alice, removeKey(phone))
    await stream.ended
    expect(stream.events).toEqual([])
  })

  it('its token expires, without waiting for an event or a heartbeat', async () => {
    const subject = `of-${alice.owner}`
    await call(alice, addLogin(await accessToken(subject)))
    const exp = Math.floor(Date.now() / 1000) + 10
    const stream = await open(bearer(await both.realm.sign({ ...both.realm.claims(subject), exp })))
    const { owner } = alice
    await inTransaction(both.authority.database.db, tx => appendEvent(tx, owner, 'decided', { n: 1 }))
    await stream.ended
    const late = Date.now() / 1000 - exp
    expect(late).toBeGreaterThanOrEqual(0)
    expect(late).toBeLessThan(10)
    expect(stream.events.map(({ type }) => type)).toEqual(['decided'])
  })

  it('while one of another credential goes on', async () => {
    const token = await accessToken(`of-${alice.owner}`)
    const { body } = await call(alice, addLogin(token))
    const stream = await open(both.authority.prepare(alice, { target: '/owner/events' }).headers)
    await call(alice, removeLogin(body.id as string))
    await vi.waitFor(
      () => expect(stream.events.map(({ type }) => type)).toEqual(['credential_removed']),
      WAIT,
    )
    await call(alice, addKey(newKey()))
    await vi.waitFor(() => expect(stream.events).toHaveLength(2), WAIT)
  })
})
