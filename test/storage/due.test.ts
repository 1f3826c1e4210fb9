/** The due-queue, and what works from it: contract, "Limits" (lifetimes), "Health". */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import { pino } from 'pino'
import { beforeAll, describe, expect, it } from 'vitest'
import { startAnnouncements } from '../../src/authority/owner/events/announcements.ts'
import { provision } from '../../src/authority/provision.ts'
import { createCountedRegistry } from '../../src/authority/registry/registry-health.ts'
import { sweepDue } from '../../src/authority/sweeper.ts'
import type { ProvisionedOwner } from '../../src/config/provisioning/provision.ts'
import { dueNoMore, dueNow, dueWithin, sweepWithin, takeDue } from '../../src/storage/authority/due.ts'
import { sweepAgain } from '../../src/storage/authority/sweep.ts'
import { inTransaction, STATEMENTS_CHANNEL } from '../../src/storage/core/database.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const OWNERS = 20_000
const database = coreStand()
const listening = { ms: () => 0, broken: () => undefined }
const sweeping = { database, log: pino({ level: 'silent' }), listening }
const sweepAll = () => sweepDue(sweeping, 60, () => false)

beforeAll(async () => {
  await sql`
    WITH made AS (INSERT INTO owners (owner, tag) SELECT 'many-' || n, 'tag-' || n FROM generate_series(1, ${OWNERS}::int) n RETURNING owner),
      due AS (INSERT INTO due (owner, kind, at) SELECT owner, 'sweep', now() + interval '1 hour' FROM made)
    INSERT INTO resource_servers (owner, client_id, name, resource_uri, status, auth, publishes)
    SELECT owner, 'https://tools.example/' || owner, 'X', 'https://tools.example/' || owner, 'active', 'signature', true FROM made`.execute(
    database.db,
  )
  await sql`ANALYZE`.execute(database.db)
})

/** How many statements were sent for it. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  let sent = 0
  const count = (): void => void sent++
  subscribe(STATEMENTS_CHANNEL, count)
  try {
    await work()
  } finally {
    unsubscribe(STATEMENTS_CHANNEL, count)
  }
  return sent
}

const dueIn = async (owner: Owner) => {
  const { rows } = await sql<{ s: number }>`
    SELECT extract(epoch FROM at - clock_timestamp())::float8 AS s FROM due
    WHERE owner = ${owner} AND kind = 'sweep'`.execute(database.db)
  return rows[0]!.s
}
const oldSignatures = (owner: Owner, count: number, age = '1 minute') =>
  sql`INSERT INTO spent_signatures (owner, digest, expires_at)
    SELECT ${owner}, sha256(n::text::bytea), now() - ${age}::interval FROM generate_series(1, ${count}::int) n`.execute(
    database.db,
  )
const signaturesOf = async (owner: Owner) =>
  (await sql`SELECT 1 FROM spent_signatures WHERE owner = ${owner}`.execute(database.db)).rows.length

describe('With twenty thousand owners', () => {
  it('a sweep where nothing is due is one statement', async () => {
    await sweepAll()
    expect(await statementsOf(sweepAll)).toBe(1)
  })

  it('a sweep costs what is due, not who is there', async () => {
    const owner = await seed.seedOwner(database.db)
    await oldSignatures(owner, 10)
    // One for each kind of row that is swept, one for the leaves that may be lacking, and what finds and
    // keeps the owner's next time.
    expect(await statementsOf(sweepAll)).toBeLessThan(21)
    expect(await signaturesOf(owner)).toBe(0)
  })

  it('/health/registry is one statement for all who ask at the same time', async () => {
    const counted = createCountedRegistry(database.db)
    const answers: unknown[] = []
    expect(
      await statementsOf(async () =>
        answers.push(...(await Promise.all(Array.from({ length: 8 }, counted)))),
      ),
    ).toBe(1)
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatchObject({ landed: false, waiting: OWNERS })
    // And for who asks soon after it was there.
    expect(await statementsOf(counted)).toBe(0)
  })

  it('/health/registry that failed is no answer, and is asked anew', async () => {
    let asked = 0
    const broken = new Proxy(database.db, {
      get: (db, name) => {
        if (name !== 'getExecutor') return Reflect.get(db, name) as unknown
        if (asked++ === 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' })
        return () => db.getExecutor()
      },
    })
    const counted = createCountedRegistry(broken)
    await expect(counted()).rejects.toThrow('gone')
    expect(await counted()).toMatchObject({ landed: false })
  })

  it('a start whose file says nothing new looks up its entries and their values, a thousand at a time', async () => {
    const entry: Omit<ProvisionedOwner, 'owner'> = {
      namespaces: [],
      device_keys: [],
      logins: [],
      resource_servers: [],
      resources: [],
      tiers: [],
    }
    const file = Array.from({ length: 2_000 }, (_, n) => ({ owner: `many-${n + 1}`, ...entry }))
    await provision(database.db, file)
    expect(await statementsOf(() => provision(database.db, file))).toBe(4)
    const changed = file.with(7, {
      ...file[7]!,
      logins: [{ issuer: 'https://r.example', subject: 's', name: 'n' }],
    })
    expect(await provision(database.db, changed)).toEqual([
      { owner: 'many-8', kind: 'login', item: expect.any(String), outcome: 'made' },
    ])
    expect(await provision(database.db, file)).toEqual([])
  })
})

describe('Taking what is due', () => {
  it('each is taken by one of many, and is due again when its time has passed', async () => {
    const owners = await Promise.all(Array.from({ length: 12 }, () => seed.seedOwner(database.db)))
    const take = (seconds: number) =>
      seed.callers(24, () => takeDue(database.db, 'sweep', { limit: 1, seconds }))
    const names = (await take(60)).flat().map(({ owner }) => owner)
    expect(names.toSorted()).toEqual(owners.toSorted())
    await Promise.all(owners.map(owner => dueNow(database.db, owner, 'sweep')))
    await take(0)
    expect(Math.max(...(await Promise.all(owners.map(dueIn))))).toBeLessThanOrEqual(0)
    await sweepAll()
  })

  it('what is to be due at the latest puts nothing off, and its taker does not end it', async () => {
    const owner = await seed.seedOwner(database.db)
    await dueNow(database.db, owner, 'sweep')
    await dueWithin(database.db, owner, { kind: 'sweep' }, 60)
    expect(await dueIn(owner)).toBeLessThanOrEqual(0)
    const [taken] = await takeDue(database.db, 'sweep', { limit: 1, seconds: 30 })
    await dueWithin(database.db, owner, { kind: 'sweep' }, 60)
    await dueNoMore(database.db, taken!)
    expect(await dueIn(owner)).toBeLessThanOrEqual(30)
    await dueNow(database.db, owner, 'sweep')
    await sweepAll()
  })

  it('what is said to be due meanwhile is not put off by its taker', async () => {
    const owner = await seed.seedOwner(database.db)
    const [taken] = await takeDue(database.db, 'sweep', { limit: 1, seconds: 60 })
    expect(taken).toMatchObject({ owner, kind: 'sweep', client_id: '' })
    await dueNow(database.db, owner, 'sweep')
    await sweepAgain(database.db, taken!, { more: false, pauseSeconds: 60, idleSeconds: 3_600 })
    expect(await dueIn(owner)).toBeLessThanOrEqual(0)
    await sweepAll()
  })

  it('an owner to whom something happened is looked at soon, and no later than she was due', async () => {
    const owner = await seed.seedOwner(database.db)
    await sweepAll()
    expect(await dueIn(owner)).toBeGreaterThan(3_000)
    await sweepWithin(database.db, owner, 60)
    await sweepWithin(database.db, owner, 600)
    expect(await dueIn(owner)).toBeLessThanOrEqual(60)
  })

  it('she is due again when the first of her rows is to go', async () => {
    const owner = await seed.seedOwner(database.db)
    await oldSignatures(owner, 1, '-600 seconds')
    await sweepAll()
    expect(await dueIn(owner)).toBeGreaterThan(590)
    expect(await dueIn(owner)).toBeLessThanOrEqual(600)
  })
})

describe('A round of sweeping', () => {
  it('goes on until nothing is due, however much of one owner there is', async () => {
    const owner = await seed.seedOwner(database.db)
    await oldSignatures(owner, 25_000)
    await sweepAll()
    expect(await signaturesOf(owner)).toBe(0)
  })

  it('is not ended by what fails of one owner, nor of one table', async () => {
    const [held, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    for (const owner of [held, other]) {
      await oldSignatures(owner, 3)
      await sql`INSERT INTO ledger (owner, kind, data) VALUES (${owner}, 'touched', '{}')`.execute(
        database.db,
      )
    }
    // Her head is held: her entries cannot be numbered, which fails when the time for a lock has passed.
    const holder = await database.pool.connect()
    await holder.query('BEGIN')
    await holder.query('INSERT INTO heads (owner) VALUES ($1)', [held])
    try {
      await sweepAll()
      expect([await signaturesOf(held), await signaturesOf(other)]).toEqual([0, 0])
      expect(await dueIn(held)).toBeGreaterThan(0)
    } finally {
      await holder.query('ROLLBACK')
      holder.release()
    }
    await dueNow(database.db, asOwner(held), 'sweep')
    await sweepAll()
    const { rows } = await sql<{ seq: number }>`SELECT seq FROM ledger WHERE owner = ${held}`.execute(
      database.db,
    )
    expect(rows).toEqual([{ seq: 1 }])
  })
})

describe('Whoever does such work', () => {
  it('is woken once it was written, of that kind alone, and not before that is committed', async () => {
    const owner = await seed.seedOwner(database.db)
    const announcements = await startAnnouncements({ url: database.url })
    try {
      const woken: string[] = []
      announcements.watchDue('tell', () => woken.push('tell'))
      announcements.watchDue('view', () => woken.push('view'))
      await inTransaction(database.db, async tx => {
        await dueNow(tx, owner, 'tell')
        // What is committed now wakes at once, and the other not yet.
        await dueNow(database.db, owner, 'view')
        await until(() => woken.length > 0)
        expect(woken).toEqual(['view'])
      })
      await until(() => woken.length > 1)
      expect(woken).toEqual(['view', 'tell'])
    } finally {
      await announcements.close()
    }
  })
})
