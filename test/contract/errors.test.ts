/**
 * Contract, "Errors": each row against the started authority and sidecar. Those of resource servers:
 * registration.test.ts.
 */
import { describe, expect } from 'vitest'
import { sql } from 'kysely'
import { createAgent } from '../../src/agent/index.ts'
import { parseChallengeData } from '../../src/wire/negotiation/challenge.ts'
import { REFUSALS } from '../../src/wire/refusal.ts'
import type { Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand, TOOLS_URL } from '../support/contract-stand.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startedOnce } from '../support/started.ts'
import { decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

const stand = startedOnce(startContractStand)

const PARAMS = { symbol: 'VTI', qty: 2 }
const TRADE = { operation: { tool: 'place_trade', params: PARAMS } }
const newAgent = () => testAgent(stand.authority)
const answers = ({ status, body }: Reply) => [status, body.error]
const ask = async (path: string, token: string, owner = 'alice') =>
  (await protectionCall(stand.authority, path, { token }, owner)).body
const revoke = ({ handle }: TestAgent) =>
  stand.authority.call(stand.authority.alice, {
    method: 'POST',
    target: '/owner/connections/revoke',
    json: { handle },
  })
/** A call to a tool of carl, whose authority says what the test has it say. */
const atCarls = (consequence: string) => {
  const { key } = newAgent()
  const token = stand.carls.issue({
    owner: 'carl',
    resource: `${TOOLS_URL}/mcp/carl`,
    key,
    permissions: [{ resource_id: 'carl/trades', resource_scopes: ['trade'], exp: 4_000_000_000 }],
    operation: { tool: 'place_trade', params_s256: 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8' },
    consequence,
  })
  const decided = () =>
    stand.check({ path: '/mcp/carl', tool: 'place_trade', args: PARAMS, token, signer: key })
  return { token, decided }
}

describe('Errors', () => {
  row('error-insufficient-authorization', async () => {
    const decision = await stand.check({})
    expect([decision.status, decision.error]).toEqual([401, 'insufficient_authorization'])
    const challenge = decision.answer.denied_response!.headers!.find(
      ({ header }) => header?.key === 'www-authenticate',
    )
    expect(challenge?.header?.value).toMatch(/^UMA .*error="insufficient_authorization"/)
    // A caller of MCP 2026-07-28 is told the same without a status line: by the error that answers it.
    for (const door of [stand.check, stand.checkHttp]) {
      const told = await door({
        headers: {
          'mcp-protocol-version': ['2026-07-28'],
          'mcp-method': ['tools/call'],
          'mcp-name': ['portfolio_read'],
        },
      })
      const { data } = (told.body['error'] ?? {}) as { data: object }
      expect([told.status, told.body]).toEqual([
        401,
        {
          jsonrpc: '2.0',
          id: 1,
          error: { code: -32001, message: expect.stringMatching(/\w+ \w+/) as string, data },
        },
      ])
      expect(data).toMatchObject({ error: 'insufficient_authorization' })
      expect(parseChallengeData(data)).toEqual(told.challenge)
    }
  })

  row('error-need-info', async () => {
    const agent = newAgent()
    const reply = await agent.present(await agent.ticket())
    expect(answers(reply)).toEqual([403, 'need_info'])
    expect(reply.body).toMatchObject({ ticket: expect.any(String), required_claims: [expect.anything()] })
  })

  row('error-request-submitted', async () => {
    const agent = newAgent()
    const first = await agent.ask()
    expect([first.status, first.body.error, first.body.kind]).toEqual([
      403,
      'request_submitted',
      'connection',
    ])
    await decide(stand.authority, agent.handle, 'approved')
    await agent.present(first.body.ticket)
    const second = await agent.ask('place_trade', TRADE)
    expect(second.body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    await decide(stand.authority, agent.handle, 'denied')
  })

  row('error-request-denied', async () => {
    const agent = newAgent()
    const denied = [403, 'request_denied']
    expect(answers(await agent.ask('portfolio_read', { expires_in: 999_999 }))).toEqual(denied)
    expect(answers(await agent.ask('portfolio_read', { header: { jwk: newAgent().key.jwk } }))).toEqual(
      denied,
    )
    expect(answers(await agent.present(await agent.ticket('close_account')))).toEqual(denied)
    const held = await agent.ask()
    await decide(stand.authority, agent.handle, 'denied')
    expect(answers(await agent.present(held.body.ticket))).toEqual(denied)
  })

  row('error-queue-full', async () => {
    const strangers = Array.from({ length: 6 }, newAgent)
    for (const stranger of strangers.slice(0, 5)) await stranger.ask()
    const reply = await strangers[5]!.ask()
    expect(answers(reply)).toEqual([429, 'request_denied'])
    expect(reply.body.error_description).toMatch(/\w+ \w+/)
    for (const { handle } of strangers.slice(0, 5)) await decide(stand.authority, handle, 'denied')
  })

  row('error-invalid-grant', async () => {
    const agent = newAgent()
    const held = await agent.ask()
    await sql`UPDATE families SET ticket_expires_at = now() WHERE handle = ${agent.handle}`.execute(
      stand.authority.database.db,
    )
    expect(answers(await agent.present(held.body.ticket))).toEqual([400, 'invalid_grant'])
  })

  row('error-invalid-token', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const stolen = await stand.check({ token: rpt, signer: newAgent().key })
    expect(stolen).toMatchObject({ status: 401, error: 'invalid_token', challenge: undefined })
  })

  row('error-consequence-changed', async () => {
    // The sidecar declares the trade irreversible.
    expect(await atCarls('reversible').decided()).toMatchObject({ status: 403, error: 'consequence_changed' })
    expect(stand.carls.count('/consume')).toBe(0)
    expect(await atCarls('irreversible').decided()).toMatchObject({ status: 200 })
  })

  row('error-access-revoked', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    await revoke(agent)
    const revoked = { status: 403, error: 'access_revoked', challenge: undefined }
    expect(await stand.check({ token: rpt, signer: agent.key })).toMatchObject(revoked)
    const { token, decided } = atCarls('irreversible')
    stand.carls.end(token, 'a word that nobody knows')
    expect(await decided()).toMatchObject(revoked)
  })

  row('error-consume-unreachable', async () => {
    for (const script of ['cut', { status: 500, body: {} }, { status: 200, body: 'no JSON' }] as const) {
      stand.carls.script('/consume', script)
      const { status, error } = await atCarls('irreversible').decided()
      expect([status, error]).toEqual([503, 'temporarily_unavailable'])
    }
    stand.carls.script('/consume', undefined)
  })

  row('error-temporarily-unavailable', async () => {
    const passing = Object.entries(REFUSALS).filter(([, { terminal }]) => !terminal)
    expect(passing.map(([code]) => code)).toEqual(['temporarily_unavailable'])
    stand.carls.script('/introspect', 'cut')
    const { decided } = atCarls('irreversible')
    expect(await decided()).toMatchObject({ status: 503, error: 'temporarily_unavailable' })
    stand.carls.script('/introspect', undefined)
    // The same token, a moment later.
    expect(await decided()).toMatchObject({ status: 200 })
  })

  row('error-consumed-false', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted('place_trade', TRADE)
    const { rpt: standing } = await agent.granted('portfolio_read')
    const { rpt: ended } = await agent.granted('place_trade', TRADE)
    expect(await ask('/consume', rpt)).toMatchObject({ consumed: true })
    await expect(ask('/consume', rpt)).resolves.toEqual({ consumed: false, error: 'already_consumed' })
    await expect(ask('/consume', standing)).resolves.toEqual({ consumed: false, error: 'not_single_use' })
    await revoke(agent)
    await expect(ask('/consume', ended)).resolves.toEqual({ consumed: false, error: 'connection_revoked' })
    await expect(ask('/consume', ended, 'bea')).resolves.toEqual({ consumed: false, error: 'unknown_token' })
  })

  row('error-replayed-owner-request', async () => {
    const { alice } = stand.authority
    const json = { origin: 'https://replayed.example' }
    const prepared = stand.authority.prepare(alice, {
      method: 'POST',
      target: '/owner/operators/block',
      json,
    })
    expect((await stand.authority.send(prepared)).status).toBe(200)
    expect(answers(await stand.authority.send(prepared))).toEqual([401, 'invalid_credential'])
  })

  row('error-unknown-refusal', async () => {
    const peers = await startScriptedPeers()
    peers.tools.script('/mcp/alice', ({ headers }) =>
      headers.authorization === undefined ? undefined : { status: 403, body: { error: 'never_heard_of' } },
    )
    const agent = createAgent({ key: newAgent().key, allowLoopback: true })
    const call = agent.call({ resource: peers.resource, tool: 'portfolio_read' })
    await expect(call).rejects.toMatchObject({ code: 'never_heard_of', terminal: true })
    const authorized = peers.tools.to('/mcp/alice').filter(one => one.headers.authorization !== undefined)
    expect(authorized).toHaveLength(1)
    await peers.close()
  })
})
