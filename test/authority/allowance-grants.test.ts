/**
 * What an agent is granted within an allowance, without the owner being asked: contract, "Policy vocabulary
 * and tiers", "Grant answer (beat 4)", "Single-use grant"; an addition (docs/details/owner-api.md).
 */
import { afterEach, describe, expect, it } from 'vitest'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { introductionStand } from '../support/introductions.ts'
import {
  decide,
  denyAll,
  pendingAt,
  protectionCall,
  testAgent,
  type TestAgent,
} from '../support/test-agent.ts'

const { agentOf, authority, connectionOf, introducerAgent, introduction, nextKey } = introductionStand()

const own = (call: OwnerCall): Promise<Reply> => authority.call(authority.alice, call)
const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
let ids = 0

/** A new allowance with these members, which the tier names from now on. */
async function allow(members: object, then: 'ask' | 'refuse' = 'ask'): Promise<string> {
  const id = `a-${++ids}`
  await save(id, members)
  const rules = [AUTO, { when: [`operation.beyond:${id}`], then }]
  const reply = await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
  if (reply.status !== 200) throw new Error(reply.text)
  return id
}
async function save(id: string, members: object): Promise<void> {
  const amounts = [{ name: 'qty', each_max: '10' }]
  const at = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } }, free: ['/note'] }
  const json = { amounts, tiers: { trading: at }, ...members }
  const reply = await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })
  if (reply.status >= 300) throw new Error(reply.text)
}
const trade = (qty: number, more: object = {}) => ({
  operation: { tool: 'place_trade', params: { qty, ...more } },
})
/** An agent whose trade she approved once. */
async function known(): Promise<TestAgent> {
  const agent = testAgent(authority)
  await agent.granted('place_trade', trade(11))
  return agent
}
const entriesOf = async ({ handle }: TestAgent, kind: string): Promise<Record<string, unknown>[]> => {
  const target = `/owner/ledger?handle=${encodeURIComponent(handle)}&kind=${kind}`
  return (await own({ target })).body.entries
}
const wasAsked = ({ body }: Reply): unknown => body.error === 'request_submitted' && body.kind
const consume = (reply: Reply) =>
  protectionCall(authority, '/consume', { token: reply.body.access_token as string })

afterEach(() => denyAll(authority))

describe('An operation within the allowance that its tier names', () => {
  it('is granted at once, bound to it and for a single use, and the ledger says what it took', async () => {
    const id = await allow({ windows: [{ of: 'qty', per: 'all', max: '12' }] })
    const agent = await known()
    const reply = await agent.ask('place_trade', trade(5, { note: 'rebalance' }))
    expect(reply.status).toBe(200)
    expect(parseJws(reply.body.access_token).payload).toMatchObject({
      single_use: true,
      operation: { tool: 'place_trade' },
    })
    const [relaxed] = await entriesOf(agent, 'relaxed')
    expect(relaxed).toMatchObject({
      tier: 'trading',
      because: ['baseline:ask_me', 'auto:standing.approved_at_tier'],
      allowance: { id, version: 1, amounts: { qty: '5' } },
    })
    const { facts } = (await entriesOf(agent, 'promised')).at(-1) as { facts: Record<string, unknown> }
    expect(facts['operation']).toEqual({ allowance: id, version: 1, beyond: false })
    expect((await consume(reply)).body).toMatchObject({ consumed: true })
  })

  it.each<[string, ReturnType<typeof trade>, string]>([
    ['more than each may be', trade(10.5), 'each_max:qty'],
    ['an amount in another spelling', trade('5' as unknown as number), 'amount:qty'],
    ['a member that she did not name', trade(5, { tip: 1 }), 'members'],
    ['more than is left of a window', trade(10), 'window:qty:all'],
  ])('and asks about %s, and tells her the first limit', async (_what, operation, limit) => {
    const id = await allow({ windows: [{ of: 'qty', per: 'all', max: '9' }] })
    const agent = await known()
    expect(wasAsked(await agent.ask('place_trade', operation))).toBe('operation')
    const [waits] = await pendingAt(authority)
    const why = [
      'baseline:ask_me',
      'auto:standing.approved_at_tier',
      `ask:operation.beyond:${id}`,
      `limit:${limit}`,
    ]
    expect(waits!['because']).toEqual(why)
    expect((await entriesOf(agent, 'promised')).at(-1)).toMatchObject({ because: why })
    const { facts } = (await entriesOf(agent, 'promised')).at(-1) as { facts: Record<string, unknown> }
    expect(facts['operation']).toEqual({ allowance: id, version: 1, beyond: true, limit })
  })

  it('takes of the windows what it says; what she approves herself takes nothing', async () => {
    await allow({ windows: [{ of: 'qty', per: 'all', max: '12' }] })
    const [agent, other] = [await known(), await known()]
    expect((await agent.ask('place_trade', trade(5))).status).toBe(200)
    expect((await other.ask('place_trade', trade(5))).status).toBe(200)
    const third = await agent.ask('place_trade', trade(5))
    expect(wasAsked(third)).toBe('operation')
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(third.body.ticket)).status).toBe(200)
    expect((await agent.ask('place_trade', trade(2))).status).toBe(200)
    expect(wasAsked(await agent.ask('place_trade', trade(0.001)))).toBe('operation')
  })

  it('is granted as often as a window has room, of however many asked for at once', async () => {
    await allow({ windows: [{ of: 'calls', per: 'all', max: '3' }] })
    const [agent, other] = [await known(), await known()]
    const asked = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? agent : other))
    const replies = await Promise.all(asked.map((one, n) => one.ask('place_trade', trade(1 + n / 100))))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(replies.filter(one => wasAsked(one) === 'operation')).toHaveLength(9)
    // Also of what was within when it was weighed, and no more when it was to be granted.
    const limits = (await pendingAt(authority)).map(item => (item['because'] as string[]).at(-1))
    expect(limits).toEqual(Array(9).fill('limit:window:calls:all'))
  })

  it('is one of at most five that the agent did not spend', async () => {
    await allow({})
    const agent = await known()
    const replies: Reply[] = []
    for (let n = 0; n < 5; n++) replies.push(await agent.ask('place_trade', trade(1)))
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(wasAsked(await agent.ask('place_trade', trade(2)))).toBe('operation')
    expect((await entriesOf(agent, 'promised')).at(-1)).toMatchObject({
      facts: { operation: { limit: 'unspent' } },
    })
    expect((await consume(replies[0]!)).body).toMatchObject({ consumed: true })
    expect((await agent.ask('place_trade', trade(3))).status).toBe(200)
  })

  it('is refused where the rule refuses what is beyond, and only that', async () => {
    const id = await allow({ windows: [{ of: 'qty', per: 'all', max: '3' }] }, 'ask')
    const agent = await known()
    const rules = [AUTO, { when: [`operation.beyond:${id}`], then: 'refuse' }]
    await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
    expect((await agent.ask('place_trade', trade(3))).status).toBe(200)
    const { status, body } = await agent.ask('place_trade', trade(1))
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', 'policy'])
    expect(await entriesOf(agent, 'refused')).toMatchObject([
      { reason: 'policy', because: expect.arrayContaining(['limit:window:qty:all']) },
    ])
  })

  it('tells the agent nothing of what is left, nor that there is an allowance, if it is asked about or refused', async () => {
    const at = { tools: ['place_trade'], amounts: { quantity: { pointer: '/qty' } } }
    const id = await allow({
      amounts: [{ name: 'quantity', unit: 'shares', each_max: '9.0625' }],
      windows: [{ of: 'quantity', per: 'all', max: '5.0625' }],
      tiers: { trading: at },
    })
    const agent = await known()
    expect((await agent.ask('place_trade', trade(5))).status).toBe(200)
    const beyondIt = [trade(1), trade(9.5), trade(0, { tip: 1 })]
    const replies: Reply[] = []
    for (const operation of beyondIt) replies.push(await agent.ask('place_trade', operation))
    expect(replies.map(wasAsked)).toEqual(['operation', 'operation', 'operation'])
    await denyAll(authority)
    const rules = [AUTO, { when: [`operation.beyond:${id}`], then: 'refuse' }]
    await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
    for (const operation of beyondIt) {
      const refused = await agent.ask('place_trade', operation)
      expect(refused.body).toEqual({
        error: 'request_denied',
        error_description: "The owner's policy refuses this request.",
        reason: 'policy',
      })
      replies.push(refused)
    }
    for (const { text, headers } of replies)
      expect([text, ...headers.values()].join('\n')).not.toMatch(
        /quantity|shares|\d\.0625|beyond|window|allowance/i,
      )
  })
})

describe('A grant within an allowance lives', () => {
  const lifetime = async (members: object): Promise<{ iat: number; exp: number; told: number }> => {
    await allow(members)
    const agent = await known()
    const reply = await agent.ask('place_trade', trade(1))
    expect(reply.status).toBe(200)
    const { iat, exp } = parseJws(reply.body.access_token).payload as { iat: number; exp: number }
    const { body } = await protectionCall(authority, '/introspect', { token: reply.body.access_token })
    expect(body).toMatchObject({ active: true, exp, permissions: [{ exp }] })
    return { iat, exp, told: reply.body.expires_in as number }
  }

  it('no longer than hold_s, and its answer says so', async () => {
    const { iat, exp, told } = await lifetime({ hold_s: 60 })
    expect(exp - iat).toBeLessThanOrEqual(60)
    expect(exp - iat).toBeGreaterThan(30)
    expect(told).toBe(exp - iat)
  })

  it('not beyond until', async () => {
    const until = Math.floor(Date.now() / 1000) + 90
    const { exp } = await lifetime({ until: new Date(until * 1000).toISOString() })
    expect(exp).toBe(until)
  })

  it('no longer than was agreed', async () => {
    const { iat, exp } = await lifetime({ hold_s: 3_600 })
    expect(exp - iat).toBe(300)
  })
})

describe('An allowance that she edits', () => {
  it('counts at once: ended or lowered it leaves nothing, and raised it leaves the difference', async () => {
    const windows = (max: string) => ({ windows: [{ of: 'qty', per: 'all', max }] })
    const id = await allow(windows('5'))
    const agent = await known()
    expect((await agent.ask('place_trade', trade(4))).status).toBe(200)
    const asked = async (qty: number) => wasAsked(await agent.ask('place_trade', trade(qty)))
    await save(id, windows('3'))
    expect(await asked(0)).toBe('operation')
    await denyAll(authority)
    await save(id, { ...windows('100'), until: '2020-01-01T00:00:00Z' })
    expect(await asked(1)).toBe('operation')
    await denyAll(authority)
    await save(id, windows('6'))
    expect(await asked(3)).toBe('operation')
    expect((await agent.ask('place_trade', trade(2))).status).toBe(200)
  })

  it('is tried in a dry run by the version that each request was judged by, and by no other', async () => {
    const id = await allow({})
    const agent = await known()
    expect((await agent.ask('place_trade', trade(1))).status).toBe(200)
    expect(wasAsked(await agent.ask('place_trade', trade(1, { tip: 1 })))).toBe('operation')
    const { body } = await own({ target: '/owner/policies' })
    const { name, resources, ask_me, rules, terms } = body.tiers.find(
      (one: { id: string }) => one.id === 'trading',
    )
    const { purpose, scope, expires_in } = terms
    const tier = {
      id: 'trading',
      name,
      resources,
      ask_me,
      rules,
      terms: { purpose, scope, expires_in },
    }
    const would = async (): Promise<unknown[]> => {
      const reply = await own({ method: 'POST', target: '/owner/policies/preview', json: { tier } })
      const { requests } = reply.body as { requests: { handle: string; would: string }[] }
      return requests.filter(({ handle }) => handle === agent.handle).map(one => one.would)
    }
    expect(await would()).toEqual(['ask', 'grant', 'ask'])
    await save(id, { hold_s: 60 })
    expect(await would()).toEqual(['ask', 'ask', 'ask'])
  })
})

describe('An allowance that cannot be read', () => {
  it.each([
    ['because Postgres does not know its zone any more', "zone = 'Former/Zone'"],
    ['because its windows are none', `content = '{"amounts": [], "windows": [1], "tiers": {}}'`],
    ['because there is NUL in it', String.raw`content = '{"windows": [], "tiers": {}, "a": "\u0000"}'`],
  ])('lets nothing through, and she is asked, %s', async (_why, change) => {
    const id = await allow({ windows: [{ of: 'qty', per: 'day', max: '12' }] })
    const agent = await known()
    expect((await agent.ask('place_trade', trade(1))).status).toBe(200)
    await authority.database.pool.query(`UPDATE allowances SET ${change} WHERE owner = 'alice' AND id = $1`, [
      id,
    ])
    expect(wasAsked(await agent.ask('place_trade', trade(2)))).toBe('operation')
    const [waits] = await pendingAt(authority)
    expect(waits!['because']).toContain(`ask:operation.beyond:${id}?`)
  })
})

describe('A resource that takes only what she signs', () => {
  it('has every operation beyond the allowance', async () => {
    await allow({})
    const agent = await known()
    const signed = (approval: string | null) =>
      authority.database.pool.query(
        "UPDATE resources SET approval = $1 WHERE owner = 'alice' AND resource_id = 'alice/trades'",
        [approval],
      )
    await signed('signed')
    try {
      expect(wasAsked(await agent.ask('place_trade', trade(1)))).toBe('operation')
    } finally {
      await signed(null)
    }
  })
})

describe('An agent that another brings in', () => {
  it('uses what is left for its lineage, and beyond that she is asked', async () => {
    const id = await allow({ among: 'lineage', windows: [{ of: 'calls', per: 'all', max: '2' }] })
    const parent = await introducerAgent()
    await parent.granted('place_trade', trade(11))
    const child = agentOf(nextKey())
    const introduced = { introduction: introduction(parent.key, child.key) }
    const first = await child.ask('place_trade', { ...trade(1), ...introduced })
    expect(first.status).toBe(200)
    expect(await connectionOf(child.handle)).toMatchObject({ introduced_by: parent.handle })
    expect((await entriesOf(child, 'relaxed'))[0]).toMatchObject({ allowance: { id, amounts: { qty: '1' } } })
    expect((await parent.ask('place_trade', trade(1))).status).toBe(200)
    expect(wasAsked(await child.ask('place_trade', trade(1)))).toBe('operation')
    expect((await (await known()).ask('place_trade', trade(1))).status).toBe(200)
  })

  it('is granted what is left, or she is asked, where several of a lineage ask for the last of it at once', async () => {
    await allow({ among: 'lineage', windows: [{ of: 'calls', per: 'all', max: '1' }] })
    const parent = await introducerAgent()
    await parent.granted('place_trade', trade(11))
    const children = [agentOf(nextKey()), agentOf(nextKey())]
    // Each of them twice, so that one meets itself, too.
    const replies = await Promise.all(
      [...children, ...children].map(child =>
        child.ask('place_trade', { ...trade(1), introduction: introduction(parent.key, child.key) }),
      ),
    )
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(replies.filter(one => wasAsked(one) === 'operation')).toHaveLength(3)
  })
})
