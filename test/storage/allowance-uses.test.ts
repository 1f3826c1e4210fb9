/**
 * What an owner reads of how much of her allowances is used, on a real Postgres: contract, "Owner API",
 * "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { returnDue } from '../../src/authority/allowance-returns.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import {
  listUses,
  readUses,
  type AllowanceReading,
} from '../../src/storage/authority/policies/allowance-uses.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { ALLOWANCE, knownAgent, lapse, ownerWith, saveAllowance, take } from '../support/allowance-grants.ts'
import { DIGEST, multiply, rowsRead, TEXT } from '../support/rows-read.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

/** One connection, so that each statement keeps the plan of its first use. */
const database = coreStand({ poolMax: 1 })
const log = pino({ level: 'silent' })

async function readingOf(owner: Owner): Promise<AllowanceReading> {
  const reading = await readUses(database.db, owner, ALLOWANCE)
  if (reading === undefined) throw new Error('she has no such allowance')
  return reading
}
/** What is used of each window of a set, and what of it is held. */
const amountsOf = ({ use }: AllowanceReading) =>
  use.map(({ whose, windows }) => [whose, ...windows.map(({ used, unspent }) => [used, unspent])])

const CALLS = { of: 'calls', per: 'all', max: '9' }
const PRICE = { of: 'price', per: 'all', max: '9' }

describe('What is used of an allowance', () => {
  it('is nothing before anything was taken, and one entry of each window in the order that she gave', async () => {
    const windows = [PRICE, { ...CALLS, per: 'day' }]
    const owner = await ownerWith(database.db, { zone: 'Europe/Zurich', windows })
    const { allowance, use, moreLineages, moreUnspent } = await readingOf(owner)
    expect(allowance).toMatchObject({ id: ALLOWANCE, version: 1, zone: 'Europe/Zurich', windows })
    expect([moreLineages, moreUnspent]).toEqual([false, false])
    const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string
    const unused = { used: '0', unspent: '0' }
    expect(use).toEqual([
      {
        whose: '',
        windows: [
          { ...PRICE, ...unused, starts: iso, ends: null },
          { ...CALLS, per: 'day', ...unused, starts: iso, ends: iso },
        ],
      },
    ])
    const [, day] = use[0]!.windows
    const now = Date.now()
    expect(Date.parse(day!.starts)).toBeLessThanOrEqual(now)
    expect(Date.parse(day!.ends!)).toBeGreaterThan(now - 60_000)
  })

  it('counts what grants took; unspent ones hold it, until they are spent or it goes back', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS, PRICE] })
    const [one, other] = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
    const spent = await take(database.db, owner, one, { amount: '0.5' })
    expect((await take(database.db, owner, other, { amount: '1.25' })).outcome).toBe('recorded')
    expect(amountsOf(await readingOf(owner))).toEqual([['', ['2', '2'], ['1.75', '1.75']]])
    const by = { client_id: seed.CLIENT_ID }
    expect(await consumeGrant(database.calls, owner, by, spent.rpt)).toBeDefined()
    expect(amountsOf(await readingOf(owner))).toEqual([['', ['2', '1'], ['1.75', '1.25']]])
    await lapse(database.db, owner)
    expect(amountsOf(await readingOf(owner))).toEqual([['', ['2', '1'], ['1.75', '1.25']]])
    await returnDue({ database, log }, () => false)
    expect(amountsOf(await readingOf(owner))).toEqual([['', ['1', '0'], ['0.5', '0']]])
  })

  it('is that of the windows that she has now, and of the present ones', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS, { ...PRICE, per: 'month' }] })
    const agent = await knownAgent(database.db, owner)
    expect((await take(database.db, owner, agent, { amount: '2' })).outcome).toBe('recorded')
    await sql`
      UPDATE allowance_windows SET start = start - interval '32 days' WHERE owner = ${owner} AND per = 'month'`.execute(
      database.db,
    )
    await saveAllowance(database.db, owner, {
      version: 2,
      windows: [{ ...PRICE, per: 'month', max: '4' }, PRICE],
    })
    const { use } = await readingOf(owner)
    expect(use[0]!.windows.map(({ per, max, used }) => [per, max, used])).toEqual([
      ['month', '4', '0'],
      ['all', '9', '0'],
    ])
  })

  it('is listed by id in pages, and none of another owner is', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS] })
    for (const id of ['a-1', 'a-2']) await saveAllowance(database.db, owner, { id, windows: [PRICE] })
    await ownerWith(database.db, { windows: [CALLS] })
    expect((await take(database.db, owner, await knownAgent(database.db, owner))).outcome).toBe('recorded')
    const list = async (page: { after?: string; limit: number }) =>
      (await listUses(database.db, owner, page)).map(({ allowance, use }) => [
        allowance.id,
        use[0]!.windows[0]!.used,
      ])
    expect(await list({ limit: 2 })).toEqual([
      ['a-1', '0'],
      ['a-2', '0'],
    ])
    expect(await list({ after: 'a-2', limit: 2 })).toEqual([[ALLOWANCE, '1']])
    expect(await readUses(database.db, owner, 'a-3')).toBeUndefined()
  })

  it('is unknown of an allowance whose zone Postgres does not know, and of no other', async () => {
    const owner = await ownerWith(database.db, { windows: [{ ...CALLS, per: 'day' }] })
    await saveAllowance(database.db, owner, { id: 'other', windows: [CALLS] })
    await sql`UPDATE allowances SET zone = 'Former/Zone' WHERE owner = ${owner} AND id = ${ALLOWANCE}`.execute(
      database.db,
    )
    expect(await readingOf(owner)).toMatchObject({ allowance: { zone: 'Former/Zone' }, use: [] })
    const listed = await listUses(database.db, owner, { limit: 10 })
    expect(listed.map(({ allowance, use }) => [allowance.id, use.length])).toEqual([
      ['other', 1],
      [ALLOWANCE, 0],
    ])
  })

  it('is unknown of an allowance with NUL in it, and of no other', async () => {
    const owner = await ownerWith(database.db, { windows: [CALLS] })
    await saveAllowance(database.db, owner, { id: 'other', windows: [CALLS] })
    const nul = String.raw`{"amounts": [], "windows": [], "tiers": {}, "a": "\u0000"}`
    await sql`UPDATE allowances SET content = ${nul} WHERE owner = ${owner} AND id = ${ALLOWANCE}`.execute(
      database.db,
    )
    expect(await readingOf(owner)).toMatchObject({ allowance: { id: ALLOWANCE }, use: [] })
    const listed = await listUses(database.db, owner, { limit: 10 })
    expect(listed.map(({ allowance, use }) => [allowance.id, use.length])).toEqual([
      ['other', 1],
      [ALLOWANCE, 0],
    ])
  })
})

describe('What is used of an allowance that each lineage has', () => {
  const lineages = (windows: object[] = [CALLS]) => ownerWith(database.db, { among: 'lineage', windows })
  const whose = ({ use }: AllowanceReading) => use.map(one => one.whose)
  /** So many lineages that took one call: the n-th of them n minutes ago. */
  const taken = (owner: Owner, count: number) =>
    sql`
      INSERT INTO allowance_windows (owner, allowance, whose, of, per, start, used, used_at)
      SELECT a.owner, a.id, 'jkt:' || n, 'calls', 'all', a.made_at, 1, now() - n * interval '1 minute'
      FROM allowances a, generate_series(1, ${count}::int) n WHERE a.owner = ${owner}`.execute(database.db)

  it('has an entry of each lineage that used something, with what its agents took together', async () => {
    const owner = await lineages([CALLS, PRICE])
    expect((await readingOf(owner)).use).toEqual([])
    const parent = await knownAgent(database.db, owner)
    const child = await knownAgent(database.db, owner, { introduced_by: parent.handle })
    await knownAgent(database.db, owner)
    for (const agent of [parent, child])
      expect((await take(database.db, owner, agent, { amount: '0.75' })).outcome).toBe('recorded')
    expect(amountsOf(await readingOf(owner))).toEqual([[parent.handle, ['2', '2'], ['1.5', '1.5']]])
    await lapse(database.db, owner)
    await returnDue({ database, log }, () => false)
    expect((await readingOf(owner)).use).toEqual([])
  })

  it('has those that took something last first, a hundred at most, and says that there are more', async () => {
    const owner = await lineages()
    await taken(owner, 100)
    const hundred = Array.from({ length: 100 }, (_, n) => `jkt:${n + 1}`)
    const all = await readingOf(owner)
    expect([whose(all), all.moreLineages]).toEqual([hundred, false])
    const agent = await knownAgent(database.db, owner)
    expect((await take(database.db, owner, agent)).outcome).toBe('recorded')
    const more = await readingOf(owner)
    expect([whose(more), more.moreLineages]).toEqual([[agent.handle, ...hundred.slice(0, 99)], true])
  })

  it('has none that used something in an ended window only, and last those of an older program', async () => {
    const owner = await lineages()
    await taken(owner, 4)
    const change = (set: string, handle: string) =>
      database.pool.query(`UPDATE allowance_windows SET ${set} WHERE owner = $1 AND whose = $2`, [
        owner,
        handle,
      ])
    await change("start = start - interval '1 day'", 'jkt:1')
    await change('used = 0', 'jkt:2')
    await change('used_at = NULL', 'jkt:3')
    expect(whose(await readingOf(owner))).toEqual(['jkt:4', 'jkt:3'])
  })
})

describe.each([
  { each: 1, since: 'analyzed since', again: 'ANALYZE' },
  { each: 10, since: 'analyzed before', again: 'SELECT 1' },
  { each: 100, since: 'analyzed since', again: 'ANALYZE' },
])('Where each other owner has $each, $since,', ({ each, again }) => {
  // Postgres expects what the database has.
  const own = coreStand({ poolMax: 1 })

  it('what is used is read from a bounded number of rows, however many lineages and unspent grants there are', async () => {
    const { db } = own
    const owner = await ownerWith(db, { among: 'lineage', windows: [CALLS, PRICE] })
    expect((await take(db, owner, await knownAgent(db, owner))).outcome).toBe('recorded')
    const grants = { rpt_sha256: DIGEST, jti: TEXT, family: TEXT }
    const held = { handle: TEXT, rpt_sha256: DIGEST }
    const many = { allowance_windows: { whose: TEXT }, allowance_held: held, grants }
    await multiply(db, owner, { allowances: {} }, { count: 1_000, whose: `'owner-' || n` })
    await multiply(db, owner, many, { count: 1_000, whose: `'owner-' || n / ${each}` })
    await sql`ANALYZE`.execute(db)
    const read = () =>
      rowsRead(db, async tx => {
        expect((await readUses(tx, owner, ALLOWANCE))?.use.length).toBeGreaterThan(0)
      })
    await read()
    await multiply(db, owner, many, { count: 1_500, whose: 'one.owner' })
    await sql.raw(again).execute(db)
    const { allowances, allowance_windows: windows, allowance_held: places, grants: unspent } = await read()
    expect(allowances).toBe(1)
    // A hundred and one lineages of at most eight windows, and the rows of those that are told.
    expect(windows).toBeLessThanOrEqual(1_100)
    expect(places).toBeLessThanOrEqual(510)
    // Two for each place.
    expect(unspent).toBeLessThanOrEqual(1_010)
    const reading = await readUses(db, owner, ALLOWANCE)
    expect(reading).toMatchObject({ moreLineages: true, moreUnspent: true })
    expect(reading?.use.length).toBe(100)
  })
})

it('What each lineage used is read without the windows that ended and are not swept yet, however many they are', async () => {
  const { db } = database
  const owner = await ownerWith(db, { among: 'lineage', windows: [{ ...CALLS, per: 'day' }] })
  /** Of these lineages: the first took of the present day a moment ago, each other one of the day before. */
  const taken = (from: number, to: number) =>
    sql`
      INSERT INTO allowance_windows (owner, allowance, whose, of, per, start, used, used_at)
      SELECT a.owner, a.id, 'jkt:' || n, 'calls', 'day', day.start - least(n, 1) * interval '1 day', 1,
        CASE n WHEN 0 THEN now() ELSE day.start - interval '5 hours' END
      FROM allowances a, generate_series(${from}::int, ${to}::int) n, date_trunc('day', now(), 'UTC') AS day(start)
      WHERE a.owner = ${owner}`.execute(db)
  const read = () =>
    rowsRead(db, async tx => {
      const reading = await readUses(tx, owner, ALLOWANCE)
      expect(reading?.use.map(({ whose }) => whose)).toEqual(['jkt:0'])
    })
  await taken(0, 0)
  const others = { allowances: {}, allowance_windows: {} }
  await multiply(db, owner, others, { count: 1_000, whose: `'other-owner-' || n` })
  await sql`ANALYZE`.execute(db)
  await read()
  await taken(1, 1_500)
  const { allowance_windows: windows } = await read()
  expect(windows).toBeGreaterThan(0)
  expect(windows).toBeLessThanOrEqual(10)
})
