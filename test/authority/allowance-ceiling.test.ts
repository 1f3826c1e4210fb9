/**
 * What an organization leaves of a member's allowances: contract, "Organization membership, on the member's
 * authorization server", "Policy vocabulary and tiers"; an addition (docs/details/organization.md).
 */
import { afterEach, describe, expect, it } from 'vitest'
import type { AllowanceCeiling } from '../../src/wire/organization/charter.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { CLAIMING, startMembershipStand } from '../support/membership.ts'
import { startedOnce } from '../support/started.ts'
import { denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'

/** At most so much passes in all by one allowance; her trades are shared with her. */
const bounding = (max_allowance?: AllowanceCeiling[]) => ({
  default_role: 'traders',
  envelope: { ...CLAIMING.envelope, ...(max_allowance && { max_allowance }) },
})
const dollars = (max: string): AllowanceCeiling => ({ unit: 'USD', per: 'all', max })

const stand = startedOnce(() => startMembershipStand({ charter: bounding([dollars('12')]) }))
const own = (call: OwnerCall): Promise<Reply> => stand.authority.call(stand.alice, call)
let ids = 0

/** A new allowance of 100 dollars with these members, which the tier of her trades names. */
async function allow(members: object = {}): Promise<string> {
  const id = `c-${++ids}`
  const amounts = [{ name: 'qty', unit: 'USD', each_max: '10' }]
  const place = { pointer: '/qty', unit_pointer: '/currency' }
  const tiers = { trading: { tools: ['place_trade'], amounts: { qty: place } } }
  const json = { amounts, windows: [{ of: 'qty', per: 'all', max: '100' }], tiers, ...members }
  const saved = await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })
  if (saved.status !== 201) throw new Error(saved.text)
  const rules = [
    { when: ['standing.approved_at_tier'], then: 'auto' },
    { when: [`operation.beyond:${id}`], then: 'ask' },
  ]
  const edited = await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
  if (edited.status !== 200) throw new Error(edited.text)
  return id
}
const trade = (qty: number) => ({ operation: { tool: 'place_trade', params: { qty, currency: 'USD' } } })
/** An agent whose trade she approved once. */
async function known(): Promise<TestAgent> {
  const agent = testAgent(stand.authority)
  await agent.granted('place_trade', trade(11))
  return agent
}
const outcome = ({ status, body }: Reply): unknown => (status === 200 ? 'granted' : (body.kind ?? body.error))
const ask = async (agent: TestAgent, qty: number) => outcome(await agent.ask('place_trade', trade(qty)))
/** The limit that her ledger names of the last operation of the agent that was beyond. */
async function limitOf({ handle }: TestAgent): Promise<unknown> {
  const target = `/owner/ledger?handle=${encodeURIComponent(handle)}&kind=promised&limit=1000`
  const { body } = await own({ target })
  const entries = body.entries as { facts: { operation: { limit?: string } } }[]
  return entries.at(-1)!.facts.operation.limit
}
const says = (max_allowance?: AllowanceCeiling[]): Promise<void> =>
  stand.publishUntilSeen(bounding(max_allowance), 'max_allowance')

afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
})

describe('An allowance at a resource that an organization governs', () => {
  it('lets through no more than the organization does, and tells her so', async () => {
    await allow()
    await stand.joined()
    const agent = await known()
    expect([await ask(agent, 5), await ask(agent, 7), await ask(agent, 0.01)]).toEqual([
      'granted',
      'granted',
      'operation',
    ])
    expect(await limitOf(agent)).toBe('ceiling:qty:all')
  })

  it('lets through as much in all, of however many asked for at once', async () => {
    await allow()
    await stand.joined()
    const agents = [await known(), await known(), await known()]
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, n) => ask(agents[n % 3]!, 5 + n / 1_000)),
    )
    expect(outcomes.toSorted()).toEqual([
      ...Array.from({ length: 2 }, () => 'granted'),
      ...Array.from({ length: 10 }, () => 'operation'),
    ])
  })

  it('lets nothing through if it does not count in the unit that the organization names', async () => {
    const tools = { tools: ['place_trade'] }
    const uncompared = { amounts: { qty: { pointer: '/qty' } }, free: ['/currency'] }
    await allow({ tiers: { trading: { ...tools, ...uncompared } } })
    await stand.joined()
    const agent = await known()
    expect(await ask(agent, 1)).toBe('operation')
    expect(await limitOf(agent)).toBe('ceiling:qty')
  })

  it('follows a later charter down at once, and up again once she has agreed to it', async () => {
    const id = await allow()
    await stand.joined()
    const agent = await known()
    expect(await ask(agent, 5)).toBe('granted')
    try {
      await says([dollars('8')])
      expect(await ask(agent, 5)).toBe('operation')
      await denyAll(stand.authority)
      // A tier stays as it was cut, too.
      await says([dollars('12')])
      expect(await ask(agent, 5)).toBe('operation')
      expect((await own({ target: `/owner/allowances/${id}` })).body.windows[0].ceiling).toBe('8')
      await denyAll(stand.authority)
      const { charter_version, binds_s256, waiting, summary } = (await stand.own('GET')).body
      expect(summary).toContain('An allowance may let through at most 8 USD in all there.')
      expect(waiting).toEqual({
        version: charter_version,
        changes: ['An allowance could let through up to 12 USD in all there.'],
      })
      const again = await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
      expect([again.status, again.body.waiting]).toEqual([200, null])
      expect(await ask(agent, 5)).toBe('granted')
      await says([])
      expect(await ask(agent, 1)).toBe('operation')
    } finally {
      await says([dollars('12')])
    }
  })

  it('stays bounded as she agreed if a later charter bounds none', async () => {
    await allow()
    await stand.joined()
    const agent = await known()
    try {
      await says(undefined)
      expect([await ask(agent, 9), await ask(agent, 9)]).toEqual(['granted', 'operation'])
      expect((await stand.own('GET')).body.waiting.changes).toEqual([
        'It would not bound what your allowances let through there.',
      ])
    } finally {
      await says([dollars('12')])
    }
  })

  it('is hers alone again once she has left', async () => {
    await allow()
    await stand.joined()
    await stand.own('DELETE')
    const agent = await known()
    expect([await ask(agent, 9), await ask(agent, 9)]).toEqual(['granted', 'granted'])
  })

  it('lets nothing through, and she is asked, if nobody can read how it is bounded', async () => {
    await allow()
    await stand.joined()
    const agent = await known()
    await stand.authority.database.pool.query(
      `UPDATE memberships SET view = jsonb_set(view::jsonb, '{max_allowance,0,zone}', '"UTC"')::json`,
    )
    expect(await ask(agent, 1)).toBe('operation')
    expect(await limitOf(agent)).toBe('ceiling')
  })
})

describe('GET /owner/allowances', () => {
  it('names the ceiling of a window where it is lower than hers, and PUT takes the allowance so', async () => {
    const windows = [
      { of: 'qty', per: 'all', max: '100' },
      { of: 'qty', per: 'day', max: '100' },
      { of: 'calls', per: 'all', max: '100' },
    ]
    const id = await allow({ windows })
    const read = async () => (await own({ target: `/owner/allowances/${id}` })).body
    expect((await read()).windows).toEqual(windows)
    await stand.joined()
    const bounded = [{ ...windows[0], ceiling: '12' }, windows[1], windows[2]]
    const body = await read()
    expect(body.windows).toEqual(bounded)
    const { body: listed } = await own({ target: '/owner/allowances' })
    expect((listed as { id: string }[]).find(one => one.id === id)).toEqual(body)
    const saved = await own({ method: 'PUT', target: `/owner/allowances/${id}`, json: body })
    expect([saved.status, saved.body.windows]).toEqual([200, windows])
    const lower = [{ ...windows[0], max: '12.0' }, windows[1], windows[2]]
    await own({ method: 'PUT', target: `/owner/allowances/${id}`, json: { ...body, windows: lower } })
    expect((await read()).windows).toEqual(lower)
  })
})
