/**
 * What her approval of an operation opens, and how she approves one call alone: contract, "Owner API"
 * (`/owner/pending/{family}/decision`), "Policy vocabulary and tiers".
 */
import { afterEach, describe, expect, it } from 'vitest'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { denyAll, pendingAt, testAgent, type PendingItem, type TestAgent } from '../support/test-agent.ts'

const authority = authorityStand()

const own = (call: OwnerCall): Promise<Reply> => authority.call(authority.alice, call)
const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
const TIME = { when: ['standing.age_above:90d', 'standing.never_revoked'], then: 'auto' }

/** Edits the ask-me tier. */
async function trading(...rules: object[]): Promise<void> {
  const reply = await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules } })
  if (reply.status !== 200) throw new Error(reply.text)
}
const trade = (qty: number) => ({ operation: { tool: 'place_trade', params: { qty } } })

/** An agent that she knows at another tier, and never approved at this one. */
async function connected(): Promise<TestAgent> {
  const agent = testAgent(authority)
  await agent.granted('portfolio_read')
  return agent
}
async function waiting({ handle }: TestAgent): Promise<PendingItem> {
  return (await pendingAt(authority)).find(one => one.handle === handle)!
}
async function approve(agent: TestAgent, more: object = {}): Promise<void> {
  const { family } = await waiting(agent)
  const json = { decision: 'approved', ...more }
  const reply = await own({ method: 'POST', target: `/owner/pending/${family}/decision`, json })
  if (reply.status !== 200) throw new Error(reply.text)
}
/** Asks for a trade; whether it was granted, or goes to her. */
async function asks(agent: TestAgent, qty: number): Promise<{ status: number; ticket: string }> {
  const { status, body } = await agent.ask('place_trade', trade(qty))
  return { status, ticket: body.ticket as string }
}

afterEach(() => denyAll(authority))

describe('Approving an operation', () => {
  it('opens its tier to the agent if a rule there goes by approvals, and the item says so', async () => {
    await trading(AUTO)
    const agent = await connected()
    const { ticket } = await asks(agent, 1)
    const item = await waiting(agent)
    expect(item).toMatchObject({ kind: 'operation', opens: ['trading'], item: { opens: ['trading'] } })
    const one = await own({ target: `/owner/pending/${item.family}` })
    expect(one.body.item_s256).toBe(item['item_s256'])
    await approve(agent, { item_s256: item['item_s256'] })
    expect((await agent.present(ticket)).status).toBe(200)
    expect((await asks(agent, 2)).status).toBe(200)
  })

  it('opens nothing with `only`: the call is granted, and the next one goes to her', async () => {
    await trading(AUTO)
    const agent = await connected()
    const { ticket } = await asks(agent, 1)
    await approve(agent, { only: true })
    expect((await agent.present(ticket)).status).toBe(200)
    expect((await asks(agent, 2)).status).toBe(403)
    const { body } = await own({ target: '/owner/connections?limit=1000' })
    const known = (body as { handle: string; tiers_approved: string[] }[]).find(
      one => one.handle === agent.handle,
    )!
    expect(known.tiers_approved).toEqual(['reading'])
    expect((await waiting(agent))['opens']).toEqual(['trading'])
  })

  it('is told in the ledger with `only` if she approved one call alone, and no denial is', async () => {
    await trading()
    const agent = await connected()
    for (const [at, json] of [{ only: true }, {}, { decision: 'denied', only: true }].entries()) {
      await asks(agent, at + 1)
      await approve(agent, json)
    }
    const told = async (kind: string): Promise<unknown[]> => {
      const { body } = await own({ target: `/owner/ledger?kind=${kind}&handle=${agent.handle}` })
      const entries = body.entries as Record<string, unknown>[]
      return entries.filter(entry => entry['of'] === 'operation').map(entry => entry['only'] ?? 'nothing')
    }
    expect(new Set(await told('approved'))).toEqual(new Set([true, 'nothing']))
    expect(await told('denied')).toEqual(['nothing'])
  })

  it('says of what is beyond an allowance that the tier opens, too, and takes nothing back with `only`', async () => {
    const allowance = { tiers: { trading: { tools: ['place_trade'], free: ['/qty'] } } }
    const made = await own({ method: 'PUT', target: '/owner/allowances/opened', json: allowance })
    expect(made.status).toBe(201)
    await trading(AUTO, { when: ['operation.beyond:opened'], then: 'ask' })
    const agent = await connected()
    const { ticket } = await asks(agent, 1)
    expect((await waiting(agent))['opens']).toEqual(['trading'])
    await approve(agent)
    expect((await agent.present(ticket)).status).toBe(200)
    expect((await asks(agent, 2)).status).toBe(200)
    const beyond = await agent.ask('place_trade', {
      operation: { tool: 'place_trade', params: { qty: 1, tip: 2 } },
    })
    expect(beyond.status).toBe(403)
    const item = await waiting(agent)
    expect(item['opens']).toEqual(['trading'])
    expect(item['because']).toContain('auto:standing.approved_at_tier')
    await approve(agent, { only: true })
    expect((await asks(agent, 3)).status).toBe(200)
    await trading()
  })

  it.each<[string, object[]]>([
    ['has no rules', []],
    ['lets an agent through by time alone', [TIME]],
  ])('opens no tier that %s', async (_what, rules) => {
    await trading(...rules)
    const agent = await connected()
    await asks(agent, 1)
    expect((await waiting(agent))['opens']).toEqual([])
  })

  it.each<[string, object[]]>([
    ['lets an agent through by approvals, or by time alone', [AUTO, TIME]],
    [
      'asks about every agent without an operator, which a later call may name',
      [AUTO, { when: ['assurance.accountability_below:1'], then: 'ask' }],
    ],
  ])('opens a tier that %s', async (_what, rules) => {
    await trading(...rules)
    const agent = await connected()
    await asks(agent, 1)
    expect((await waiting(agent))['opens']).toEqual(['trading'])
  })
})
