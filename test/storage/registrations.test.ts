/**
 * How many resource servers may wait for an owner, and for how long: contract, "Resource server
 * registration".
 */
import { sql } from 'kysely'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { sweepDue } from '../../src/authority/sweeper.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { banOrigin } from '../../src/storage/authority/connections/banned-origins.ts'
import { dueNow, takeDue } from '../../src/storage/authority/due.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import {
  decideResourceServer,
  endLapsed,
  listResourceServers,
  pendingAt,
  registerResourceServer,
} from '../../src/storage/authority/registry/registrations.ts'
import { readResourceServer } from '../../src/storage/authority/registry/resources.ts'
import { sweepAgain } from '../../src/storage/authority/sweep.ts'
import { asClientId, type Owner } from '../../src/wire/identifiers.ts'
import { ageDecision, ageRegistration } from '../support/resource-server.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const database = coreStand(PATIENT)
/** Of which she has approved nothing; a seeded owner has an active server elsewhere. */
const ORIGIN = 'https://strange.example'
const client_id = asClientId(`${ORIGIN}/mcp/x`)
const register = (owner: Owner, resource_uri: string = client_id) =>
  inTransaction(database.db, tx => registerResourceServer(tx, { owner, resource_uri, name: 'X' }))
const decide = (owner: Owner, status: 'active' | 'revoked') =>
  inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    await decideResourceServer(tx, owner, client_id, status)
  })

describe('registrations', () => {
  it('of many at once for one resource make one record, and one of them is the first', async () => {
    const owner = await seed.seedOwner(database.db)
    const outcomes = (await seed.callers(12, () => register(owner))).map(({ outcome }) => outcome)
    expect(outcomes.toSorted()).toEqual(['registered', ...Array<string>(11).fill('waiting')])
  })

  it('of many origins at once never exceed what may wait for one owner', async () => {
    const owner = await seed.seedOwner(database.db)
    const at = (n: number) => register(owner, `https://tools-${n}.example/mcp/x`)
    for (let n = 0; n < 15; n++) expect(await at(n)).toMatchObject({ outcome: 'registered' })
    // Whoever counts reads; whoever registers waits, until all of them have come as far as they come.
    const answers = await inTransaction(database.db, async tx => {
      await sql`LOCK TABLE resource_servers IN SHARE MODE`.execute(tx)
      const asking = seed.callers(17, n => at(15 + n))
      await until(async () => (await lockWaiters(database)) >= 17)
      return { asking }
    })
    const outcomes = (await answers.asking).map(({ outcome }) => outcome)
    expect(outcomes.filter(outcome => outcome === 'registered')).toHaveLength(5)
    expect(outcomes.filter(outcome => outcome === 'full')).toHaveLength(12)
  })

  it('of 32 resources of one origin at once, of which she has approved nothing, two wait', async () => {
    const owner = await seed.seedOwner(database.db)
    let n = 0
    const answers = await seed.callers(32, () => register(owner, `${client_id}${n++}`))
    const outcomes = answers.map(({ outcome }) => outcome)
    expect(outcomes.filter(outcome => outcome === 'registered')).toHaveLength(2)
    expect(outcomes.filter(outcome => outcome === 'origin_full')).toHaveLength(30)
  })

  it('of one origin and bans of it at once leave none waiting, whichever is first', async () => {
    for (let round = 0; round < 8; round++) {
      const owner = await seed.seedOwner(database.db)
      let n = 0
      const ban = inTransaction(database.db, async tx => {
        await lockQueue(tx, owner)
        await banOrigin(tx, owner, ORIGIN)
        const waiting = await pendingAt(tx, owner, ORIGIN)
        for (const one of waiting) await decideResourceServer(tx, owner, one, 'revoked')
        return waiting.length
      })
      const [withdrawn, answers] = await Promise.all([
        ban,
        seed.callers(8, () => register(owner, `${client_id}${n++}`)),
      ])
      const registered = answers.filter(({ outcome }) => outcome === 'registered')
      expect(registered).toHaveLength(withdrawn)
      expect(await pendingAt(database.db, owner, ORIGIN)).toEqual([])
    }
  })

  it('that lapsed neither count nor stand, whether or not they were swept', async () => {
    const owner = await seed.seedOwner(database.db)
    for (const name of ['a', 'b']) await register(owner, `${client_id}${name}`)
    expect(await register(owner)).toEqual({ outcome: 'origin_full' })
    await ageRegistration({ database }, `${client_id}a`)
    await ageRegistration({ database }, `${client_id}b`, '7 days -1 minute')
    expect(await readResourceServer(database.db, owner, asClientId(`${client_id}a`))).toBeUndefined()
    const listed = await listResourceServers(database.db, owner, { after: ORIGIN, limit: 10 })
    expect(listed.map(one => one.client_id)).toEqual([`${client_id}b`])
    expect(await register(owner)).toEqual({ outcome: 'registered' })
    expect(await inTransaction(database.db, tx => endLapsed(tx, owner))).toEqual([`${client_id}a`])
  })

  it('that lapsed of what she had withdrawn before are withdrawn again: no PAT of before comes to life', async () => {
    const owner = await seed.seedOwner(database.db)
    await register(owner)
    await decide(owner, 'active')
    await decide(owner, 'revoked')
    await ageDecision({ database }, client_id)
    await register(owner)
    await ageRegistration({ database }, client_id)
    const read = () => readResourceServer(database.db, owner, client_id)
    const unswept = await read()
    expect(unswept).toMatchObject({ status: 'revoked', generation: 2 })
    await inTransaction(database.db, tx => endLapsed(tx, owner))
    expect(await read()).toEqual(unswept)
    // It lapsed just now, so that it may ask again in a day.
    expect(await register(owner)).toMatchObject({ outcome: 'paused' })
  })

  it('that lapse are swept when they do, and an owner is looked at for them in time', async () => {
    const owner = await seed.seedOwner(database.db)
    await register(owner)
    await ageRegistration({ database }, client_id, '7 days -30 minutes')
    const [taken] = (await takeDue(database.db, 'sweep', { limit: 1_000, seconds: 60 })).filter(
      one => one.owner === owner,
    )
    await sweepAgain(database.db, taken!, { more: false, pauseSeconds: 60, idleSeconds: 3_600 })
    const { rows } = await database.pool.query<{ s: number }>(
      `SELECT extract(epoch FROM at - clock_timestamp())::float8 AS s FROM due WHERE owner = $1 AND kind = 'sweep'`,
      [owner],
    )
    expect(rows[0]!.s).toBeGreaterThan(1_700)
    expect(rows[0]!.s).toBeLessThan(1_810)
  })

  it('that lapse are told by the sweeper, one entry and one event each', async () => {
    const owner = await seed.seedOwner(database.db)
    const names = ['a', 'b'].map(name => `${client_id}${name}`)
    for (const name of names) {
      await register(owner, name)
      await ageRegistration({ database }, name)
    }
    const listening = { ms: () => 0, broken: () => undefined }
    for (let round = 0; round < 2; round++) {
      await dueNow(database.db, owner, 'sweep')
      await sweepDue({ database, log: pino({ level: 'silent' }), listening }, 60, () => false)
    }
    const { rows } = await database.pool.query<{ client_id: string }>(
      `SELECT data->>'client_id' AS client_id FROM events WHERE owner = $1 AND event = 'resource_server_decided' ORDER BY id`,
      [owner],
    )
    expect(rows.map(row => row.client_id)).toEqual(names)
    const { rows: entries } = await database.pool.query<{ data: object }>(
      `SELECT data FROM ledger WHERE owner = $1 AND kind = 'server_withdrawn' ORDER BY id`,
      [owner],
    )
    expect(entries.map(({ data }) => data)).toEqual(names.map(name => ({ client_id: name, by: 'expiry' })))
  })
})
