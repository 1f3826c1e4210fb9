/**
 * Contract, about the identity of an agent: identified agents, operators, introductions, the queue's lanes
 * and what policy may make of all that. Each row against the started authority, real issuers and real
 * operators.
 */
import { afterAll, beforeAll, beforeEach, describe, expect } from 'vitest'
import { signIntroduction } from '../../src/wire/agents/introduction.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand, type ContractStand } from '../support/contract-stand.ts'
import {
  newKey,
  startIssuer,
  startOperator,
  type TestIssuer,
  type TestOperator,
} from '../support/operators.ts'
import { decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { asHandle } from '../../src/wire/identifiers.ts'

let stand: ContractStand
let issuer: TestIssuer
let unlisted: TestIssuer
let operator: TestOperator
/** The operator lists them all beforehand, since a directory just read is not read again at once. */
const published = Array.from({ length: 60 }, newKey)

beforeAll(async () => {
  ;[issuer, unlisted] = await Promise.all([startIssuer(), startIssuer()])
  operator = await startOperator({ keys: [...published] })
  stand = await startContractStand({ UMA_AS_AGENT_ISSUERS: issuer.iss })
})
afterAll(async () => {
  await stand?.close()
  await Promise.all([issuer, unlisted, operator].map(server => server.close()))
})
beforeEach(async () => {
  for (const { handle } of await pending()) await decide(stand.authority, handle, 'denied')
})

const own = (target: string, call: Partial<OwnerCall> = {}) =>
  stand.authority.call(stand.authority.alice, { target, ...call })
const pending = async () =>
  (await own('/owner/pending?limit=1000')).body as (Record<string, unknown> & { handle: string })[]
const connectionOf = async ({ handle }: TestAgent) =>
  ((await own('/owner/connections?limit=1000')).body as { handle: string }[]).find(
    connection => connection.handle === handle,
  )
const answers = ({ status, body }: Reply) => [status, body.error]
const stranger = () => testAgent(stand.authority)
/** An agent whose key the operator publishes. */
const attested = () => testAgent(stand.authority, { key: published.pop()!, client_id: operator.client_id })
const introduced = async (by: TestAgent, tool: 'portfolio_read' | 'place_trade' = 'portfolio_read') => {
  const agent = attested()
  const iat = Math.floor(Date.now() / 1000)
  const about = { newcomer: agent.key, aud: stand.authority.issuer, iat, exp: iat + 60, jti: 'int_1' }
  const operation = tool === 'place_trade' ? { operation: 'place_trade' } : {}
  const reply = await agent.ask(tool, { introduction: signIntroduction(about, by.key), ...operation })
  return { agent, reply }
}
const policy = (method: 'POST' | 'PUT', target: string, json: object) => own(target, { method, json })
/** A tier over a resource that none governs, its rules being what a test is about. */
const edited = (rules: object[]) =>
  policy('PUT', '/owner/policies/statements', {
    name: 'Statements',
    resources: ['alice/statements'],
    rules,
    terms: { purpose: 'For statements only', scope: ['read'], expires_in: 600 },
  })

describe('Connection', () => {
  row('handle-identified', async () => {
    const key = newKey()
    const identified = issuer.identify(key, 'planner')
    const agent = testAgent(stand.authority, { key, identified })
    const { rpt } = await agent.granted()
    const qualified = `planner@${new URL(issuer.iss).host}`
    expect(await connectionOf(agent)).toMatchObject({ handle: qualified, identity: 'identified' })
    const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
    expect(body).toMatchObject({ active: true, sub: qualified, client_id: qualified })
  })

  row('connection-introduced', async () => {
    const parent = attested()
    await parent.granted()
    const { agent, reply } = await introduced(parent)
    expect(reply.status).toBe(200)
    expect(await connectionOf(agent)).toMatchObject({ status: 'active', introduced_by: parent.handle })
    // What she approved for the one counts for the other, in both directions.
    await edited([
      { when: ['standing.age_below:1000d'], then: 'ask' },
      { when: ['standing.lineage_new_at_tier'], then: 'refuse' },
    ])
    expect(answers(await agent.ask('statement_read'))).toEqual([403, 'request_denied'])
    await edited([{ when: ['standing.lineage_new_at_tier'], then: 'ask' }])
    const held = await agent.ask('statement_read')
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.present(held.body.ticket)).status).toBe(200)
    expect((await parent.ask('statement_read')).status).toBe(200)
    await edited([])
    // Revoking who introduced revokes who was.
    await own('/owner/connections/revoke', { method: 'POST', json: { handle: parent.handle } })
    expect(await connectionOf(agent)).toMatchObject({ status: 'revoked' })
  })
})

describe('Parties', () => {
  row('party-operator', async () => {
    const agent = attested()
    // A document and a directory that say everything right open nothing by themselves.
    expect(answers(await agent.ask())).toEqual([403, 'request_submitted'])
    const [item] = await pending()
    expect(item).toMatchObject({ assurance: { accountability: 2 }, identity: { operator: operator.origin } })
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.ask()).status).toBe(200)
    // And none at all, of an operator that is gone, closes nothing: she is asked the same, and what she
    // approves stands.
    const gone = await startOperator()
    await gone.close()
    const orphan = testAgent(stand.authority, { client_id: gone.client_id })
    expect(answers(await orphan.ask())).toEqual([403, 'request_submitted'])
    expect((await pending())[0]).toMatchObject({ handle: orphan.handle, assurance: { accountability: 0 } })
    await decide(stand.authority, orphan.handle, 'approved')
    expect((await orphan.ask()).status).toBe(200)
  })
})

describe('Authentication', () => {
  row('auth-agent-token-issuers', async () => {
    const of = (from: TestIssuer) => {
      const key = newKey()
      return testAgent(stand.authority, { key, identified: from.identify(key, `agent-${key.x}`) })
    }
    expect(answers(await of(issuer).ask())).toEqual([403, 'request_submitted'])
    expect(answers(await of(unlisted).ask())).toEqual([403, 'request_denied'])
    expect(unlisted.server.received).toEqual([])
    const key = newKey()
    const overHttp = unlisted.token(key, { iss: issuer.iss.replace('https:', 'http:') })
    const agent = testAgent(stand.authority, {
      key,
      identified: { agent_token: overHttp, handle: asHandle('x@y') },
    })
    expect(answers(await agent.ask())).toEqual([403, 'request_denied'])
  })
})

describe('Policy vocabulary and tiers', () => {
  row('tier-governs-or-denied', async () => {
    const agent = stranger()
    expect(answers(await agent.present(await agent.ticket('close_account')))).toEqual([403, 'request_denied'])
    const tier = {
      id: 'closing',
      name: 'Closing',
      resources: ['alice/account'],
      ask_me: true,
      rules: [{ when: ['request.reason_absent'], then: 'refuse' }],
      terms: { purpose: 'To close it', scope: ['close'], expires_in: 60 },
    }
    expect((await policy('POST', '/owner/policies', tier)).status).toBe(201)
    const operation = { tool: 'close_account', params: {} }
    expect(answers(await agent.ask('close_account', { operation }))).toEqual([403, 'request_denied'])
    expect(answers(await agent.ask('close_account', { operation, reason: 'she moves' }))).toEqual([
      403,
      'request_submitted',
    ])
    await own('/owner/policies/closing', { method: 'DELETE' })
  })

  row('rule-auto-names-relaxing-only', async () => {
    const vocabulary = (await own('/owner/policy-vocabulary')).body as {
      condition: string
      takes: string | null
      may_relax: boolean
    }[]
    const values: Record<string, string> = {
      duration: ':90d',
      count: ':3',
      level: ':1',
      class: ':irreversible',
      allowance: ':weekend',
    }
    for (const { condition, takes, may_relax } of vocabulary) {
      const when = [condition + (takes === null ? '' : values[takes])]
      const reply = await edited([{ when, then: 'auto' }])
      expect([condition, reply.status]).toEqual([condition, may_relax ? 200 : 400])
      if (!may_relax) expect(reply.body.error_description).toContain(condition)
    }
    const relaxing = vocabulary.filter(({ may_relax }) => may_relax).map(({ condition }) => condition)
    expect(relaxing.toSorted()).toEqual([
      'standing.age_above',
      'standing.approved_at_tier',
      'standing.first_party',
      'standing.never_revoked',
    ])
    await edited([])
  })

  row('assurance-only-tightens', async () => {
    await attested().ask()
    const key = newKey()
    await testAgent(stand.authority, { key, identified: issuer.identify(key, 'axes') }).ask()
    await stranger().ask()
    expect((await pending()).map(({ assurance }) => assurance)).toEqual([
      { binding: 1, provenance: 0, accountability: 2 },
      { binding: 1, provenance: 1, accountability: 0 },
      { binding: 1, provenance: 0, accountability: 0 },
    ])
    for (const axis of ['binding', 'provenance', 'accountability']) {
      const relaxing = { when: [`assurance.${axis}_below:2`], then: 'auto' }
      expect(answers(await edited([relaxing]))).toEqual([400, 'invalid_request'])
    }
    await edited([{ when: ['assurance.accountability_below:2'], then: 'refuse' }])
    expect(answers(await stranger().ask('statement_read'))).toEqual([403, 'request_denied'])
    expect(answers(await attested().ask('statement_read'))).toEqual([403, 'request_submitted'])
    await edited([])
  })
})

describe('Limits', () => {
  row('limit-queue', async () => {
    const crowd = Array.from({ length: 6 }, stranger)
    const answered: unknown[] = []
    for (const agent of crowd) answered.push((await agent.ask()).status)
    expect(answered).toEqual([403, 403, 403, 403, 403, 429])
    // The other lane is as open as before, up to its operator's own share.
    const newcomers: unknown[] = []
    for (let n = 0; n < 6; n++) newcomers.push((await attested().ask()).status)
    expect(newcomers).toEqual([403, 403, 403, 403, 403, 429])
  })

  row('limit-introduction-depth', async () => {
    const parent = attested()
    await parent.granted()
    const { agent: child } = await introduced(parent)
    const { reply } = await introduced(child)
    // It is an ordinary first contact.
    expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
  })
})
