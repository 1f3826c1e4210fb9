/**
 * How many acts ended something of an owner's, and what a statement says of that which judged a grant, on a
 * real Postgres: docs/choices.md, "What judged a call". Contract: "Grant (RPT) liveness", "Single-use grant".
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endAfterRestore } from '../../src/authority/administration/after-restore.ts'
import { grantEnd } from '../../src/rules/grant-end.ts'
import { endsLeases } from '../../src/storage/core/after-commit.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { openDatabase, type Database, type Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { AGENT, GRANT_ENDS, OPERATOR } from '../support/grant-ends.ts'
import { raceRounds } from '../support/layer.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const ROUNDS = raceRounds(20)
const READERS = 4

const database = coreStand({ poolMax: 16, ...PATIENT })
/** As another replica has it. */
let replica: Database
beforeAll(() => {
  replica = openDatabase({ url: database.url, poolMax: 8, ...PATIENT })
})
afterAll(() => replica.close())

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const endsOf = async (owner: Owner): Promise<number> => {
  const { rows } = await sql<{ ends: number }>`SELECT ends FROM queues WHERE owner = ${owner}`.execute(
    database.db,
  )
  return rows[0]!.ends
}
async function granted() {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const generation = await seed.seedConnection(database.db, owner, AGENT, { operator: OPERATOR })
  const grants = [
    await seed.seedGrant(database.db, owner, AGENT, generation),
    await seed.seedGrant(database.db, owner, AGENT, generation),
  ] as const
  return { owner, grants }
}
const reading = async (owner: Owner, rpt: Buffer, { calls } = database) => {
  const { grant, server, judged } = (await readGrant(calls, owner, seed.CLIENT_ID, rpt))!
  return { live: grantEnd(grant!) === null && server.status === 'active', judged }
}

describe('How many acts ended something of an owner', () => {
  it.each(GRANT_ENDS)('grows by one when %s', async (_what, end) => {
    const { owner } = await granted()
    const before = await endsOf(owner)
    await inTx(tx => end(tx, owner))
    expect(await endsOf(owner)).toBe(before + 1)
  })

  it('stays as it was if the act is taken back, and grows by one for an act that ends several things', async () => {
    const { owner } = await granted()
    const before = await endsOf(owner)
    const act = (then: () => void) =>
      inTx(async tx => {
        await lockQueue(tx, owner)
        endsLeases(tx, owner)
        for (const [, end] of GRANT_ENDS.slice(0, 2)) await end(tx, owner)
        then()
      })
    const fault = new Error('taken back')
    await expect(
      act(() => {
        throw fault
      }),
    ).rejects.toBe(fault)
    expect(await endsOf(owner)).toBe(before)
    await act(() => undefined)
    expect(await endsOf(owner)).toBe(before + 1)
  })

  it('is at least the time of a restore after it, so that no lower count than one that was sent is met', async () => {
    const { owner } = await granted()
    const since = Math.floor(Date.now() / 1_000)
    await endAfterRestore(database.db, new Date())
    const ends = await endsOf(owner)
    expect(ends).toBeGreaterThanOrEqual(since - 5)
    await endAfterRestore(database.db, new Date())
    expect(await endsOf(owner)).toBeGreaterThan(ends)
  })
})

describe('A statement that judged a grant says', () => {
  it('how many acts had ended something, and the time of the database when it began, in milliseconds', async () => {
    const { owner, grants } = await granted()
    const ends = await endsOf(owner)
    const before = Date.now()
    const read = (await reading(owner, grants[0])).judged
    const spent = (await consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, grants[1]))!
      .judged
    for (const judged of [read, spent]) {
      expect(judged.ends).toBe(ends)
      expect(judged.at).toBeGreaterThanOrEqual(before - 5_000)
      expect(judged.at).toBeLessThanOrEqual(Date.now() + 5_000)
    }
    expect(spent.at).toBeGreaterThanOrEqual(read.at)
  })

  it.each(GRANT_ENDS)(
    'less than the act counted if it found the grant live, and as much if not, while %s',
    async (_what, end) => {
      for (let round = 0; round < ROUNDS; round++) {
        const { owner, grants } = await granted()
        const over = new AbortController()
        const ending = inTx(tx => end(tx, owner)).finally(() => over.abort())
        const readers = Array.from({ length: READERS }, async (_, nth) => {
          const all = []
          do all.push(await reading(owner, grants[0], nth % 2 === 0 ? database : replica))
          while (!over.signal.aborted)
          return all
        })
        const spending = consumeGrant(replica.calls, owner, { client_id: seed.CLIENT_ID }, grants[1])
        const readings = (await Promise.all(readers)).flat()
        const spent = await spending
        await ending
        const after = await endsOf(owner)
        readings.push(await reading(owner, grants[0]))
        expect(readings.at(-1)!.live).toBe(false)
        for (const { live, judged } of readings) expect(judged.ends < after).toBe(live)
        if (spent !== undefined) expect(spent.judged.ends).toBeLessThan(after)
      }
    },
  )
})
