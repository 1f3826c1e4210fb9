/**
 * An agent that follows a link (`resource_link`) of a tool, at a resource that maps the reading of such links
 * to that tool. contract, "Challenge (beat 1)" (`identifier` names the tool) and "Single-use grant" (spent by
 * its call).
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import { readRptClaims, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { Agent } from '../../src/agent/index.ts'
import type { Received } from '../support/scripted-http.ts'
import { challengeOf, startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

interface Message {
  id: number
  method: string
  params: { name?: string; uri?: string }
}
const messageIn = ({ body }: Received): Message => JSON.parse(body.toString()) as Message
const claimsIn = ({ headers }: Received): RptClaims | undefined =>
  headers.authorization === undefined ? undefined : readRptClaims(headers.authorization.replace(/^PoP /, ''))

/**
 * `report` links to `demo://report/…`, which is mapped to it; `demo://secret/…` is mapped to `secret`.
 * `resourceOf`: the registered resource that a request needs.
 */
function mapLinks(resourceOf = (tool: string, _method: string): string => `alice/${tool}`): void {
  let needed = ''
  peers.twists.template = plain => ({
    ...plain,
    template_id: `${needed}/v1`,
    terms_uri: `${peers.issuer}/terms/${needed}/v1`,
    resource_id: needed,
  })
  peers.tools.script('/mcp/alice', received => {
    const { id, method, params } = messageIn(received)
    const tool = params.name ?? (params.uri!.startsWith('demo://secret/') ? 'secret' : 'report')
    const resource = resourceOf(tool, method)
    const permissions = claimsIn(received)?.permissions ?? []
    if (permissions.some(({ resource_id }) => resource_id === resource))
      return { body: { jsonrpc: '2.0', id, result: { content: [], contents: [{ uri: params.uri ?? '' }] } } }
    needed = resource
    return { status: 401, headers: { 'www-authenticate': encodeChallenge(challengeOf(peers, tool)) } }
  })
}

const call = (agent: Agent, tool: string) => agent.call({ resource: peers.resource, tool })
async function read(agent: Agent, uri: string): Promise<JsonObject> {
  const response = await agent.fetchFor(peers.resource)(peers.resource, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri } }),
  })
  return (await response.json()) as JsonObject
}
const negotiated = () => peers.grants.map(({ permissions }) => permissions[0]!.resource_id)

describe('An agent that follows a link of a tool', () => {
  it('reads it under the standing grant of the tool, and negotiates for nothing', async () => {
    mapLinks()
    const agent = agentWith()
    await call(agent, 'report')
    for (const uri of ['demo://report/1', 'demo://report/2'])
      expect(await read(agent, uri)).toMatchObject({ result: { contents: [{ uri }] } })
    expect(negotiated()).toEqual(['alice/report'])
    const reads = peers.tools.to('/mcp/alice').filter(one => messageIn(one).method === 'resources/read')
    expect(reads.map(one => claimsIn(one)?.jti).filter(jti => jti !== undefined)).toEqual(
      Array(2).fill(peers.grants[0]!.jti),
    )
  })

  it('negotiates for what is mapped to a tool whose grant it does not hold, and keeps the grants of both', async () => {
    mapLinks()
    const agent = agentWith()
    await call(agent, 'report')
    await read(agent, 'demo://secret/1')
    await read(agent, 'demo://report/1')
    await call(agent, 'report')
    expect(negotiated()).toEqual(['alice/report', 'alice/secret'])
  })

  it('keeps the grant of the tool where that is not enough for reading', async () => {
    mapLinks((tool, method) => (method === 'tools/call' ? `alice/${tool}` : `alice/${tool}-texts`))
    const agent = agentWith()
    await call(agent, 'report')
    await read(agent, 'demo://report/1')
    await call(agent, 'report')
    expect(negotiated()).toEqual(['alice/report', 'alice/report-texts'])
  })

  it('negotiates anew where the grant was for one use, which the call of the tool has spent', async () => {
    mapLinks()
    peers.twists.perOperation = true
    const agent = agentWith()
    await call(agent, 'report')
    await read(agent, 'demo://report/1')
    expect(peers.grants.map(({ operation }) => operation?.tool)).toEqual(['report', 'report'])
    expect(new Set(peers.grants.map(({ jti }) => jti)).size).toBe(2)
  })
})
