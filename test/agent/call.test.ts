/** contract, "What the service does", beats 1 to 4, and "Authorized call", seen from the agent. */
import { describe, expect, it } from 'vitest'
import { memoryStore, type Agent, type AgentEvent } from '../../src/agent/index.ts'
import { challengeData } from '../../src/wire/negotiation/challenge.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { challengeOf, startScriptedPeers, type ScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

const READ = { tool: 'portfolio_read', arguments: { account: 'savings' } }
const call = (agent: Agent, options: object = READ) =>
  agent.call({ resource: peers.resource, ...READ, ...options })
const told = (result: unknown): unknown =>
  JSON.parse((result as { content: { text: string }[] }).content[0]!.text) as unknown

describe('a call', () => {
  it('is refused, negotiated, signed, and answered, with every beat told', async () => {
    const events: AgentEvent[] = []
    const agent = agentWith({ onEvent: event => events.push(event) })
    const { result, grant, receipt } = await call(agent)
    expect(told(result)).toEqual({ tool: READ.tool, arguments: READ.arguments, jti: peers.grants[0]!.jti })
    expect(events.map(event => event.type)).toEqual([
      'calling',
      'challenged',
      'authority_confirmed',
      'terms_offered',
      'agreement_signed',
      'granted',
      'calling',
      'answered',
    ])
    expect(grant).toMatchObject({ single_use: false, contract: peers.agreements[0]!.hash })
    expect(grant).not.toHaveProperty('access_token')
    expect(receipt).toMatchObject({
      contract: peers.agreements[0]!.hash,
      rpt: peers.grants[0]!.jti,
      owner: 'alice',
    })
    expect(await agent.receipts()).toEqual([receipt])
  })

  it('carries the header fields of MCP 2026-07-28, on both legs', async () => {
    await call(agentWith(), { tool: 'läsa' })
    for (const { headers, body } of peers.tools.to('/mcp/alice')) {
      expect(headers).toMatchObject({
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': '=?base64?bMOkc2E=?=',
      })
      expect(JSON.parse(body.toString())).toMatchObject({
        method: 'tools/call',
        params: { name: 'läsa', _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } },
      })
    }
  })

  it('covers the query of a resource that has one', async () => {
    // The scripted resource verifies the signature over the path and query it received.
    peers.tools.script('/.well-known/oauth-protected-resource/mcp/alice', {
      body: { resource: `${peers.resource}?x=1`, authorization_servers: [peers.issuer] },
    })
    peers.twists.challenge = plain => ({
      ...challengeOf({ ...peers, resource: `${peers.resource}?x=1` }, 'portfolio_read'),
      ticket: plain.ticket,
      authorization_remediation: {
        ...challengeOf({ ...peers, resource: `${peers.resource}?x=1` }, 'portfolio_read')
          .authorization_remediation,
        ticket: plain.ticket,
      },
    })
    peers.twists.rpt = plain => ({ ...plain, aud: `${peers.resource}?x=1` })
    await call(agentWith(), { resource: `${peers.resource}?x=1` })
    const [, signed] = peers.tools.to('/mcp/alice')
    expect(signed!.query).toBe('x=1')
    expect(signed!.headers['signature-input']).toContain('"@query"')
  })

  it('is signed anew each time, so that two equal calls never carry one signature', async () => {
    const agent = agentWith({ now: () => Math.floor(Date.now() / 10_000) * 10 })
    await call(agent)
    await call(agent)
    const signatures = peers.tools.to('/mcp/alice').map(one => one.headers['signature'])
    expect(new Set(signatures.slice(1)).size).toBe(2)
  })

  it('without arguments sends none, and agrees to {} if the operation is asked for', async () => {
    peers.twists.perOperation = true
    await call(agentWith(), { tool: 'rebalance', arguments: undefined })
    expect(peers.agreements[0]!.claims['operation']).toEqual({ tool: 'rebalance', params: {} })
    expect(peers.tools.to('/mcp/alice').map(one => JSON.parse(one.body.toString()).params.arguments)).toEqual(
      [undefined, undefined],
    )
  })

  it('of an unprotected tool is answered with no negotiation', async () => {
    peers.tools.script('/mcp/alice', ({ body }) => ({
      body: { jsonrpc: '2.0', id: JSON.parse(body.toString()).id, result: { content: [] } },
    }))
    const { grant, receipt } = await call(agentWith())
    expect([grant, receipt]).toEqual([undefined, undefined])
    expect(peers.authority.received).toEqual([])
  })

  it('reads an answer framed as an event stream, and leaves a stream that stays open', async () => {
    let closed = false
    peers.tools.script('/mcp/alice', ({ headers, body }) => {
      if (headers.authorization === undefined) return undefined
      const { id } = JSON.parse(body.toString()) as { id: string }
      return {
        write: (response, request) => {
          request.socket.on('close', () => (closed = true))
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.write(
            ': working\n\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n',
          )
          response.write(`data: {"jsonrpc":"2.0","id":"${id}",\ndata: "result":{"content":[]}}\n\n`)
        },
      }
    })
    expect((await call(agentWith())).result).toEqual({ content: [] })
    await expect.poll(() => closed).toBe(true)
  })
})

describe('a challenge', () => {
  it('in a JSON-RPC error is known by its shape, whatever its code', async () => {
    peers.tools.script('/mcp/alice', ({ headers, body }) => {
      if (headers.authorization !== undefined) return undefined
      const { id } = JSON.parse(body.toString()) as { id: string }
      const data = challengeData(challengeOf(peers, READ.tool))
      return { body: { jsonrpc: '2.0', id, error: { code: -31999, message: 'no', data } } }
    })
    expect((await call(agentWith())).grant).toBeDefined()
  })

  it.each([-32001, -32002])('is not a JSON-RPC error %i without a challenge in it', async code => {
    peers.tools.script('/mcp/alice', ({ body }) => {
      const { id } = JSON.parse(body.toString()) as { id: string }
      return { body: { jsonrpc: '2.0', id, error: { code, message: 'Request timed out' } } }
    })
    await expect(call(agentWith())).rejects.toMatchObject({
      code: 'rpc_error',
      rpc: { code },
      terminal: true,
    })
    expect(peers.authority.received).toEqual([])
  })

  it('is found among challenges of other schemes', async () => {
    peers.tools.script('/mcp/alice', ({ headers }) =>
      headers.authorization === undefined
        ? {
            status: 401,
            headers: {
              'www-authenticate': ['Bearer realm="UMA x"', encode(peers), 'Basic realm="b"'],
            },
          }
        : undefined,
    )
    expect((await call(agentWith())).grant).toBeDefined()
  })
})

function encode(of: ScriptedPeers): string {
  const challenge = challengeOf(of, READ.tool)
  const remediation = Buffer.from(JSON.stringify(challenge.authorization_remediation)).toString('base64url')
  const { as_uri, ticket, resource_metadata, scope } = challenge
  return `uma realm=tools, error="insufficient_authorization", as_uri="${as_uri}", ticket="${ticket}", resource_metadata="${resource_metadata}", scope="${scope}", authorization_remediation=${remediation}`
}

describe('a standing grant', () => {
  it('is kept, and used again for the same tool without another negotiation', async () => {
    const agent = agentWith()
    await call(agent)
    const { receipt } = await call(agent, { arguments: { account: 'pension' } })
    expect(receipt).toBeUndefined()
    expect(peers.tools.to('/mcp/alice').map(one => one.headers.authorization !== undefined)).toEqual([
      false,
      true,
      true,
    ])
    expect(peers.agreements).toHaveLength(1)
  })

  it('is used by another agent object over the same store and key', async () => {
    const store = memoryStore()
    const key = newKey()
    await call(agentWith({ store, key }))
    await call(agentWith({ store, key }))
    expect(peers.agreements).toHaveLength(1)
  })

  it('is not used for a tool that was found to need something else', async () => {
    const agent = agentWith()
    await call(agent)
    peers.twists.template = plain => ({ ...plain, resource_id: 'alice/statements' })
    await call(agent, { tool: 'statement_read' })
    await call(agent, { tool: 'statement_read' })
    await call(agent)
    expect(peers.agreements).toHaveLength(2)
  })

  it('is not used once it is about to end', async () => {
    let ahead = 0
    const agent = agentWith({ now: () => Date.now() / 1000 + ahead })
    peers.twists.template = plain => ({ ...plain, expires_in: 30 })
    await call(agent)
    ahead = 29
    await call(agent)
    expect(peers.agreements).toHaveLength(2)
  })

  it('that is challenged afresh is given up, and one negotiation made', async () => {
    const agent = agentWith()
    await call(agent)
    const [first] = peers.grants
    peers.tools.script('/mcp/alice', ({ headers }) =>
      bears(headers.authorization, first!.jti)
        ? { status: 401, headers: { 'www-authenticate': encode(peers) } }
        : undefined,
    )
    const { receipt } = await call(agent)
    expect(receipt?.rpt).toBe(peers.grants[1]!.jti)
    await call(agent)
    expect(peers.agreements).toHaveLength(2)
  })
})

function bears(authorization: string | undefined, jti: string): boolean {
  return authorization !== undefined && readRptClaims(authorization.replace('PoP ', '')).jti === jti
}

describe('a single-use grant', () => {
  it('is bound to the exact operation, spent on it, and never used again', async () => {
    peers.twists.perOperation = true
    const store = memoryStore()
    const agent = agentWith({ store })
    const trade = { tool: 'place_trade', arguments: { symbol: 'VTI', qty: 2 } }
    await call(agent, trade)
    await call(agent, trade)
    expect(peers.agreements.map(one => one.claims['operation'])).toEqual([
      { tool: 'place_trade', params: trade.arguments },
      { tool: 'place_trade', params: trade.arguments },
    ])
    const sent = peers.tools.to('/mcp/alice').map(one => one.headers.authorization)
    expect(sent.filter(one => one !== undefined)).toHaveLength(2)
    expect(new Set(sent).size).toBe(3)
    expect(await store.grants(peers.resource)).toEqual([])
  })
})

describe('what an agent says of itself', () => {
  it('goes into the agreement as it is: operator, reason, mission', async () => {
    const mission = { approver: 'https://approver.example', s256: 'Zk3x'.repeat(10) }
    await call(
      agentWith({
        client_id: 'https://operator.example/agent.json',
        signature_agent: 'https://operator.example',
        reason: 'Monthly report',
        mission,
      }),
    )
    const [agreement] = peers.agreements
    expect(agreement).toMatchObject({
      client_id: 'https://operator.example/agent.json',
      signature_agent: 'https://operator.example',
      claims: { reason: 'Monthly report', mission, aud: peers.issuer },
    })
  })

  it('repeats every field of the terms unchanged', async () => {
    let offered: object = {}
    await call(agentWith({ onEvent: event => event.type === 'terms_offered' && (offered = event.template) }))
    expect(peers.agreements[0]!.claims).toMatchObject(offered)
  })
})
