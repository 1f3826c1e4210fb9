/**
 * What a real organization decides about real agents at a member's authority, where the organization's rules
 * are of its own charter and no answer is scripted. Contract: "Policy vocabulary and tiers" (roles carry a
 * delegation value) and "The organization's authority" (`/decision`: allow, ask or refuse; never widens).
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { lastAnsweredEarlier } from '../support/due.ts'
import { CLAIMING, startMembershipStand } from '../support/membership.ts'
import { newKey, startOperator, type TestOperator } from '../support/operators.ts'
import { startedOnce } from '../support/started.ts'
import { denyAll, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const RESOURCE = 'alice/portfolio'
/** One for each word that a role has about agents. */
const ROLES = {
  'any-agent': CLAIMING.roles.staff,
  'first-party-only': { name: 'Own', grants: [RESOURCE], delegation: 'first-party-only' },
  none: { name: 'Nobody', grants: [RESOURCE], delegation: 'none' },
}
/** Who says why and for whom is let in, who leaves out the mission is asked about, all others are refused. */
const RULES = [
  { when: ['request.reason_absent'], then: 'refuse', resources: [RESOURCE] },
  { when: ['request.mission_absent'], then: 'ask', resources: [RESOURCE] },
]
const WHY = { reason: 'to plan the quarter' }
const FOR_WHOM = { mission: { approver: 'https://work.example/q', s256: 'x'.repeat(43) } }

const CHARTER = { roles: ROLES, default_role: 'any-agent', rules: RULES }

const stand = startedOnce(async () => {
  const started = await startMembershipStand({ charter: CHARTER })
  await started.joined()
  return started
})
const operators: TestOperator[] = []
afterAll(() => Promise.all(operators.map(operator => operator.close())))

const hers = (method: NonNullable<OwnerCall['method']>, target: string, json?: object) =>
  stand.authority.call(stand.alice, { method, target, ...(json === undefined ? {} : { json }) })
const read = (agent: TestAgent) => agent.ask('portfolio_read', { ...WHY, ...FOR_WHOM })
const connected = async (agent = testAgent(stand.authority)) => {
  const { rpt } = await agent.granted('portfolio_read', { ...WHY, ...FOR_WHOM })
  return { agent, rpt }
}
/** The organization moves her, and her authority has read of it. */
const movedTo = async (role: keyof typeof ROLES) => {
  const target = '/admin/members/alice/role'
  await lastAnsweredEarlier(stand.authority.database)
  expect((await stand.organization.admin({ method: 'POST', target, json: { role } })).status).toBe(200)
  await until(async () => (await stand.own('GET')).body.role === role)
}
/** An agent whose key her own operator lists, let in by herself. */
const ownAgent = async () => {
  const key = newKey()
  const operator = await startOperator({ keys: [key] })
  operators.push(operator)
  const { origin, client_id } = operator
  expect((await hers('POST', '/owner/operators/claim', { origin })).status).toBe(200)
  const { agent } = await connected(testAgent(stand.authority, { key, client_id }))
  return agent
}

afterEach(async () => {
  await denyAll(stand.authority)
  await hers('PUT', '/owner/policies/reading', { rules: [] })
  await movedTo('any-agent')
})

describe('A role of an organization', () => {
  it('that may be delegated to no agent lets none in, neither a known one nor her own, before any terms', async () => {
    const { agent, rpt } = await connected()
    const own = await ownAgent()
    await movedTo('first-party-only')
    expect((await read(own)).status).toBe(200)
    await movedTo('none')
    const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
    expect(body).toMatchObject({ active: false, reason: 'organization_revoked' })
    for (const one of [agent, own, testAgent(stand.authority)]) {
      const refused = await one.present(await one.ticket('portfolio_read'))
      expect([refused.status, refused.body.error, refused.body.reason]).toEqual([
        403,
        'request_denied',
        'not_delegated',
      ])
    }
  })

  it('that may be delegated to her own agents alone lets these in, and no other that she knows', async () => {
    const { agent, rpt } = await connected()
    const own = await ownAgent()
    await movedTo('first-party-only')
    const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
    expect(body).toMatchObject({ active: false, reason: 'organization_revoked' })
    for (const other of [agent, testAgent(stand.authority)]) {
      const refused = await read(other)
      expect([refused.status, refused.body.error, refused.body.reason]).toEqual([
        403,
        'request_denied',
        'not_delegated',
      ])
    }
    expect((await read(own)).status).toBe(200)
    // What the role does not say of is hers, as before.
    expect((await testAgent(stand.authority).ask('statement_read')).body.error).toBe('request_submitted')
  })

  it('that a later charter lets be delegated to fewer agents ends what was granted under it', async () => {
    const { rpt } = await connected()
    const fewer = { ...ROLES['any-agent'], delegation: 'first-party-only' }
    await lastAnsweredEarlier(stand.authority.database)
    await stand.publish({ ...CHARTER, roles: { ...ROLES, 'any-agent': fewer } })
    await until(async () => (await stand.own('GET')).body.delegation === 'first-party-only')
    const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
    expect(body).toMatchObject({ active: false, reason: 'organization_revoked' })
    await lastAnsweredEarlier(stand.authority.database)
    await stand.publish(CHARTER)
    await until(async () => (await stand.own('GET')).body.delegation === 'any-agent')
  })

  it('that may be delegated to any agent lets in whom she lets in', async () => {
    const { agent } = await connected()
    expect((await read(agent)).status).toBe(200)
  })
})

describe('A request that an organization decides about', () => {
  it('is allowed, asked about or refused by the rules of its charter', async () => {
    const { agent } = await connected()
    expect((await read(agent)).status).toBe(200)
    const asked = await agent.ask('portfolio_read', WHY)
    expect([asked.status, asked.body.error, asked.body.kind]).toEqual([403, 'request_submitted', 'operation'])
    const refused = await agent.ask('portfolio_read', FOR_WHOM)
    expect([refused.status, refused.body.error, refused.body.reason]).toEqual([
      403,
      'request_denied',
      'refuse:request.reason_absent',
    ])
  })

  it('is never let in by its yes: what her own tier asks or refuses is asked and refused', async () => {
    const { agent } = await connected()
    const reading = async (then: 'ask' | 'refuse') => {
      const rules = [{ when: ['request.max_expiry:1m'], then }]
      expect((await hers('PUT', '/owner/policies/reading', { rules })).status).toBe(200)
      return read(agent)
    }
    expect((await reading('ask')).body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    await denyAll(stand.authority)
    const { status, body } = await reading('refuse')
    expect([status, body.error]).toEqual([403, 'request_denied'])
  })
})
