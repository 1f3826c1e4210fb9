/**
 * Leased liveness on a real Postgres: who is waited for, how long, and that no act forgets it (ADR 0021).
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLeaseSweep } from '../../src/authority/protection/lease-sweep.ts'
import { blockAgent } from '../../src/storage/authority/connections/blocked-agents.ts'
import {
  blockOperator,
  endEveryConnection,
  revokeConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { openDatabase, type Tx } from '../../src/storage/authority/database.ts'
import { readLeasedGrant } from '../../src/storage/authority/grants/read.ts'
import { endWithin } from '../../src/storage/authority/joint/joint-ends.ts'
import {
  deleteSilent,
  endHolder,
  insertHolder,
  letGo,
  onLetGo,
  readDropCounts,
  renewHolder,
  type LetGo,
  type LeaseHolderReading,
} from '../../src/storage/authority/grants/leases.ts'
import {
  endMembership,
  insertMembership,
  updateMembership,
  writeReached,
} from '../../src/storage/authority/membership/membership.ts'
import {
  blockAgents,
  endAdmittedWithin,
  endAgent,
} from '../../src/storage/authority/membership/organization-acts.ts'
import { suspendOwner } from '../../src/storage/authority/owners/owner-lives.ts'
import { decideResourceServer } from '../../src/storage/authority/registry/registrations.ts'
import { beginRemoval } from '../../src/storage/authority/owners/removals.ts'
import { deleteTier, takeOut, updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { endsLeases, withLeaseWait } from '../../src/storage/core/after-commit.ts'
import { inTransaction, STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { asClientId, asHandle, asOwner, type Owner } from '../../src/wire/identifiers.ts'
import { LEASE_SETTLEMENT_MS, LEASE_SILENT_MS } from '../../src/wire/resources/leases.ts'
import { refuse } from '../../src/wire/refusal.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { freshDatabase } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { severableLink } from '../support/severable-link.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const database = coreStand()

const CLIENT = { client_id: seed.CLIENT_ID, generation: 1 }

async function hold(owner: Owner, at = database): Promise<string> {
  const made = await inTransaction(at.db, tx => insertHolder(tx, { owner, ...CLIENT }))
  if (typeof made === 'string') throw new Error(`no lease: ${made}`)
  return made.id
}

/** Says for a sidecar that it let go, as soon as it is asked, until the test ends or that is called. */
function answering(owner: Owner, id: string): () => Promise<void> {
  const over = new AbortController()
  const holder = { owner, ...CLIENT, id }
  const answers = (async () => {
    for (let said = 0; !over.signal.aborted;) {
      const asked = await askedOf(owner, id)
      if (asked > said) await renewHolder(database.calls, holder, (said = asked))
      await new Promise(setImmediate)
    }
  })()
  const stop = async (): Promise<void> => {
    over.abort()
    await answers
    await endHolder(database.db, holder)
  }
  onTestFinished(stop)
  return stop
}

const askedOf = (owner: Owner, id: string) =>
  readDropCounts(database.db, owner, [id]).then(counts => counts.get(id) ?? 0)

/** Those who have not let go as often as they were asked, once somebody was. */
async function stillHolding(owner: Owner): Promise<string[]> {
  const { rows } = await sql<{ id: string; asked: number; acknowledged: number }>`
    SELECT id, asked, acknowledged FROM lease_holders WHERE owner = ${owner}`.execute(database.db)
  return rows.filter(({ asked, acknowledged }) => acknowledged < asked).map(({ id }) => id)
}

/** Resolves when two looks at who let go were sent: then the first of them was answered. */
async function twoMoreLooks(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let looks = 0
  const count = (message: unknown): void => {
    if ((message as SentStatement).text.includes('h.acknowledged < a.asked') && ++looks === 2) resolve()
  }
  subscribe(STATEMENTS_CHANNEL, count)
  await promise.finally(() => unsubscribe(STATEMENTS_CHANNEL, count))
}

const by = { by: 'owner', actor: seed.ACTOR }
const HANDLE = asHandle('jkt:nobody')
const VIEW = { issuer: 'https://org.example' } as Parameters<typeof insertMembership>[2]['view']
const under = (owner: Owner) => ({
  owner,
  membership: 'join',
  by: { by: 'administrator', actor: seed.ACTOR },
})

/** Each as it finds nothing to end, or little: even then it asks. */
const ACTS: Record<string, (tx: Tx, owner: Owner) => Promise<unknown>> = {
  'revoking a connection': (tx, owner) => revokeConnection(tx, owner, HANDLE, seed.ACTOR),
  'blocking an agent': (tx, owner) => blockAgent(tx, owner, HANDLE, seed.ACTOR),
  'ending every connection after a restore': endEveryConnection,
  'blocking an operator': (tx, owner) => blockOperator(tx, owner, 'https://op.example', seed.ACTOR),
  'suspending an owner': suspendOwner,
  'removing an owner': (tx, owner) => beginRemoval(tx, owner, seed.ACTOR),
  'saving a tier': (tx, owner) => updateTier(tx, seed.tierOf(owner, false), undefined),
  'deleting a tier': (tx, owner) => deleteTier(tx, owner, seed.TIER, undefined),
  'deleting a tier that is gone': (tx, owner) => deleteTier(tx, owner, 'gone', undefined),
  'taking resources out': (tx, owner) => takeOut(tx, owner, { resource_ids: [seed.resourceId(owner)] }),
  'withdrawing a resource server': (tx, owner) => decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked'),
  'joining an organization': (tx, owner) =>
    insertMembership(tx, owner, {
      issuer: VIEW.issuer,
      join_id: 'join',
      token: 'token',
      view: VIEW,
      administrators_may: [],
    }),
  'the end of a membership': endMembership,
  'a change of it that loses access': (tx, owner) => updateMembership(tx, owner, { loses: true }),
  'a change of it that may lose access': (tx, owner) => updateMembership(tx, owner, { loses: 'cleared' }),
  'what it governs from now on': (tx, owner) =>
    writeReached(tx, owner, [{ resource_id: seed.resourceId(owner), org: 'governed' }]),
  'an organization that ends an agent': (tx, owner) => endAgent(tx, under(owner), HANDLE),
  'an organization that blocks an operator': (tx, owner) =>
    blockAgents(tx, under(owner), 'https://op.example'),
  'the end of what its administrators admitted': (tx, owner) => endAdmittedWithin(tx, owner, by),
  'leaving a joint account': (tx, owner) => endWithin(tx, owner, asOwner('joint'), { actor: seed.ACTOR }),
}

describe('an act that may end a grant', () => {
  it.each(Object.entries(ACTS))('asks every holder, and waits for it: %s', async (_what, act) => {
    const owner = await seed.seedOwner(database.db)
    const id = await hold(owner)
    answering(owner, id)
    const [, settled] = await withLeaseWait(() => inTransaction(database.db, tx => act(tx, owner)))
    expect(settled).toMatchObject({ holders: 1, acknowledged: 1 })
    expect(await askedOf(owner, id)).toBe(1)
  })

  it('asks nobody if nobody holds a lease, and no holder of another owner', async () => {
    const [owner, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    const id = await hold(other)
    const [, settled] = await withLeaseWait(() => inTransaction(database.db, tx => endMembership(tx, owner)))
    expect(settled).toBeUndefined()
    expect(await askedOf(other, id)).toBe(0)
  })

  it('asks whoever registered before it committed, too', async () => {
    const owner = await seed.seedOwner(database.db)
    const trip = () => sql`SELECT 1`.execute(database.db)
    // Connections that are open, so that whoever would read too early is not kept from it by opening one.
    await seed.callers(6, () => inTransaction(database.db, async () => void (await trip())))
    const id = await inTransaction(database.db, async tx => {
      await revokeConnection(tx, owner, HANDLE, seed.ACTOR)
      for (let times = 0; times < 5; times++) await trip()
      const registered = await hold(owner)
      answering(owner, registered)
      return registered
    })
    expect(await askedOf(owner, id)).toBe(1)
  })

  it('asks if it is refused, for what it would end may have ended before it', async () => {
    const owner = await seed.seedOwner(database.db)
    const id = await hold(owner)
    answering(owner, id)
    const refused = inTransaction(database.db, async tx => {
      await deleteTier(tx, owner, 'gone', undefined)
      refuse('not_found', 'You have no such tier.')
    })
    await expect(refused).rejects.toThrow('not_found')
    expect(await askedOf(owner, id)).toBe(1)
  })

  it('is not one outside of a transaction: nobody could be waited for', () => {
    expect(() => endsLeases(database.db, asOwner('alice'))).toThrow('in a transaction')
  })
})

describe('the wait', () => {
  it('ends no sooner than the time of a lease after the commit, if a holder does not answer', async () => {
    const owner = await seed.seedOwner(database.db)
    await hold(owner)
    const committedAt = performance.now() - 1_500
    expect(await letGo(database.db, owner, committedAt)).toMatchObject({ holders: 1, acknowledged: 0 })
    const waited = performance.now() - committedAt
    expect(waited).toBeGreaterThanOrEqual(LEASE_SETTLEMENT_MS)
  })

  it('tells which resource server did not answer', async () => {
    const told: LetGo[] = []
    onLetGo(database.db, done => void told.push(done))
    const owner = await seed.seedOwner(database.db)
    answering(owner, await hold(owner))
    await hold(owner)
    await letGo(database.db, owner, performance.now())
    expect(told).toMatchObject([
      { owner, holders: 2, acknowledged: 1, silent: [seed.CLIENT_ID], blind: false },
    ])
  })

  it('is for the whole time if Postgres is lost after the commit, and the act is done', async () => {
    const link = await severableLink(database.url)
    const through = openDatabase({ url: link.url, poolMax: 4 })
    onTestFinished(async () => {
      link.mend()
      await through.close()
      await link.close()
    })
    const owner = await seed.seedOwner(database.db)
    const id = await hold(owner)
    const committedAt = performance.now()
    link.cut()
    expect(await letGo(through.db, owner, committedAt)).toMatchObject({ blind: true })
    expect(performance.now() - committedAt).toBeGreaterThanOrEqual(LEASE_SETTLEMENT_MS)
    expect(await askedOf(owner, id)).toBe(0)
  })

  it.each([
    [
      'tells as before of a Postgres that is silent at its very end',
      1_600,
      { acknowledged: 1, blind: false },
    ],
    [
      'does not take a Postgres that is silent for long for silent sidecars',
      0,
      { acknowledged: 0, blind: true },
    ],
  ])('%s', async (_what, waitedMs, told) => {
    const link = await severableLink(database.url)
    const through = openDatabase({ url: link.url, poolMax: 4 })
    onTestFinished(async () => {
      link.cut()
      await through.close()
      await link.close()
    })
    const owner = await seed.seedOwner(database.db)
    const stop = answering(owner, await hold(owner))
    const silent = await hold(owner)
    const done = letGo(through.db, owner, performance.now() - waitedMs)
    await until(async () => (await stillHolding(owner)).join() === silent)
    await Promise.race([twoMoreLooks(), done])
    link.freeze()
    expect(await done).toMatchObject({ holders: 2, ...told })
    await stop()
  })

  it('takes no acknowledgement but that of the holder itself', async () => {
    const owner = await seed.seedOwner(database.db)
    const holder = { owner, ...CLIENT, client_id: asClientId('another'), id: await hold(owner) }
    const over = new AbortController()
    const done = letGo(database.db, owner, performance.now() - 1_500).finally(() => over.abort())
    while (!over.signal.aborted) expect(await renewHolder(database.calls, holder, 1_000)).toBeUndefined()
    expect(await done).toMatchObject({ holders: 1, acknowledged: 0 })
  })

  it('is for whoever registers while an act is under way, or what he is answered is that it ended', async () => {
    const owner = await seed.seedOwner(database.db)
    let waitedFor = 0
    for (let round = 0; round < 20; round++) {
      const handle = seed.name('jkt:')
      const generation = await seed.seedConnection(database.db, owner, handle)
      const rptSha256 = await seed.seedGrant(database.db, owner, handle, generation)
      const register = async () => {
        const lease = await hold(owner)
        return { lease, stop: answering(owner, lease) }
      }
      const before = round % 2 === 0 ? await register() : undefined
      const [{ lease, stop, reading }] = await Promise.all([
        (async () => {
          const { lease, stop } = before ?? (await register())
          const question = { owner, clientId: seed.CLIENT_ID, rptSha256, lease }
          return { lease, stop, reading: await readLeasedGrant(database.calls, question) }
        })(),
        inTransaction(database.db, tx => revokeConnection(tx, owner, handle, seed.ACTOR)),
      ])
      const asked = await askedOf(owner, lease)
      await stop()
      const { leased = false, grant } = reading ?? {}
      if (!leased || grant?.connected !== true || !grant.current) continue
      waitedFor++
      expect(asked).toBeGreaterThan(0)
    }
    expect(waitedFor).toBeGreaterThan(0)
  })
})

describe('a lease', () => {
  it('is swept if it stood still for as long as one lasts, and not a moment before', async () => {
    const own = await freshDatabase()
    onTestFinished(() => own.close())
    const owner = await seed.seedOwner(own.db)
    const id = await hold(owner, own)
    let now = 0
    const sweep = createLeaseSweep({ database: own })
    const after = (ms: number): Promise<number> => {
      now += ms
      return sweep(() => now)
    }
    expect(await after(0)).toBe(1)
    expect(await after(LEASE_SILENT_MS - 1)).toBe(1)
    const asked = await renewHolder(own.calls, { owner, ...CLIENT, id }, 0)
    expect(asked).toBe(0)
    // From here on it counts anew.
    expect(await after(1)).toBe(1)
    expect(await after(LEASE_SILENT_MS - 1)).toBe(1)
    expect(await after(1)).toBe(0)
    expect(await renewHolder(own.calls, { owner, ...CLIENT, id }, 0)).toBeUndefined()
  })

  it('that is renewed while it is swept stays', async () => {
    const owner = await seed.seedOwner(database.db)
    const id = await hold(owner)
    let now = 0
    const sweep = createLeaseSweep({ database })
    await sweep(() => now)
    now += LEASE_SILENT_MS
    const renewed = () => renewHolder(database.calls, { owner, ...CLIENT, id }, 0)
    await Promise.all([renewed(), sweep(() => now)]).then(async ([answered]) =>
      expect(await renewed()).toBe(answered),
    )
  })

  it('is swept in the order in which holders are asked, so that neither waits for the other', async () => {
    const own = await freshDatabase()
    onTestFinished(() => own.close())
    const owner = await seed.seedOwner(own.db)
    for (let n = 0; n < 60; n++) await hold(owner, own)
    await sql`ANALYZE lease_holders`.execute(own.db)
    const { rows: held } = await sql<LeaseHolderReading>`
      SELECT owner, id, renewals FROM lease_holders WHERE owner = ${owner} ORDER BY id`.execute(own.db)
    const lock = (tx: Tx, { id }: LeaseHolderReading) =>
      sql`SELECT FROM lease_holders WHERE owner = ${owner} AND id = ${id} FOR UPDATE NOWAIT`.execute(tx)
    const { sweeping } = await inTransaction(own.db, async tx => {
      await lock(tx, held[0]!)
      const sweeping = deleteSilent(own.db, held.toReversed())
      await until(async () => (await lockWaiters(own)) === 1)
      // Not one of those that come later is locked meanwhile.
      await lock(tx, held.at(-1)!)
      return { sweeping }
    })
    expect(await sweeping).toHaveLength(60)
  })

  it('is given to no resource server that was withdrawn, and to at most 64 sidecars of one', async () => {
    const owner = await seed.seedOwner(database.db)
    const register = (generation: number) =>
      inTransaction(database.db, tx => insertHolder(tx, { owner, client_id: seed.CLIENT_ID, generation }))
    expect(await register(2)).toBe('withdrawn')
    for (let n = 0; n < 64; n++) await hold(owner)
    expect(await register(1)).toBe('too many')
  })

  it('of a resource server that was withdrawn is not kept up, and what it says counts', async () => {
    const own = await freshDatabase()
    onTestFinished(() => own.close())
    const told: LetGo[] = []
    onLetGo(own.db, done => void told.push(done))
    const owner = await seed.seedOwner(own.db)
    const id = await hold(owner, own)
    let now = 0
    const sweep = createLeaseSweep({ database: own })
    const withdrawn = inTransaction(own.db, tx => decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked'))
    await until(async () => (await readDropCounts(own.db, owner, [id])).get(id) === 1)
    expect(await sweep(() => now)).toBe(1)
    expect(await renewHolder(own.calls, { owner, ...CLIENT, id }, 1)).toBeUndefined()
    await withdrawn
    // Its word ended the wait, and not the time of a lease.
    expect(told).toMatchObject([{ holders: 1, acknowledged: 1 }])
    expect(told[0]!.waited_ms).toBeLessThan(LEASE_SETTLEMENT_MS)
    now += LEASE_SILENT_MS
    expect(await sweep(() => now)).toBe(0)
  })

  it('knows no acknowledgement of what nobody asked', async () => {
    const owner = await seed.seedOwner(database.db)
    const id = await hold(owner)
    await renewHolder(database.calls, { owner, ...CLIENT, id }, 1_000)
    expect(await letGo(database.db, owner, performance.now())).toMatchObject({ acknowledged: 0 })
  })
})
