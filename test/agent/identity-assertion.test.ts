/**
 * contract, "need_info answer (beat 2)": an authority may ask for an identity assertion before it offers
 * terms. ID-JAG.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { runAgent } from '../../src/agent/main.ts'
import type { AgentOptions, AssertionRequest } from '../../src/agent/index.ts'
import { needIdentity, type IdentityRequest } from '../../src/wire/agents/identity-claim.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { ID_JAG, ID_JAG_TYP } from '../../src/wire/names.ts'
import { newTicket } from '../../src/wire/negotiation/ticket.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startScriptedServer, type Received } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'
import { agentWith } from './agents.ts'

const key = newKey()
const peers = startedForEach(startScriptedPeers)
const provider = startedForEach(() =>
  startScriptedServer(({ path }: Received) =>
    path === '/.well-known/openid-configuration' ? { body: metadata() } : undefined,
  ),
)
let metadata: () => object = () => plainMetadata()
const plainMetadata = () => ({ issuer: provider.origin, token_endpoint: `${provider.origin}/token` })

const TOOL = 'portfolio_read'
const call = (options: Partial<AgentOptions> = {}) =>
  agentWith({ key, ...options }).call({ resource: peers.resource, tool: TOOL })

function assertionFor(
  { issuer, audience, jkt }: AssertionRequest,
  changes: object = {},
  typ = ID_JAG_TYP,
): string {
  const now = Math.floor(Date.now() / 1000)
  const payload = {
    iss: issuer,
    aud: audience,
    sub: 'p-1',
    jti: 'j-1',
    iat: now,
    exp: now + 300,
    cnf: { jkt },
  }
  return signJws({ typ, payload: { ...payload, ...changes } }, newKey())
}

/** The authority asks for an assertion at the first presentation; `changes` make the request another one. */
function asksForIdentity(changes: Partial<IdentityRequest> = {}): void {
  let asked = false
  peers.authority.script('/token', () => {
    if (asked) return undefined
    asked = true
    const request = { issuer: provider.origin, audience: peers.issuer, resource: peers.resource, scope: TOOL }
    const { ticket } = newTicket('tag')
    const body = needIdentity({
      ...request,
      ticket,
      tokenEndpoint: 'https://elsewhere.example/token',
      ...changes,
    })
    return { status: 403, body }
  })
}

describe('An identity that is asked for before terms', () => {
  it('is asserted by an issuer of the agent’s settings, presented once, and the terms come then', async () => {
    asksForIdentity()
    const asked: AssertionRequest[] = []
    const { receipt } = await call({
      identity_issuers: [provider.origin],
      identityAssertion: async request => {
        asked.push(request)
        return assertionFor(request)
      },
    })
    expect(receipt).toBeDefined()
    expect(asked).toEqual([
      {
        issuer: provider.origin,
        audience: peers.issuer,
        resource: peers.resource,
        scope: TOOL,
        // As the issuer says itself, not as the authority says of it.
        token_endpoint: `${provider.origin}/token`,
        jkt: key.thumbprint,
        client_id: undefined,
      },
    ])
    const forms = peers.tokenForms()
    expect(forms.map(form => form['claim_token_format'])).toEqual([
      undefined,
      ID_JAG,
      expect.stringContaining('myterms-agreement'),
    ])
    expect(Buffer.from(forms[1]!['claim_token']!, 'base64url').toString()).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
  })

  it('and that this agent cannot get is reported with what to give, and nothing is presented', async () => {
    asksForIdentity()
    const detail = expect.stringContaining('--identity-command, or createAgent identity_issuers') as string
    await expect(call()).rejects.toMatchObject({ code: 'identity_required', local: true, detail })
    expect(peers.tokenForms()).toHaveLength(1)
  })

  it.each([
    ['another issuer than those listed', { issuer: 'https://idp.elsewhere.example' }],
    ['another audience than the authority that asks', { audience: 'https://as.elsewhere.example' }],
    ['another resource than the one called', { resource: 'https://tools.elsewhere.example/mcp' }],
    ['another operation than the one called', { scope: 'place_trade' }],
  ])('by or for %s is not fetched, and the issuer hears nothing', async (_what, changes) => {
    asksForIdentity(changes)
    let asked = 0
    const calling = call({
      identity_issuers: [provider.origin],
      identityAssertion: async request => (asked++, assertionFor(request)),
    })
    await expect(calling).rejects.toMatchObject({ code: 'identity_untrusted', terminal: true, local: true })
    expect([asked, provider.received.length, peers.tokenForms().length]).toEqual([0, 0, 1])
  })

  it.each([
    ['that is no JWT', () => 'nonsense'],
    ['of another kind', (request: AssertionRequest) => assertionFor(request, {}, 'JWT')],
    [
      'by another issuer',
      (request: AssertionRequest) => assertionFor(request, { iss: 'https://other.example' }),
    ],
    [
      'to another audience',
      (request: AssertionRequest) => assertionFor(request, { aud: 'https://other.example' }),
    ],
    [
      'to two audiences',
      (request: AssertionRequest) =>
        assertionFor(request, { aud: [request.audience, 'https://other.example'] }),
    ],
    [
      'of another key',
      (request: AssertionRequest) => assertionFor(request, { cnf: { jkt: newKey().thumbprint } }),
    ],
    ['bound to no key', (request: AssertionRequest) => assertionFor(request, { cnf: undefined })],
    [
      'that cannot be had',
      (): never => {
        throw new Error('the person logged out')
      },
    ],
  ])('by an assertion %s is not presented', async (_what, assertion) => {
    asksForIdentity()
    const calling = call({ identity_issuers: [provider.origin], identityAssertion: assertion })
    await expect(calling).rejects.toMatchObject({ code: 'identity_unusable', local: true })
    expect(peers.tokenForms()).toHaveLength(1)
  })

  it('by an issuer that calls itself by another name is not fetched', async () => {
    asksForIdentity()
    metadata = () => ({ ...plainMetadata(), issuer: 'https://other.example' })
    try {
      const calling = call({ identity_issuers: [provider.origin], identityAssertion: assertionFor })
      await expect(calling).rejects.toMatchObject({ code: 'identity_untrusted' })
    } finally {
      metadata = plainMetadata
    }
  })
})

describe('usher agent call --identity-command', () => {
  let folder: string
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'usher-identity-'))
    vi.stubEnv('UMA_DEV_LOOPBACK', 'true')
    vi.stubEnv('UMA_AGENT_KEY', join(folder, 'key.json'))
    vi.stubEnv('UMA_AGENT_STORE', join(folder, 'store'))
    await runAgent(['keygen'], capturedTerminal())
  })
  afterEach(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true })
  })
  const run = async (command: string, issuer = provider.origin) => {
    const terminal = capturedTerminal()
    const options = ['--identity-issuer', issuer, '--identity-command', command]
    const code = await runAgent(['call', peers.resource, TOOL, ...options], terminal)
    return { code, said: terminal.said }
  }

  it('reads what is asked for on its standard input, and prints the assertion', async () => {
    asksForIdentity()
    // Signed by nobody: whether it is genuine is for the authority to judge.
    const script = join(folder, 'assert.mjs')
    writeFileSync(
      script,
      `let text = ''
       for await (const chunk of process.stdin) text += chunk
       const { issuer, audience, jkt } = JSON.parse(text)
       const part = value => Buffer.from(JSON.stringify(value)).toString('base64url')
       const header = { alg: 'EdDSA', typ: 'oauth-id-jag+jwt' }
       const claims = { iss: issuer, aud: audience, cnf: { jkt } }
       console.log([part(header), part(claims), 'AAAA'].join('.'))`,
    )
    const { code, said } = await run(`${process.execPath} ${script}`)
    expect([code, said]).toEqual([0, expect.stringContaining(`→ identity asserted by ${provider.origin}\n`)])
    expect(peers.tokenForms()[1]).toMatchObject({ claim_token_format: ID_JAG })
  })

  it.each([
    ['exit 3', 'ended with status 3'],
    ['kill $$', 'ended by SIGTERM'],
    ['yes', 'ended by SIGTERM'],
  ])('that does not print one (%s) ends the call', async (command, how) => {
    asksForIdentity()
    const { code, said } = await run(command)
    expect([code, said]).toEqual([
      1,
      expect.stringContaining(`identity_unusable: The identity command ${how}`),
    ])
  })
})
