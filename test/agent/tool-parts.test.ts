/**
 * An agent at a resource that splits a tool by its arguments. contract, "Challenge (beat 1)" (`identifier`
 * names the tool) and "Single-use grant": what the agent signs names the part as the resource does.
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { challengeOf, startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

/** `edit_file` with `dryRun: true` is `edit_preview`, each part with a resource of its own. */
function splitTool(): void {
  let part = ''
  peers.twists.template = plain => ({
    ...plain,
    template_id: `alice/${part}/v1`,
    terms_uri: `${peers.issuer}/terms/alice/${part}/v1`,
    resource_id: `alice/${part}`,
  })
  peers.tools.script('/mcp/alice', ({ body, headers }) => {
    const { params } = JSON.parse(body.toString()) as { params: { arguments?: JsonObject } }
    part = params.arguments?.['dryRun'] === true ? 'edit_preview' : 'edit_file'
    const { authorization } = headers
    const permissions =
      authorization === undefined ? [] : readRptClaims(authorization.replace(/^PoP /, '')).permissions
    if (permissions.some(({ resource_id }) => resource_id === `alice/${part}`)) return undefined
    return { status: 401, headers: { 'www-authenticate': encodeChallenge(challengeOf(peers, part)) } }
  })
}

const DRY = { tool: 'edit_file', arguments: { path: '/x', dryRun: true } }
const WET = { tool: 'edit_file', arguments: { path: '/x' } }

describe('At a resource that splits a tool by its arguments, an agent', () => {
  it('signs the operation under the name of the part, with the arguments of the call', async () => {
    splitTool()
    peers.twists.perOperation = true
    const agent = agentWith()
    for (const call of [DRY, WET]) await agent.call({ resource: peers.resource, ...call })
    expect(peers.agreements.map(({ claims }) => claims['operation'])).toEqual([
      { tool: 'edit_preview', params: DRY.arguments },
      { tool: 'edit_file', params: WET.arguments },
    ])
  })

  it('sends the call as it was asked for', async () => {
    splitTool()
    await agentWith().call({ resource: peers.resource, ...DRY })
    const sent = peers.tools.to('/mcp/alice').map(({ body }) => JSON.parse(body.toString()) as JsonObject)
    expect(sent).toHaveLength(2)
    for (const message of sent) expect(message).toMatchObject({ params: { name: 'edit_file' } })
    for (const { params } of sent) expect(params).not.toHaveProperty('approvedAs')
  })

  it('keeps the standing grants of both parts, and negotiates once for each', async () => {
    splitTool()
    const agent = agentWith()
    for (const call of [DRY, WET, DRY, WET, DRY]) await agent.call({ resource: peers.resource, ...call })
    expect(peers.grants.map(({ permissions }) => permissions[0]!.resource_id)).toEqual([
      'alice/edit_preview',
      'alice/edit_file',
    ])
  })
})
