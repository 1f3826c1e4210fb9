/** contract, "Errors": what a gateway says by itself is an outage where the call reached no tool. */
import { describe, expect, it } from 'vitest'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import type { Reply } from '../support/scripted-http.ts'
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
