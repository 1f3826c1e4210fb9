/** Contract, "The organization's authority" (`/break-glass`), from the agent's side. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { runAgent } from '../../src/agent/main.ts'
import type { AgentOptions } from '../../src/agent/index.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { importPublicJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { WELL_KNOWN } from '../../src/wire/names.ts'
import { signRpt, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startScriptedServer, type Received, type Reply } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { newKey, rptClaims } from '../support/wire-samples.ts'
import { agentWith } from './agents.ts'

const key = newKey()
const signing = newKey()
/** What a test changes of the organization's own answers. */
let twist: {
  metadata?: (plain: JsonObject) => JsonObject
  claims?: (plain: RptClaims) => object
  answer?: Reply
} = {}
const peers = startedForEach(startScriptedPeers)
const organization = startedForEach(() => {
  twist = {}
  return startScriptedServer(received => answered(received))
})

function answered(received: Received): Reply | undefined {
  const issuer = organization.origin
  if (received.path === '/jwks') return { body: { keys: [publicJwk(signing)] } }
  if (received.path === WELL_KNOWN.organization) {
    const plain = { issuer, jwks_uri: `${issuer}/jwks`, break_glass_endpoint: `${issuer}/break-glass` }
    return { body: twist.metadata?.(plain) ?? plain }
  }
  if (received.path !== '/break-glass') return undefined
  return twist.answer ?? { body: granted(received) }
}

/** As the organization answers whoever proves the key, body and all. */
function granted(received: Received): JsonObject {
  const asked = JSON.parse(received.body.toString()) as JsonObject & {
    agent_jwk: JsonObject
    operation: { tool: string; params: JsonObject }
  }
  const bound = importPublicJwk(asked.agent_jwk)
  const { method, path, query, lines: headers, body } = received
  verifyRequest(
    { method, scheme: 'http', authority: new URL(organization.origin).host, path, query, headers, body },
    {
      requiredComponents: ['@method', '@authority', '@path'],
      mustCoverDigest: true,
      absentAuthorizationIsEmpty: true,
      keyidRequired: false,
      now: Math.floor(Date.now() / 1000),
      findKey: () => bound,
    },
  )
  const now = Math.floor(Date.now() / 1000)
  const { tool, params } = asked.operation
  const plain = rptClaims(key, {
    iss: organization.origin,
    aud: asked['resource'] as string,
    owner: asOwner('alice'),
    family: asFamily('bg_1'),
    contract: s256(body),
    iat: now,
    exp: now + 60,
    permissions: [{ resource_id: 'alice/portfolio', resource_scopes: ['read'], exp: now + 60 }],
    single_use: true,
    operation: { tool, params_s256: s256Json(params) },
  })
  const claims = { ...plain, ...twist.claims?.(plain) }
  return { access_token: signRpt(claims, signing), token_type: 'PoP', expires_in: 60 }
}

const TOOL = 'portfolio_read'
const ARGUMENTS = { account: 'savings' }
const emergency = (changes: object = {}) => ({
  organization: organization.origin,
  owner: 'alice',
  resource_id: 'alice/portfolio',
  scopes: ['read'],
  reason: 'The bank burns',
  voucher: 'bgv_1',
  ...changes,
})
const call = (options: Partial<AgentOptions> = {}, changes: object = {}) =>
  agentWith({ key, ...options }).breakGlass(
    { resource: peers.resource, tool: TOOL, arguments: ARGUMENTS },
    emergency(changes),
  )
const calls = () => peers.tools.to('/mcp/alice').length
const asked = () => JSON.parse(organization.to('/break-glass')[0]!.body.toString()) as Record<string, unknown>

describe('An emergency', () => {
  it('is redeemed with the agent’s own key for exactly one call, which is made once', async () => {
    const { result, grant } = await call()
    expect(JSON.stringify(result)).toContain('savings')
    expect(grant).toMatchObject({ as_uri: organization.origin, single_use: true, family: 'bg_1' })
    expect(grant).not.toHaveProperty('access_token')
    expect(asked()).toMatchObject({
      owner: 'alice',
      resource: peers.resource,
      resource_id: 'alice/portfolio',
      scopes: ['read'],
      reason: 'The bank burns',
      voucher: 'bgv_1',
      operation: { tool: TOOL, params: ARGUMENTS },
    })
    expect(asked()).not.toHaveProperty('client_id')
    expect([calls(), peers.tokenForms()]).toEqual([1, []])
  })

  it('of an invoker names its client_id if there is no voucher', async () => {
    await call({ client_id: 'https://rescue.example/agent' }, { voucher: undefined })
    expect(asked()).toMatchObject({ client_id: 'https://rescue.example/agent' })
    expect(asked()).not.toHaveProperty('voucher')
  })

  it('that is refused is reported with the organization’s own word, and nothing is called', async () => {
    const body = { error: 'request_denied', error_description: 'This voucher is not good.' }
    twist.answer = { status: 403, body }
    await expect(call()).rejects.toMatchObject({ code: 'request_denied', status: 403, terminal: true })
    expect(calls()).toBe(0)
  })

  it('while the organization cannot be asked is an outage, not a denial', async () => {
    twist.answer = {
      status: 503,
      body: { error: 'temporarily_unavailable' },
      headers: { 'retry-after': '7' },
    }
    await expect(call()).rejects.toMatchObject({
      code: 'temporarily_unavailable',
      terminal: false,
      retryAfterSeconds: 7,
    })
    expect(calls()).toBe(0)
  })

  it.each<[string, (plain: RptClaims) => object]>([
    ['another key', () => ({ cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: newKey().x } } })],
    ['another owner', () => ({ owner: asOwner('bea') })],
    ['another request', () => ({ contract: 's256:x' })],
    ['more than one use', () => ({ single_use: undefined })],
    ['another operation', () => ({ operation: { tool: 'place_trade', params_s256: 's256:x' } })],
    [
      'other resources',
      ({ permissions: [one] }) => ({ permissions: [{ ...one!, resource_id: 'alice/trades' }] }),
    ],
    ['another audience', () => ({ aud: 'https://other.example' })],
    ['another issuer', () => ({ iss: 'https://other.example' })],
  ])('whose grant is for %s is not used', async (_what, claims) => {
    twist.claims = claims
    await expect(call()).rejects.toMatchObject({ code: 'grant_untrusted', local: true })
    expect(calls()).toBe(0)
  })

  it.each<[string, (plain: JsonObject) => JsonObject]>([
    ['by another name', plain => ({ ...plain, issuer: 'https://other.example' })],
    ['at another origin', plain => ({ ...plain, break_glass_endpoint: 'http://127.0.0.1:9/break-glass' })],
    ['with keys of another origin', plain => ({ ...plain, jwks_uri: 'http://127.0.0.1:9/jwks' })],
  ])('of an organization %s is not asked for', async (_what, metadata) => {
    twist.metadata = metadata
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted' })
    expect([organization.to('/break-glass').length, calls()]).toEqual([0, 0])
  })
})

it('usher agent break-glass makes the call, and prints the answer alone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-emergency-'))
  vi.stubEnv('UMA_DEV_LOOPBACK', 'true')
  vi.stubEnv('UMA_AGENT_KEY', join(folder, 'key.json'))
  vi.stubEnv('UMA_AGENT_STORE', join(folder, 'store'))
  try {
    await runAgent(['keygen'], capturedTerminal())
    const terminal = capturedTerminal()
    twist.claims = plain => {
      const { agent_jwk } = asked()
      const { x } = importPublicJwk(agent_jwk)
      return { ...plain, cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x } } }
    }
    const options = ['--organization', organization.origin, '--owner', 'alice', '--voucher', 'bgv_1']
    const needs = ['--resource-id', 'alice/portfolio', '--scope', 'read', '--reason', 'The bank burns']
    const args = ['break-glass', peers.resource, TOOL, JSON.stringify(ARGUMENTS), ...options, ...needs]
    expect([await runAgent(args, terminal), terminal.said]).toEqual([0, expect.stringContaining('answered')])
    expect(JSON.parse(terminal.printed)).toMatchObject({ tool: TOOL, arguments: ARGUMENTS })
  } finally {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true })
  }
})
