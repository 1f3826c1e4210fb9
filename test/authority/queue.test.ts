/**
 * Contract, "Limits" (pending queue, two lanes) and "Errors" (429): what waits for the owner, and who is
 * never kept out.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { newKey, startDocuments, startOperator, type TestOperator } from '../support/operators.ts'
import type { ScriptedServer } from '../support/scripted-http.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import * as seed from '../support/seed.ts'
import { decide, denyAll, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
const operators: TestOperator[] = []
const published = Array.from({ length: 10 }, () => Array.from({ length: 8 }, newKey))

const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })
beforeAll(async () => {
  operators.push(...(await Promise.all(published.map(keys => startOperator({ keys: [...keys] })))))
})
afterAll(() => Promise.all(operators.map(operator => operator.close())))
afterEach(() => denyAll(authority))

const stranger = () => testAgent(authority)
/** An agent of the nth operator, whose key that operator publishes. */
const attested = (n: number) =>
  testAgent(authority, { key: published[n]!.pop()!, client_id: operators[n]!.client_id })
/** An agent that names the nth operator, which knows nothing of it. */
const pretender = (n: number) => testAgent(authority, { client_id: operators[n]!.client_id })
const outcomes = async (agents: TestAgent[]) => {
  const replies = await Promise.all(agents.map(agent => agent.ask()))
  return {
    held: replies.filter(reply => reply.body.error === 'request_submitted'),
    full: replies.filter(reply => reply.status === 429),
  }
}

describe('The pending queue has two lanes, split on whether the named operator has published the key', () => {
  it('five of unknown agents, whatever operator they name; the sixth is 429 request_denied with a reason, and counted', async () => {
    const agents = [
      stranger(),
      stranger(),
      pretender(0),
      pretender(1),
      pretender(2),
      pretender(0),
      stranger(),
    ]
    const before = await quotaRefusals(authority, 'waiting')
    const { held, full } = await outcomes(agents)
    expect([held.length, full.length]).toEqual([5, 2])
    expect(await quotaRefusals(authority, 'waiting')).toBe(before + 2)
    for (const reply of full)
      expect(reply.body).toEqual({
        error: 'request_denied',
        error_description: expect.stringMatching(/unknown agents wait.*publish this agent's key/),
      })
  })

  it('a full lane of strangers does not keep out an attested newcomer, nor the other way round', async () => {
    await outcomes(Array.from({ length: 7 }, stranger))
    expect((await attested(3).ask()).body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
  })

  it('five of one operator; naming it without being published takes none of its places', async () => {
    await outcomes([pretender(4), pretender(4), pretender(4)])
    const { held, full } = await outcomes(Array.from({ length: 6 }, () => attested(4)))
    expect([held.length, full.length]).toEqual([5, 1])
    expect(full[0]!.body.error_description).toMatch(/of this operator/)
    expect((await attested(5).ask()).body.error).toBe('request_submitted')
  })

  it('forty attested in all', async () => {
    const agents = [6, 7, 8, 9, 0, 1, 2, 3, 5].flatMap(n => Array.from({ length: 5 }, () => attested(n)))
    const { held, full } = await outcomes(agents)
    expect([held.length, full.length]).toEqual([40, 5])
    expect(full[0]!.body.error_description).toMatch(/new agents wait/)
    // The other lane is as empty as before.
    expect((await stranger().ask()).body.error).toBe('request_submitted')
  })

  it('twenty operations of one connection; another connection is not concerned', async () => {
    const [busy, other] = [stranger(), stranger()]
    await busy.granted()
    await other.granted()
    const trade = (agent: TestAgent, qty: number) =>
      agent.ask('place_trade', { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty } } })
    for (let qty = 1; qty <= 20; qty++) expect((await trade(busy, qty)).body.kind).toBe('operation')
    const full = await trade(busy, 21)
    expect([full.status, full.body.error]).toEqual([429, 'request_denied'])
    expect(full.body.error_description).toMatch(/operations of this agent/)
    // A repeat joins its item, however full it is.
    expect((await trade(busy, 20)).body.kind).toBe('operation')
    expect((await trade(other, 1)).body.kind).toBe('operation')
  })

  it('a stranger whose answer was lost joins its item even if the lane is full', async () => {
    const agent = stranger()
    await agent.ask()
    await outcomes(Array.from({ length: 6 }, stranger))
    expect((await agent.ask()).body.error).toBe('request_submitted')
    expect(await pendingAt(authority)).toHaveLength(5)
  })

  it('a repeat that joins with another reason is told that the owner reads the first one', async () => {
    const agent = stranger()
    const first = await agent.ask('portfolio_read', { reason: 'the first reason' })
    expect(first.body).not.toHaveProperty('reason_shown')
    expect((await agent.ask('portfolio_read', { reason: 'the first reason' })).body).not.toHaveProperty(
      'reason_shown',
    )
    expect((await agent.ask()).body).not.toHaveProperty('reason_shown')
    const joined = await agent.ask('portfolio_read', { reason: 'another reason' })
    expect(joined.body).toMatchObject({ error: 'request_submitted', reason_shown: false })
    expect(await pendingAt(authority)).toMatchObject([{ handle: agent.handle, reason: 'the first reason' }])
  })

  it('a request past the cap writes no operator, no connection and no item', async () => {
    await outcomes(Array.from({ length: 5 }, stranger))
    const count = async () => {
      const { rows } = await authority.database.pool.query(
        `SELECT (SELECT count(*) FROM operators) AS operators, (SELECT count(*) FROM connections) AS connections,
           (SELECT count(*) FROM families WHERE requested_at IS NOT NULL) AS items`,
      )
      return rows[0] as unknown
    }
    const before = await count()
    const named = testAgent(authority, { client_id: 'https://192.0.2.7/client.json' })
    expect((await named.ask()).status).toBe(429)
    expect(await count()).toEqual(before)
  })
})

describe('A flood of strangers', () => {
  let tarpit: ScriptedServer
  beforeAll(async () => {
    tarpit = await startDocuments(() => ({ write: () => undefined }))
  })
  afterAll(() => tarpit.close())

  it(
    'never starves an attested newcomer or an agent that the owner knows',
    { timeout: 240_000 },
    async () => {
      const established = attested(9)
      await established.granted()
      const over = new AbortController()
      const counts = { held: 0, full: 0 }
      const slowest = { stranger: 0, newcomer: 0, known: 0 }
      const timed = async <T>(who: keyof typeof slowest, work: () => Promise<T>): Promise<T> => {
        const from = performance.now()
        const done = await work()
        slowest[who] = Math.max(slowest[who], performance.now() - from)
        return done
      }
      let n = 0
      const flood = Array.from({ length: 48 }, async (_, nth) => {
        while (!over.signal.aborted) {
          // Half of them name an operator that never answers, each at a URL of its own.
          const options = nth % 2 === 0 ? {} : { client_id: `${tarpit.origin}/${n++}` }
          const reply = await timed('stranger', () => testAgent(authority, options).ask())
          if (reply.status === 429) counts.full += 1
          else if (reply.body.error === 'request_submitted') counts.held += 1
          else throw new Error(`a stranger got ${reply.status} ${reply.text}`)
        }
      })
      try {
        await vi.waitFor(() => expect(counts.full).toBeGreaterThan(50), { timeout: 60_000, interval: 20 })
        for (const operator of [6, 7, 8]) {
          const newcomer = attested(operator)
          const held = await timed('newcomer', () => newcomer.ask())
          expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
          await decide(authority, newcomer.handle, 'approved')
          const collected = await newcomer.present(held.body.ticket)
          expect(collected.status, collected.text).toBe(200)
          expect(await timed('known', () => established.ask('statement_read'))).toMatchObject({ status: 200 })
          const trade = await timed('known', () => established.ask('place_trade', TRADE))
          expect(trade.body).toMatchObject({ kind: 'operation' })
          await decide(authority, established.handle, 'denied')
        }
        // What matters is that nobody waits behind the flood; on a slow machine, the flood is slow, too.
        const bound = Math.max(10_000, 3 * slowest.stranger)
        expect(slowest.newcomer).toBeLessThan(bound)
        expect(slowest.known).toBeLessThan(bound)
      } finally {
        over.abort()
      }
      await Promise.all(flood)
      expect(counts.held).toBeLessThanOrEqual(5)
    },
  )

  it('is told in two rows of the ledger per reason and minute: the first refusal at once, the rest when the minute has closed', async () => {
    await seed.closeMinutes(authority.database.db)
    const { entries } = (
      await authority.call(authority.alice, { target: '/owner/ledger?kind=refused&limit=1000' })
    ).body
    const rows = (entries as Record<string, unknown>[]).filter(entry => entry['reason'] === 'queue_full')
    const minutes = new Set(rows.map(entry => (entry['ts'] as string).slice(0, 16)))
    expect(rows.length).toBeLessThanOrEqual(2 * minutes.size)
    expect(rows.reduce((sum, entry) => sum + Number(entry['count'] ?? 1), 0)).toBeGreaterThan(50)
  })
})
