/** contract, "Errors": what a gateway says by itself is an outage where the call reached no tool. */
import { describe, expect, it } from 'vitest'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import type { AgentEvent } from '../../src/agent/index.ts'
import type { Reply, ScriptedServer } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith, answerAuthorized } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

const call = () => agentWith().call({ resource: peers.resource, tool: 'portfolio_read' })
const authorized = () => peers.tools.to('/mcp/alice').filter(one => one.headers.authorization !== undefined)

describe("Envoy's own 503", () => {
  const envoy = (body: string, more: Record<string, string> = {}): Reply => ({
    status: 503,
    headers: { server: 'envoy', 'content-type': 'text/plain', 'retry-after': '0', ...more },
    body,
  })

  it.each([
    ['it could not ask its enforcement point', ''],
    ['it has no upstream', 'no healthy upstream'],
    [
      'no upstream took the connection',
      'upstream connect error or disconnect/reset before headers. reset reason: remote connection failure',
    ],
  ])('is an outage, and tried again, where the call reached no tool: %s', async (_which, body) => {
    answerAuthorized(peers, nth => (nth === 1 ? envoy(body) : undefined))
    await call()
    expect(authorized()).toHaveLength(2)
    answerAuthorized(peers, envoy(body))
    await expect(call()).rejects.toMatchObject({ code: 'temporarily_unavailable', terminal: false })
  })

  it.each<[string, Reply]>([
    [
      'the tool may have run',
      envoy(
        'upstream connect error or disconnect/reset before headers. reset reason: connection termination',
      ),
    ],
    ['the tool itself gave it', envoy('', { 'x-envoy-upstream-service-time': '5' })],
  ])('is not tried again where %s', async (_what, reply) => {
    answerAuthorized(peers, reply)
    await expect(call()).rejects.toMatchObject({ code: 'unexpected_answer' })
    expect(authorized()).toHaveLength(1)
  })

  it('leaves the outcome unknown under a grant for one use, which may be spent', async () => {
    peers.twists.perOperation = true
    answerAuthorized(peers, envoy('no healthy upstream'))
    await expect(call()).rejects.toMatchObject({ code: 'outcome_unknown' })
    expect(authorized()).toHaveLength(1)
  })
})

describe('An outage of a document', () => {
  const metadata = '/.well-known/oauth-protected-resource/mcp/alice'
  const documents: [what: string, server: () => ScriptedServer, path: string][] = [
    ['of the resource', () => peers.tools, metadata],
    ['of the authority', () => peers.authority, '/.well-known/agents-configuration'],
    ["with the authority's keys", () => peers.authority, '/jwks'],
  ]
  const outage: Reply = { status: 503, headers: { 'retry-after': '0' }, body: 'no healthy upstream' }

  it.each(documents)('%s is waited out, and told of', async (_what, server, path) => {
    server().script(path, (_received, nth) => (nth === 1 ? outage : undefined))
    const events: AgentEvent[] = []
    const agent = agentWith({ onEvent: event => void events.push(event) })
    await agent.call({ resource: peers.resource, tool: 'portfolio_read' })
    expect(server().to(path)).toHaveLength(2)
    expect(events).toContainEqual({ type: 'retrying', code: 'temporarily_unavailable', afterSeconds: 0 })
  })

  it('that lasts is one after four attempts, and nothing is signed', async () => {
    peers.tools.script(metadata, outage)
    await expect(call()).rejects.toMatchObject({ code: 'temporarily_unavailable', terminal: false })
    expect(peers.tools.to(metadata)).toHaveLength(4)
    expect(peers.agreements).toEqual([])
  })

  it('is waited out for a minute in all, because the ticket of the challenge is presented after that', async () => {
    let passed = 0
    // Of each 25 s, the first of the resource and both of the authority are an outage.
    const slow = (isOutage: (nth: number) => boolean) => (_received: unknown, nth: number) => {
      passed += 25
      return isOutage(nth) ? outage : undefined
    }
    peers.tools.script(
      metadata,
      slow(nth => nth === 1),
    )
    peers.authority.script(
      '/.well-known/agents-configuration',
      slow(() => true),
    )
    const agent = agentWith({ now: () => Date.now() / 1000 + passed })
    await expect(agent.call({ resource: peers.resource, tool: 'portfolio_read' })).rejects.toMatchObject({
      code: 'temporarily_unavailable',
      terminal: false,
    })
    expect(peers.tools.to(metadata)).toHaveLength(2)
    expect(peers.authority.to('/.well-known/agents-configuration')).toHaveLength(1)
    expect(peers.authority.to('/token')).toEqual([])
  })

  it('is not waited out for longer than the caller waits', async () => {
    peers.tools.script(metadata, { ...outage, headers: { 'retry-after': '20' } })
    const giveUp = new AbortController()
    const agent = agentWith({ onEvent: ({ type }) => void (type === 'retrying' && giveUp.abort()) })
    const { signal } = giveUp
    await expect(
      agent.call({ resource: peers.resource, tool: 'portfolio_read', signal }),
    ).rejects.toMatchObject({ code: 'aborted' })
    expect(peers.tools.to(metadata)).toHaveLength(1)
  })
})
