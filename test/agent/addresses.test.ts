/**
 * contract, "Challenge (beat 1)", client rule: which addresses an agent contacts, and how much it reads
 * there.
 */
import { describe, expect, it } from 'vitest'
import type { AgentOptions } from '../../src/agent/index.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)
const call = (options: Partial<AgentOptions> = {}, resource = peers.resource) =>
  agentWith(options).call({ resource, tool: 'portfolio_read' })

describe('an address', () => {
  it.each([
    ['http://tools.example.com/mcp', 'is not https'],
    ['http://192.168.1.7/mcp', 'is in a private network, without TLS'],
    ['http://127.0.0.1.nip.io/mcp', 'only looks like loopback'],
    ['http://localhost/mcp', 'is a name that a resolver may send anywhere'],
    ['https://user:pw@tools.example.com/mcp', 'carries user information'],
    ['https://tools.example.com/mcp#a', 'carries a fragment'],
    ['file:///etc/passwd', 'is no web address'],
    ['tools', 'is no address'],
  ])('%s is not called, since it %s', async resource => {
    await expect(call({}, resource)).rejects.toMatchObject({ code: 'address_refused', local: true })
  })

  it('that is http and loopback is not called unless that was switched on', async () => {
    const refused = await call({ allowLoopback: false }).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'address_refused' })
    expect(String(refused)).toMatch(/UMA_DEV_LOOPBACK=true .*allowLoopback/)
    expect(peers.tools.received).toEqual([])
  })

  it('that is http elsewhere is refused without a setting that would admit it', async () => {
    const refused = await call({}, 'http://tools.example.com/mcp').catch((error: unknown) => error)
    expect(String(refused)).toContain('must be an https URL')
    expect(String(refused)).not.toContain('oopback')
  })

  it.each(['token_endpoint', 'jwks_uri'])('of the authority is held to the same rule: %s', async name => {
    peers.twists.authorityMetadata = plain => ({ ...plain, [name]: 'http://as.example.com/x' })
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted' })
    expect(peers.tokenForms()).toEqual([])
  })

  const redirect = { status: 307, headers: { location: 'http://127.0.0.1:9/elsewhere' } }
  it.each([
    ['the resource', () => peers.tools.script('/mcp/alice', redirect)],
    ['its metadata', () => peers.tools.script('/.well-known/oauth-protected-resource/mcp/alice', redirect)],
    ["the authority's metadata", () => peers.authority.script('/.well-known/agents-configuration', redirect)],
    ['the token endpoint', () => peers.authority.script('/token', redirect)],
    ["the authority's keys", () => peers.authority.script('/jwks', redirect)],
  ])('that %s redirects to is not followed', async (_where, script) => {
    script()
    await expect(call()).rejects.toMatchObject({ code: 'redirect_refused', status: 307, terminal: true })
  })
})

describe('an answer is read no further than its bound', () => {
  const big = {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: `{"a":"${'x'.repeat(200_000)}"}`,
  }
  it.each([
    ['the metadata', () => peers.tools.script('/.well-known/oauth-protected-resource/mcp/alice', big)],
    ["the authority's metadata", () => peers.authority.script('/.well-known/agents-configuration', big)],
    ["the authority's keys", () => peers.authority.script('/jwks', big)],
    ['the token endpoint', () => peers.authority.script('/token', big)],
  ])('by %s', async (_where, script) => {
    script()
    await expect(call()).rejects.toMatchObject({ code: 'answer_too_large', local: true })
  })

  it('by a tool that never stops', async () => {
    let stopped = false
    peers.tools.script('/mcp/alice', () => ({
      write: response => {
        response.writeHead(200, { 'content-type': 'application/json' })
        const more = (): void => {
          if (!response.destroyed && response.write(Buffer.alloc(1 << 20, 0x20))) setImmediate(more)
        }
        response.on('drain', more).on('close', () => (stopped = true))
        more()
      },
    }))
    await expect(call()).rejects.toMatchObject({ code: 'answer_too_large' })
    await expect.poll(() => stopped).toBe(true)
  })
})
