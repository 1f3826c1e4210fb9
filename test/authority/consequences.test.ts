/**
 * The consequence class is that of the operation, through a real sidecar that lists its tools and the
 * authority that pulls them. Contract, "RPT claims", "Registry materialization", "Authorized call" (3:
 * `consequence_changed`), "Policy vocabulary and tiers".
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { startTestAuthority, type Reply, type TestAuthority } from '../support/authority.ts'
import { denialIn } from '../support/check-client.ts'
import { ownSidecar, type OwnSidecar } from '../support/own-sidecar.ts'
import { agePulls, pulled } from '../support/registry.ts'
import { decideServer } from '../support/resource-server.ts'
import { decide, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

type Tools = Record<string, string | undefined>

let authority: TestAuthority
let broker: OwnSidecar

beforeAll(async () => {
  const [authorityPort, port] = await freePorts(2)
  const issuer = `http://127.0.0.1:${authorityPort}`
  authority = await startTestAuthority({
    environment: { UMA_AS_ISSUER: issuer, UMA_AS_LISTEN: new URL(issuer).host, UMA_DEV_LOOPBACK: 'true' },
    provision: ({ owners }) => ({ owners: owners.map(({ owner, device_keys }) => ({ owner, device_keys })) }),
  })
  broker = ownSidecar({ issuer, port: port! })
  await broker.start(of({ read: 'reversible' }))
  const listed = () => authority.call(authority.alice, { target: '/owner/resource-servers' })
  await until(async () => (await listed()).body.length === 1)
  await decideServer(authority, broker.resource, 'approved')
  await pulled(authority, broker.resource)
})
afterAll(async () => {
  await broker.close()
  await authority.close()
})

/** All tools work on one resource; an undefined class is undeclared. */
const of = (tools: Tools) =>
  Object.entries(tools).map(([tool, consequence]) => ({
    tool,
    resource_id: 'alice/books',
    scopes: ['use'],
    ...(consequence === undefined ? {} : { consequence }),
  }))

let starts = 0
/**
 * The sidecar declares these, and the authority has pulled them: for that each start lists a resource that is
 * new.
 */
async function declare(tools: Tools): Promise<void> {
  const fresh = `fresh-${++starts}`
  await broker.start([...of(tools), { tool: fresh, resource_id: `alice/${fresh}`, scopes: ['use'] }])
  await until(async () => {
    await agePulls(authority, broker.resource)
    await broker.check({ tool: fresh })
    const { body } = await authority.call(authority.alice, { target: '/owner/resources?limit=1000' })
    return (body as { _id: string }[]).some(({ _id }) => _id === `alice/${fresh}`)
  }, 20_000)
}

const tier = (more: object = {}) => ({
  id: 'books',
  name: 'Books',
  resources: ['alice/books'],
  ask_me: false,
  rules: [],
  terms: { purpose: 'Use', scope: ['use'], expires_in: 600, prohibited: [], per_operation: false },
  ...more,
})
const askMe = (more: object = {}) =>
  tier({ ask_me: true, terms: { ...tier().terms, per_operation: true }, ...more })
async function govern(saved: object): Promise<void> {
  await authority.call(authority.alice, { method: 'DELETE', target: '/owner/policies/books' })
  const reply = await authority.call(authority.alice, {
    method: 'POST',
    target: '/owner/policies',
    json: saved,
  })
  expect(reply.status).toBe(201)
}

/** What a challenge of the sidecar for that tool leads to, her approval included. */
async function negotiate(agent: TestAgent, tool: string, claims: object = {}): Promise<Reply> {
  const { ticket } = denialIn(await broker.check({ tool }))
  const offer = await agent.present(ticket as string)
  const template = offer.body.required_claims[0].terms_template
  const asked = await agent.agree({ ticket: offer.body.ticket, template }, { ...claims })
  if (asked.body.error !== 'request_submitted') return asked
  await decide(authority, agent.handle, 'approved')
  return agent.present(asked.body.ticket)
}
async function grantFor(tool: string, claims?: object): Promise<{ agent: TestAgent; token: string }> {
  const agent = testAgent(authority)
  const reply = await negotiate(agent, tool, claims)
  expect(reply.status).toBe(200)
  return { agent, token: reply.body.access_token }
}
async function verdict(
  tool: string,
  { agent, token }: { agent: TestAgent; token: string },
): Promise<unknown> {
  const answer = await broker.check({ tool, token, signer: agent.key })
  return answer.status?.code === 0 ? 'allowed' : denialIn(answer)['error']
}

describe('A standing grant is held to the class that each tool was declared of when it was given', () => {
  beforeAll(() => govern(tier()))

  test('a mild tool that is made grave beside a grave one is consequence_changed, and the grave one is not', async () => {
    await declare({ read: 'reversible', drop: 'irreversible' })
    const grant = await grantFor('read')
    expect(await verdict('read', grant)).toBe('allowed')
    await declare({ read: 'irreversible', drop: 'irreversible' })
    expect(await verdict('read', grant)).toBe('consequence_changed')
    expect(await verdict('drop', grant)).toBe('allowed')
    expect(await verdict('read', await grantFor('read'))).toBe('allowed')
  })

  test('an irreversible tool that is added after the grant is compared with the gravest it was given for', async () => {
    await declare({ read: 'reversible' })
    const grant = await grantFor('read')
    await declare({ read: 'reversible', drop: 'irreversible' })
    expect(await verdict('drop', grant)).toBe('consequence_changed')
    expect(await verdict('read', grant)).toBe('allowed')
  })

  test('a tool that is re-declared milder stays allowed', async () => {
    await declare({ read: 'compensatable', drop: 'irreversible' })
    const grant = await grantFor('read')
    await declare({ read: 'reversible', drop: 'compensatable' })
    expect([await verdict('read', grant), await verdict('drop', grant)]).toEqual(['allowed', 'allowed'])
  })

  test('a tool that was undeclared is compared with the gravest, and one that is undeclared now with nothing', async () => {
    await declare({ read: undefined, write: 'compensatable' })
    const grant = await grantFor('read')
    expect(await verdict('read', grant)).toBe('allowed')
    await declare({ read: 'irreversible', write: undefined })
    expect(await verdict('read', grant)).toBe('consequence_changed')
    expect(await verdict('write', grant)).toBe('allowed')
    await declare({ read: undefined, write: undefined })
    const unknown = await grantFor('read')
    await declare({ read: 'irreversible', write: undefined })
    expect(await verdict('read', unknown)).toBe('allowed')
  })
})

describe('A grant for one operation is given for the class of that operation', () => {
  const operation = (tool: string) => ({ operation: { tool, params: {} } })

  test('the RPT carries the class of the operation, and none if its tool declares none', async () => {
    await declare({ read: 'reversible', drop: 'irreversible', guess: undefined })
    await govern(askMe())
    const of = async (tool: string) =>
      readRptClaims((await grantFor(tool, operation(tool))).token).consequence
    expect([await of('read'), await of('drop'), await of('guess')]).toEqual([
      'reversible',
      'irreversible',
      undefined,
    ])
  })

  test('a tool that the listing does not name is as grave as the gravest', async () => {
    const { token } = await grantFor('read', operation('unlisted'))
    expect(readRptClaims(token).consequence).toBe('irreversible')
  })

  test('its mild tool made grave before it was used is consequence_changed, and the grant stays unspent', async () => {
    const grant = await grantFor('read', operation('read'))
    await declare({ read: 'irreversible', drop: 'irreversible' })
    expect(await verdict('read', grant)).toBe('consequence_changed')
    await declare({ read: 'reversible', drop: 'irreversible' })
    expect(await verdict('read', grant)).toBe('allowed')
  })

  test('a rule on the class reads that of the operation', async () => {
    await govern(
      askMe({ rules: [{ when: ['request.consequence_at_or_above:irreversible'], then: 'refuse' }] }),
    )
    const { agent } = await grantFor('read', operation('read'))
    expect((await negotiate(agent, 'read', operation('read'))).status).toBe(200)
    const denied = await negotiate(agent, 'drop', operation('drop'))
    expect([denied.status, denied.body.error]).toEqual([403, 'request_denied'])
  })

  test('a rule on an undescribed operation reads whether that operation is described', async () => {
    await declare({ read: 'reversible', guess: undefined })
    await govern(askMe({ rules: [{ when: ['request.consequence_unknown'], then: 'refuse' }] }))
    const { agent } = await grantFor('read', operation('read'))
    expect((await negotiate(agent, 'guess', operation('guess'))).body.error).toBe('request_denied')
  })

  test('a tier that binds no operation is judged by the gravest, whatever mild one the agreement names', async () => {
    await declare({ read: 'reversible', drop: 'irreversible' })
    await govern(tier())
    const { agent, token } = await grantFor('read', operation('read'))
    expect(readRptClaims(token).consequence).toBe('irreversible')
    await govern(
      tier({ rules: [{ when: ['request.consequence_at_or_above:irreversible'], then: 'refuse' }] }),
    )
    expect((await negotiate(agent, 'read', operation('read'))).body.error).toBe('request_denied')
  })
})

describe('A request that waits for her', () => {
  const held = async () => {
    const agent = testAgent(authority)
    const { ticket } = denialIn(await broker.check({ tool: 'read' }))
    const offer = await agent.present(ticket as string)
    const template = offer.body.required_claims[0].terms_template
    const { body } = await agent.agree({ ticket: offer.body.ticket, template })
    await decide(authority, agent.handle, 'approved')
    return { agent, ticket: body.ticket as string }
  }

  test('is not collected if a mild tool was made grave beside a grave one since', async () => {
    await declare({ read: 'reversible', drop: 'irreversible' })
    await govern(tier())
    const { agent, ticket } = await held()
    await declare({ read: 'irreversible', drop: 'irreversible' })
    const collected = await agent.present(ticket)
    expect([collected.status, collected.body.error]).toEqual([403, 'request_denied'])
  })

  test('is collected even if it was held before the classes by tool were kept', async () => {
    const { agent, ticket } = await held()
    await authority.database.pool.query(
      "UPDATE families SET held = (held::jsonb - 'declared')::json WHERE owner = 'alice' AND handle = $1",
      [agent.handle],
    )
    expect((await agent.present(ticket)).status).toBe(200)
  })
})
