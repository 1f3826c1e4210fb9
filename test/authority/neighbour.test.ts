/**
 * contract, "What the service does" (many owners at one authority): whatever is done to one of them, the
 * others are served. A replica that is stopped in the midst of a change keeps her rows locked: what a flood
 * of her agents then waits for must not be what others wait for.
 */
import { expect, it } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { protectionCall, testAgent, type PendingItem, type TestAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'

/** Three times the connections of the pool. */
const FLOOD = 60
// The time that hers wait for the row is what this is about, so it is the product's own.
const authority = authorityStand({ owners: ['alice', 'bob'], lockTimeoutMs: 1_200 })

/** An agent that bob knows, and the RPT of its standing grant. */
async function knownToBob(): Promise<{ agent: TestAgent; rpt: string }> {
  const bob = authority.owners['bob']!
  const agent = testAgent(authority)
  const asked = await agent.ask('portfolio_read', {}, 'bob')
  const pending = (await authority.call(bob, { target: '/owner/pending' })).body as PendingItem[]
  const target = `/owner/pending/${pending[0]!.family}/decision`
  await authority.call(bob, { method: 'POST', target, json: { decision: 'approved' } })
  const granted = await agent.present(asked.body.ticket)
  return { agent, rpt: granted.body.access_token }
}

it('while one owner’s rows are held and her agents flood her, another’s calls and negotiations go on, and hers are told 503 soon', async () => {
  const { agent, rpt } = await knownToBob()
  const strangers = Array.from({ length: FLOOD }, () => testAgent(authority))
  const offers = await Promise.all(strangers.map(stranger => stranger.offer('portfolio_read', 'alice')))
  const stopped = await authority.database.pool.connect()
  await stopped.query(`BEGIN; SELECT * FROM queues WHERE owner = 'alice' FOR UPDATE`)
  let answered = 0
  const flood = strangers.map((stranger, n) => stranger.agree(offers[n]!).finally(() => answered++))

  const seen: unknown[] = []
  const took: number[] = []
  const ask = async (name: string, call: () => Promise<Reply>): Promise<void> => {
    const since = performance.now()
    const { status, body } = await call()
    took.push(performance.now() - since)
    seen.push(name === 'introspect' ? [status, body.active] : status)
  }
  const isUnderWay = (): boolean => answered < FLOOD
  while (isUnderWay()) {
    await ask('introspect', () => protectionCall(authority, '/introspect', { token: rpt }, 'bob'))
    await ask('negotiate', () => agent.ask('portfolio_read', {}, 'bob'))
  }
  expect(new Set(seen.map(one => JSON.stringify(one)))).toEqual(new Set(['[200,true]', '200']))
  // Without a bound, one of these waits for a connection until the flood is over: for most of the time, while
  // on a busy machine many of them are long.
  const total = took.reduce((sum, ms) => sum + ms, 0)
  expect(Math.max(...took)).toBeLessThan(total * 0.3)

  const told = await Promise.all(flood)
  expect(new Set(told.map(({ status }) => status))).toEqual(new Set([503]))
  expect(new Set(told.map(({ body }) => body.error))).toEqual(new Set(['temporarily_unavailable']))
  await stopped.query('ROLLBACK')
  stopped.release()
  expect((await testAgent(authority).ask('portfolio_read', {}, 'alice')).body.error).toBe('request_submitted')
})
