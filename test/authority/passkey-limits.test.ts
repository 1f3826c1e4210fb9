/**
 * How much passkeys of one owner, and callers that try them, may take from others: contract, "What the
 * service does" (many owners at one authority), "Limits", "Authentication" (owner at the owner API).
 */
import { sql } from 'kysely'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { newCode } from '../../src/authority/owner/credentials/enrolment.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { OwnerCall, Reply, TestOwner } from '../support/authority.ts'
import { hardware, passkeyCalls } from '../support/passkey-calls.ts'
import { base64url, ORIGIN, RP_ID } from '../support/passkeys.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { authorityStand } from '../support/stands.ts'
import { newKey } from '../support/wire-samples.ts'

/** Three times the connections of the pool. */
const FLOOD = 60
/** A caller who waits for a connection is told of an outage before. */
const SOON_MS = 10_000

const environment = { UMA_AS_PASSKEY_RP_ID: RP_ID, UMA_AS_PASSKEY_ORIGINS: ORIGIN }
const authority = authorityStand({ owners: ['alice', 'bea'], environment })
/** Counts by itself how often one source asks. */
const replica = authorityStand({ beside: authority, environment })
const { newOwner, register, registered, loginCall, login, ledger } = passkeyCalls(authority)

/** An owner of her own, with one device key. */
let alice: TestOwner
beforeEach(async () => {
  alice = await newOwner()
})

describe('While the rows of one owner are held', () => {
  const logins = async (): Promise<(() => Promise<Reply>)[]> => {
    const passkey = await registered(alice)
    const flood = Array.from({ length: FLOOD }, async () => {
      const key = newKey()
      const call = await loginCall(passkey, key)
      return () => authority.call({ ...alice, key }, call)
    })
    return Promise.all(flood)
  }
  const codes = async (): Promise<(() => Promise<Reply>)[]> => {
    const { tag } = await authority.database.db
      .selectFrom('owners')
      .select('tag')
      .where('owner', '=', alice.owner)
      .executeTakeFirstOrThrow()
    return Array.from({ length: FLOOD }, () => () => {
      const key = newKey()
      const json = { code: newCode(tag), name: 'browser', jwk: publicJwk(key) }
      return authority.call({ ...alice, key }, { method: 'POST', target: '/owner/enrolment', json })
    })
  }

  it.each([
    ['logins by her passkey', logins],
    ['codes for her', codes],
  ])('%s keep nobody else waiting', async (_what, made) => {
    const bea = authority.owners['bea']!
    const calls = await made()
    const stopped = await authority.database.pool.connect()
    await stopped.query(`BEGIN; SELECT * FROM queues WHERE owner = '${alice.owner}' FOR UPDATE`)
    const flood = Promise.all(calls.map(call => call()))
    await vi.waitFor(async () => expect(await waitingForLocks()).toBeGreaterThan(5), 60_000)
    const took: number[] = []
    for (let n = 0; n < 10; n++) {
      const since = performance.now()
      expect((await authority.call(bea, { target: '/owner/pending' })).status).toBe(200)
      took.push(performance.now() - since)
    }
    await stopped.query('ROLLBACK')
    stopped.release()
    await flood
    expect(Math.max(...took)).toBeLessThan(SOON_MS)
  })

  async function waitingForLocks(): Promise<number> {
    const { rows } = await sql<{ waiting: string }>`
      SELECT count(*) AS waiting FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(authority.database.db)
    return Number(rows[0]!.waiting)
  }
})

describe('Wrong logins by passkeys', () => {
  const code = (): Promise<Reply> => {
    const key = newKey()
    const json = { code: newCode('nobody'), name: 'browser', jwk: publicJwk(key) }
    return replica.call({ ...alice, key }, { method: 'POST', target: '/owner/enrolment', json })
  }
  const wrong = async (times: number): Promise<Reply[]> => {
    const key = newKey()
    const call = await loginCall(hardware(), key)
    return Promise.all(Array.from({ length: times }, () => replica.call({ ...alice, key }, call)))
  }

  it('keep nobody at the same address from logging in or from using a code', async () => {
    const passkey = await registered(alice)
    expect(statuses(await wrong(50))).toEqual([401])
    const key = newKey()
    const right = await loginCall(passkey, key)
    expect((await replica.call({ ...alice, key }, right)).status).toBe(201)
    expect((await code()).status).toBe(401)
  })

  it('are answered 429 beyond a bound of work, which is no bound of codes', async () => {
    const empty: OwnerCall = { method: 'POST', target: '/owner/passkeys/login', json: {}, sign: false }
    const asked = Array.from({ length: 900 }, () => replica.call(alice, empty))
    const answers = await Promise.all(asked)
    expect(statuses(answers)).toEqual([400, 429])
    expect(answers.filter(({ status }) => status === 400).length).toBeGreaterThan(500)
    expect(answers.find(({ status }) => status === 429)!.headers.get('retry-after')).toMatch(/^[1-9]/)
    expect((await code()).status).toBe(401)
  })
})

describe('A login by a passkey that is refused', () => {
  it('tells nobody whether the passkey is registered', async () => {
    const [standing, removed] = [await registered(alice), await registered(alice)]
    const removal: OwnerCall = { method: 'DELETE', target: `/owner/passkeys/${removed.id}` }
    expect((await authority.call(alice, removal)).status).toBe(200)
    const wrongly = { clientData: { challenge: base64url('no') } }
    const answers = [
      await login(hardware(), newKey(), { assertion: wrongly }),
      await login(removed, newKey(), { assertion: wrongly }),
      await login(removed),
      await login(standing, newKey(), { assertion: wrongly }),
      await login(standing, newKey(), { assertion: { rpId: 'evil.example' } }),
      await login(standing, newKey(), { assertion: { flags: 0x01 } }),
    ]
    expect(statuses(answers)).toEqual([401])
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect(new Set(answers.map(({ headers }) => headers.get('www-authenticate'))).size).toBe(1)
  })
})

describe('One owner', () => {
  const have = (many: number): Promise<unknown> =>
    sql`INSERT INTO passkeys (owner, id, jwk, rp_id, name)
      SELECT owner, 'more-' || n, jwk, rp_id, name FROM passkeys, generate_series(1, ${many}) n
      WHERE owner = ${alice.owner}`.execute(authority.database.db)

  it('has no more than twenty passkeys, and may register one again once she removed one', async () => {
    const first = await registered(alice)
    await have(18)
    // Two at the same time: one has room.
    const both = await Promise.all([register(alice, hardware()), register(alice, hardware())])
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 409])
    expect(both.find(({ status }) => status === 409)).toMatchObject({
      body: { error: 'conflict', error_description: expect.stringContaining('Remove a passkey first') },
    })
    expect(await quotaRefusals(authority, 'passkeys')).toBe(1)
    const removal: OwnerCall = { method: 'DELETE', target: `/owner/passkeys/${first.id}` }
    expect((await authority.call(alice, removal)).status).toBe(200)
    await registered(alice)
  })

  it('has no more than fifty browsers that passkeys let in: the one let in first ends, and she is told', async () => {
    const passkey = await registered(alice)
    const [first, second] = [newKey(), newKey()]
    expect((await login(passkey, first)).status).toBe(201)
    expect((await login(passkey, second)).status).toBe(201)
    await sql`INSERT INTO session_keys (owner, kid, jwk, name, passkey, expires_at)
      SELECT owner, 'more-' || n, jwk, name, passkey, expires_at FROM session_keys, generate_series(1, 48) n
      WHERE kid = ${first.thumbprint}`.execute(authority.database.db)
    const pending = (key: PrivateKey): Promise<Reply> =>
      authority.call({ ...alice, key }, { target: '/owner/pending' })
    expect((await pending(first)).status).toBe(200)
    const further = newKey()
    expect((await login(passkey, further)).status).toBe(201)
    expect((await pending(first)).status).toBe(401)
    for (const key of [second, further]) expect((await pending(key)).status).toBe(200)
    expect(await ledger(alice, 'credential_removed')).toMatchObject([
      { credential: 'device_key', kid: first.thumbprint, passkey: passkey.id, by: 'passkey' },
    ])
  })
})

const statuses = (answers: Reply[]): number[] => [...new Set(answers.map(({ status }) => status))].toSorted()
