/**
 * contract, "What the service does" (many owners at one authority): the connections to Postgres are shared,
 * and no owner has more than half.
 */
import { CompiledQuery, sql } from 'kysely'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import type { Store as AuthorityStore } from '../../src/authority/context.ts'
import { inTransaction, isOutage, sqlState } from '../../src/storage/core/database.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { readMove } from '../../src/storage/authority/owners/moves.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { TallyStore } from '../../src/tally/context.ts'
import { freshDatabase } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'

const POOL_MAX = 4
/** Longer than a busy machine takes for anything here. */
const WAIT_MS = 60_000
const LOCK_MS = 300

/** Never run: what counts is whether it compiles. */
export function forgetful(authority: AuthorityStore, tally: TallyStore): void {
  // @ts-expect-error whoever serves owners says on whose behalf
  void authority.database.db
  // @ts-expect-error on the call path, too
  void authority.database.calls
  // @ts-expect-error a tally as well
  void tally.database.db
}

let database: Database
let shared: Database
beforeAll(async () => {
  database = await freshDatabase()
  const waits = { connectTimeoutMs: WAIT_MS, lockTimeoutMs: LOCK_MS }
  shared = openDatabase({ url: database.url, poolMax: POOL_MAX, ...waits })
})
afterAll(async () => {
  await shared.close()
  await database.close()
})

const read = (owner: string) => sql`SELECT 1`.execute(shared.of(asOwner(owner)))

/** Transactions of an owner that stay open until they are let go. */
async function hold(owner: string, count: number): Promise<{ letGo: () => Promise<void> }> {
  const { promise: released, resolve } = Promise.withResolvers<void>()
  const held: Promise<void>[] = []
  const begun = Array.from({ length: count }, () => {
    const { promise, resolve: begin } = Promise.withResolvers<void>()
    held.push(inTransaction(shared.of(asOwner(owner)), () => (begin(), released)))
    return promise
  })
  await Promise.all(begun)
  return { letGo: async () => (resolve(), void (await Promise.all(held))) }
}

it('whoever has half of the connections waits for one of her own, without one, and others do not wait', async () => {
  const hers = await hold('alice', POOL_MAX / 2)
  let answered = false
  const third = read('alice').then(() => (answered = true))
  await Promise.all([read('bob'), read('bob'), read('bob'), read('carol')])
  expect(answered).toBe(false)
  expect(shared.pool.waitingCount).toBe(0)
  await hers.letGo()
  await third
})

it('whoever waits too long for one of her own has an outage, and her turn passes to the next', async () => {
  const hers = await hold('alice', POOL_MAX / 2)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let late: unknown
  void read('alice').catch((error: unknown) => (late = error))
  await vi.advanceTimersByTimeAsync(WAIT_MS - 1)
  expect(late).toBeUndefined()
  await vi.advanceTimersByTimeAsync(1)
  expect(isOutage(late)).toBe(true)
  const next = read('alice')
  await hers.letGo()
  await next
  // She has all of her places again, and none went to whoever gave up.
  await (await hold('alice', POOL_MAX / 2)).letGo()
  await Promise.all(Array.from({ length: 10 }, () => read('alice')))
})

it('statements that are batched take the share of the owner whom they are about, whoever asks', async () => {
  const hers = await hold('alice', POOL_MAX / 2)
  let answered = false
  const batched = readMove(shared.ofNobody, asOwner('alice')).then(() => (answered = true))
  await Promise.all([readMove(shared.ofNobody, asOwner('bob')), read('bob')])
  expect(answered).toBe(false)
  await hers.letGo()
  await batched
})

it('a transaction that fails gives its place back', async () => {
  const failing = (): Promise<unknown> =>
    inTransaction(shared.of(asOwner('alice')), tx => sql`SELECT 1 / 0`.execute(tx)).catch(sqlState)
  for (let n = 0; n <= POOL_MAX; n++) expect(await failing()).toBe('22012')
})

it('a statement that waits for a row longer than it may is an outage, and its connection serves on', async () => {
  const owner = await seed.seedOwner(database.db)
  const held = { text: 'SELECT owner FROM owners WHERE owner = $1 FOR UPDATE', values: [owner] }
  const holder = await database.pool.connect()
  await holder.query('BEGIN')
  await holder.query(held)
  const waiting = (): Promise<unknown> =>
    shared
      .callsOf(owner)
      .executeQuery(CompiledQuery.raw(held.text, held.values))
      .catch((error: unknown) => error)
  const faults = await Promise.all([waiting(), waiting()])
  expect(faults.map(isOutage)).toEqual([true, true])
  // It was Postgres that gave up, for the row, and no other time had passed.
  expect(faults.map(sqlState)).toEqual(['55P03', '55P03'])
  const setting = await shared.callsOf(owner).executeQuery(CompiledQuery.raw('SHOW lock_timeout'))
  expect(setting.rows).toEqual([{ lock_timeout: `${LOCK_MS}ms` }])
  expect(shared.callPool.totalCount).toBe(2)
  await holder.query('ROLLBACK')
  holder.release()
  expect(await waiting()).toMatchObject({ rows: [{ owner }] })
})
