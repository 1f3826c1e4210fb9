/** Contract, "States and transitions": each row of its tables against the started authority and sidecar. */
import { describe, expect } from 'vitest'
import { sql } from 'kysely'
import { row } from '../support/contract-row.ts'
import { startContractStand } from '../support/contract-stand.ts'
import * as seed from '../support/seed.ts'
import { startedOnce } from '../support/started.ts'
import { decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(startContractStand)

const TRADE = { symbol: 'VTI', qty: 2 }
const OPERATION = { operation: { tool: 'place_trade', params: TRADE } }
const newAgent = () => testAgent(stand.authority)
const alice = () => stand.authority.alice
const introspect = async (token: string, owner = 'alice') =>
  (await protectionCall(stand.authority, '/introspect', { token }, owner)).body
const own = (method: 'GET' | 'POST', target: string, json?: unknown) =>
  stand.authority.call(alice(), { method, target, ...(json === undefined ? {} : { json }) })
const revoke = (agent: TestAgent) => own('POST', '/owner/connections/revoke', { handle: agent.handle })
const waitingOf = async ({ handle }: TestAgent) =>
  ((await own('GET', '/owner/pending?limit=1000')).body as { handle: string }[]).filter(
    item => item.handle === handle,
  )
const connectionOf = async ({ handle }: TestAgent) =>
  ((await own('GET', '/owner/connections?limit=1000')).body as { handle: string; status: string }[]).find(
    connection => connection.handle === handle,
  )
const ledgerOf = async ({ handle }: TestAgent) =>
  (await own('GET', `/owner/ledger?limit=1000&handle=${encodeURIComponent(handle)}`)).body.entries as Record<
    string,
    unknown
  >[]
const answers = ({ status, body }: { status: number; body: { error?: string } }) => [status, body.error]

describe('Permission ticket', () => {
  row('ticket-registered', async () => {
    const { status, body } = await protectionCall(stand.authority, '/perm', {
      resource_id: 'alice/portfolio',
      resource_scopes: ['read'],
    })
    expect([status, Object.keys(body as object)]).toEqual([201, ['ticket', 'family']])
    expect(body.family).toMatch(/^fam_/)
    const offer = await newAgent().present(body.ticket as string)
    expect(offer.body.required_claims[0].terms_template.family).toBe(body.family)
  })

  row('ticket-first-presentation', async () => {
    const agent = newAgent()
    const ticket = await agent.ticket()
    const reply = await agent.present(ticket)
    expect(answers(reply)).toEqual([403, 'need_info'])
    expect(reply.body.ticket).not.toBe(ticket)
    expect(reply.body.required_claims[0].terms_template).toMatchObject({ template_id: 'alice/reading/v1' })
    expect(answers(await agent.present(ticket))).toEqual([400, 'invalid_grant'])
  })

  row('ticket-known-connection-granted', async () => {
    const agent = newAgent()
    await agent.granted('portfolio_read')
    const reply = await agent.ask('statement_read')
    expect(reply).toMatchObject({
      status: 200,
      body: { token_type: 'PoP', access_token: expect.any(String), receipt: expect.any(String) },
    })
  })

  row('ticket-first-contact-held', async () => {
    for (const [tool, claims] of [
      ['portfolio_read', {}],
      ['place_trade', OPERATION],
    ] as const) {
      const agent = newAgent()
      const reply = await agent.ask(tool, claims)
      expect(reply).toMatchObject({ status: 403, body: { error: 'request_submitted', kind: 'connection' } })
      expect(await waitingOf(agent)).toMatchObject([{ kind: 'connection' }])
      await decide(stand.authority, agent.handle, 'denied')
    }
  })

  row('ticket-operation-held', async () => {
    const agent = newAgent()
    await agent.granted('portfolio_read')
    for (const qty of [2, 3]) {
      const operation = { tool: 'place_trade', params: { ...TRADE, qty } }
      const reply = await agent.ask('place_trade', { operation })
      expect(reply).toMatchObject({ status: 403, body: { error: 'request_submitted', kind: 'operation' } })
    }
    const items = (await waitingOf(agent)) as unknown as { kind: string; operation: { params: object } }[]
    expect(items.map(({ kind, operation }) => [kind, operation.params])).toEqual([
      ['operation', { ...TRADE, qty: 2 }],
      ['operation', { ...TRADE, qty: 3 }],
    ])
    await revoke(agent)
  })

  row('ticket-agreement-refused', async () => {
    const known = newAgent()
    await known.granted('portfolio_read')
    const weakened = await known.ask('portfolio_read', { prohibited: [] })
    const forged = await known.ask('portfolio_read', { header: { jwk: newAgent().key.jwk } })
    expect([weakened, forged].map(answers)).toEqual([
      [403, 'request_denied'],
      [403, 'request_denied'],
    ])
    const ungoverned = await known.present(await known.ticket('close_account'))
    expect(answers(ungoverned)).toEqual([403, 'request_denied'])
  })

  row('ticket-poll-rotates', async () => {
    const agent = newAgent()
    const held = await agent.ask()
    const poll = await agent.present(held.body.ticket)
    expect(answers(poll)).toEqual([403, 'request_submitted'])
    expect(poll.body.ticket).not.toBe(held.body.ticket)
    expect(answers(await agent.present(held.body.ticket))).toEqual([400, 'invalid_grant'])
    await decide(stand.authority, agent.handle, 'denied')
  })

  row('ticket-owner-approves', async () => {
    const agent = newAgent()
    const held = await agent.ask()
    await decide(stand.authority, agent.handle, 'approved')
    expect(await connectionOf(agent)).toMatchObject({ status: 'active' })
    expect(await agent.present(held.body.ticket)).toMatchObject({ status: 200, body: { token_type: 'PoP' } })
  })

  row('ticket-owner-denies', async () => {
    const agent = newAgent()
    const held = await agent.ask()
    await decide(stand.authority, agent.handle, 'denied')
    expect(answers(await agent.present(held.body.ticket))).toEqual([403, 'request_denied'])
    expect(await connectionOf(agent)).toBeUndefined()
  })

  row('ticket-waiting-expires', async () => {
    const agent = newAgent()
    const held = await agent.ask()
    await sql`UPDATE families SET ticket_expires_at = now() WHERE handle = ${agent.handle}`.execute(
      stand.authority.database.db,
    )
    expect(answers(await agent.present(held.body.ticket))).toEqual([400, 'invalid_grant'])
    expect(await waitingOf(agent)).toEqual([])
  })

  row('ticket-declined', async () => {
    const agent = newAgent()
    await agent.granted()
    const declined = async (ticket: string) => {
      expect(answers(await agent.present(ticket, { decline: 'true' }))).toEqual([403, 'request_denied'])
      expect(answers(await agent.present(ticket))).toEqual([400, 'invalid_grant'])
    }
    const refusals = async () => {
      await seed.closeMinutes(stand.authority.database.db)
      return (
        (await own('GET', '/owner/ledger?limit=1000&kind=refused')).body.entries as Record<string, unknown>[]
      )
        .filter(entry => entry['reason'] === 'declined')
        .reduce((sum, entry) => sum + Number(entry['count'] ?? 1), 0)
    }
    const before = await refusals()
    await declined(await agent.ticket())
    await declined((await agent.offer()).ticket)
    await declined((await agent.ask('place_trade', OPERATION)).body.ticket)
    expect(await refusals()).toBe(before + 3)
  })

  row('ticket-queue-full', async () => {
    const strangers = Array.from({ length: 6 }, newAgent)
    for (const stranger of strangers.slice(0, 5))
      expect(answers(await stranger.ask())).toEqual([403, 'request_submitted'])
    const reply = await strangers[5]!.ask()
    expect(answers(reply)).toEqual([429, 'request_denied'])
    expect(reply.body.error_description).toMatch(/wait/)
    for (const { handle } of strangers.slice(0, 5)) await decide(stand.authority, handle, 'denied')
  })
})

describe('Grant (RPT) liveness', () => {
  const read = (token: string, agent: TestAgent) => stand.check({ token, signer: agent.key })
  const trade = (token: string, agent: TestAgent) =>
    stand.check({ token, signer: agent.key, tool: 'place_trade', args: TRADE })
  const terminal = { status: 403, error: 'access_revoked', challenge: undefined }
  const challenged = { status: 401, error: 'insufficient_authorization', challenge: { realm: 'tools' } }

  row('liveness-connection-revoked', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    expect(await read(rpt, agent)).toMatchObject({ status: 200 })
    await revoke(agent)
    expect(await introspect(rpt)).toMatchObject({ active: false, reason: 'connection_revoked' })
    expect(await read(rpt, agent)).toMatchObject(terminal)
  })

  /** Carl's authority says of a live grant of his what the real one has no way to say. */
  const toldBy = async (reason: string) => {
    const agent = newAgent()
    const token = stand.carls.issue({
      owner: 'carl',
      resource: 'https://tools.example/mcp/carl',
      key: agent.key,
      permissions: [{ resource_id: 'carl/portfolio', resource_scopes: ['read'], exp: 4_000_000_000 }],
    })
    const call = { path: '/mcp/carl', token, signer: agent.key }
    expect(await stand.check(call)).toMatchObject({ status: 200 })
    stand.carls.end(token, reason)
    return stand.check(call)
  }

  row('liveness-organization-revoked', async () => {
    expect(await toldBy('organization_revoked')).toMatchObject(terminal)
  })

  row('liveness-already-consumed', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted('place_trade', OPERATION)
    expect(await trade(rpt, agent)).toMatchObject({ status: 200 })
    expect(await introspect(rpt)).toMatchObject({ active: false, reason: 'already_consumed' })
    expect(await trade(rpt, agent)).toMatchObject(challenged)
  })

  row('liveness-revoked', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    await revoke(agent)
    const { rpt: later } = await agent.granted()
    expect(await introspect(rpt)).toMatchObject({ active: false, reason: 'revoked' })
    expect(await read(rpt, agent)).toMatchObject(challenged)
    expect(await read(later, agent)).toMatchObject({ status: 200 })
  })

  row('liveness-expired', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted('portfolio_read', { expires_in: 1 })
    await until(async () => (await introspect(rpt)).active === false)
    expect(await introspect(rpt)).toMatchObject({ active: false, reason: 'expired' })
    expect(await read(rpt, agent)).toMatchObject(challenged)
  })

  row('liveness-unknown-token', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const ofAlice = { active: false, reason: 'unknown_token', error: 'unknown_token' }
    expect(await introspect(rpt, 'bea')).toEqual(ofAlice)
    const call = { path: '/mcp/bea', token: rpt, signer: agent.key }
    expect(await stand.check(call)).toMatchObject(challenged)
    await revoke(agent)
    expect(await introspect(rpt, 'bea')).toEqual(ofAlice)
    expect(await stand.check(call)).toMatchObject(challenged)
  })

  row('liveness-invalid-signature', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const [header, claims] = rpt.split('.')
    const forged = `${header}.${claims}.${Buffer.alloc(64, 1).toString('base64url')}`
    expect(await introspect(forged)).toMatchObject({ active: false, reason: 'invalid_signature' })
    expect(await read(forged, agent)).toMatchObject(challenged)
  })

  row('liveness-any-other', async () => {
    for (const reason of ['suspended', '', 'Connection_Revoked'])
      expect(await toldBy(reason)).toMatchObject(terminal)
  })
})

describe('Connection', () => {
  row('connection-approved', async () => {
    const agent = newAgent()
    await agent.ask()
    expect(await connectionOf(agent)).toBeUndefined()
    await decide(stand.authority, agent.handle, 'approved')
    expect(await connectionOf(agent)).toMatchObject({ handle: agent.handle, status: 'active' })
  })

  row('connection-revoked', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const statement = (await agent.ask('statement_read')).body.access_token as string
    expect((await revoke(agent)).body).toMatchObject({ status: 'revoked', rpts_deactivated: 2 })
    for (const token of [rpt, statement])
      expect(await introspect(token)).toMatchObject({ active: false, reason: 'connection_revoked' })
    expect(await connectionOf(agent)).toMatchObject({ status: 'revoked' })
  })

  row('connection-operator-blocked', async () => {
    const client_id = 'https://blocked.example/agent'
    const agent = testAgent(stand.authority, { client_id })
    const { rpt } = await agent.granted()
    const block = await own('POST', '/owner/operators/block', { origin: 'https://blocked.example' })
    expect(block.body).toMatchObject({ connections_revoked: 1, rpts_deactivated: 1 })
    expect(await introspect(rpt)).toMatchObject({ active: false, reason: 'connection_revoked' })
    expect(await connectionOf(agent)).toMatchObject({ status: 'revoked' })
    expect(answers(await testAgent(stand.authority, { client_id }).ask())).toEqual([403, 'request_denied'])
  })

  row('connection-admitted-again', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    await revoke(agent)
    await agent.granted()
    expect(await connectionOf(agent)).toMatchObject({ status: 'active' })
    expect(await introspect(rpt)).toMatchObject({ active: false })
    const connected = async () => (await ledgerOf(agent)).filter(({ kind }) => kind === 'connected')
    await until(async () => (await connected()).length === 2)
  })
})
