/**
 * What an organization has a say in, request by request: contract, "The organization's authority"
 * (`/decision`: allow, ask or refuse; never widens) and "What the service does" (nothing above the owner can
 * widen).
 */
import { afterEach, describe, expect, it } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import { startDoorStand } from '../support/door-stand.ts'
import type { Instead } from '../support/organization-door.ts'
import { startedOnce } from '../support/started.ts'
import {
  decide,
  denyAll,
  pendingAt,
  protectionCall,
  testAgent,
  type TestAgent,
} from '../support/test-agent.ts'

const DECISION = '/decision'
const CLEARANCE = '/member/clearance'

const stand = startedOnce(async () => {
  const started = await startDoorStand()
  await started.joined()
  return started
})

const says = (changes: object): Instead => {
  const allowing = { effect: 'allow', because: [], governed: true, charter_version: 1, clearance: null }
  return () => ({ status: 200, body: { ...allowing, ...changes } })
}
const instead = (changes: object) => stand.door.instead(DECISION, says(changes))
const edit = (tier: string, json: object) =>
  stand.authority.call(stand.alice, { method: 'PUT', target: `/owner/policies/${tier}`, json })
const connected = async (): Promise<TestAgent> => {
  const agent = testAgent(stand.authority)
  await agent.granted('portfolio_read')
  stand.door.asked.length = 0
  return agent
}
const again = async (agent: TestAgent, offer: Awaited<ReturnType<TestAgent['offer']>>, ticket: string) =>
  agent.agree({ ...offer, ticket })

afterEach(async () => {
  stand.door.reset()
  await denyAll(stand.authority)
  await edit('reading', { ask_me: false, rules: [], terms: { per_operation: false } })
})

describe('An organization is asked', () => {
  it('once for each agreement presented and once as an approval is collected, and for no waiting poll and no call', async () => {
    const agent = testAgent(stand.authority)
    const counted = () => stand.door.count(DECISION)
    const offer = await agent.offer('portfolio_read')
    expect(counted()).toBe(0)
    let { body } = await agent.agree(offer)
    expect([body.error, counted()]).toEqual(['request_submitted', 1])
    for (let poll = 0; poll < 3; poll++) ({ body } = await agent.present(body.ticket))
    expect([body.error, counted()]).toEqual(['request_submitted', 1])
    await decide(stand.authority, agent.handle, 'approved')
    const { status } = await agent.present(body.ticket)
    expect([status, counted()]).toEqual([200, 2])
    const { rpt: token } = await agent.granted('portfolio_read')
    expect(counted()).toBe(3)
    expect((await protectionCall(stand.authority, '/introspect', { token })).body.active).toBe(true)
    expect([counted(), stand.door.count(CLEARANCE)]).toEqual([3, 0])
  })

  it('in bytes that hold the request and nothing of hers: no word, no parameter, no tier', async () => {
    await edit('reading', { ask_me: true, terms: { per_operation: true } })
    const agent = testAgent(stand.authority)
    const params = { account: 'DE-secret-account' }
    const operation = { tool: 'portfolio_read', params }
    await agent.ask('portfolio_read', { operation, reason: 'a private reason' })
    const [asked, ...others] = stand.door.asked.filter(({ path }) => path === DECISION)
    expect(others).toEqual([])
    expect(JSON.parse(asked!.body)).toEqual({
      resource_id: 'alice/portfolio',
      scopes: ['read'],
      expires_in: expect.any(Number) as number,
      reason_absent: false,
      mission_absent: true,
      operation: { tool: 'portfolio_read', params_s256: s256Json(params) },
      assurance: { binding: 1, provenance: 0, accountability: 0 },
      standing: { connected: false, first_party: false, introduced: false },
      tier: null,
      purpose: null,
    })
    const { rows } = await stand.authority.database.pool.query<{ token: string }>(
      'SELECT token FROM memberships',
    )
    expect(asked!.headers.authorization).toBe(`Bearer ${rows[0]!.token}`)
    expect(asked!.headers['signature-input']).toContain('"authorization"')
    expect(asked!.headers['signature-input']).toContain('"content-digest"')
    const carried = Object.keys(asked!.headers).toSorted()
    expect(carried).toEqual(
      [
        'accept',
        'accept-encoding',
        'authorization',
        'connection',
        'content-digest',
        'content-length',
        'content-type',
        'host',
        'signature',
        'signature-input',
      ].filter(name => name in asked!.headers),
    )
    const bytes = JSON.stringify(asked)
    for (const word of ['private reason', 'secret-account', 'reading', agent.handle, agent.key.thumbprint])
      expect(bytes).not.toContain(word)
  })

  it('for no resource of her own', async () => {
    await testAgent(stand.authority).granted('statement_read')
    expect([stand.door.count(DECISION), stand.door.count(CLEARANCE)]).toEqual([0, 0])
  })
})

describe('The strictest of her tier and an organization decides', () => {
  it('what it allows adds nothing: her tier asks and refuses as before', async () => {
    const agent = await connected()
    instead({ effect: 'allow' })
    await edit('reading', { rules: [{ when: ['request.reason_absent'], then: 'ask' }] })
    expect((await agent.ask('portfolio_read')).body.error).toBe('request_submitted')
    await edit('reading', { rules: [{ when: ['request.reason_absent'], then: 'refuse' }] })
    const { status, body } = await agent.ask('portfolio_read')
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', 'policy'])
    expect(stand.door.count(DECISION)).toBe(2)
  })

  it('what it asks about waits for her, who reads its words and whose they are', async () => {
    const agent = await connected()
    instead({ effect: 'ask', because: ['always_ask', 'ask:request.reason_absent'] })
    expect((await agent.ask('portfolio_read')).body).toMatchObject({
      error: 'request_submitted',
      kind: 'operation',
    })
    const [item] = await pendingAt(stand.authority)
    expect(item!.because).toEqual([
      'baseline:auto',
      'organization:always_ask',
      'organization:ask:request.reason_absent',
    ])
    expect(item!.organization).toEqual({
      issuer: stand.issuer,
      org: 'acme',
      name: 'Acme',
      effect: 'ask',
      because: ['always_ask', 'ask:request.reason_absent'],
    })
  })

  it.each([
    [['not_shared'], 'not_shared'],
    [['delegation_none'], 'not_delegated'],
    [['not_first_party'], 'not_delegated'],
    [['binding_below_minimum', 'reason_required'], 'binding_below_minimum'],
    [['clearance_unmet'], 'clearance_unmet'],
    [['refuse:request.reason_absent'], 'refuse:request.reason_absent'],
    [['<script>'], 'organization_refused'],
    [[], 'organization_refused'],
  ])('what it refuses is 403 request_denied with its word: %j', async (because, reason) => {
    const agent = testAgent(stand.authority)
    instead({ effect: 'refuse', because })
    const { status, body } = await agent.ask('portfolio_read')
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', reason])
    expect(await pendingAt(stand.authority)).toEqual([])
  })

  it('what it refuses by the time of collection is not granted, whatever she approved', async () => {
    const agent = testAgent(stand.authority)
    const asked = await agent.ask('portfolio_read')
    await decide(stand.authority, agent.handle, 'approved')
    instead({ effect: 'refuse', because: ['reason_required'] })
    const { status, body } = await agent.present(asked.body.ticket)
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', 'reason_required'])
    expect((await agent.present(asked.body.ticket)).body.error).toBe('invalid_grant')
  })

  it('what it asks about was answered by her approval', async () => {
    const agent = testAgent(stand.authority)
    instead({ effect: 'ask', because: ['always_ask'] })
    await agent.granted('portfolio_read')
    expect(stand.door.count(DECISION)).toBe(2)
  })
})

describe('What it does not share', () => {
  it('is refused at the ticket, with its word and before anybody is asked', async () => {
    const agent = testAgent(stand.authority)
    const { status, body } = await agent.present(await agent.ticket('place_trade'))
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', 'not_shared'])
    expect(stand.door.count(DECISION)).toBe(0)
  })
})

describe('A changed tier, tried on what was asked', () => {
  it('answers under what the organization said then', async () => {
    const agent = await connected()
    instead({ effect: 'ask', because: ['always_ask'] })
    await agent.ask('portfolio_read')
    const target = '/owner/policies/preview'
    const tier = {
      id: 'reading',
      name: 'Reading',
      resources: ['alice/portfolio'],
      ask_me: false,
      terms: { purpose: 'Read', scope: ['read'], expires_in: 60, prohibited: [] },
    }
    const tried = await stand.authority.call(stand.alice, { method: 'POST', target, json: { tier } })
    const last = (tried.body.requests as { was: string; would: string; because: string[] }[]).at(-1)!
    expect([last.was, last.would]).toEqual(['ask', 'ask'])
    expect(last.because).toContain('organization:always_ask')
  })
})

describe('An organization that gives no usable answer', () => {
  const UNUSABLE: [string, Instead][] = [
    ['an outage', () => ({ status: 500, body: {} })],
    ['a refusal of the question', () => ({ status: 401, body: { error: 'invalid_token' } })],
    ['an effect that nobody knows', says({ effect: 'permit' })],
    ['that it does not govern what it claims', says({ governed: false })],
    ['no word on whether it governs', says({ governed: undefined })],
    ['words that are no texts', says({ effect: 'ask', because: [7] })],
    ['words with control characters', says({ effect: 'ask', because: ['\u001b[2J'] })],
    ['a member that is no list', says({ because: 'not_shared' })],
    ['a clearance that is no text', says({ clearance: { level: 'high' } })],
    ['a list in place of an answer', () => ({ status: 200, body: [says({})] })],
    ['what is no JSON', () => ({ status: 200, body: 'allow' })],
    ['more than is read', says({ because: ['x'.repeat(100_000)] })],
  ]

  it.each(UNUSABLE)('lets nobody in and ends nothing: %s', async (_, say) => {
    const agent = await connected()
    const offer = await agent.offer('portfolio_read')
    stand.door.instead(DECISION, say)
    const out = await agent.agree(offer)
    expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(out.body.error_description).toEqual(expect.any(String))
    expect(out.headers.get('retry-after')).toBe('5')
    expect(out.body.ticket).not.toBe(offer.ticket)
    expect(stand.door.count(DECISION)).toBe(1)
    stand.door.instead(DECISION, undefined)
    const { status } = await again(agent, offer, out.body.ticket)
    expect(status).toBe(200)
  })

  it('is waited for a few seconds only', async () => {
    const agent = await connected()
    const offer = await agent.offer('portfolio_read')
    stand.door.instead(DECISION, () => 'silence')
    const out = await agent.agree(offer)
    expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    stand.door.instead(DECISION, undefined)
    expect((await again(agent, offer, out.body.ticket)).status).toBe(200)
  })

  it('leaves an approval as it is: whoever comes for it again collects it', async () => {
    const agent = testAgent(stand.authority)
    const asked = await agent.ask('portfolio_read')
    await decide(stand.authority, agent.handle, 'approved')
    stand.door.instead(DECISION, () => ({ status: 500, body: {} }))
    const first = await agent.present(asked.body.ticket)
    const second = await agent.present(first.body.ticket)
    for (const out of [first, second])
      expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    stand.door.instead(DECISION, undefined)
    expect((await agent.present(second.body.ticket)).status).toBe(200)
  })

  it('keeps nobody from her own resources', async () => {
    stand.door.instead(DECISION, () => 'silence')
    expect((await testAgent(stand.authority).granted('statement_read')).rpt).toBeDefined()
  })
})

describe('An answer that the organization has overtaken', () => {
  it('counts for nothing: if it acted while it was asked, the same agreement is presented again', async () => {
    const agent = await connected()
    const offer = await agent.offer('portfolio_read')
    stand.door.instead(DECISION, async said => {
      await stand.authority.database.pool.query('UPDATE memberships SET org_epoch = org_epoch + 1')
      return said
    })
    const out = await agent.agree(offer)
    expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(stand.door.count(DECISION)).toBe(1)
    stand.door.instead(DECISION, undefined)
    expect((await again(agent, offer, out.body.ticket)).status).toBe(200)
  })

  it('counts for nothing if she left meanwhile: the resource is hers alone, and nobody need be asked', async () => {
    const agent = await connected()
    const offer = await agent.offer('portfolio_read')
    stand.door.instead(DECISION, async said => {
      await stand.own('DELETE')
      return said
    })
    const out = await agent.agree(offer)
    expect([out.status, stand.door.count(DECISION)]).toEqual([200, 1])
    const token: string = out.body.access_token
    expect((await protectionCall(stand.authority, '/introspect', { token })).body.active).toBe(true)
    expect((await stand.joined()).status).toBe(200)
  })
})
