/** Contract, "Owner API": each row against the started authority. */
import { describe, expect } from 'vitest'
import { watchEvents } from '../../src/owner/index.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand } from '../support/contract-stand.ts'
import { startedOnce } from '../support/started.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startContractStand())

const newAgent = (client_id?: string) =>
  testAgent(stand.authority, client_id === undefined ? {} : { client_id })
const get = (target: string, headers: Record<string, string> = {}) =>
  stand.authority.request('GET', target, { headers })
const own = (target: string, call: Partial<OwnerCall> = {}) =>
  stand.authority.call(stand.authority.alice, { target, ...call })
const change = (method: 'POST' | 'PUT' | 'DELETE', target: string, json?: unknown) =>
  own(target, { method, ...(json === undefined ? {} : { json }) })
const answers = ({ status, body }: Reply) => [status, body.error]
const ask = (path: string, body: object) => protectionCall(stand.authority, path, body)

describe('Owner API', () => {
  const TIER = {
    id: 'closing',
    name: 'Closing',
    resources: ['alice/account'],
    ask_me: true,
    terms: { purpose: 'To close it', scope: ['close'], expires_in: 60, prohibited: [] },
  }

  row('owner-pending', async () => {
    const agent = newAgent()
    await agent.ask('portfolio_read', { reason: 'to plan' })
    const { body } = await own('/owner/pending')
    expect(body).toMatchObject([{ handle: agent.handle, kind: 'connection', reason: 'to plan' }])
    await decide(stand.authority, agent.handle, 'denied')
    expect((await own('/owner/pending')).body).toEqual([])
  })

  row('owner-decision', async () => {
    for (const decision of ['approved', 'denied'] as const) {
      const agent = newAgent()
      await agent.ask()
      const [{ family }] = (await own('/owner/pending')).body
      const target = `/owner/pending/${family}/decision`
      expect(await change('POST', target, { decision })).toMatchObject({
        status: 200,
        body: { family, decision, by: 'owner' },
      })
      expect(answers(await change('POST', target, { decision: 'approved' }))).toEqual([409, 'conflict'])
    }
    const unknown = await change('POST', '/owner/pending/fam_unknown/decision', { decision: 'denied' })
    expect(answers(unknown)).toEqual([404, 'not_found'])
  })

  row('owner-policies', async () => {
    const { tiers } = (await own('/owner/policies')).body
    expect(tiers[0]).toMatchObject({
      id: 'reading',
      resources: ['alice/portfolio'],
      ask_me: false,
      rules: [],
    })
  })

  row('owner-policies-add', async () => {
    const added = await change('POST', '/owner/policies', TIER)
    expect(added).toMatchObject({ status: 201, body: { terms: { template_id: 'alice/closing/v1' } } })
    expect((await newAgent().offer('close_account')).template.template_id).toBe('alice/closing/v1')
    const governed = { ...TIER, id: 'again' }
    expect(answers(await change('POST', '/owner/policies', governed))).toEqual([400, 'invalid_request'])
    const unregistered = { ...TIER, id: 'other', resources: ['alice/unheard-of'] }
    expect(answers(await change('POST', '/owner/policies', unregistered))).toEqual([400, 'invalid_request'])
    await change('DELETE', '/owner/policies/closing')
  })

  row('owner-policies-edit', async () => {
    const tier = { name: 'Statements', resources: ['alice/statements'], ask_me: true }
    const terms = { purpose: 'Another purpose', scope: ['read'], expires_in: 60, prohibited: ['copying'] }
    const rules = [{ when: ['standing.age_above:90d'], then: 'auto' }]
    const edited = await change('PUT', '/owner/policies/statements', { ...tier, rules, terms })
    expect(edited).toMatchObject({
      status: 200,
      body: { ask_me: true, rules, terms: { ...terms, template_id: 'alice/statements/v2' } },
    })
    expect((await newAgent().offer('statement_read')).template).toMatchObject(terms)
    expect((await get('/terms/alice/statements/v1')).body.purpose).toBe('For statements only')
  })

  row('owner-policies-delete', async () => {
    await change('POST', '/owner/policies', { ...TIER, id: 'brief' })
    const agent = newAgent()
    const { ticket } = await agent.offer('close_account')
    expect(await change('DELETE', '/owner/policies/brief')).toMatchObject({
      status: 200,
      body: { deleted: 'brief', ungoverned: ['alice/account'] },
    })
    expect(answers(await agent.present(ticket))).toEqual([403, 'request_denied'])
    expect(answers(await change('DELETE', '/owner/policies/brief'))).toEqual([404, 'not_found'])
  })

  row('owner-vocabulary', async () => {
    const { body } = await own('/owner/policy-vocabulary')
    const may = (condition: string) =>
      (body as { condition: string; may_relax: boolean }[]).find(one => one.condition === condition)
        ?.may_relax
    expect(may('standing.approved_at_tier')).toBe(true)
    expect(may('request.reason_absent')).toBe(false)
  })

  row('owner-resources', async () => {
    const { body } = await own('/owner/resources')
    expect(body).toContainEqual(expect.objectContaining({ _id: 'alice/portfolio', tier: 'reading' }))
    expect(body).toContainEqual(expect.objectContaining({ _id: 'alice/account', tier: null }))
  })

  row('owner-connections', async () => {
    const agent = newAgent()
    await agent.granted()
    expect((await own('/owner/connections?limit=1000')).body).toContainEqual(
      expect.objectContaining({ handle: agent.handle, status: 'active', tiers_granted: ['reading'] }),
    )
  })

  row('owner-connections-revoke', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const { handle } = agent
    expect(await change('POST', '/owner/connections/revoke', { handle })).toMatchObject({
      status: 200,
      body: { handle, status: 'revoked', rpts_deactivated: 1, connections_revoked: 1 },
    })
    expect((await ask('/introspect', { token: rpt })).body).toMatchObject({ active: false })
  })

  const origin = 'https://operator.example'
  const operator = async () =>
    ((await own('/owner/operators')).body as { origin: string }[]).find(one => one.origin === origin)

  row('owner-operators', async () => {
    await newAgent(`${origin}/client`).granted()
    expect(await operator()).toMatchObject({ origin, agents: 1, active: 1, blocked: false, mine: false })
  })

  row('owner-operators-block', async () => {
    const { rpt } = await newAgent(`${origin}/client`).granted()
    const blocked = await change('POST', '/owner/operators/block', { origin })
    expect(blocked).toMatchObject({ status: 200, body: { origin, rpts_deactivated: expect.any(Number) } })
    expect((await ask('/introspect', { token: rpt })).body.reason).toBe('connection_revoked')
    expect(await operator()).toMatchObject({ active: 0, blocked: true })
    expect(answers(await newAgent(`${origin}/client`).ask())).toEqual([403, 'request_denied'])
  })

  row('owner-operators-unblock', async () => {
    expect((await change('POST', '/owner/operators/unblock', { origin })).status).toBe(200)
    expect(await operator()).toMatchObject({ active: 0, blocked: false })
    const agent = newAgent(`${origin}/client`)
    expect(answers(await agent.ask())).toEqual([403, 'request_submitted'])
    await decide(stand.authority, agent.handle, 'denied')
  })

  row('owner-ledger', async () => {
    const agent = newAgent()
    await agent.granted()
    const of = async () =>
      ((await own(`/owner/ledger?handle=${agent.handle}`)).body.entries as { kind: string }[]).map(
        ({ kind }) => kind,
      )
    await until(async () => (await of()).length === 3)
    expect(await of()).toEqual(['promised', 'connected', 'approved'])
  })

  row('owner-events', async () => {
    const { alice, ownerUrl, issuer } = stand.authority
    const ending = new AbortController()
    const seen: string[] = []
    const open = { now: false }
    const reading = (async () => {
      const access = { api: ownerUrl, issuer, key: alice.key }
      const onState = ({ kind }: { kind: string }) => (open.now ||= kind === 'open')
      for await (const { event } of watchEvents(access, { signal: ending.signal, onState })) seen.push(event)
    })().catch(() => undefined)
    await until(() => open.now)
    await newAgent().granted()
    await until(() => seen.length === 2)
    expect(seen).toEqual(['pending', 'decided'])
    ending.abort()
    await reading
  })
})

describe('Events', () => {
  row('event-ledger', async () => {
    const [agent, denied, declining] = [newAgent(), newAgent(), newAgent()]
    type Entry = { kind: string } & Record<string, unknown>
    const of = async ({ handle }: { handle: string }) =>
      (await own(`/owner/ledger?limit=1000&handle=${handle}`)).body.entries as Entry[]
    const kinds = async (one: { handle: string }) => (await of(one)).map(({ kind }) => kind)
    const { rpt } = await agent.granted()
    const { jti, family } = readRptClaims(rpt)
    await ask('/audit/access', { id: 'one', family, jti, tool: 'portfolio_read', summary: '', at: 1 })
    await until(async () => (await kinds(agent)).includes('touched'))
    await change('POST', '/owner/connections/revoke', { handle: agent.handle })
    await denied.ask()
    const { body: answer } = await decide(stand.authority, denied.handle, 'denied')
    const held = await declining.ask()
    await declining.present(held.body.ticket, { decline: 'true' })
    await until(async () => (await kinds(agent)).length === 5 && (await kinds(denied)).length === 2)
    expect(await kinds(agent)).toEqual(['promised', 'connected', 'approved', 'touched', 'revoked'])
    const byHer = { by: 'owner', actor: { kind: 'owner', credential: 'device_key' } }
    expect((await of(agent)).at(-1)).toMatchObject({ handle: agent.handle, ...byHer })
    expect((await of(agent))[2]).toMatchObject({ family, handle: agent.handle, ...byHer })
    expect(await kinds(denied)).toEqual(['promised', 'denied'])
    expect((await of(denied)).at(-1)).toMatchObject({ family: answer.family, ...byHer })
    await until(async () => (await kinds(declining)).includes('withdrawn'))
    expect(await of(declining)).toMatchObject([
      { kind: 'promised' },
      { kind: 'refused', reason: 'declined' },
      { kind: 'withdrawn', reason: 'declined' },
    ])
  })
})
