/**
 * A transaction that Postgres aborts because of another one (a deadlock, a serialization failure) is retried
 * as a whole, a few times; nothing else is. Contract, "Errors" (503), "What the service does" (atomicity).
 */
import { sql } from 'kysely'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import {
  continueFamily,
  endFamily,
  openFamily,
  presentTicket,
  readFamily,
} from '../../src/storage/authority/negotiations/tickets.ts'
import { inTransaction, isOutage, sqlState } from '../../src/storage/core/database.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { startTestAuthority } from '../support/authority.ts'
import { freshDatabase, runtimeRole } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { testAgent } from '../support/test-agent.ts'
import { asHandle, type Family, type Owner } from '../../src/wire/identifiers.ts'

let database: Database
/** Who owns the tables. */
let admin: Client
let owner: Owner
let generation: number
beforeAll(async () => {
  database = await freshDatabase()
  owner = await seed.seedOwner(database.db)
  generation = await seed.seedConnection(database.db, owner, HANDLE)
  admin = new Client({ connectionString: database.url })
  await admin.connect()
  await admin.query(`CREATE SEQUENCE tries; GRANT ALL ON SEQUENCE tries TO ${runtimeRole(database.url)}`)
})
afterAll(async () => {
  await admin.end()
  await database.close()
})

const HANDLE = asHandle('jkt:agent')

/**
 * Has the next `times` statements that write a table end as `how` says; what was counted is not rolled back.
 */
async function breaking(table: string, times: number, how: string): Promise<void> {
  await sql`SELECT setval('tries', 1, false)`.execute(database.db)
  await admin.query(`
    CREATE OR REPLACE FUNCTION break_${table}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
      IF nextval('tries') <= ${times} THEN ${how}; END IF; RETURN NULL; END $$;
    CREATE OR REPLACE TRIGGER break AFTER INSERT OR UPDATE ON ${table} EXECUTE FUNCTION break_${table}()`)
}
const mend = (table: string) => admin.query(`DROP TRIGGER break ON ${table}`)
const tries = async (): Promise<number> => {
  const { rows } = await sql<{ n: number }>`
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END::int AS n FROM tries`.execute(database.db)
  return rows[0]!.n
}
const raise = (code: string) => `RAISE EXCEPTION 'as if' USING ERRCODE = '${code}'`

interface Write {
  table: string
  /** What is there before it. */
  prepare?: () => Promise<unknown>
  run: (at: Database, prepared: never) => Promise<unknown>
  done: unknown
}
const ticket = async () => {
  const hash = seed.bytes()
  return { hash, family: await seed.seedFamily(database.db, owner, hash) }
}
const spent = async () => seed.seedFamily(database.db, owner, null)
const opening = () => ({
  owner,
  family: seed.name('fam_'),
  state: 'need_info' as const,
  client_id: seed.CLIENT_ID,
  resource_id: seed.resourceId(owner),
  resource_scopes: ['read'],
  tier_id: seed.TIER,
  template: null,
  sealedExpiresAt: Math.floor(Date.now() / 1000) + 300,
  ticketHash: seed.bytes(),
  ticketSeconds: 300,
  negotiationSeconds: 3600,
})

const WRITES: Record<string, Write> = {
  'a first presentation': { table: 'families', run: at => openFamily(at.db, opening()), done: true },
  'a later presentation': {
    table: 'families',
    prepare: ticket,
    run: async (at, { hash }: Awaited<ReturnType<typeof ticket>>) => {
      const shown = { owner, hash, nextHash: seed.bytes(), awaitingSeconds: 60, pollSeconds: 0 }
      return (await presentTicket(at.db, shown)) !== undefined
    },
    done: true,
  },
  'the next ticket': {
    table: 'families',
    prepare: spent,
    run: (at, family: Family) =>
      continueFamily(at.db, { owner, family, ticketHash: seed.bytes(), ticketSeconds: 60 }),
    done: true,
  },
  'the end of a negotiation': {
    table: 'families',
    prepare: spent,
    run: async (at, family: Family) => {
      const ended = await endFamily(at.db, owner, family, 'denied')
      return [ended, (await readFamily(database.db, owner, family))?.state]
    },
    done: [true, 'denied'],
  },
  'a grant': {
    table: 'grants',
    run: at => recordGrant(at.db, seed.grantRow(owner, HANDLE, generation, seed.bytes()), []),
    done: true,
  },
  'a consume': {
    table: 'grants',
    prepare: () => seed.seedGrant(database.db, owner, HANDLE, generation),
    run: async (at, rpt: Buffer) =>
      (await consumeGrant(at.calls, owner, { client_id: seed.CLIENT_ID }, rpt)) !== undefined,
    done: true,
  },
  'a transaction': {
    table: 'families',
    run: at => inTransaction(at.db, tx => openFamily(tx, opening())),
    done: true,
  },
}

describe.each(Object.entries(WRITES))('%s', (_what, { table, prepare, run, done }) => {
  const attempt = async (times: number, how: string): Promise<unknown> => {
    const prepared = await prepare?.()
    await breaking(table, times, how)
    // Its own, since a connection of it may be lost.
    const at = openDatabase({ url: database.url, poolMax: 1 })
    try {
      return await run(at, prepared as never)
    } catch (error) {
      return error
    } finally {
      await at.close()
      await mend(table)
    }
  }

  it.each(['40P01', '40001'])('that ends three times with %s is done the fourth time', async code => {
    expect(await attempt(3, raise(code))).toEqual(done)
    expect(await tries()).toBe(4)
  })
  it('that ends a fourth time with a deadlock is an outage, not a fault of ours', async () => {
    const error = await attempt(1_000, raise('40P01'))
    expect([sqlState(error), isOutage(error)]).toEqual(['40P01', true])
    expect(await tries()).toBe(4)
  })
  it('whose connection is lost is not sent again: what was done is not known', async () => {
    const error = await attempt(1_000, 'PERFORM pg_terminate_backend(pg_backend_pid())')
    expect(isOutage(error)).toBe(true)
    expect(await tries()).toBe(1)
  })
  it('that Postgres refuses for another reason is not sent again', async () => {
    const error = await attempt(1_000, raise('23514'))
    expect([sqlState(error), isOutage(error)]).toEqual(['23514', false])
    expect(await tries()).toBe(1)
  })
})

it('no attempt begins once the time of a request is over', async () => {
  const slow = openDatabase({ url: database.url, poolMax: 1 })
  let attempts = 0
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const error: unknown = await inTransaction(slow.db, async tx => {
    attempts++
    vi.advanceTimersByTime(2_600)
    await sql.raw(`DO $$ BEGIN ${raise('40001')}; END $$`).execute(tx)
  }).catch((caught: unknown) => caught)
  await slow.close()
  expect(sqlState(error)).toBe('40001')
  expect(attempts).toBe(2)
})

it('whoever asked is told 503 in the end, and to try again', async () => {
  const authority = await startTestAuthority()
  const ticket = await testAgent(authority).ticket()
  const itsAdmin = new Client({ connectionString: authority.database.url })
  await itsAdmin.connect()
  await itsAdmin.query(`
    CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${raise('40P01')}; END $$;
    CREATE TRIGGER deadlock AFTER INSERT ON families EXECUTE FUNCTION deadlock()`)
  const reply = await testAgent(authority).present(ticket)
  expect([reply.status, reply.body.error]).toEqual([503, 'temporarily_unavailable'])
  expect(reply.headers.get('retry-after')).toBe('1')
  await itsAdmin.query('DROP TRIGGER deadlock ON families')
  await itsAdmin.end()
  expect((await testAgent(authority).present(ticket)).body.error).toBe('need_info')
  await authority.close()
})
