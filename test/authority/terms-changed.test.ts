/**
 * A tier that the owner changes while agents negotiate under it: contract, "Permission ticket" (states),
 * "Policy vocabulary and tiers", and what `docs/choices.md` says of them. No grant is made under terms that
 * were replaced before it was.
 */
import { describe, expect, it } from 'vitest'
import { type Reply } from '../support/authority.ts'
import { newKey, startOperator } from '../support/operators.ts'
import { decide, denyAll, pendingAt, testAgent, type ToolName } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const TRADE = (qty: number) => ({ operation: { tool: 'place_trade', params: { symbol: 'VTI', qty } } })
const keys = Array.from({ length: 10 }, newKey)
const operator = startedOnce(() => startOperator({ keys: [...keys] }))
const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })

interface Tier {
  id: string
  resources: string[]
  ask_me: boolean
  rules: object[]
  clearance: object
  terms: Record<string, unknown>
}
type Change = Partial<Omit<Tier, 'id' | 'terms'>> & { name?: string }

const readTier = async (id: string): Promise<Tier> => {
  const { body } = await authority.call(authority.alice, { target: '/owner/policies' })
  return (body as { tiers: Tier[] }).tiers.find(tier => tier.id === id)!
}
/** She edits a tier, by PUT. */
async function edit(id: string, change: Change): Promise<Reply> {
  const before = await readTier(id)
  const { template_id: _version, per_operation: _implied, ...terms } = before.terms
  const json = { ...before, ...change, terms }
  const reply = await authority.call(authority.alice, {
    method: 'PUT',
    target: `/owner/policies/${id}`,
    json,
  })
  if (reply.status !== 200) throw new Error(`the edit was answered ${reply.status} ${reply.text}`)
  return reply
}
const offered = (reply: Reply) => ({
  ticket: reply.body.ticket as string,
  template: reply.body.required_claims?.[0].terms_template as { template_id: string } & Parameters<
    ReturnType<typeof testAgent>['claimToken']
  >[0],
})
const events = async (family: string) => {
  const { rows } = await authority.database.pool.query<{ event: string; data: object }>(
    "SELECT event, data FROM events WHERE owner = 'alice' AND data->>'family' = $1 ORDER BY id",
    [family],
  )
  return rows.map(({ event, data }) => ({ event, ...data }))
}
const entries = async (family: string) => {
  const { rows } = await authority.database.pool.query<{ kind: string; reason: string | null }>(
    "SELECT kind, data->>'reason' AS reason FROM ledger WHERE owner = 'alice' AND family = $1 ORDER BY id",
    [family],
  )
  return rows
}
/** What of an agent waits, as the owner is shown it. */
const itemOf = async (handle: string) => (await pendingAt(authority)).find(item => item.handle === handle)!
const decision = (family: string, decided: string) =>
  authority.call(authority.alice, {
    method: 'POST',
    target: `/owner/pending/${family}/decision`,
    json: { decision: decided },
  })
let named = 0
/**
 * An agent that names its own client document. While the document is fetched, she makes a change, and has her
 * answer before the document has come.
 */
function slowAgent(change: () => Promise<unknown>, key = keys.pop()!) {
  const path = `/client-${named++}.json`
  const client_id = `${operator.origin}${path}`
  operator.server.script(path, async () => {
    await change()
    return { body: { client_id, client_name: 'O' } }
  })
  return testAgent(authority, { key, client_id })
}

describe('A tier edited while the documents of an operator are fetched', () => {
  it('gives no standing grant under the old terms: the agent gets need_info with the new ones', async () => {
    const key = keys.pop()!
    await testAgent(authority, { key }).granted('portfolio_read')
    const strict = { ask_me: true, rules: [{ when: ['request.reason_absent'], then: 'refuse' }] }
    const agent = slowAgent(() => edit('reading', strict), key)
    const answer = await agent.ask('portfolio_read')
    expect([answer.status, answer.body.error]).toEqual([403, 'need_info'])
    const offer = offered(answer)
    expect(offer.template).toMatchObject({ per_operation: true })
    const operation = { tool: 'portfolio_read', params: {} }
    expect((await agent.agree(offer, { operation })).body.error).toBe('request_denied')
    await edit('reading', { ask_me: false, rules: [] })
  })

  it('holds nothing under the old terms: what is held is what she would be shown', async () => {
    const agent = slowAgent(() => edit('reading', { name: 'Reading, renamed' }))
    const answer = await agent.ask('portfolio_read')
    expect(answer.body.error).toBe('need_info')
    expect(await itemOf(agent.handle)).toBeUndefined()
    expect((await agent.agree(offered(answer))).body.error).toBe('request_submitted')
    expect(await itemOf(agent.handle)).toMatchObject({ tier_name: 'Reading, renamed' })
    await denyAll(authority)
  })

  it('deleted meanwhile, it denies', async () => {
    const { terms, ...statements } = await readTier('statements')
    const { template_id: _version, ...words } = terms
    const agent = slowAgent(() =>
      authority.call(authority.alice, { method: 'DELETE', target: '/owner/policies/statements' }),
    )
    const answer = await agent.ask('statement_read')
    expect([answer.status, answer.body.error]).toEqual([403, 'request_denied'])
    const json = { ...statements, terms: words }
    await authority.call(authority.alice, { method: 'POST', target: '/owner/policies', json })
  })
})

describe('Editing a tier takes back what waits under it', () => {
  async function held(tool: ToolName = 'portfolio_read', claims = {}) {
    const agent = testAgent(authority)
    const { body } = await agent.ask(tool, claims)
    expect(body.error).toBe('request_submitted')
    const { family } = await itemOf(agent.handle)
    return { agent, family, ticket: body.ticket as string }
  }

  it('waiting: unlisted, 409, told in ledger and stream; the next poll is need_info with the new terms', async () => {
    const { agent, family, ticket } = await held()
    const other = await held('statement_read')
    const etag = (await edit('reading', { name: 'Edited' })).headers.get('etag')
    expect(await itemOf(agent.handle)).toBeUndefined()
    expect((await decision(family, 'approved')).status).toBe(409)
    expect(await events(family)).toEqual([
      expect.objectContaining({ event: 'pending' }),
      { event: 'withdrawn', family, because: 'terms_changed' },
    ])
    expect(await entries(family)).toContainEqual({ kind: 'withdrawn', reason: 'terms_changed' })
    const offer = offered(await agent.present(ticket))
    expect(`"${offer.template.template_id}"`).toBe(etag)
    expect((await agent.agree(offer)).body.error).toBe('request_submitted')
    // What waits under another tier goes on waiting.
    expect(await itemOf(other.agent.handle)).toMatchObject({ family: other.family })
    await denyAll(authority)
  })

  it('approved and not yet collected: no grant of the old terms; the connection that was admitted stays', async () => {
    const { agent, family, ticket } = await held()
    await decide(authority, agent.handle, 'approved')
    await edit('reading', { ask_me: true })
    const offer = offered(await agent.present(ticket))
    expect(offer.template).toMatchObject({ per_operation: true })
    expect((await events(family)).at(-1)).toEqual({ event: 'withdrawn', family, because: 'terms_changed' })
    const operation = { tool: 'portfolio_read', params: {} }
    expect((await agent.agree(offer, { operation })).body).toMatchObject({
      error: 'request_submitted',
      kind: 'operation',
    })
    await denyAll(authority)
    await edit('reading', { ask_me: false })
  })

  it('a clearance that she asks for after she approved is asked at collection: 403 request_denied', async () => {
    const { agent, ticket } = await held()
    await decide(authority, agent.handle, 'approved')
    await edit('reading', { clearance: { employed: ['yes'] } })
    const polled = await agent.present(ticket)
    expect([polled.status, polled.body.error]).toEqual([403, 'request_denied'])
    expect(polled.body.error_description).toMatch(/clearance/)
    await edit('reading', { clearance: {} })
  })

  it('a resource taken out, or a tier deleted, under what waits: 403 request_denied, and the item is gone', async () => {
    const { agent, family, ticket } = await held()
    await decide(authority, agent.handle, 'approved')
    const { resources } = await readTier('reading')
    await edit('reading', { resources: [] })
    expect((await events(family)).at(-1)).toMatchObject({ event: 'withdrawn' })
    const polled = await agent.present(ticket)
    expect([polled.status, polled.body.error]).toEqual([403, 'request_denied'])
    await edit('reading', { resources })
  })
})

describe('An approval when it is collected', () => {
  it('is refused if a rule that refuses matches by now', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    await edit('trading', { rules: [{ when: ['standing.denials_above:0'], then: 'refuse' }] })
    const first = await agent.ask('place_trade', TRADE(1))
    await decide(authority, agent.handle, 'approved')
    await agent.ask('place_trade', TRADE(2))
    await decide(authority, agent.handle, 'denied')
    const collected = await agent.present(first.body.ticket)
    expect([collected.status, collected.body.error]).toEqual([403, 'request_denied'])
    expect(collected.body.error_description).toMatch(/policy refuses/)
    await edit('trading', { rules: [] })
  })

  it('is refused if the resource was declared graver since', async () => {
    const agent = testAgent(authority)
    const { body } = await agent.ask('portfolio_read')
    await decide(authority, agent.handle, 'approved')
    const declare = (consequence: string) =>
      authority.database.pool.query(
        "UPDATE resources SET consequence = $1 WHERE owner = 'alice' AND resource_id = 'alice/portfolio'",
        [consequence],
      )
    await declare('irreversible')
    const collected = await agent.present(body.ticket)
    expect([collected.status, collected.body.error]).toEqual([403, 'request_denied'])
    await declare('reversible')
  })
})

describe('What else takes an item from her list', () => {
  it('an item whose ticket expired is neither listed nor counted, and a decision on it is 409', async () => {
    const agents = Array.from({ length: 5 }, () => testAgent(authority))
    for (const agent of agents) expect((await agent.ask()).body.error).toBe('request_submitted')
    const { family } = await itemOf(agents[0]!.handle)
    expect((await testAgent(authority).ask()).status).toBe(429)
    await authority.database.pool.query(
      "UPDATE families SET ticket_expires_at = now() - interval '1 second' WHERE owner = 'alice' AND family = $1",
      [family],
    )
    expect(await itemOf(agents[0]!.handle)).toBeUndefined()
    expect((await decision(family, 'approved')).status).toBe(409)
    expect((await testAgent(authority).ask()).body.error).toBe('request_submitted')
    await denyAll(authority)
  })

  it('the agent declines it, or asks for less in its place: both are told', async () => {
    const agent = testAgent(authority)
    await agent.ask()
    const { family } = await itemOf(agent.handle)
    const { body } = await agent.ask('portfolio_read', { expires_in: 60 })
    expect((await events(family)).at(-1)).toEqual({ event: 'withdrawn', family, because: 'replaced' })
    const replacing = (await itemOf(agent.handle)).family
    await agent.present(body.ticket, { decline: 'true' })
    expect((await events(replacing)).at(-1)).toMatchObject({ event: 'withdrawn', because: 'declined' })
  })

  it('a repeat joins its item; one that an operator attests now takes its place, so that a block finds it', async () => {
    const key = keys.pop()!
    const unnamed = testAgent(authority, { key })
    await unnamed.ask()
    const { family } = await itemOf(unnamed.handle)
    await unnamed.ask()
    expect((await itemOf(unnamed.handle)).family).toBe(family)
    await testAgent(authority, { key, client_id: operator.client_id }).ask()
    expect(await itemOf(unnamed.handle)).toMatchObject({ identity: { operator: operator.origin } })
    await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/operators/block',
      json: { origin: operator.origin },
    })
    expect(await itemOf(unnamed.handle)).toBeUndefined()
  })
})
