/** Contract, "Limits": an owner has so many live grants and no more, however many are asked for at a time. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { inTransaction, STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { LIVE_COUNT_AGE_MS, GrantsFull, NEAR, recordGrant } from '../../src/storage/authority/grants/issue.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import { freshDatabase, PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'

const MOST = 20
const CALLERS = 48
const REPLICAS = 6
let database: Database
let replicas: Database[]
beforeAll(async () => {
  database = await freshDatabase({ poolMax: 32, ...PATIENT })
  replicas = Array.from({ length: REPLICAS }, () =>
    openDatabase({ url: database.url, poolMax: 16, ...PATIENT }),
  )
})
afterAll(async () => {
  await Promise.all(replicas.map(replica => replica.close()))
  await database.close()
})

const connected = async () => {
  const owner = await seed.seedOwner(database.db)
  const handle: Handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  return { owner, handle, generation }
}
type Connected = Awaited<ReturnType<typeof connected>>
const grantOf = ({ owner, handle, generation }: Connected) =>
  seed.grantRow(owner, handle, generation, seed.bytes())
const full = (error: unknown) => {
  if (error instanceof GrantsFull) return 'full' as const
  throw error
}
const count = async (owner: Owner) => {
  const { rows } = await database.pool.query<{ n: number }>(
    'SELECT count(*)::int AS n FROM grants WHERE owner = $1',
    [owner],
  )
  return rows[0]!.n
}

describe('Live grants of one owner', () => {
  it('are never more than she may have, of however many asked for at once, at however many replicas', async () => {
    for (let round = 0; round < 5; round++) {
      const hers = await connected()
      const outcomes = await seed.callers(CALLERS, n => {
        const { db } = replicas[n % REPLICAS]!
        const grant = grantOf(hers)
        const recorded =
          n % 3 === 0
            ? inTransaction(db, tx => recordGrant(tx, grant, [], MOST))
            : recordGrant(db, grant, [], MOST)
        return recorded.catch(full)
      })
      expect(outcomes.filter(one => one === true)).toHaveLength(MOST)
      expect(outcomes.filter(one => one === 'full')).toHaveLength(CALLERS - MOST)
      expect(await count(hers.owner)).toBe(MOST)
    }
  })

  it('are counted again once a quarter of a second is over, or few places may be left', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const hers = await connected()
    const [one, other] = [replicas[0]!, replicas[1]!]
    const sent: string[] = []
    const hear = (statement: unknown): void => void sent.push((statement as SentStatement).text)
    subscribe(STATEMENTS_CHANNEL, hear)
    onTestFinished(() => void unsubscribe(STATEMENTS_CHANNEL, hear))
    /** Whether it waited for her row, as is done where few places are left. */
    const issue = async ({ db }: Database) => {
      sent.length = 0
      expect(await recordGrant(db, grantOf(hers), [], NEAR + 5)).toBe(true)
      return sent.some(text => /FROM owners WHERE owner = .* FOR NO KEY UPDATE/.test(text))
    }
    // Each knows of its own, and of the other's what it counted: the fifth place may be given twice.
    for (const replica of [one, other, one, other, one]) expect(await issue(replica)).toBe(false)
    vi.advanceTimersByTime(LIVE_COUNT_AGE_MS)
    for (const replica of [one, other]) expect(await issue(replica)).toBe(true)
    await database.pool.query(`UPDATE grants SET expires_at = now() - interval '1 second' WHERE owner = $1`, [
      hers.owner,
    ])
    // It counts that there is room again, five times, and then that there is none.
    for (let times = 0; times < 5; times++) expect(await issue(one)).toBe(false)
    expect(await issue(one)).toBe(true)
  })

  it('are not read again within that time while there is room, however many there are', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const alone = openDatabase({ url: database.url, poolMax: 1, ...PATIENT })
    onTestFinished(() => alone.close())
    const hers = await connected()
    await database.pool.query(
      `INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id, tier_id,
         tier_epoch, single_use, claims, expires_at)
       SELECT $1, sha256(n::text::bytea), n, n, 'other', 1, 'x', 'x', 'x', 'x', 1, true, '{}', now() + interval '1 hour'
       FROM generate_series(1, 500) n`,
      [hers.owner],
    )
    const entriesRead = async () => {
      await alone.pool.query('SELECT pg_stat_force_next_flush()')
      const { rows } = await alone.pool.query<{ read: number }>(`
        SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'grants')::int
          + seq_tup_read::int AS read FROM pg_stat_user_tables WHERE relname = 'grants'`)
      return rows[0]!.read
    }
    const reads: number[] = []
    for (let nth = 0; nth < 3; nth++) {
      const before = await entriesRead()
      expect(await recordGrant(alone.db, grantOf(hers), [], 10_000)).toBe(true)
      reads.push((await entriesRead()) - before)
    }
    const [first, ...later] = reads
    expect(first).toBeGreaterThanOrEqual(500)
    for (const read of later) expect(read).toBeLessThan(10)
  })

  it('of another owner are not counted, nor those that have expired', async () => {
    const [one, other] = [await connected(), await connected()]
    for (let nth = 0; nth < 2; nth++) expect(await recordGrant(database.db, grantOf(one), [], 2)).toBe(true)
    expect(await recordGrant(database.db, grantOf(one), [], 2).catch(full)).toBe('full')
    expect(await recordGrant(database.db, grantOf(other), [], 2)).toBe(true)
    await database.pool.query(
      `UPDATE grants SET expires_at = now() - interval '1 second' WHERE owner = $1 AND jti IN
        (SELECT jti FROM grants WHERE owner = $1 LIMIT 1)`,
      [one.owner],
    )
    expect(await recordGrant(database.db, grantOf(one), [], 2)).toBe(true)
    expect(await recordGrant(database.db, grantOf(one), [], 2).catch(full)).toBe('full')
  })

  it('that rest on what is no longer so are refused for that, with room or at the limit’s edge', async () => {
    const hers = await connected()
    const stale = { ...grantOf(hers), generation: hers.generation + 1 }
    expect(await recordGrant(database.db, stale, [], 1)).toBe(false)
    expect(await recordGrant(database.db, stale, [], 100_000)).toBe(false)
    expect(await recordGrant(database.db, grantOf(hers), [], 100_000)).toBe(true)
  })
})
