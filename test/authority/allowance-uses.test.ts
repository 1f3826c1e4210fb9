/**
 * What an owner reads of how much of her allowances is used: contract, "Owner API"; an addition
 * (docs/details/owner-api.md).
 */
import { describe, expect, it } from 'vitest'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

const authority = authorityStand()
const own = (call: OwnerCall): Promise<Reply> => authority.call(authority.alice, call)
const read = (id: string): Promise<Reply> => own({ target: `/owner/allowances/${id}` })

const AT = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } }
async function save(id: string, members: object): Promise<void> {
  const json = { amounts: [{ name: 'qty' }], tiers: { trading: AT }, ...members }
  const reply = await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })
  if (reply.status >= 300) throw new Error(reply.text)
}
/** A new allowance with these members, which the tier of trades names from now on. */
async function allow(id: string, members: object): Promise<void> {
  await save(id, members)
  const rules = [
    { when: ['standing.approved_at_tier'], then: 'auto' },
    { when: [`operation.beyond:${id}`], then: 'ask' },
  ]
  const reply = await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
  if (reply.status !== 200) throw new Error(reply.text)
}

const trade = (qty: number) => ({ operation: { tool: 'place_trade', params: { qty } } })
/** An agent whose trade she approved once, which takes nothing of an allowance. */
async function known(): Promise<TestAgent> {
  const agent = testAgent(authority)
  await agent.granted('place_trade', trade(11))
  return agent
}
async function takes(agent: TestAgent, qty: number): Promise<string> {
  const reply = await agent.ask('place_trade', trade(qty))
  expect(reply.status).toBe(200)
  return reply.body.access_token
}

const CALLS = { of: 'calls', per: 'all', max: '9' }
const QTY = { of: 'qty', per: 'all', max: '12.5' }

describe('GET /owner/allowances/{id}', () => {
  it('tells of each window what is used, what unspent grants hold of it, and what is left', async () => {
    await allow('summed', { windows: [CALLS, QTY] })
    const agent = await known()
    const token = await takes(agent, 5)
    await takes(agent, 2.25)
    expect((await protectionCall(authority, '/consume', { token })).body).toMatchObject({ consumed: true })
    const { status, headers, body } = await read('summed')
    expect([status, headers.get('etag'), body.version]).toEqual([200, '"1"', 1])
    const lasting = { starts: expect.stringMatching(/Z$/) as string, ends: null }
    expect([body.use, body.more, body.held_more]).toEqual([
      [
        {
          windows: [
            { ...CALLS, used: '2', held: '1', left: '7', ...lasting },
            { ...QTY, used: '7.25', held: '2.25', left: '5.25', ...lasting },
          ],
        },
      ],
      undefined,
      undefined,
    ])
    const listed = (await own({ target: '/owner/allowances' })).body as { id: string }[]
    expect(listed.find(({ id }) => id === 'summed')).toEqual(body)
  })

  it('tells when the present windows begin and end', async () => {
    await save('hourly', { windows: [{ ...QTY, per: 'hour' }] })
    const [hour] = (await read('hourly')).body.use[0].windows
    expect(Date.parse(hour.ends) - Date.parse(hour.starts)).toBe(3_600_000)
    expect(hour).toMatchObject({ used: '0', held: '0', left: '12.5' })
  })

  it('has nothing left of a window that she lowers below what is used', async () => {
    await allow('lowered', { windows: [CALLS] })
    const agent = await known()
    for (const qty of [1, 2]) await takes(agent, qty)
    await save('lowered', { windows: [{ ...CALLS, max: '1' }] })
    const [window] = (await read('lowered')).body.use[0].windows
    expect(window).toMatchObject({ max: '1', used: '2', held: '2', left: '0' })
  })

  it('has an entry of each lineage that used something, by the handle of its first agent', async () => {
    await allow('each', { among: 'lineage', windows: [CALLS, QTY] })
    expect((await read('each')).body.use).toEqual([])
    const agents = [await known(), await known()]
    for (const agent of agents) await takes(agent, 1)
    const { use } = (await read('each')).body
    expect(use).toHaveLength(2)
    for (const { handle } of agents)
      expect(use).toContainEqual({
        whose: handle,
        windows: [
          expect.objectContaining({ of: 'calls', used: '1', held: '1', left: '8' }),
          expect.objectContaining({ of: 'qty', used: '1', held: '1', left: '11.5' }),
        ],
      })
  })

  it('is saved as it was read: what is used is not looked at, and the answer has none of it', async () => {
    await save('again', { windows: [CALLS] })
    const { use, ...stored } = (await read('again')).body
    const json = { ...stored, use: [{ windows: 'none' }], more: true, held_more: true }
    const saved = await own({ method: 'PUT', target: '/owner/allowances/again', json })
    expect([saved.status, saved.body]).toEqual([200, { ...stored, version: 2 }])
    expect((await read('again')).body.use).toEqual(use)
    const entries = (await own({ target: '/owner/ledger?kind=allowance_changed&limit=1000' })).body.entries
    expect(entries.at(-1)).toMatchObject({ allowance: 'again', version: 2 })
    expect(entries.at(-1)).not.toHaveProperty('use')
  })
})

describe('GET /owner/allowances', () => {
  it('is divided into pages before it is more than a client takes', async () => {
    const windows = ['hour', 'day', 'week', 'month'].flatMap(per =>
      ['calls', 'qty'].map(of => ({ of, per, max: '1000' })),
    )
    const only = [{ pointer: '/note', one_of: ['x'.repeat(29_000)] }]
    for (let n = 0; n < 30; n++)
      await save(`large-${n}`, { among: 'lineage', windows, tiers: { trading: { ...AT, only } } })
    // As if a hundred lineages had taken of each of them a moment ago.
    await authority.database.pool.query(
      `INSERT INTO allowance_windows (owner, allowance, whose, of, per, start, used, used_at)
        SELECT a.owner, a.id, repeat('h', 200) || n, v.of, v.per, date_trunc(v.per, now(), a.zone), 1, now()
        FROM allowances a, json_to_recordset(a.content->'windows') AS v(of text, per text),
          generate_series(1, 100) n
        WHERE a.owner = 'alice' AND a.id LIKE 'large-%'`,
    )
    const ids: string[] = []
    let target: string | undefined = '/owner/allowances'
    let pages = 0
    while (target !== undefined && pages < 20) {
      const { text, body, headers } = await own({ target })
      expect(text.length).toBeLessThan(4 * 1024 * 1024)
      ids.push(...(body as { id: string }[]).map(({ id }) => id))
      target = /<([^>]+)>/.exec(headers.get('link') ?? '')?.[1]
      pages++
    }
    expect(pages).toBeGreaterThan(1)
    expect(ids.filter(id => id.startsWith('large-'))).toHaveLength(30)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
