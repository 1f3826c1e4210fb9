/**
 * Shares of an allowance that are taken, spent, given back and edited at the same time at several replicas,
 * on a real Postgres: contract, "Policy vocabulary and tiers", "Single-use grant" (spent exactly once); an
 * addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { recordWithin, type WithinOutcome } from '../../src/storage/authority/grants/issue-allowance.ts'
import { returnShares, type ReturnClaim } from '../../src/storage/authority/policies/allowance-returns.ts'
import { UNSPENT_MAX } from '../../src/storage/authority/policies/allowance-windows.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import {
  ALLOWANCE,
  knownAgent,
  ownerWith,
  rowsOf,
  saveAllowance,
  take,
  usedOf,
  useOf,
  withinOf,
  type SpendingAgent,
} from '../support/allowance-grants.ts'
import { raceRounds } from '../support/layer.ts'
import { onlyOnce } from '../support/only-once.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const ROUNDS = raceRounds(40)
const AT_ONCE = 3
const CALLERS = 12
const REPLICAS = 4
const AMOUNT = '0.25'

const database = coreStand({ poolMax: 32, ...PATIENT })
let replicas: Database[]
beforeAll(() => {
  replicas = Array.from({ length: REPLICAS }, () =>
    openDatabase({ url: database.url, poolMax: 8, ...PATIENT }),
  )
})
afterAll(() => Promise.all(replicas.map(replica => replica.close())))
const nth = (n: number): Database => replicas[n % REPLICAS]!

/** Room for so many grants; without an end, so that no midnight comes between. */
const roomFor = (grants: number) => [
  { of: 'calls', per: 'all', max: '1000' },
  { of: 'price', per: 'all', max: String(grants * Number(AMOUNT)) },
]
/** What is used once so many grants hold a share, or were spent. */
const usedBy = (grants: number) => [
  ['calls', 'all', String(grants)],
  ['price', 'all', String(grants * Number(AMOUNT))],
]
const used = (owner: Owner) => usedOf(database.db, owner)
const agentsOf = (owner: Owner, count: number): Promise<SpendingAgent[]> =>
  seed.callers(count, () => knownAgent(database.db, owner))

interface Taken {
  outcome: WithinOutcome
  rpt: Buffer
}

/** Takes a share by what is used now, and again while that moves, as a request is weighed again. */
async function ask(owner: Owner, agent: SpendingAgent, at: Database): Promise<Taken> {
  for (;;) {
    const taken = await take(at.db, owner, agent, { amount: AMOUNT })
    if (taken.outcome !== 'facts-moved') return taken
  }
}

const count = (taken: readonly Taken[], outcome: WithinOutcome): number =>
  taken.filter(one => one.outcome === outcome).length
const isSpent = async (owner: Owner, rpt: Buffer, at = database): Promise<boolean> =>
  (await consumeGrant(at.calls, owner, { client_id: seed.CLIENT_ID }, rpt)) !== undefined
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

/** From so many milliseconds from now on, her grants that hold a place have expired, or this one has. */
async function expire(owner: Owner, milliseconds: number, rpt?: Buffer): Promise<void> {
  const at = sql`now() + ${milliseconds}::float8 * interval '1 millisecond'`
  const which = rpt === undefined ? sql`true` : sql`h.rpt_sha256 = ${rpt}`
  await sql`
    WITH moved AS (
      UPDATE grants SET expires_at = ${at} WHERE owner = ${owner}
        AND rpt_sha256 IN (SELECT h.rpt_sha256 FROM allowance_held h WHERE h.owner = ${owner} AND ${which}))
    UPDATE allowance_held h SET expires_at = ${at} WHERE h.owner = ${owner} AND ${which}`.execute(database.db)
}

/** All work that waits for her, as if each of several replicas had taken it. */
async function claimsOf(owner: Owner): Promise<ReturnClaim[]> {
  const { rows } = await sql<ReturnClaim>`
    SELECT owner, rpt_sha256, due_at::text AS until FROM allowance_held
    WHERE owner = ${owner}`.execute(database.db)
  return rows
}

async function giveBack(owner: Owner, at: Database): Promise<number> {
  const claims = await claimsOf(owner)
  return claims.length === 0 ? 0 : returnShares(at.db, claims)
}

describe('What there is of an allowance', () => {
  it('is spent and no more, whoever takes, spends, lets expire and gives back at the same time', async () => {
    const most = 6
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(most) })
      const agents = await agentsOf(owner, CALLERS)
      const spend = async (n: number): Promise<number> => {
        const { outcome, rpt } = await ask(owner, agents[n]!, nth(n))
        if (outcome !== 'recorded') return 0
        // Every third is left until it expires.
        if (n % 3 > 0) return Number(await isSpent(owner, rpt, nth(n + 1)))
        await expire(owner, 0, rpt)
        await giveBack(owner, nth(n + 1))
        return 0
      }
      const spent = sum(await seed.callers(CALLERS, n => spend(n)))
      await giveBack(owner, database)
      expect(await used(owner)).toEqual(usedBy(spent))
      let total = spent
      for (let n = 1; n < CALLERS; n += 3) total += await spend(n)
      expect(total).toBe(most)
      expect(await used(owner)).toEqual(usedBy(most))
    })
  })

  it('is the lineage’s, also while one of its agents is revoked and admitted again', async () => {
    const most = 8
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(most), among: 'lineage' })
      const introducer = await knownAgent(database.db, owner)
      const introduced = await knownAgent(database.db, owner, { introduced_by: introducer.handle })
      const { handle } = introduced
      const [taken] = await Promise.all([
        seed.callers(CALLERS, n =>
          take(nth(n).db, owner, [introducer, introduced][n % 2]!, { amount: AMOUNT }),
        ),
        inTransaction(nth(0).db, tx => revokeConnection(tx, owner, handle, seed.ACTOR)),
      ])
      const before = count(taken, 'recorded')
      expect(before).toBeLessThanOrEqual(most)
      // What it left unspent when it was revoked holds its share until it expires.
      expect(await used(owner)).toEqual(usedBy(before))
      const again = { handle, generation: await seed.seedConnection(database.db, owner, handle) }
      const more = await seed.callers(CALLERS, n => ask(owner, [introducer, again][n % 2]!, nth(n)))
      // Five unspent ones of each are more than there is.
      expect(before + count(more, 'recorded')).toBe(most)
      expect(await used(owner)).toEqual(usedBy(most))
      const { whose } = await useOf(database.db, owner, handle)
      expect(whose).toBe(introducer.handle)
      // Whoever it did not bring in has windows of its own.
      const another = await knownAgent(database.db, owner)
      expect((await ask(owner, another, nth(1))).outcome).toBe('recorded')
    })
  })

  it('is by an edit, once that has returned, whoever was weighed before', async () => {
    let refused = 0
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(1_000) })
      const agents = await agentsOf(owner, CALLERS)
      const uses = await seed.callers(CALLERS, n => useOf(database.db, owner, agents[n]!.handle))
      let isEdited = false
      const takers = seed.callers(CALLERS, async n => {
        const taken: (Taken & { isLate: boolean })[] = []
        for (let times = 0; times < 3; times++) {
          const isLate = isEdited
          const one = await take(nth(n).db, owner, agents[n]!, { amount: AMOUNT, use: uses[n]! })
          taken.push({ ...one, isLate })
        }
        return taken
      })
      await saveAllowance(database.db, owner, { windows: roomFor(2), version: 2 })
      isEdited = true
      const taken = (await takers).flat()
      const late = taken.filter(one => one.isLate)
      expect(count(late, 'facts-moved')).toBe(late.length)
      expect(count(taken, 'beyond')).toBe(0)
      refused += count(taken, 'facts-moved')
      const before = count(taken, 'recorded')
      expect(await used(owner)).toEqual(before === 0 ? [] : usedBy(before))
      const after = await seed.callers(CALLERS, n => ask(owner, agents[n]!, nth(n)))
      expect(count(after, 'recorded')).toBe(Math.max(0, 2 - before))
    })
    // Guards the test itself: edits that no request meets prove nothing.
    expect(refused).toBeGreaterThan(0)
  })
})

describe('Windows of an allowance', () => {
  it('never deadlock, whichever of them is named first, while other shares go back to them', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(1_000) })
      const idle = await knownAgent(database.db, owner)
      const agents = await agentsOf(owner, CALLERS)
      const uses = await seed.callers(CALLERS, n => useOf(database.db, owner, agents[n]!.handle))
      const expiring = await seed.callers(UNSPENT_MAX, n => ask(owner, idle, nth(n)))
      expect(count(expiring, 'recorded')).toBe(UNSPENT_MAX)
      await expire(owner, 0)
      const claims = await claimsOf(owner)
      // Past every retry: a deadlock would be told by its SQLSTATE.
      const outcomes = await Promise.allSettled([
        ...agents.map(async (agent, n) => {
          const use = uses[n]!
          const windows = n % 2 === 0 ? use.windows : use.windows.toReversed()
          const taking = { amount: AMOUNT, use: { ...use, windows } }
          const { rpt: _rpt, ...record } = await withinOf(database.db, owner, agent, taking)
          return onlyOnce(nth(n).db, tx => recordWithin(tx, record))
        }),
        ...replicas.map((replica, n) => returnShares(replica.db, n % 2 === 0 ? claims : claims.toReversed())),
      ])
      expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
      expect(await used(owner)).toEqual(usedBy(CALLERS))
    })
  })

  it('that ended days ago are swept, and nothing is lost of what is taken meanwhile', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(5) })
      await sql`
        INSERT INTO allowance_windows (owner, allowance, whose, of, per, start, ends, used)
        SELECT ${owner}, ${ALLOWANCE}, '', 'price', 'hour', ends - interval '1 hour', ends, 7
        FROM generate_series(now() - interval '4 days', now() - interval '2 days', '1 hour') AS ends`.execute(
        database.db,
      )
      const agents = await agentsOf(owner, CALLERS)
      const [taken] = await Promise.all([
        seed.callers(CALLERS, n => ask(owner, agents[n]!, nth(n))),
        seed.callers(REPLICAS, n => sweepOwner(nth(n).db, owner, 30)),
      ])
      await until(async () => (await sweepOwner(database.db, owner, 30)).rows === 0)
      expect(count(taken, 'recorded')).toBe(5)
      expect(await used(owner)).toEqual(usedBy(5))
    })
  })
})

describe('A share of an allowance', () => {
  it('is spent or goes back, and never both: at its last moment a consume or a return wins', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async round => {
      const owner = await ownerWith(database.db, { windows: roomFor(1) })
      const { rpt } = await ask(owner, await knownAgent(database.db, owner), database)
      const claims = await claimsOf(owner)
      const over = new AbortController()
      const untilOver = async <T>(attempt: () => Promise<T>): Promise<T[]> => {
        const outcomes: T[] = []
        do outcomes.push(await attempt())
        while (!over.signal.aborted)
        return outcomes
      }
      // So soon that in some rounds consumes come before, and in some after.
      await expire(owner, (round % 5) * 2)
      const consumers = seed.callers(REPLICAS, n => untilOver(() => isSpent(owner, rpt, nth(n))))
      const returners = seed.callers(REPLICAS, n => untilOver(() => returnShares(nth(n).db, claims)))
      const decided = untilDecided(owner).finally(() => over.abort())
      const spent = (await consumers).flat().filter(Boolean).length
      const returned = sum((await returners).flat())
      await decided
      expect(spent + returned).toBe(1)
      expect(await used(owner)).toEqual(usedBy(spent))
    })
  })

  it('goes back though its grant expired days ago and sweeps run: none removes it before', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await ownerWith(database.db, { windows: roomFor(3) })
      const agents = await agentsOf(owner, 3)
      const taken = await seed.callers(3, n => ask(owner, agents[n]!, nth(n)))
      expect(count(taken, 'recorded')).toBe(3)
      await expire(owner, -4 * 86_400_000)
      const claims = await claimsOf(owner)
      const [returned] = await Promise.all([
        seed.callers(REPLICAS, n => returnShares(nth(n).db, claims)),
        seed.callers(REPLICAS, n => sweepOwner(nth(n).db, owner, 100)),
      ])
      expect(sum(returned)).toBe(3)
      expect(await used(owner)).toEqual(usedBy(0))
      await sweepOwner(database.db, owner, 100)
      expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 0, places: 0 })
    })
  })
})

/** Resolves once the only grant of an owner is spent, or its share went back. */
const untilDecided = (owner: Owner): Promise<void> =>
  until(async () => {
    const { rows } = await sql`
      SELECT FROM grants WHERE owner = ${owner} AND (consumed_at IS NOT NULL OR returned_at IS NOT NULL)`.execute(
      database.db,
    )
    return rows.length === 1
  })
