/**
 * A consume against what ends the tier it rests on, on a real Postgres. Contract: "Single-use grant" (spent
 * exactly once), "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { openDatabase, type Database, type Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { AGENT, GRANT_ENDS, OPERATOR } from '../support/grant-ends.ts'
import { holdConsumes } from '../support/held-consumes.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { PATIENT } from '../support/postgres.ts'
import { coreStand } from '../support/stands.ts'
import { onlyOnce } from '../support/only-once.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(60)
const CONSUMERS = 16
const AT_ONCE = 3

/** What one process asks at the same time goes in one statement: only several of them race in Postgres. */
const REPLICAS = 4

const database = coreStand({ poolMax: 32, ...PATIENT })
let replicas: Database[]
beforeAll(() => {
  replicas = Array.from({ length: REPLICAS }, () =>
    openDatabase({ url: database.url, poolMax: 8, ...PATIENT }),
  )
})
afterAll(() => Promise.all(replicas.map(replica => replica.close())))

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const consume = (owner: Owner, rpt: Buffer, at = database) =>
  consumeGrant(at.calls, owner, { client_id: seed.CLIENT_ID }, rpt)

async function granted() {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const handle = AGENT
  const generation = await seed.seedConnection(database.db, owner, handle, { operator: OPERATOR })
  const rpt = await seed.seedGrant(database.db, owner, handle, generation)
  return { owner, handle, generation, rpt }
}

/** Each of the replicas asks for all of them at once. */
const GRANTS = CONSUMERS / REPLICAS

async function grantedSeveral(): Promise<{ owner: Owner; rpts: Buffer[] }> {
  const { owner, handle, generation, rpt } = await granted()
  const others = await seed.callers(GRANTS - 1, () => seed.seedGrant(database.db, owner, handle, generation))
  return { owner, rpts: [rpt, ...others] }
}

describe('Single-use grant: a consume while what it rests on ends', () => {
  it.each(GRANT_ENDS)(
    'a consume that waits for its grant while %s wins before that returns, or not at all',
    async (_, end) => {
      const { owner, rpt } = await granted()
      const holder = await database.pool.connect()
      await holder.query('BEGIN')
      await holder.query('SELECT 1 FROM grants WHERE owner = $1 AND rpt_sha256 = $2 FOR UPDATE', [owner, rpt])
      const consumed = consume(owner, rpt)
      await until(async () => (await lockWaiters(database)) === 1)
      let returned = false
      const ending = inTx(tx => end(tx, owner)).then(() => {
        returned = true
      })
      // Either it waits for the consume, or it has returned.
      await until(async () => returned || (await lockWaiters(database)) === 2)
      const tooLate = returned
      await holder.query('COMMIT')
      holder.release()
      expect({ tooLate, won: (await consumed) !== undefined }).not.toEqual({ tooLate: true, won: true })
      await ending
    },
  )

  it.each(GRANT_ENDS)(
    'consumes that share a statement and were first win all of them before %s returns',
    async (_, end) => {
      const { owner, rpts } = await grantedSeveral()
      const hold = await holdConsumes(database.url)
      onTestFinished(() => hold.release())
      const consumed = Promise.all(rpts.map(rpt => consume(owner, rpt)))
      await until(async () => (await lockWaiters(database)) === 1)
      let returned = false
      const ending = inTx(tx => end(tx, owner)).then(() => {
        returned = true
      })
      await until(async () => returned || (await lockWaiters(database)) === 2)
      expect(returned).toBe(false)
      await hold.release()
      expect((await consumed).filter(family => family !== undefined)).toHaveLength(GRANTS)
      await ending
    },
  )

  it.each(GRANT_ENDS)('once %s, no consume wins: %#', async (_, end) => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const { owner, rpts } = await grantedSeveral()
      let ended = false
      const late: boolean[] = []
      const consumers = seed.callers(CONSUMERS, async n => {
        const before = ended
        const at = replicas[Math.floor(n / GRANTS)]!
        const won = (await consume(owner, rpts[n % GRANTS]!, at)) !== undefined
        late.push(won && before)
        return won
      })
      await inTx(tx => end(tx, owner)).then(() => {
        ended = true
      })
      for (const rpt of rpts) expect(await consume(owner, rpt)).toBeUndefined()
      const won = await consumers
      for (const grant of rpts.keys())
        expect(won.filter((one, n) => one && n % GRANTS === grant).length).toBeLessThanOrEqual(1)
      expect(late).not.toContain(true)
    })
  })

  it('an edit that keeps the resource refuses no consume that waits for it', async () => {
    const { owner, rpt } = await granted()
    let commit!: () => void
    const gate = new Promise<void>(resolve => (commit = resolve))
    let edited!: () => void
    const isEdited = new Promise<void>(resolve => (edited = resolve))
    const edit = inTx(async tx => {
      await updateTier(tx, { ...seed.tierOf(owner, true), name: 'Reading more' }, undefined)
      edited()
      await gate
    })
    // Also if an expectation fails, because an open transaction would delay the end of the file.
    onTestFinished(() => commit())
    await isEdited
    const consumed = consume(owner, rpt)
    await until(async () => (await lockWaiters(database)) === 1)
    commit()
    await edit
    expect(await consumed).toBeDefined()
  })

  it('consumes, revocations, edits, deletions and withdrawals at once never deadlock', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async n => {
      const { owner, handle, generation } = await granted()
      const rpts = await seed.callers(8, () => seed.seedGrant(database.db, owner, handle, generation))
      const ends = [
        (tx: Tx) => updateTier(tx, { ...seed.tierOf(owner, true), name: `Edit ${n}` }, undefined),
        (tx: Tx) => GRANT_ENDS[n % GRANT_ENDS.length]![1](tx, owner),
        (tx: Tx) => revokeConnection(tx, owner, handle, seed.ACTOR),
      ]
      // Past every retry: a deadlock would be told by its SQLSTATE.
      const outcomes = await Promise.allSettled([
        ...replicas.flatMap((at, m) =>
          (m % 2 === 0 ? rpts : rpts.toReversed()).map(rpt => consume(owner, rpt, at)),
        ),
        ...ends.map(end => onlyOnce(database.db, end)),
      ])
      expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
      for (const rpt of rpts) expect(await consume(owner, rpt)).toBeUndefined()
    })
  })

  it('a grant whose resource was taken out and whose consume lost says so: the tier governs it no more', async () => {
    const { owner, rpt } = await granted()
    await inTx(tx => updateTier(tx, { ...seed.tierOf(owner, true), resources: [] }, undefined))
    expect(await consume(owner, rpt)).toBeUndefined()
    const governed = async () =>
      (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant?.governed
    expect(await governed()).toBe(false)
    // Back in the tier, it is granted anew, and no grant from before lives again.
    await inTx(tx => updateTier(tx, seed.tierOf(owner, true), undefined))
    expect(await governed()).toBe(false)
    expect(await consume(owner, rpt)).toBeUndefined()
    const anew = await seed.seedGrant(database.db, owner, AGENT, 1)
    expect(await consume(owner, anew)).toBeDefined()
  })
})
