/**
 * Contract, "Events": what an owner's readers get, and in which order, during concurrent writes, and after
 * her rows are moved.
 */
import { sql } from 'kysely'
import { Client } from 'pg'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import {
  AUTHORITY_DATABASE,
  openDatabase,
  type Database,
  type Db,
  type Tx,
} from '../../src/storage/authority/database.ts'
import { appendEvent, readEvents, startOfReading } from '../../src/storage/authority/ledger/events.ts'
import {
  appendLedger,
  countRefusal,
  readLedger,
  type LedgerEntryRow,
} from '../../src/storage/authority/ledger/ledger.ts'
import { readReceipts } from '../../src/storage/authority/ledger/receipts.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import * as seed from '../support/seed.ts'
import { replicatedStand } from '../support/stands.ts'
import { asFamily, asHandle, type Family, type Owner } from '../../src/wire/identifiers.ts'

/** What is under way at one is not known at the other. */
const { database, replica } = replicatedStand()

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const ALL = { after: 0, limit: 1_000 }
const kindsOf = (entries: LedgerEntryRow[]) => entries.map(({ kind }) => kind)
const upTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1)

/** A transaction that has written an entry and an event, and commits when it is told to. */
async function written(owner: Owner, kind: 'approved' | 'denied', n: number) {
  const [ready, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const done = inTx(async tx => {
    await appendLedger(tx, owner, { kind })
    await appendEvent(tx, owner, 'decided', { n })
    ready.resolve()
    await end.promise
  })
  // Also if an expectation fails, because an open transaction would delay the end of the file.
  onTestFinished(() => end.resolve())
  await ready.promise
  return { commit: () => (end.resolve(), done) }
}

describe('Ledger and events have positions', () => {
  it('from 1 for each owner, without gaps, in the order in which they were written', async () => {
    const [owner, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    await appendLedger(database.db, other, { kind: 'claimed' })
    const kinds = ['promised', 'approved', 'connected', 'touched', 'revoked'] as const
    for (const kind of kinds)
      await inTx(async tx => {
        await appendLedger(tx, owner, { kind })
        await appendEvent(tx, owner, 'decided', { kind })
      })
    const entries = await readLedger(database.db, owner, ALL)
    expect([kindsOf(entries), entries.map(({ seq }) => seq)]).toEqual([kinds, upTo(5)])
    const events = await readEvents(database.db, owner, ALL)
    expect(events).toEqual(kinds.map((kind, n) => ({ id: n + 1, event: 'decided', data: { kind } })))
    expect((await readLedger(database.db, other, ALL)).map(({ seq }) => seq)).toEqual([1])
  })

  it('and a late commit stands behind what was read before it, so that no reader skips it or waits for it', async () => {
    const owner = await seed.seedOwner(database.db)
    const late = await written(owner, 'approved', 1)
    await inTx(async tx => {
      await appendLedger(tx, owner, { kind: 'denied' })
      await appendEvent(tx, owner, 'decided', { n: 2 })
    })
    const [seen, heard] = [
      await readLedger(database.db, owner, ALL),
      await readEvents(database.db, owner, ALL),
    ]
    expect([kindsOf(seen), heard.map(({ data }) => data)]).toEqual([['denied'], [{ n: 2 }]])
    await late.commit()
    const rest = await readLedger(database.db, owner, { after: seen.at(-1)!.seq, limit: 10 })
    expect(rest).toMatchObject([{ seq: 2, kind: 'approved' }])
    expect(await readEvents(database.db, owner, { after: heard.at(-1)!.id, limit: 10 })).toMatchObject([
      { id: 2, data: { n: 1 } },
    ])
  })

  it('and one long transaction, wherever it is, holds no reader back', async () => {
    const owner = await seed.seedOwner(database.db)
    const elsewhere = new Client({ connectionString: inject('postgresUrl') })
    await elsewhere.connect()
    onTestFinished(() => elsewhere.end())
    // It writes, and was there before everything that follows; so is one in this database, of another owner.
    await elsewhere.query('BEGIN')
    await elsewhere.query('SELECT pg_current_xact_id()')
    await written(await seed.seedOwner(database.db), 'approved', 0)
    await inTx(async tx => {
      await appendLedger(tx, owner, { kind: 'denied' })
      await appendEvent(tx, owner, 'decided', { n: 1 })
    })
    expect(kindsOf(await readLedger(database.db, owner, ALL))).toEqual(['denied'])
    expect(await readEvents(database.db, owner, ALL)).toHaveLength(1)
  })

  it('and readers beside many writers, on any replica, miss nothing, get nothing twice, and see no gap', async () => {
    const owner = await seed.seedOwner(database.db)
    const [writers, each] = [8, 25]
    let done = false
    const write = async (writer: number) => {
      for (let n = 0; n < each; n++)
        await inTransaction((writer % 2 === 0 ? database : replica).db, async tx => {
          await appendLedger(tx, owner, { kind: 'approved', data: { writer, n, half: 1 } })
          // Some transactions are open for longer than others, and commit behind those that began later.
          if ((writer + n) % 3 === 0) await sql`SELECT count(*) FROM generate_series(1, 20000)`.execute(tx)
          await appendLedger(tx, owner, { kind: 'connected', data: { writer, n, half: 2 } })
          await appendEvent(tx, owner, 'decided', { writer, n })
        })
    }
    const follow = async <Row>(read: (after: number) => Promise<Row[]>, position: (row: Row) => number) => {
      const rows: Row[] = []
      for (let last = false; ;) {
        last = done
        const page = await read(rows.length === 0 ? 0 : position(rows.at(-1)!))
        rows.push(...page)
        if (last && page.length === 0) return rows
      }
    }
    const ledgerOf = ({ db }: Database) =>
      follow(
        after => readLedger(db, owner, { after, limit: 7 }),
        ({ seq }) => seq,
      )
    const eventsOf = ({ db }: Database) =>
      follow(
        after => readEvents(db, owner, { after, limit: 7 }),
        ({ id }) => id,
      )
    const writing = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer))).finally(
      () => (done = true),
    )
    const [entries, again, events, ahead] = await Promise.all([
      ledgerOf(database),
      ledgerOf(replica),
      eventsOf(database),
      eventsOf(replica),
      writing,
    ])
    const total = writers * each
    expect(entries.map(({ seq }) => seq)).toEqual(upTo(2 * total))
    expect(events.map(({ id }) => id)).toEqual(upTo(total))
    expect([again, ahead]).toEqual([entries, events])
    expect(new Set(entries.map(({ data }) => JSON.stringify(data))).size).toBe(2 * total)
    // What one writer wrote stands in its order.
    for (let writer = 0; writer < writers; writer++) {
      const own = entries.flatMap(({ data }) => (data['writer'] === writer ? [data] : []))
      expect(own.map(({ n, half }) => [n, half])).toEqual(
        Array.from({ length: 2 * each }, (_, at) => [Math.floor(at / 2), (at % 2) + 1]),
      )
    }
  })

  it('and more than one numbering takes are all there when they are read', async () => {
    const owner = await seed.seedOwner(database.db)
    await sql`INSERT INTO ledger (owner, kind, data) SELECT ${owner}, 'touched', '{}' FROM generate_series(1, 2500)`.execute(
      database.db,
    )
    const entries = await readLedger(database.db, owner, { after: 2_490, limit: 100 })
    expect(entries.map(({ seq }) => seq)).toEqual(upTo(10).map(n => n + 2_490))
  })
})

describe('A reader of events goes on', () => {
  async function withEvents(count: number) {
    const owner = await seed.seedOwner(database.db)
    for (let n = 1; n <= count; n++) await inTx(tx => appendEvent(tx, owner, 'decided', { n }))
    return owner
  }
  const start = (owner: Owner, known?: number) => startOfReading(database.db, owner, known)

  it('after the event that it names, or after the newest if it names none', async () => {
    const owner = await withEvents(3)
    expect(await start(owner)).toEqual({ after: 3, reset: false })
    for (const known of [0, 1, 2, 3])
      expect(await start(owner, known)).toEqual({ after: known, reset: false })
    expect(await start(await seed.seedOwner(database.db), 0)).toEqual({ after: 0, reset: false })
  })

  it('with reset if what came after that event is not kept, or it never was', async () => {
    const owner = await withEvents(4)
    await readEvents(database.db, owner, ALL)
    await sql`UPDATE events SET at = now() - interval '8 days' WHERE owner = ${owner} AND seq IN (1, 2, 4)`.execute(
      database.db,
    )
    expect((await sweepOwner(database.db, owner, 100)).rows).toBe(2)
    // The fourth is old, too, but not what stands before it: nothing goes out of the middle.
    expect((await readEvents(database.db, owner, ALL)).map(({ id }) => id)).toEqual([3, 4])
    for (const known of [0, 1, 5, 99]) expect(await start(owner, known)).toEqual({ after: 4, reset: true })
    for (const known of [2, 3, 4]) expect(await start(owner, known)).toEqual({ after: known, reset: false })
  })

  it('and what has no position yet is not swept', async () => {
    const owner = await withEvents(1)
    await sql`UPDATE events SET at = now() - interval '8 days' WHERE owner = ${owner}`.execute(database.db)
    await sweepOwner(database.db, owner, 100)
    expect(await readEvents(database.db, owner, ALL)).toHaveLength(1)
  })
})

describe('Refusals of strangers are counted by owner, reason and minute', () => {
  const refused = (db: Db, owner: Owner, family: Family) =>
    countRefusal(db, owner, { reason: 'ungoverned' }, { times: 1, families: [family] })
  const read = (owner: Owner) => readLedger(database.db, owner, { ...ALL, kind: 'refused' })

  it('the first at once, the rest of the minute when it closes, in entries that never change', async () => {
    const owner = await seed.seedOwner(database.db)
    const families = upTo(50).map(n => asFamily(`fam_${n}`))
    await refused(database.db, owner, families[0]!)
    const [first] = await read(owner)
    expect(first).toMatchObject({
      seq: 1,
      count: 1,
      data: { reason: 'ungoverned', strangers: true, families: ['fam_1'] },
    })
    await Promise.all(
      families.slice(1).map((family, n) => refused([database, replica][n % 2]!.db, owner, family)),
    )
    // The minute may turn once while the fifty are counted.
    expect((await read(owner)).length).toBeLessThanOrEqual(3)
    await seed.closeMinutes(database.db)
    const told = await read(owner)
    expect(told[0]).toEqual(first)
    expect(told.length).toBeLessThanOrEqual(4)
    expect(told.reduce((sum, { count }) => sum + count, 0)).toBe(50)
    const named = told.flatMap(({ data }) => data['families'] as string[])
    expect(new Set(named).size).toBe(named.length)
    expect(named.length).toBeGreaterThanOrEqual(6)
    for (const { data } of told) expect((data['families'] as string[]).length).toBeLessThanOrEqual(5)
    await refused(database.db, owner, asFamily('fam_late'))
    await seed.closeMinutes(database.db)
    expect((await read(owner)).slice(0, told.length)).toEqual(told)
  })

  it('many in one statement as many: the first of them by itself', async () => {
    const owner = await seed.seedOwner(database.db)
    const families = upTo(9).map(n => asFamily(`fam_${n}`))
    await countRefusal(
      database.db,
      owner,
      { kind: 'identity_refused', reason: 'identity_unverified', handle: asHandle('jkt:known') },
      { times: 12, families },
    )
    await seed.closeMinutes(database.db)
    const told = await readLedger(database.db, owner, { ...ALL, handle: asHandle('jkt:known') })
    const data = { reason: 'identity_unverified', claimed: true }
    expect(told.map(({ kind, count, data }) => ({ kind, count, data }))).toEqual([
      { kind: 'identity_refused', count: 1, data: { ...data, families: families.slice(0, 1) } },
      { kind: 'identity_refused', count: 11, data: { ...data, families: families.slice(1, 6) } },
    ])
  })
})

describe('After dump and restore into another cluster', () => {
  /** Every row as it is stored, and nothing else: neither counters nor transaction ids go with rows. */
  async function copyRows(from: Client, to: Client): Promise<void> {
    const { rows: tables } = await from.query<{ name: string }>(
      `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'
          AND tablename NOT IN ('schema_migrations', 'locks')`,
    )
    for (const { name } of tables) {
      const { rows } = await from.query<{ all: string }>(
        `SELECT coalesce(json_agg(t), '[]')::text AS all FROM ${name} t`,
      )
      await to.query(`INSERT INTO ${name} SELECT * FROM json_populate_recordset(NULL::${name}, $1)`, [
        rows[0]!.all,
      ])
    }
  }
  const transactionOf = async (client: Client) =>
    Number((await client.query<{ id: string }>('SELECT pg_current_xact_id() AS id')).rows[0]!.id)

  it(
    'ledger, events and receipts are what they were, and what is new stands behind them',
    { timeout: 180_000 },
    async () => {
      const owner = await seed.seedOwner(database.db)
      const write = (db: Db, kind: 'approved' | 'denied', n: number) =>
        inTransaction(db, async tx => {
          await appendLedger(tx, owner, { kind, data: { n } })
          await appendEvent(tx, owner, 'decided', { n })
          await sql`INSERT INTO receipts (owner, jti, family, handle, receipt)
            VALUES (${owner}, ${`rpt_${n}`}, ${`fam_${n}`}, 'jkt:one', ${`signed ${n}`})`.execute(tx)
          await sql`INSERT INTO receipt_positions (owner, jti) VALUES (${owner}, ${`rpt_${n}`})`.execute(tx)
        })
      const server = await startEmbeddedPostgres({ maxConnections: 20 })
      onTestFinished(() => server.stop())
      await AUTHORITY_DATABASE.migrate(server.url)
      const [from, to] = [database.url, server.url].map(url => new Client({ connectionString: url }))
      await Promise.all([from!.connect(), to!.connect()])
      const counter = await transactionOf(to!)
      while ((await transactionOf(from!)) < counter + 1_000);
      await write(database.db, 'approved', 1)
      await write(database.db, 'denied', 2)
      const before = {
        entries: await readLedger(database.db, owner, ALL),
        events: await readEvents(database.db, owner, ALL),
        receipts: await readReceipts(database.db, owner, ALL),
      }
      // This one was committed, and has no position, when the rows are taken.
      await write(database.db, 'approved', 3)
      await copyRows(from!, to!)
      expect(await transactionOf(to!)).toBeLessThan(await transactionOf(from!))
      await Promise.all([from!.end(), to!.end()])
      const restored = openDatabase({ url: server.url, poolMax: 5 })
      try {
        await write(restored.db, 'denied', 4)
        const [entries, events, receipts] = [
          await readLedger(restored.db, owner, ALL),
          await readEvents(restored.db, owner, ALL),
          await readReceipts(restored.db, owner, ALL),
        ]
        expect(entries.slice(0, 2)).toEqual(before.entries)
        expect(events.slice(0, 2)).toEqual(before.events)
        expect(receipts.slice(0, 2)).toEqual(before.receipts)
        expect(receipts.map(({ seq, receipt }) => [seq, receipt])).toEqual(
          upTo(4).map(n => [n, `signed ${n}`]),
        )
        expect(entries.map(({ seq, data }) => [seq, data['n']])).toEqual(upTo(4).map(n => [n, n]))
        expect(events.map(({ id, data }) => [id, data])).toEqual(upTo(4).map(n => [n, { n }]))
        expect(await startOfReading(restored.db, owner, 2)).toEqual({ after: 2, reset: false })
      } finally {
        await restored.close()
      }
    },
  )
})
