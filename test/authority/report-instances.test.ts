/**
 * Contract, "Events", 2, and the choices under "Protection API": reports that are numbered by the run of an
 * enforcement point.
 */
import { sql } from 'kysely'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { tellSilent } from '../../src/storage/authority/ledger/report-instances.ts'
import { dueNow, takeDue } from '../../src/storage/authority/due.ts'
import { sweepAgain, sweepOwner } from '../../src/storage/authority/sweep.ts'
import { sweepDue } from '../../src/authority/sweeper.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { CLIENT_ID } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })
const ALICE = asOwner('alice')

type Entry = Record<string, unknown> & { seq: number }

/** A grant, a new run of its resource server, and what the ledger says of that run. */
async function run() {
  const { rpt } = await testAgent(authority).granted()
  const { jti, family } = readRptClaims(rpt)
  const instance = seed.name('run-')
  const report = (n: number, more: object = {}) => {
    return { id: `${instance}.${n}`, family, jti, tool: 'portfolio_read', at: 1, instance, n, ...more }
  }
  const send = async (body: unknown) => (await protectionCall(authority, '/audit/access', body)).body
  return {
    instance,
    report,
    send,
    sendNumbers: (...numbers: number[]) => send({ entries: numbers.map(n => report(n)) }),
    say: (n: number, ended?: boolean) => send({ instance, n, ...(ended === undefined ? {} : { ended }) }),
    told: async (kind: string) => {
      const { body } = await authority.call(authority.alice, {
        target: `/owner/ledger?kind=${kind}&limit=1000`,
      })
      return (body.entries as Entry[]).filter(entry => entry.instance === instance)
    },
    /** As if it had said its last word so long ago. */
    age: (time: string) =>
      sql`UPDATE report_instances SET heard_at = heard_at - ${time}::interval WHERE instance = ${instance}`.execute(
        authority.database.db,
      ),
  }
}
const gaps = (entries: Entry[]) => entries.map(({ from, to }) => [from, to])
const tellAll = () => seed.callers(8, () => tellSilent(authority.database.db, ALICE))

describe('Reports with a run and a number', () => {
  it('are recorded once by these, under whichever id they come again, and entries name both', async () => {
    const { instance, report, send, told } = await run()
    expect(await send(report(1))).toEqual({ recorded: 1 })
    expect(await send(report(1, { id: 'another' }))).toEqual({ recorded: 0 })
    expect(await send({ entries: [report(1), report(2), report(2)] })).toEqual({ recorded: 1 })
    expect((await told('touched')).map(entry => [entry.instance, entry.n])).toEqual([
      [instance, 1],
      [instance, 2],
    ])
    expect(await told('reports_missing')).toEqual([])
  })

  it('tell of what never came, as soon as a later one shows it, and once', async () => {
    const { instance, sendNumbers, told } = await run()
    await sendNumbers(1, 2)
    await sendNumbers(5, 9, 6)
    await sendNumbers(5, 9, 6)
    await sendNumbers(10)
    const missing = await told('reports_missing')
    expect(gaps(missing)).toEqual([
      [3, 4],
      [7, 8],
    ])
    expect(missing[0]).toMatchObject({ instance, client_id: CLIENT_ID })
  })

  it('record also what comes after it was told as missing', async () => {
    const { sendNumbers, told } = await run()
    await sendNumbers(1, 3)
    expect(await sendNumbers(2)).toEqual({ recorded: 1 })
    expect([(await told('touched')).length, gaps(await told('reports_missing'))]).toEqual([3, [[2, 2]]])
  })

  it('that name no grant of this server are missing in the ledger, and told so', async () => {
    const { instance, report, send, told } = await run()
    const answer = await send({ entries: [report(1), report(2, { jti: 'rpt_other' }), report(3)] })
    expect(answer).toEqual({ recorded: 2, error: 'unknown_token', unknown: [`${instance}.2`] })
    expect(gaps(await told('reports_missing'))).toEqual([[2, 2]])
  })

  it('of several runs in one request are counted apart', async () => {
    const [one, other] = [await run(), await run()]
    await one.send({ entries: [one.report(1), other.report(2), one.report(3), other.report(1)] })
    expect([gaps(await one.told('reports_missing')), gaps(await other.told('reports_missing'))]).toEqual([
      [[2, 2]],
      [],
    ])
  })

  it('of two runs, sent again and again by many at once: each is recorded once, and none is missing', async () => {
    const runs = [await run(), await run()]
    const batches = [
      [1, 2, 3],
      [4, 5],
      [6, 7, 8, 9],
    ]
    for (const numbers of batches)
      await seed.callers(24, n => {
        const entries = runs.flatMap(({ report }) => numbers.map(number => report(number)))
        return runs[n % 2]!.send({ entries: n % 3 === 0 ? entries.toReversed() : entries })
      })
    for (const { told } of runs) {
      expect((await told('touched')).map(({ n }) => n).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
      expect(await told('reports_missing')).toEqual([])
    }
  })

  it('and a gap that many show at once is told once', async () => {
    const { sendNumbers, told } = await run()
    await seed.callers(16, () => sendNumbers(4))
    expect(gaps(await told('reports_missing'))).toEqual([[1, 3]])
  })
})

describe('A run that says how far it has come', () => {
  it('with its goodbye: what did not come is missing', async () => {
    const { sendNumbers, say, told } = await run()
    await sendNumbers(1, 2)
    expect(await say(5, true)).toEqual({ recorded: 0 })
    await say(5, true)
    expect(gaps(await told('reports_missing'))).toEqual([[3, 5]])
  })

  it('and from which nothing ever came is missing as a whole', async () => {
    const { say, told } = await run()
    await say(3, true)
    expect(gaps(await told('reports_missing'))).toEqual([[1, 3]])
  })

  it.each<[string, object]>([
    ['no number', { n: undefined }],
    ['the number 0', { n: 0 }],
    ['a number too large to count on', { n: 2 ** 53 }],
    ['a run without a name', { instance: '' }],
    ['another member', { family: 'fam_x' }],
  ])('with %s is 400', async (_what, changes) => {
    const reply = await protectionCall(authority, '/audit/access', { instance: 'r', n: 1, ...changes })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })

  it.each(['instance', 'n'])('a report with %s alone is 400', async member => {
    const { report } = await run()
    const reply = await protectionCall(authority, '/audit/access', { ...report(1), [member]: undefined })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })
})

describe('A run that falls silent', () => {
  it('without a goodbye is told after ten minutes, once for all replicas, with the last number known of it', async () => {
    const { instance, sendNumbers, age, told } = await run()
    await sendNumbers(1, 2, 3)
    await age('9 minutes 50 seconds')
    await tellAll()
    expect(await told('reports_unknown')).toEqual([])
    await age('20 seconds')
    await tellAll()
    await tellAll()
    expect(await told('reports_unknown')).toEqual([
      expect.objectContaining({ kind: 'reports_unknown', instance, client_id: CLIENT_ID, after: 3 }),
    ])
  })

  it('is told of when its owner is due, by a replica that has listened for as long, and not before', async () => {
    const { sendNumbers, age, told } = await run()
    await sendNumbers(1)
    await age('1 hour')
    const { database } = authority
    const sweep = async (listenedMs: number) => {
      await dueNow(database.db, ALICE, 'sweep')
      const listening = { ms: () => listenedMs, broken: () => undefined }
      const log = pino({ level: 'silent' })
      await sweepDue({ database, log, listening }, 60, () => false)
    }
    await sweep(599_999)
    expect(await told('reports_unknown')).toEqual([])
    await sweep(600_000)
    expect(await told('reports_unknown')).toHaveLength(1)
  })

  it('has its owner looked at when ten minutes have passed', async () => {
    const { sendNumbers } = await run()
    const { db } = authority.database
    await sql`DELETE FROM report_instances`.execute(db)
    await sendNumbers(1)
    await dueNow(db, ALICE, 'sweep')
    const [taken] = await takeDue(db, 'sweep', { limit: 1, seconds: 60 })
    // Those of earlier calls expire after some minutes, which is sooner the slower the tests before this are.
    await sql`DELETE FROM spent_signatures`.execute(db)
    await sweepAgain(db, taken!, { more: false, pauseSeconds: 60, idleSeconds: 3_600 })
    const { rows } = await sql<{ seconds: number }>`
      SELECT extract(epoch FROM at - now())::float8 AS seconds FROM due WHERE owner = 'alice' AND kind = 'sweep'`.execute(
      db,
    )
    expect(rows[0]!.seconds).toBeGreaterThan(500)
    expect(rows[0]!.seconds).toBeLessThanOrEqual(600)
  })

  it('after a goodbye is not told of, even if what was under way arrives behind it', async () => {
    const { sendNumbers, say, age, told } = await run()
    await sendNumbers(1, 2)
    await say(2, true)
    await sendNumbers(1, 2)
    await say(2)
    await age('1 hour')
    await tellAll()
    expect(await told('reports_unknown')).toEqual([])
  })

  it('after a goodbye and a call that came later is told of: that goodbye was not the last word', async () => {
    const { sendNumbers, say, age, told } = await run()
    await sendNumbers(1)
    await say(1, true)
    await sendNumbers(2)
    await age('1 hour')
    await tellAll()
    expect(await told('reports_unknown')).toMatchObject([{ after: 2 }])
  })

  it('and says now and then how far it has come, is not told of', async () => {
    const { sendNumbers, say, age, told } = await run()
    await sendNumbers(1)
    await age('9 minutes')
    await say(1)
    await age('9 minutes')
    await tellAll()
    expect(await told('reports_unknown')).toEqual([])
  })

  it('is kept for a week, and what comes of it later is not taken for the first of it', async () => {
    const { sendNumbers, say, age, told } = await run()
    await sendNumbers(1, 2, 3)
    await say(3, true)
    await age('8 days')
    await sweepOwner(authority.database.db, ALICE, 1_000)
    const rows = await authority.database.db.selectFrom('report_instances').selectAll().execute()
    expect(rows.filter(({ heard_at }) => Date.parse(heard_at) < Date.now() - 7 * 86_400_000)).toEqual([])
    await sendNumbers(3, 4)
    expect(await told('reports_missing')).toEqual([])
    await say(4, true)
    await age('8 days')
    await sweepOwner(authority.database.db, ALICE, 1_000)
    await say(4, true)
    expect(await told('reports_missing')).toEqual([])
  })
})
