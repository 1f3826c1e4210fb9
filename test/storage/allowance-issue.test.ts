/**
 * Grants within an allowance as they are issued, by many at once on a real Postgres: contract, "Grant answer
 * (beat 4)", "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import type { Db, Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { GrantsFull } from '../../src/storage/authority/grants/issue.ts'
import { recordWithin } from '../../src/storage/authority/grants/issue-allowance.ts'
import { UNSPENT_MAX } from '../../src/storage/authority/policies/allowance-windows.ts'
import { updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import {
  knownAgent,
  ownerWith,
  rowsOf,
  saveAllowance,
  take,
  usedOf,
  useOf,
  withinOf,
  type SpendingAgent,
  type Taking,
} from '../support/allowance-grants.ts'
import { raceRounds } from '../support/layer.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import * as seed from '../support/seed.ts'
import { replicatedStand } from '../support/stands.ts'
import { statementsSent } from '../support/statements-sent.ts'
import { until } from '../support/until.ts'

const CALLERS = 16
const { database, replica } = replicatedStand()
const nth = (n: number) => (n % 2 === 0 ? database : replica).db
const count = (outcomes: string[], outcome: string) => outcomes.filter(one => one === outcome).length

const CALLS = { of: 'calls', per: 'all', max: '5' }
const PRICE = { of: 'price', per: 'all', max: '1' }
const NOTHING = { grants: 0, places: 0, ledger: 0 }

async function agents(owner: Owner, howMany: number): Promise<SpendingAgent[]> {
  const known: SpendingAgent[] = []
  for (let n = 0; n < howMany; n++) known.push(await knownAgent(database.db, owner))
  return known
}

const RECORD = 'record-grant-within'

/** What the work finds, in a transaction that is taken back. */
async function takenBack(db: Db, work: (tx: Tx) => Promise<string>): Promise<string | undefined> {
  let found: string | undefined
  const back = new Error('taken back')
  await inTransaction(db, async tx => {
    found = await work(tx)
    throw back
  }).catch((error: unknown) => {
    if (error !== back) throw error
  })
  return found
}

describe('A grant within an allowance', () => {
  it('adds to every window, takes a place, is due at its end and is told in the ledger, all or nothing', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS, PRICE] })
    const [agent] = await agents(owner, 1)
    expect((await take(database.db, owner, agent!, { amount: '0.75' })).outcome).toBe('recorded')
    const written = [
      ['calls', 'all', '1'],
      ['price', 'all', '0.75'],
    ]
    expect(await usedOf(database.db, owner)).toEqual(written)
    const one = { grants: 1, places: 1, ledger: 1 }
    expect(await rowsOf(database.db, owner)).toEqual(one)
    expect((await take(database.db, owner, agent!, { amount: '0.25000001' })).outcome).toBe('beyond')
    expect(await usedOf(database.db, owner)).toEqual(written)
    expect(await rowsOf(database.db, owner)).toEqual(one)
    const { rows } = await sql<{ same: boolean; place: number }>`
      SELECT h.due_at = g.expires_at AS same, h.place FROM allowance_held h
      JOIN grants g ON g.owner = h.owner AND g.rpt_sha256 = h.rpt_sha256
      WHERE h.owner = ${owner} AND h.handle = ${agent!.handle}`.execute(database.db)
    expect(rows).toEqual([{ same: true, place: 1 }])
    expect((await take(database.db, owner, agent!, { amount: '0.25' })).outcome).toBe('recorded')
  })

  it('is never one that takes a window above its max, of however many asked for at once, at however many replicas', async () => {
    await seed.inRounds(raceRounds(20), 2, async () => {
      const owner = await ownerWith(database.db, { windows: [CALLS, { ...PRICE, max: '1.3' }] })
      const callers = await agents(owner, CALLERS)
      const taken = await seed.callers(CALLERS, n => take(nth(n), owner, callers[n]!, { amount: '0.3' }))
      const outcomes = taken.map(({ outcome }) => outcome)
      expect([count(outcomes, 'recorded'), count(outcomes, 'beyond')]).toEqual([4, CALLERS - 4])
      expect(await usedOf(database.db, owner)).toEqual([
        ['calls', 'all', '4'],
        ['price', 'all', '1.2'],
      ])
      expect(await rowsOf(database.db, owner)).toEqual({ grants: 4, places: 4, ledger: 4 })
    })
  })

  it('is beyond one that names a window twice, which nobody can save', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS, CALLS] })
    const [agent] = await agents(owner, 1)
    expect((await take(database.db, owner, agent!)).outcome).toBe('beyond')
    expect(await rowsOf(database.db, owner)).toEqual(NOTHING)
  })

  it('is one statement where its windows are made and nobody holds them', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS, PRICE] })
    const [agent] = await agents(owner, 1)
    const statementsOf = async (): Promise<string[]> => {
      const { rpt: _rpt, ...record } = await withinOf(database.db, owner, agent!, { amount: '0.1' })
      const { outcome, sent } = await statementsSent(owner, () => recordWithin(database.db, record))
      expect(outcome).toBe('recorded')
      return sent
    }
    expect(await statementsOf()).toEqual([RECORD, 'lock-allowance-windows', RECORD])
    expect(await statementsOf()).toEqual([RECORD])
    expect(await usedOf(database.db, owner)).toContainEqual(['calls', 'all', '2'])
  })

  it('waits for whoever holds a window, and then counts what that one took', async () => {
    const owner = await ownerWith(database.db, { windows: [{ ...CALLS, max: '1' }] })
    const [one, other] = await agents(owner, 2)
    const held = await withinOf(database.db, owner, one!)
    let waiting: Promise<string> | undefined
    await inTransaction(database.db, async tx => {
      expect(await recordWithin(tx, held)).toBe('recorded')
      waiting = take(replica.db, owner, other!).then(({ outcome }) => outcome)
      await until(async () => (await lockWaiters(database)) > 0)
    })
    expect(await waiting).toBe('beyond')
    expect(await usedOf(database.db, owner)).toEqual([['calls', 'all', '1']])
  })

  it('is one of at most five unspent ones of an agent, however many it asks for at once', async () => {
    await seed.inRounds(raceRounds(20), 2, async round => {
      const windows = round % 2 === 0 ? [] : [{ ...CALLS, max: '100' }]
      const owner = await ownerWith(database.db, { windows })
      const [agent, other] = await agents(owner, 2)
      await seed.callers(CALLERS, n => take(nth(n), owner, agent!))
      const later = async (): Promise<string> => (await take(database.db, owner, agent!)).outcome
      while ((await later()) === 'recorded') expect((await rowsOf(database.db, owner)).grants).toBeLessThan(6)
      expect(await rowsOf(database.db, owner)).toMatchObject({ grants: UNSPENT_MAX, places: UNSPENT_MAX })
      expect((await useOf(database.db, owner, agent!.handle)).unspent).toBe(UNSPENT_MAX)
      expect(await later()).toBe('beyond')
      expect((await take(database.db, owner, other!)).outcome).toBe('recorded')
    })
  })

  it('takes the next place, where another of the agent takes this one just now', async () => {
    const owner = await ownerWith(database.db)
    const [agent] = await agents(owner, 1)
    const other = await withinOf(database.db, owner, agent!)
    let waiting: Promise<string> | undefined
    await inTransaction(database.db, async tx => {
      expect(await recordWithin(tx, other)).toBe('recorded')
      waiting = take(replica.db, owner, agent!).then(({ outcome }) => outcome)
      await until(async () => (await lockWaiters(database)) > 0)
    })
    expect(await waiting).toBe('recorded')
    expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 2, places: 2 })
  })

  it('takes the one after that, where yet another of the agent takes the next one just then', async () => {
    const owner = await ownerWith(database.db)
    const [agent] = await agents(owner, 1)
    const other = await withinOf(database.db, owner, agent!)
    let waiting: Promise<string> | undefined
    await inTransaction(database.db, async second => {
      const { rows } = await sql<{ pid: number }>`
        INSERT INTO allowance_held (owner, allowance, handle, place, rpt_sha256, whose, expires_at, shares)
        VALUES (${owner}, 'weekend', ${agent!.handle}, 2, ${seed.bytes()}, '', now() + interval '1 minute', '[]')
        RETURNING pg_backend_pid() AS pid`.execute(second)
      await inTransaction(database.db, async first => {
        expect(await recordWithin(first, other)).toBe('recorded')
        waiting = take(replica.db, owner, agent!).then(({ outcome }) => outcome)
        await until(async () => (await lockWaiters(database)) > 0)
      })
      await until(async () => {
        const blocked =
          await sql`SELECT FROM pg_stat_activity WHERE ${rows[0]!.pid} = ANY(pg_blocking_pids(pid))`.execute(
            database.db,
          )
        return blocked.rows.length > 0
      })
    })
    expect(await waiting).toBe('recorded')
    expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 2, places: 3 })
  })

  it('is beyond it in a transaction of the caller’s, where another of the agent takes its place just now', async () => {
    const owner = await ownerWith(database.db)
    const [agent] = await agents(owner, 1)
    const one = await withinOf(database.db, owner, agent!)
    const other = await withinOf(database.db, owner, agent!)
    let waiting: Promise<string | undefined> | undefined
    await inTransaction(database.db, async tx => {
      expect(await recordWithin(tx, one)).toBe('recorded')
      waiting = takenBack(replica.db, within => recordWithin(within, other))
      await until(async () => (await lockWaiters(database)) > 0)
    })
    expect(await waiting).toBe('beyond')
    expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 1, places: 1 })
  })

  it('takes the place of one that was spent, and of no other', async () => {
    const owner = await ownerWith(database.db)
    const [agent] = await agents(owner, 1)
    const rpts: Buffer[] = []
    for (let n = 0; n < UNSPENT_MAX; n++) rpts.push((await take(database.db, owner, agent!)).rpt)
    const by = { client_id: seed.CLIENT_ID }
    expect(await consumeGrant(database.calls, owner, by, rpts[2]!)).toBeDefined()
    const next = await take(database.db, owner, agent!)
    expect([next.outcome, (await take(database.db, owner, agent!)).outcome]).toEqual(['recorded', 'beyond'])
    const { rows } = await sql<{ place: number; rpt_sha256: Buffer }>`
      SELECT place, rpt_sha256 FROM allowance_held WHERE owner = ${owner} ORDER BY place`.execute(database.db)
    const held = [rpts[0], rpts[1], next.rpt, rpts[3], rpts[4]]
    expect(rows.map(({ rpt_sha256 }) => rpt_sha256.toString('hex'))).toEqual(
      held.map(one => one!.toString('hex')),
    )
  })
})

describe('A grant that is not within the allowance as it is now', () => {
  const WINDOWS = { windows: [{ of: 'calls', per: 'month', max: '9' }] }
  type Change = (owner: Owner, agent: SpendingAgent) => Promise<Taking>
  const read = async (owner: Owner, agent: SpendingAgent): Promise<Required<Pick<Taking, 'use'>>> => ({
    use: await useOf(database.db, owner, agent.handle),
  })
  const changed = (change: (owner: Owner, agent: SpendingAgent) => Promise<unknown>): Change => {
    return async (owner, agent) => {
      const before = await read(owner, agent)
      await change(owner, agent)
      return before
    }
  }
  const inSeconds = (seconds: number): Change => {
    return async (owner, agent) => {
      const { use } = await read(owner, agent)
      return { use, expiresAt: Math.floor(use.now) + seconds }
    }
  }
  it.each<[string, Change]>([
    [
      'because it was edited',
      changed(owner => saveAllowance(database.db, owner, { ...WINDOWS, version: 2 })),
    ],
    [
      'because it has ended',
      changed(owner => saveAllowance(database.db, owner, { version: 2, until: '2020-01-01T00:00:00Z' })),
    ],
    [
      'because it is gone',
      changed(owner => sql`DELETE FROM allowances WHERE owner = ${owner}`.execute(database.db)),
    ],
    ['because it would live longer than hold_s', inSeconds(320)],
    ['because it would have ended already', inSeconds(-1)],
    [
      'because it would outlive its window',
      async (owner, agent) => {
        const { use } = await read(owner, agent)
        const windows = use.windows.map(one => ({
          ...one,
          ends: new Date((use.now + 5) * 1000).toISOString(),
        }))
        return { use: { ...use, windows }, expiresAt: Math.floor(use.now) + 30 }
      },
    ],
    [
      'because its window is not the present one any more',
      async (owner, agent) => {
        const { use } = await read(owner, agent)
        const windows = use.windows.map(one => ({ ...one, start: '2026-01-01 00:00:00+00' }))
        return { use: { ...use, windows }, expiresAt: Math.floor(use.now) + 30 }
      },
    ],
    [
      'because the resource takes only what she signs',
      changed(owner =>
        sql`UPDATE resources SET approval = 'signed' WHERE owner = ${owner}`.execute(database.db),
      ),
    ],
    [
      'because its tier was edited',
      changed(owner => inTransaction(database.db, tx => updateTier(tx, seed.tierOf(owner, true), undefined))),
    ],
    [
      'because the connection was revoked',
      changed((owner, { handle }) =>
        inTransaction(database.db, tx => revokeConnection(tx, owner, handle, seed.ACTOR)),
      ),
    ],
  ])('is weighed again, and nothing is written, %s', async (_why, change) => {
    const owner = await ownerWith(database.db, WINDOWS)
    const [agent] = await agents(owner, 1)
    const { use, ...taking } = await change(owner, agent!)
    const { ledger } = await rowsOf(database.db, owner)
    // What its tier says now, so that nothing but the named reason is there.
    const record = await withinOf(database.db, owner, agent!, { use: use!, ...taking })
    const tier = { tier_version: 1, tier_epoch: 1 }
    expect(await recordWithin(database.db, { ...record, grant: { ...record.grant, ...tier } })).toBe(
      'facts-moved',
    )
    expect(await usedOf(database.db, owner)).toEqual([])
    expect(await rowsOf(database.db, owner)).toEqual({ ...NOTHING, ledger })
  })

  it('is weighed again at until, too', async () => {
    const soon = new Date(Date.now() + 60_000).toISOString()
    const owner = await ownerWith(database.db, { until: soon })
    const [agent] = await agents(owner, 1)
    const { use } = await read(owner, agent!)
    const late = { use, expiresAt: Math.floor(use.now) + 120 }
    expect((await take(database.db, owner, agent!, late)).outcome).toBe('facts-moved')
    expect((await take(database.db, owner, agent!)).outcome).toBe('recorded')
  })

  it('is beyond it if Postgres does not know its zone any more, also in a transaction of the caller’s', async () => {
    const owner = await ownerWith(database.db, WINDOWS)
    const [agent] = await agents(owner, 1)
    const before = await read(owner, agent!)
    const record = await withinOf(database.db, owner, agent!, before)
    await sql`UPDATE allowances SET zone = 'Former/Zone' WHERE owner = ${owner}`.execute(database.db)
    expect(await recordWithin(database.db, record)).toBe('beyond')
    expect(await takenBack(database.db, tx => recordWithin(tx, record))).toBe('beyond')
    expect(await usedOf(database.db, owner)).toEqual([])
    expect(await rowsOf(database.db, owner)).toEqual(NOTHING)
  })

  it('is weighed again by what moved while it waited for a window', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS] })
    const [one, other] = await agents(owner, 2)
    expect((await take(database.db, owner, one!)).outcome).toBe('recorded')
    const held = await withinOf(database.db, owner, one!)
    let waiting: Promise<string> | undefined
    await inTransaction(database.db, async tx => {
      expect(await recordWithin(tx, held)).toBe('recorded')
      waiting = take(replica.db, owner, other!).then(({ outcome }) => outcome)
      await until(async () => (await lockWaiters(database)) > 0)
      await inTransaction(replica.db, aside => revokeConnection(aside, owner, other!.handle, seed.ACTOR))
    })
    expect(await waiting).toBe('facts-moved')
    expect(await usedOf(database.db, owner)).toEqual([['calls', 'all', '2']])
  })

  it('is beyond it by what others took since it was weighed', async () => {
    const owner = await ownerWith(database.db, { windows: [{ ...CALLS, max: '1' }] })
    const [agent, other] = await agents(owner, 2)
    const before = await read(owner, agent!)
    expect((await take(database.db, owner, other!)).outcome).toBe('recorded')
    expect((await take(database.db, owner, agent!, before)).outcome).toBe('beyond')
    expect(await usedOf(database.db, owner)).toEqual([['calls', 'all', '1']])
  })
})

describe('A grant within an allowance of an owner who has her most', () => {
  it('is refused as any other, and takes nothing', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS] })
    const [agent] = await agents(owner, 1)
    for (let n = 0; n < 2; n++)
      expect((await take(database.db, owner, agent!, { most: 2 })).outcome).toBe('recorded')
    await expect(take(database.db, owner, agent!, { most: 2 })).rejects.toThrow(GrantsFull)
    expect(await usedOf(database.db, owner)).toEqual([['calls', 'all', '2']])
    expect((await rowsOf(database.db, owner)).grants).toBe(2)
  })
})
