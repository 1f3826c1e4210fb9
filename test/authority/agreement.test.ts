/**
 * Contract, "Agreement": an agreement that does not repeat the offer, or that is not signed by the agent it
 * names, denies the request.
 */
import { describe, expect, it } from 'vitest'
import { signIntroduction } from '../../src/wire/agents/introduction.ts'
import { generatePrivateJwk, importPrivateJwk, parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { AGREEMENT_FORMAT, decide, pendingAt, testAgent, type Claims } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand()

describe('Agents are known that leave out what the offer already names', () => {
  it.each<[Claims, string[] | undefined]>([
    [{}, undefined],
    [{ proffered_by: undefined }, ['proffered_by']],
    [{ resource_id: undefined }, ['resource_id']],
    [{ proffered_by: undefined, resource_id: undefined }, ['proffered_by', 'resource_id']],
  ])(
    '%o: granted, and the receipt says what was absent and which resource it is about',
    async (claims, absent) => {
      const agent = testAgent(authority)
      const { receipt } = await agent.granted('portfolio_read', claims)
      const keys = parseJwks((await authority.request('GET', '/jwks')).body)
      const verified = verifyReceipt(receipt, keys, {
        issuer: authority.issuer,
        now: Math.floor(Date.now() / 1000),
      })
      expect(verified.claims.echo_absent).toEqual(absent)
      expect(verified.claims.resource_id).toBe(`${authority.alice.owner}/portfolio`)
    },
  )
})

describe('Agreement verification failures produce request_denied', () => {
  const other = importPrivateJwk(generatePrivateJwk())
  const now = () => Math.floor(Date.now() / 1000)
  it.each<[string, Claims | (() => Claims), 'portfolio_read' | 'place_trade']>([
    ['nonce differs', { nonce: 'other' }, 'portfolio_read'],
    ['family differs', { family: 'fam_other' }, 'portfolio_read'],
    ['template id differs', { template_id: 'alice/reading/v9' }, 'portfolio_read'],
    ['terms URI differs', { terms_uri: 'https://as.example/terms/other' }, 'portfolio_read'],
    ['purpose differs', { purpose: 'anything' }, 'portfolio_read'],
    ['proffered_by differs', { proffered_by: 'https://other.example' }, 'portfolio_read'],
    ['resource_id differs', { resource_id: 'alice/trades' }, 'portfolio_read'],
    ['prohibited list weakened', { prohibited: [] }, 'portfolio_read'],
    ['expires_in extended', { expires_in: 3601 }, 'portfolio_read'],
    ['expires_in not positive', { expires_in: 0 }, 'portfolio_read'],
    ['expires_in of the wrong type', { expires_in: '60' }, 'portfolio_read'],
    ['scope added', { scope: ['read', 'write'] }, 'portfolio_read'],
    ['scope empty', { scope: [] }, 'portfolio_read'],
    ['missing operation on a per-operation tier', {}, 'place_trade'],
    ['operation of the wrong type', { operation: 7 }, 'place_trade'],
    ['oversized reason', { reason: 'é'.repeat(257) }, 'portfolio_read'],
    ['reason of the wrong type', { reason: {} }, 'portfolio_read'],
    [
      'malformed mission',
      { mission: { approver: 'http://a.example', s256: 'x'.repeat(43) } },
      'portfolio_read',
    ],
    ['another audience', { aud: 'https://other.example' }, 'portfolio_read'],
    ['iss that is no agent', { iss: 'someone' }, 'portfolio_read'],
    ['signed too long ago', () => ({ iat: now() - 62 }), 'portfolio_read'],
    ['signed in the future', () => ({ iat: now() + 62 }), 'portfolio_read'],
    ['signed by another key than the header names', { header: { jwk: other.jwk } }, 'portfolio_read'],
    ['typ of another kind', { header: { typ: 'at+jwt' } }, 'portfolio_read'],
    ['unknown critical header', { header: { crit: ['x'] } }, 'portfolio_read'],
    ['algorithm of another key', { header: { alg: 'HS256' } }, 'portfolio_read'],
    [
      'an agent token of an issuer that is not listed',
      { header: { jwk: undefined, agent_token: 'a.b.c' } },
      'portfolio_read',
    ],
    ['an introduction that is none', { introduction: 'x' }, 'portfolio_read'],
  ])('%s', async (_, claims, tool) => {
    const agent = testAgent(authority)
    const offer = await agent.offer(tool)
    const reply = await agent.agree(offer, typeof claims === 'function' ? claims() : claims)
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.body.error_description).toMatch(/\w+ \w+/)
    // A failed beat 3 ends the negotiation.
    expect((await agent.present(offer.ticket)).body.error).toBe('invalid_grant')
    expect((await pendingAt(authority)).some(entry => entry['handle'] === agent.handle)).toBe(false)
  })

  it.each([
    ['not base64url', 'not base64url!'],
    ['not a JWS', 'eHl6'],
    ['oversized', 'A'.repeat(33 * 1024)],
  ])('a claim_token that is %s', async (_, claim_token) => {
    const agent = testAgent(authority)
    const { ticket } = await agent.offer()
    const reply = await agent.present(ticket, { claim_token, claim_token_format: AGREEMENT_FORMAT })
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
  })

  it('an introduction that the record does not bear out falls back to first contact, and the reason is kept', async () => {
    const introducer = importPrivateJwk(generatePrivateJwk())
    const agent = testAgent(authority)
    const introduction = signIntroduction(
      { newcomer: agent.key, aud: authority.issuer, iat: now(), exp: now() + 60, jti: 'one' },
      introducer,
    )
    const reply = await agent.ask('portfolio_read', { introduction })
    expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    const item = (await pendingAt(authority)).find(entry => entry['handle'] === agent.handle)!
    expect((item['assurance_notes'] as string[]).join()).toMatch(/introduction: introducer_not_active/)
    await decide(authority, agent.handle, 'denied')
  })
})
