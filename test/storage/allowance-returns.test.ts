/**
 * What grants took of an allowance and did not spend goes back, once, and nothing else: contract,
 * "Single-use grant", "Grant (RPT) liveness"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { endAfterRestore } from '../../src/authority/administration/after-restore.ts'
import { returnDue } from '../../src/authority/allowance-returns.ts'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { returnShares, takeReturns } from '../../src/storage/authority/policies/allowance-returns.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import {
  knownAgent,
  lapse,
  ownerWith,
  rowsOf,
  saveAllowance,
  take,
  usedOf,
  useOf,
  type SpendingAgent,
} from '../support/allowance-grants.ts'
import { raceRounds } from '../support/layer.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import * as seed from '../support/seed.ts'
import { replicatedStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const { database, replica } = replicatedStand()
const log = pino({ level: 'silent' })
const returnAll = (at = database) => returnDue({ database: at, log }, () => false)
const WINDOWS = {
  windows: [
    { of: 'calls', per: 'all', max: '100' },
    { of: 'price', per: 'month', max: '100' },
  ],
}
const consume = (owner: Owner, rpt: Buffer) =>
  consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)
const used = async (owner: Owner) => (await usedOf(database.db, owner)).map(([, , amount]) => amount)
const returnedAt = async (owner: Owner) => {
  const { rows } = await sql<{ back: boolean; spent: boolean }>`
    SELECT returned_at IS NOT NULL AS back, consumed_at IS NOT NULL AS spent FROM grants
    WHERE owner = ${owner} ORDER BY issued_at`.execute(database.db)
  return rows
}

async function spenders(
  howMany: number,
  members: object = WINDOWS,
): Promise<{ owner: Owner; agent: SpendingAgent; rpts: Buffer[] }> {
  const owner = await ownerWith(database.db, members)
  const agent = await knownAgent(database.db, owner)
  const rpts: Buffer[] = []
  for (let n = 0; n < howMany; n++) {
    const { outcome, rpt } = await take(database.db, owner, agent, { amount: '0.25' })
    expect(outcome).toBe('recorded')
    rpts.push(rpt)
  }
  return { owner, agent, rpts }
}

describe('The share of a grant that expired unspent', () => {
  it('goes back to each of its windows, and leaves its place', async () => {
    const { owner, agent } = await spenders(3)
    expect(await used(owner)).toEqual(['3', '0.75'])
    await returnAll()
    expect(await used(owner)).toEqual(['3', '0.75'])
    await lapse(database.db, owner)
    await returnAll()
    expect(await used(owner)).toEqual(['0', '0'])
    expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 3, places: 0 })
    expect((await useOf(database.db, owner, agent.handle)).unspent).toBe(0)
  })

  it('goes back though the connection was revoked, or the allowance edited or ended', async () => {
    const { owner, agent } = await spenders(2)
    await inTransaction(database.db, tx => revokeConnection(tx, owner, agent.handle, seed.ACTOR))
    await saveAllowance(database.db, owner, { version: 2, until: '2020-01-01T00:00:00Z' })
    expect(await used(owner)).toEqual(['2', '0.5'])
    await lapse(database.db, owner)
    await returnAll()
    expect(await used(owner)).toEqual(['0', '0'])
  })

  it('stays where the grant was spent, and the place is free', async () => {
    const { owner, rpts } = await spenders(2)
    expect(await consume(owner, rpts[0]!)).toBeDefined()
    await lapse(database.db, owner)
    await returnAll()
    expect(await used(owner)).toEqual(['1', '0.25'])
    expect(await returnedAt(owner)).toEqual([
      { back: false, spent: true },
      { back: true, spent: false },
    ])
    expect(await rowsOf(database.db, owner)).toMatchObject({ places: 0 })
  })

  it('stays where the grant is being spent just now: who gives it back waits and sees that', async () => {
    const { owner, rpts } = await spenders(1)
    await lapse(database.db, owner)
    const claims = await takeReturns(database.db, 60)
    let returning: Promise<number> | undefined
    await inTransaction(database.db, async tx => {
      await sql`
        UPDATE grants SET consumed_at = clock_timestamp()
        WHERE owner = ${owner} AND rpt_sha256 = ${rpts[0]!}`.execute(tx)
      returning = returnShares(replica.db, claims)
      await until(async () => (await lockWaiters(database)) > 0)
    })
    expect(await returning).toBe(0)
    expect(await used(owner)).toEqual(['1', '0.25'])
    expect(await rowsOf(database.db, owner)).toMatchObject({ places: 1 })
    await lapse(database.db, owner)
    await returnAll()
    expect(await used(owner)).toEqual(['1', '0.25'])
    expect(await rowsOf(database.db, owner)).toMatchObject({ places: 0 })
  })

  it('goes back once, however many give it back at once, while others take', async () => {
    await seed.inRounds(raceRounds(20), 1, async () => {
      const { owner } = await spenders(5)
      await lapse(database.db, owner)
      const claims = (await takeReturns(database.db, 60)).filter(claim => claim.owner === owner)
      const others = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
      const [returned] = await Promise.all([
        seed.callers(4, n => returnShares((n % 2 === 0 ? database : replica).db, claims)),
        seed.callers(6, n => take(replica.db, owner, others[n % 2]!, { amount: '0.25' })),
      ])
      expect(returned.reduce((sum, one) => sum + one, 0)).toBe(5)
      expect(await used(owner)).toEqual(['6', '1.5'])
      expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 11, places: 6 })
    })
  })

  it('stays after a restore to when it was unspent, because nobody knows whether it was spent since', async () => {
    const { owner } = await spenders(2)
    await endAfterRestore(database.db, new Date())
    await lapse(database.db, owner)
    await returnAll()
    expect(await used(owner)).toEqual(['2', '0.5'])
    expect(await rowsOf(database.db, owner)).toMatchObject({ places: 0 })
  })

  it('is due when it expires, also where its place was looked at before', async () => {
    const { owner } = await spenders(2)
    const due = sql`UPDATE allowance_held SET due_at = now() WHERE owner = ${owner}`
    const isDueThen = async () => {
      const { rows } = await sql<{ then: boolean }>`
        SELECT due_at = expires_at AS then FROM allowance_held WHERE owner = ${owner}`.execute(database.db)
      return rows.map(row => row.then)
    }
    // As a program from before places were due themselves leaves them.
    await due.execute(database.db)
    expect(await isDueThen()).toEqual([false, false])
    await returnAll()
    expect(await isDueThen()).toEqual([true, true])
    expect(await used(owner)).toEqual(['2', '0.5'])
  })

  it('is not given back by a cell that its owner leaves', async () => {
    const { owner } = await spenders(1)
    await lapse(database.db, owner)
    await sql`
      INSERT INTO moves (owner, move, state, cell) VALUES (${owner}, 'one', 'leaving', 'east')`.execute(
      database.db,
    )
    await returnAll()
    expect(await used(owner)).toEqual(['1', '0.25'])
    await sql`UPDATE moves SET state = 'here' WHERE owner = ${owner}`.execute(database.db)
    await returnAll()
    expect(await used(owner)).toEqual(['0', '0'])
  })

  it('is not given back while somebody else has the work, and is once he is gone', async () => {
    const { owner } = await spenders(1)
    await lapse(database.db, owner)
    const hers = (await takeReturns(database.db, 60)).filter(claim => claim.owner === owner)
    expect(hers).toHaveLength(1)
    await returnAll(replica)
    expect(await used(owner)).toEqual(['1', '0.25'])
    await lapse(database.db, owner)
    await returnAll(replica)
    expect(await used(owner)).toEqual(['0', '0'])
  })
})

describe('A grant whose share went back', () => {
  const clockSetBack = (owner: Owner) =>
    sql`UPDATE grants SET expires_at = now() + interval '1 hour' WHERE owner = ${owner}`.execute(database.db)

  it('is never spent and is expired, also where the clock of the database is set back', async () => {
    const { owner, rpts } = await spenders(1)
    await lapse(database.db, owner)
    await returnAll()
    await clockSetBack(owner)
    expect(await consume(owner, rpts[0]!)).toBeUndefined()
    const read = await readGrant(database.calls, owner, seed.CLIENT_ID, rpts[0]!)
    expect(read?.grant).toMatchObject({ expired: true, consumed: false })
    expect(await returnedAt(owner)).toEqual([{ back: true, spent: false }])
  })

  it('was live until it expired', async () => {
    const { owner, rpts } = await spenders(1)
    const read = await readGrant(database.calls, owner, seed.CLIENT_ID, rpts[0]!)
    expect(read?.grant).toMatchObject({ expired: false, consumed: false })
    expect(await consume(owner, rpts[0]!)).toBeDefined()
  })

  it('is not removed before that, however long ago it expired', async () => {
    const { owner } = await spenders(2)
    await lapse(database.db, owner, '2 days')
    await sweepOwner(database.db, owner, 100)
    expect(await rowsOf(database.db, owner)).toMatchObject({ grants: 2, places: 2 })
    await returnAll()
    expect(await used(owner)).toEqual(['0', '0'])
    await sweepOwner(database.db, owner, 100)
    expect((await rowsOf(database.db, owner)).grants).toBe(0)
  })
})
