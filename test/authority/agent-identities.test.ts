/**
 * The published agent with every identity it can have, at the real authority. contract, "Agreement
 * (claim_token, beat 3)" (header), "Owner API" (introduction of a sibling agent); the resource is scripted,
 * its tickets are real.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAgent, type AgentOptions } from '../../src/agent/index.ts'
import { resourceMetadataUrl } from '../../src/wire/resources/resource-metadata.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import { buildRemediation, encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { TestAuthority } from '../support/authority.ts'
import { startEnforcedAuthority } from '../support/enforced-authority.ts'
import {
  newKey,
  startIssuer,
  startOperator,
  type TestIssuer,
  type TestOperator,
} from '../support/operators.ts'
import {
  startScriptedServer,
  type Received,
  type Reply,
  type ScriptedServer,
} from '../support/scripted-http.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

let authority: TestAuthority
let issuer: TestIssuer
let operator: TestOperator
let tools: ScriptedServer
let resource: string
const [introducerKey, childKey, ownKey] = [newKey(), newKey(), newKey()]

beforeAll(async () => {
  tools = await startScriptedServer(answerCall)
  resource = `${tools.origin}/mcp/alice`
  issuer = await startIssuer({ http: true })
  operator = await startOperator({ keys: [introducerKey, childKey, ownKey] })
  authority = await startEnforcedAuthority({ UMA_AS_AGENT_ISSUERS: issuer.iss }, resource)
})
afterAll(async () => {
  await authority.close()
  await Promise.all([issuer, operator, tools].map(server => server.close()))
})

/**
 * Challenges with a ticket of the real authority, and answers a call that carries a grant with the owner of
 * that grant.
 */
async function answerCall({ path, headers, body }: Received): Promise<Reply | undefined> {
  if (path.startsWith('/.well-known/oauth-protected-resource'))
    return { body: { resource, authorization_servers: [authority.issuer], scopes_supported: ['read'] } }
  if (headers.authorization !== undefined) {
    const { sub, cnf } = readRptClaims(headers.authorization.replace(/^PoP /, ''))
    const { id } = JSON.parse(body.toString()) as { id: string }
    return {
      body: { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: `${sub} ${cnf.jwk.x}` }] } },
    }
  }
  const ticket = await testAgent(authority).ticket('portfolio_read')
  const call = {
    specNs: DEFAULT_SPEC_NS,
    owner: asOwner('alice'),
    tool: 'portfolio_read',
    resourceUrl: resource,
    scopes: ['read'],
  }
  const challenge = {
    realm: 'tools',
    as_uri: authority.issuer,
    ticket,
    resource_metadata: resourceMetadataUrl(resource),
    scope: 'read',
    authorization_remediation: buildRemediation({ ...call, ticket, as_uri: authority.issuer }),
  }
  return { status: 401, headers: { 'www-authenticate': encodeChallenge(challenge) } }
}

const agentOf = (options: AgentOptions) =>
  createAgent({ allowLoopback: true, waitSecondsMax: 20, ...options })
const calls = async (options: AgentOptions): Promise<string> => {
  const { result } = await agentOf(options).call({ resource, tool: 'portfolio_read', arguments: {} })
  return (result as { content: { text: string }[] }).content[0]!.text
}
const waits = async (handle: string): Promise<boolean> => {
  const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
  return (body as { handle: string }[]).some(item => item.handle === handle)
}
/** Calls, and lets the owner approve the first contact. */
async function callsApproved(options: AgentOptions, handle: string): Promise<string> {
  const called = calls(options)
  await until(() => waits(handle))
  await decide(authority, handle, 'approved')
  return called
}

describe('The published agent', () => {
  it('negotiates under an agent token, whose issuer may be http to loopback in development', async () => {
    const key = newKey()
    const { agent_token, handle } = issuer.identify(key, 'published')
    expect(await callsApproved({ key, agent_token }, handle)).toBe(`${handle} ${key.x}`)
    const { body } = await authority.call(authority.alice, { target: '/owner/connections?limit=1000' })
    expect(body).toContainEqual(expect.objectContaining({ handle, identity: 'identified' }))
  })

  it('names its operator and the directory that lists its key', async () => {
    const { client_id, origin } = operator
    const key = ownKey
    const handle = `jkt:${key.thumbprint}`
    const called = calls({ key, client_id, signature_agent: origin })
    await until(() => waits(handle))
    const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
    expect(body).toContainEqual(
      expect.objectContaining({ handle, assurance: { binding: 1, provenance: 0, accountability: 2 } }),
    )
    await decide(authority, handle, 'approved')
    expect(await called).toBe(`${handle} ${key.x}`)
  })

  it('is introduced by a sibling, and never waits for the owner', async () => {
    const { client_id } = operator
    const introducer = { key: introducerKey, client_id }
    await callsApproved(introducer, `jkt:${introducerKey.thumbprint}`)
    const introduction = await agentOf(introducer).introduce({
      newcomer: childKey.jwk,
      authority: authority.issuer,
    })
    expect(await calls({ key: childKey, client_id, introduction })).toBe(
      `jkt:${childKey.thumbprint} ${childKey.x}`,
    )
    const { body } = await authority.call(authority.alice, { target: '/owner/connections?limit=1000' })
    expect(body).toContainEqual(
      expect.objectContaining({
        handle: `jkt:${childKey.thumbprint}`,
        introduced_by: `jkt:${introducerKey.thumbprint}`,
      }),
    )
  })

  it('is told why, if its issuer is not accepted', async () => {
    const stranger = await startIssuer({ http: true })
    const key = newKey()
    const { agent_token } = stranger.identify(key, 'stranger')
    await expect(calls({ key, agent_token })).rejects.toMatchObject({
      code: 'request_denied',
      message: expect.stringMatching(/not accepted here/),
    })
    expect(stranger.server.received).toEqual([])
    await stranger.close()
  })
})
