import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import {
  blockOperator,
  readConnection,
  revokeConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction, isOutage } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { recordTouches, type ReportedCall } from '../../src/storage/authority/ledger/last-access.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'
import { asClientId, asFamily, asOwner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'
import { onlyOnce } from '../support/only-once.ts'

const database = coreStand()

/** An owner, a connection of hers, and a grant on it with a report of its use. */
async function scene() {
  const owner = await seed.seedOwner(database.db)
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const grant = seed.grantRow(owner, handle, generation, seed.bytes())
  await inTransaction(database.db, tx => recordGrant(tx, grant, []))
  const { jti, family, client_id, aud } = grant
  const call = (data: Record<string, unknown> = {}, more: Partial<ReportedCall> = {}): ReportedCall => {
    return { key: seed.name('report-'), jti, family, data, ...more }
  }
  const report = (calls: ReportedCall[], by = { owner, client_id, aud }) =>
    inTransaction(database.db, tx => recordTouches(tx, by, calls))
  const touched = () => readLedger(database.db, owner, { kind: 'touched', after: 0, limit: 1_000 })
  return { owner, handle, client_id, aud, call, report, touched }
}

describe('Reports of an agent and of who introduced it, while what they stand on is ended', () => {
  it.each(['revocation', 'block'])(
    'a %s and the reports wait for each other one way round only',
    async end => {
      const owner = await seed.seedOwner(database.db)
      const operator = 'https://operator.example'
      // The introduced one comes first by name.
      const [child, parent] = [seed.name('jkt:a'), seed.name('jkt:z')]
      const calls: ReportedCall[] = []
      for (const [handle, more] of [
        [parent, { operator }],
        [child, { operator, introduced_by: parent }],
      ] as const) {
        const generation = await seed.seedConnection(database.db, owner, handle, more)
        const grant = seed.grantRow(owner, handle, generation, seed.bytes())
        await inTransaction(database.db, tx => recordGrant(tx, grant, []))
        calls.push({ key: seed.name('report-'), jti: grant.jti, family: grant.family, data: {} })
      }
      const holder = new Client({ connectionString: database.url })
      await holder.connect()
      const waiting = async () => {
        const { rows } = await database.pool.query<{ n: number }>(
          `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        )
        return rows[0]!.n
      }
      const by = { owner, client_id: seed.CLIENT_ID, aud: seed.resourceUri(owner) }
      const once = <T>(work: (tx: Tx) => Promise<T>) => onlyOnce(database.db, work)
      await holder.query('BEGIN')
      await holder.query('SELECT FROM connections WHERE owner = $1 AND handle = $2 FOR UPDATE', [
        owner,
        parent,
      ])
      const ended = once<unknown>(tx =>
        end === 'block'
          ? blockOperator(tx, owner, operator, seed.ACTOR)
          : revokeConnection(tx, owner, parent, seed.ACTOR),
      )
      await until(async () => (await waiting()) === 1)
      const reported = once(tx => recordTouches(tx, by, calls))
      await until(async () => (await waiting()) === 2)
      await holder.query('COMMIT')
      await holder.end()
      expect(await ended).toMatchObject({ handles: [parent, child] })
      expect(await reported).toEqual({ recorded: 2, unknown: [] })
    },
  )
})

describe('An access report arrives at least once, and the ledger tells of each call once', () => {
  it('in the order of the report, with what it says of each to the letter and the tier of its grant', async () => {
    const { handle, call, report, touched } = await scene()
    const calls = ['a', 'b', 'c'].map(tool => call({ tool, at: 7, odd: 'nul \u0000 and \ud800' }))
    expect(await report(calls)).toEqual({ recorded: 3, unknown: [] })
    const entries = await touched()
    expect(entries.map(entry => entry.data)).toEqual(calls.map(({ data }) => ({ tier: seed.TIER, ...data })))
    expect(entries.map(entry => [entry.handle, entry.family])).toEqual(
      calls.map(({ family }) => [handle, family]),
    )
  })

  it('sent again, or twice in one report, it is recorded once', async () => {
    const { call, report, touched } = await scene()
    const [once, twice] = [call(), call()]
    expect(await report([once, twice, twice])).toEqual({ recorded: 2, unknown: [] })
    expect(await report([twice, once])).toEqual({ recorded: 0, unknown: [] })
    expect(await touched()).toHaveLength(2)
  })

  it('sent by many at once, in any order, it is recorded once', async () => {
    const { call, report, touched } = await scene()
    const calls = Array.from({ length: 20 }, () => call())
    // On a busy machine some wait for a row longer than they may: an outage, after which sidecars send again.
    const sent = async (n: number): ReturnType<typeof report> => {
      try {
        return await report(n % 2 === 0 ? calls : calls.toReversed())
      } catch (error) {
        if (!isOutage(error)) throw error
        return sent(n)
      }
    }
    const told = await seed.callers(32, sent)
    expect(told.reduce((sum, { recorded }) => sum + recorded, 0)).toBe(20)
    expect(await touched()).toHaveLength(20)
  })

  it.each([
    ['a grant that nobody issued', { jti: 'rpt_unknown' }, {}],
    ['another family', { family: asFamily('fam_other') }, {}],
    ["another server's grant", {}, { client_id: asClientId('other-tools') }],
    ['a grant for another resource', {}, { aud: 'https://elsewhere.example/mcp' }],
    ["another owner's grant", {}, { owner: asOwner('mallory') }],
  ])('%s is named by its place, and the rest is recorded', async (_what, more, by) => {
    const { owner, client_id, aud, call, report, touched } = await scene()
    const server = { owner, client_id, aud }
    const foreign = Object.keys(by).length > 0
    const calls = [call({}, more), ...(foreign ? [] : [call()])]
    expect(await report(calls, { ...server, ...by })).toEqual({ recorded: foreign ? 0 : 1, unknown: [0] })
    expect(await touched()).toHaveLength(foreign ? 0 : 1)
  })

  it('the connection shows when it was last used, to the minute', async () => {
    const { owner, handle, call, report } = await scene()
    const lastAccess = async () => (await readConnection(database.db, owner, handle))?.last_access
    expect(await lastAccess()).toBeNull()
    await report([call(), call()])
    const first = await lastAccess()
    expect(first).not.toBeNull()
    await report([call()])
    expect(await lastAccess()).toBe(first)
  })
})
