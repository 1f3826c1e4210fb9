/**
 * A pooler between the program and Postgres: one that keeps sessions serves, any other is refused at once.
 * Contract: "What the service does".
 */
import { createServer, type AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { prepared } from '../../src/storage/core/database.ts'
import { listen } from '../../src/storage/core/listen.ts'
import { tryLock } from '../../src/storage/core/lock.ts'
import { refusesStartUp } from '../../src/storage/core/pooler.ts'
import { pgbouncer, startPgbouncer, type PoolerOptions } from '../support/pgbouncer.ts'
import { emptyDatabase, runtimeRole } from '../support/postgres.ts'
import { describeWith } from '../support/requirement.ts'
import { until } from '../support/until.ts'

const one = prepared<{ n: number }>('one-of-the-poolers-test', 'SELECT $1::int AS n')
const LOG = { info: () => undefined, warn: () => undefined }
const start = (databaseUrl: string, seconds = 20) =>
  AUTHORITY_DATABASE.openServing(
    { databaseUrl, databaseWaitSeconds: seconds, poolMax: 2, migrate: true },
    LOG,
  )

/** An ErrorResponse of the protocol. */
function errorResponse(fields: Record<string, string>): Buffer {
  const body = `${Object.entries(fields)
    .map(([type, text]) => `${type}${text}\0`)
    .join('')}\0`
  const head = Buffer.from('E....')
  head.writeInt32BE(Buffer.byteLength(body) + 4, 1)
  return Buffer.concat([head, Buffer.from(body)])
}

/** Answers the start of every connection with an error, and with nothing else. */
async function refusing(fields: Record<string, string>) {
  let asked = 0
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      asked++
      socket.end(errorResponse({ S: 'FATAL', ...fields }))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `postgres://usher@127.0.0.1:${port}/usher`,
    asked: () => asked,
    close: () => new Promise(resolve => server.close(resolve)),
  }
}

describe('A pooler that refuses the start of a connection', () => {
  it.each([
    'unsupported startup parameter: statement_timeout',
    'unsupported startup parameter: search_path',
    'unsupported startup parameter in options: datestyle',
    'invalid startup parameter "options"',
  ])('because of a parameter (%s) is asked once, and told of with the remedy', async message => {
    const pooler = await refusing({ C: '08P01', M: message })
    try {
      await expect(start(pooler.url)).rejects.toThrow(
        /take that parameter out of the URL.*pool_mode must be session/,
      )
      expect(pooler.asked()).toBe(1)
    } finally {
      await pooler.close()
    }
  })

  it.each([
    ['08P01', 'server login has been failing, try again later'],
    ['08P01', 'pgbouncer cannot connect to server'],
    ['08P01', 'query_wait_timeout'],
    ['57P03', 'the database system is starting up'],
  ])('because its own server is away (%s: %s) is waited for, as an outage', async (code, message) => {
    const pooler = await refusing({ C: code, M: message })
    try {
      await expect(start(pooler.url, 1)).rejects.toThrow(/no primary answered .* within 1 s/)
      expect(pooler.asked()).toBeGreaterThan(1)
      expect(refusesStartUp(Object.assign(new Error(message), { code }))).toBe(false)
    } finally {
      await pooler.close()
    }
  })
})

describeWith(await pgbouncer(), 'PgBouncer', path => {
  async function through<T>(options: PoolerOptions, work: (url: string) => Promise<T>): Promise<T> {
    const { url, close } = await emptyDatabase()
    const pooler = await startPgbouncer(path, url, options)
    try {
      return await work(pooler.url)
    } finally {
      await pooler.stop()
      await close()
    }
  }

  it('in session mode serves: migrations, roles, settings, locks and notifications', async () => {
    await through({ mode: 'session' }, async url => {
      const database = await start(url)
      try {
        const { rows } = await sql<{
          role: string
          limit: string
          style: string
        }>`SELECT current_user::text AS role,
          current_setting('statement_timeout') AS limit, current_setting('datestyle') AS style`.execute(
          database.ofNobody,
        )
        expect(rows).toEqual([{ role: runtimeRole(url), limit: '10s', style: 'ISO, MDY' }])
        const held = await tryLock(url, 'once')
        expect(held).toBeDefined()
        expect(await tryLock(url, 'once')).toBeUndefined()
        await held!.release()
        const heard: string[] = []
        const listener = await listen({ url, channel: 'news', onNotify: text => heard.push(text) })
        await sql`SELECT pg_notify('news', 'something')`.execute(database.ofNobody)
        await until(() => heard.length > 0)
        await listener.close()
      } finally {
        await database.close()
      }
    })
  })

  it.each([
    ['transaction', {}],
    ['transaction', { server_round_robin: 1 }],
    ['transaction', { default_pool_size: 1 }],
    ['statement', {}],
  ])(
    'in %s mode (%o) is refused at the start, with the remedy, and nothing is made there',
    async (mode, settings) => {
      await through({ mode, settings }, async url => {
        await expect(start(url)).rejects.toThrow(
          /gives the statements of one session.*set pool_mode = session/,
        )
        await expect(
          AUTHORITY_DATABASE.migrateOnce({ databaseUrl: url, databaseWaitSeconds: 20 }, () => undefined),
        ).rejects.toThrow(/pool_mode = session/)
      })
    },
  )

  it('that resets nothing between two clients serves both: each has the log-in’s own rights, and the role that it takes, and no statement of the other', async () => {
    await through(
      { mode: 'session', settings: { server_reset_query: '', default_pool_size: 3 } },
      async url => {
        for (let client = 0; client < 3; client++) {
          const database = await start(url)
          try {
            for (let use = 0; use < 4; use++)
              expect(await one(database.ofNobody, [1])).toMatchObject({ rows: [{ n: 1 }] })
            const { rows } = await sql<{ role: string }>`SELECT current_user::text AS role`.execute(
              database.ofNobody,
            )
            expect(rows).toEqual([{ role: runtimeRole(url) }])
          } finally {
            await database.close()
          }
        }
      },
    )
  })

  it('refuses a parameter that the URL begins a connection with, which is told at once', async () => {
    await through({ mode: 'session' }, async url => {
      const asking = new URL(url)
      asking.searchParams.set('options', '-c datestyle=German')
      await expect(start(asking.href)).rejects.toThrow(/take that parameter out of the URL/)
    })
  })
})
