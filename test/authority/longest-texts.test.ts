/**
 * An agent that says as much of itself as it may, and an owner who approves it. Contract: "Agreement
 * (claim_token, beat 3)", "Connection": what can be shown to her can be approved, blocked and revoked.
 */
import { describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, pendingAt, testAgent } from '../support/test-agent.ts'

const authority = authorityStand()

/** Of characters that cannot be compressed, and labels as long as they may be. */
function hostOf(length: number): string {
  let host = ''
  while (host.length < length)
    host += `${importPrivateJwk(generatePrivateJwk())
      .thumbprint.toLowerCase()
      .replaceAll(/[^a-z0-9]/g, 'x')}.`
  return `${host.slice(0, length - 1).replace(/\.$/, 'x')}z`
}
const post = (target: string, json: unknown) =>
  authority.call(authority.alice, { method: 'POST', target, json })

describe('An agent whose client_id', () => {
  it.each([
    ['has a host of 253 characters', `https://${hostOf(253)}/client.json`],
    [
      'has such a host, a port, and a path as long as fits',
      `https://${hostOf(253)}:65535/${'p'.repeat(7_900)}`,
    ],
    ['has a short host and a long query', `https://a.example/client.json?${'q'.repeat(8_000)}`],
  ])('%s is shown, approved, blocked and revoked', async (_what, client_id) => {
    const agent = testAgent(authority, { client_id })
    const asked = await agent.ask('portfolio_read', { reason: 'r'.repeat(512) })
    expect(asked.body.error).toBe('request_submitted')
    const approved = await decide(authority, agent.handle, 'approved')
    expect(approved).toMatchObject({ status: 200 })
    expect((await agent.present(asked.body.ticket)).status).toBe(200)
    const { origin } = new URL(client_id)
    expect((await post('/owner/operators/block', { origin })).status).toBe(200)
    expect((await post('/owner/connections/revoke', { handle: agent.handle })).status).toBe(200)
    expect((await authority.call(authority.alice, { target: '/owner/ledger?limit=100' })).status).toBe(200)
  })

  it.each([
    ['has a host of 6,000 characters', `https://${'h'.repeat(6_000)}/client.json`],
    ['has a host of 6,000 characters in labels', `https://${hostOf(6_000)}/client.json`],
    ['has a host of 254 characters', `https://${hostOf(254)}/client.json`],
    ['has a label of 64 characters', `https://${'h'.repeat(64)}.example/client.json`],
  ])('%s is refused as it is read, and nothing waits for her', async (_what, client_id) => {
    const agent = testAgent(authority, { client_id })
    const reply = await agent.ask('portfolio_read')
    // As every agreement that cannot be taken.
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.text).toContain('Give client_id as an https URL')
    expect((await pendingAt(authority)).filter(({ handle }) => handle === agent.handle)).toEqual([])
  })
})
