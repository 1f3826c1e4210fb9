/**
 * What a failover looks like from here: a standby that streams from the primary, and is one until it is
 * promoted. Contract: "Grant (RPT) liveness", "Errors" (503), "Events".
 */
import { Client, Pool } from 'pg'
import { CompiledQuery, Kysely, PostgresDialect, sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { inTransaction, isOutage } from '../../src/storage/core/database.ts'
import { AUTHORITY_DATABASE, openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { listen } from '../../src/storage/core/listen.ts'
import { embeddedPair } from '../support/embedded-pair.ts'
import { describeWith } from '../support/requirement.ts'
import * as seed from '../support/seed.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'
import { asHandle, type Owner } from '../../src/wire/identifiers.ts'

describeWith(await embeddedPair(), 'A standby taken for the primary', pair => {
  const HANDLE = asHandle('jkt:agent')
  let primary: Database
  let standby: Client
  let owner: Owner
  let rpt: Buffer

  beforeAll(async () => {
    await AUTHORITY_DATABASE.migrate(pair.primary.url)
    primary = openDatabase({ url: pair.primary.url, poolMax: 4 })
    owner = await seed.seedOwner(primary.db)
    const generation = await seed.seedConnection(primary.db, owner, HANDLE)
    rpt = await seed.seedGrant(primary.db, owner, HANDLE, generation)
    standby = new Client({ connectionString: pair.standby.url })
    standby.on('error', () => undefined)
    await standby.connect()
    await until(async () => (await statusThere()) === 'active')
    // From here on it is behind, as standbys are: it still has the connection that the owner has revoked.
    await standby.query('SELECT pg_wal_replay_pause()')
    await inTransaction(primary.db, tx => revokeConnection(tx, owner, HANDLE, seed.ACTOR))
  })
  afterAll(async () => {
    await standby.end()
    await primary.close()
    await pair.stop()
  })

  async function statusThere(): Promise<string | undefined> {
    const there = await standby
      .query<{ status: string }>('SELECT status FROM connections WHERE owner = $1 AND handle = $2', [
        owner,
        HANDLE,
      ])
      // Before the tables have come over.
      .catch(() => undefined)
    return there?.rows[0]?.status
  }

  const faultOf = (asked: Promise<unknown>): Promise<unknown> =>
    asked.then(
      answer => ({ answered: answer }),
      (error: unknown) => error,
    )
  const expectOutage = async (asked: Promise<unknown>): Promise<void> => {
    const fault = await faultOf(asked)
    expect(isOutage(fault), JSON.stringify(fault)).toBe(true)
  }
  const introspected = (database: Database) => readGrant(database.calls, owner, seed.CLIENT_ID, rpt)

  it('is an outage to introspection and to consume, though it still has the revoked connection', async () => {
    expect((await introspected(primary))?.grant?.connected).toBe(false)
    expect(await statusThere()).toBe('active')
    const away = openDatabase({ url: pair.standby.url, poolMax: 2 })
    await expectOutage(introspected(away))
    await expectOutage(consumeGrant(away.calls, owner, { client_id: seed.CLIENT_ID }, rpt))
    await expectOutage(sql`SELECT * FROM connections`.execute(away.db))
    await away.close()
  })

  it('is an outage also on connections that a pooler between leads there', async () => {
    const pool = new Pool({ connectionString: pair.standby.url, max: 1 })
    const calls = new Kysely<never>({ dialect: new PostgresDialect({ pool }) })
    await expectOutage(introspected({ ...primary, calls }))
    await expectOutage(consumeGrant(calls, owner, { client_id: seed.CLIENT_ID }, rpt))
    await calls.destroy()
  })

  it('so is a connection that was made read-only while it was open, as a primary that is retired', async () => {
    const away = openDatabase({ url: pair.primary.url, poolMax: 1 })
    expect((await introspected(away))?.grant?.connected).toBe(false)
    await away.calls.executeQuery(CompiledQuery.raw('SET default_transaction_read_only = on'))
    await expectOutage(introspected(away))
    await away.close()
  })

  it('the listener leaves no connection behind while the standby is one, and listens once it is promoted', async () => {
    const link = await severableLink(pair.primary.url)
    const heard: string[] = []
    let connects = 0
    let failures = 0
    const listener = await listen({
      url: link.url,
      channel: 'said',
      onNotify: payload => heard.push(payload),
      onConnect: () => connects++,
      onError: error => {
        if (isOutage(error)) failures++
      },
    })
    const left = async (): Promise<number> => {
      const { rows } = await standby.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'usher-listen'`,
      )
      return rows[0]!.n
    }
    try {
      link.cut()
      link.leadTo(pair.standby.url)
      link.mend()
      // The first is the lost connection; each of the others reached the standby, and was refused.
      await until(() => failures >= 6)
      await until(async () => (await left()) === 0)
      await standby.query('SELECT pg_wal_replay_resume()')
      await standby.query('SELECT pg_promote()')
      await until(() => connects === 2)
      await standby.query(`SELECT pg_notify('said', 'promoted')`)
      await until(() => heard.length === 1)
      expect(await left()).toBe(1)
    } finally {
      await listener.close()
      await link.close()
    }
    await until(async () => (await left()) === 0)
  })
})
