/** Contract, "Events": what nobody reads has its position soon after it was committed. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startSequencer } from '../../src/authority/owner/events/sequencer.ts'
import { openDatabase, type Db } from '../../src/storage/authority/database.ts'
import { dueNow } from '../../src/storage/authority/due.ts'
import { appendEvent } from '../../src/storage/authority/ledger/events.ts'
import { appendLedger, countRefusal } from '../../src/storage/authority/ledger/ledger.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { freshDatabase, PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { asFamily, type Owner } from '../../src/wire/identifiers.ts'
import { authorityStand, coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

/** Sweeps each owner who is due. No sequencer sees what these tests write through a pool of their own. */
const authority = authorityStand({ environment: { UMA_AS_SWEEP_SECONDS: '1' } })
/** Followed by a sequencer alone: nobody sweeps here, so what has its position has it after a commit. */
const followed = coreStand(PATIENT)

let sequencer: ReturnType<typeof startSequencer> | undefined
beforeAll(() => {
  const log = createLogger({ name: 'test', level: 'silent' })
  sequencer = startSequencer(followed.db, { log, sweepSeconds: 3_600 })
})
afterAll(() => sequencer?.stop())

/** Read past the functions that would number. */
async function stored(db: Db, owner: Owner) {
  const { rows } = await sql<{ entries: (number | null)[]; events: (number | null)[]; counts: number[] }>`
    SELECT ARRAY(SELECT seq::int FROM ledger WHERE owner = ${owner} ORDER BY id) AS entries,
      ARRAY(SELECT seq::int FROM events WHERE owner = ${owner} ORDER BY id) AS events,
      ARRAY(SELECT count FROM ledger WHERE owner = ${owner} ORDER BY id) AS counts`.execute(db)
  return rows[0]!
}

describe('Without a reader', () => {
  it('entries and events are numbered after the commit of their transaction, and not if it is undone', async () => {
    const { db } = followed
    const owner = await seed.seedOwner(db)
    const change = (fail: boolean) =>
      inTransaction(db, async tx => {
        await appendLedger(tx, owner, { kind: 'approved' })
        await appendEvent(tx, owner, 'decided', {})
        if (fail) throw new Error('undone')
      })
    await change(false)
    await expect(change(true)).rejects.toThrow('undone')
    await change(false)
    await expect.poll(() => stored(db, owner)).toMatchObject({ entries: [1, 2], events: [1, 2] })
  })

  it('what is committed right after a numbering is numbered, too', async () => {
    const { db } = followed
    const owner = await seed.seedOwner(db)
    for (let entries = 1; entries <= 3; entries++) {
      await appendLedger(db, owner, { kind: 'approved' })
      await expect.poll(() => stored(db, owner)).toMatchObject({ entries: [1, 2, 3].slice(0, entries) })
    }
  })

  it('owners who are due together, each of whom waits for a lock, leave a connection of the pool to others', async () => {
    const atOnce = 4
    const patience = { ...PATIENT, connectTimeoutMs: 10_000 }
    const database = await freshDatabase({ ...patience, poolMax: atOnce + 1 })
    const beside = openDatabase({ ...patience, url: database.url, poolMax: 2 })
    const { db } = database
    const owners = await Promise.all(Array.from({ length: 3 * atOnce }, () => seed.seedOwner(db)))
    const logger = createLogger({ name: 'test', level: 'silent' })
    const sequencer = startSequencer(db, { log: logger, sweepSeconds: 3_600 })
    onTestFinished(async () => {
      await sequencer.stop()
      await beside.close()
      await database.close()
    })
    const numbered = async () => {
      const { rows } = await sql<{ owners: number }>`
        SELECT count(DISTINCT owner)::int AS owners FROM ledger WHERE seq IS NOT NULL`.execute(beside.db)
      return rows[0]!.owners
    }
    await inTransaction(beside.db, async tx => {
      // Whoever was numbered is made due for the sweeper.
      await sql`LOCK TABLE due IN EXCLUSIVE MODE`.execute(tx)
      await inTransaction(db, async all => {
        for (const owner of owners) await appendLedger(all, owner, { kind: 'approved' })
      })
      await until(async () => (await lockWaiters(beside)) >= atOnce)
      // More statements than an owner more would need to come to the lock, in turn with hers.
      for (let n = 0; n < 50; n++) await sql`SELECT 1`.execute(db)
      expect([await lockWaiters(beside), await numbered()]).toEqual([atOnce, atOnce])
    })
    await expect.poll(numbered).toBe(owners.length)
  })

  it('what a replica left behind is numbered when the due-queue comes to its owner, and so are refusals of a minute that closed', async () => {
    const { db } = authority.database
    const [{ owner }] = [authority.alice]
    // As one that ended between the commit and what follows it.
    await sql`INSERT INTO ledger (owner, kind, data) VALUES (${owner}, 'touched', '{}')`.execute(db)
    await countRefusal(db, owner, { reason: 'ungoverned' }, { times: 3, families: [asFamily('fam_1')] })
    await seed.closeMinutes(db)
    await dueNow(db, owner, 'sweep')
    await expect.poll(() => stored(db, owner)).toMatchObject({ entries: [1, 2, 3], counts: [1, 1, 2] })
  })

  /**
   * So many entries as a program from before the tree of the ledger numbered them. Written at once, because
   * the sweeper takes a new owner within a second, and would number her from an empty head.
   */
  async function numberedWithoutTree(db: Db, count: number): Promise<Owner> {
    const owner = await seed.seedOwner(db)
    await sql`
      WITH head AS (INSERT INTO heads (owner, ledger) VALUES (${owner}, ${count}))
      INSERT INTO ledger (owner, seq, kind, data, salt)
      SELECT ${owner}, n, 'touched', '{}', NULL FROM generate_series(1, ${count}::int) n`.execute(db)
    return owner
  }
  const leaves = async (db: Db, owner: Owner) => {
    const { rows } = await sql<{ leaves: number; size: number }>`
      SELECT count(leaf) AS leaves, max(tree_size) AS size FROM ledger JOIN heads USING (owner)
      WHERE owner = ${owner}`.execute(db)
    return rows[0]!
  }

  it('what an older program numbered gets its leaves after the next commit of its owner', async () => {
    const { db } = followed
    const owner = await numberedWithoutTree(db, 2_100)
    await appendLedger(db, owner, { kind: 'approved' })
    await expect.poll(() => leaves(db, owner)).toEqual({ leaves: 2_101, size: 2_101 })
  })

  it('what an older program numbered gets its leaves when the due-queue comes to its owner', async () => {
    const { db } = authority.database
    const owner = await numberedWithoutTree(db, 300)
    await dueNow(db, owner, 'sweep')
    await expect.poll(() => leaves(db, owner)).toEqual({ leaves: 300, size: 300 })
  })
})
