/**
 * Contract, "Permission ticket", "Connection" and "Limits" (pending queue): beats 2 to 4 against the started
 * authority.
 */
import { describe, expect, it } from 'vitest'
import { sql } from 'kysely'
import { decodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { verifyRpt } from '../../src/wire/negotiation/tokens.ts'
import { AGREEMENT_FORMAT, decide, denyAll, pendingAt, testAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'
import { raceRounds } from '../support/layer.ts'

const authority = authorityStand()

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
const ledger = async (query = '') =>
  (await authority.call(authority.alice, { target: `/owner/ledger?limit=1000${query}` })).body
    .entries as Record<string, unknown>[]
const pending = () => pendingAt(authority)
const revoke = (handle: string) =>
  authority.call(authority.alice, { method: 'POST', target: '/owner/connections/revoke', json: { handle } })
const keys = async () => parseJwks((await authority.request('GET', '/jwks')).body)
const emptyQueue = () => denyAll(authority)

describe('Permission ticket', () => {
  it('issued, first presentation: need_info (403) with a rotated ticket and the terms of the owner', async () => {
    const agent = testAgent(authority)
    const ticket = await agent.ticket()
    const reply = await agent.present(ticket)
    expect(reply.status).toBe(403)
    expect(reply.headers.get('cache-control')).toBe('no-store')
    expect(reply.body.error).toBe('need_info')
    expect(reply.body.ticket).not.toBe(ticket)
    const [claim] = reply.body.required_claims
    expect(claim.claim_token_format).toContain(AGREEMENT_FORMAT)
    expect(claim.terms_template).toMatchObject({
      template_id: 'alice/reading/v1',
      terms_uri: `${authority.issuer}/terms/alice/reading/v1`,
      proffered_by: authority.issuer,
      resource_id: 'alice/portfolio',
      scope: ['read'],
      expires_in: 3600,
    })
  })

  it('a claim_token sent with the first presentation is ignored', async () => {
    const agent = testAgent(authority)
    const reply = await agent.present(await agent.ticket(), { claim_token: 'x', claim_token_format: 'y' })
    expect(reply.body.error).toBe('need_info')
  })

  it.each([
    ['unknown', async () => 'abc~tkt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
    ['no ticket at all', async () => 'nonsense'],
    [
      'presented before',
      async (agent: ReturnType<typeof testAgent>) => {
        const ticket = await agent.ticket()
        await agent.present(ticket)
        return ticket
      },
    ],
    [
      'changed by one character',
      async (agent: ReturnType<typeof testAgent>) => {
        const ticket = await agent.ticket()
        return ticket.slice(0, -1) + (ticket.endsWith('A') ? 'B' : 'A')
      },
    ],
  ])('a ticket that is %s is 400 invalid_grant', async (_, make) => {
    const agent = testAgent(authority)
    const reply = await agent.present(await make(agent))
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_grant'])
  })

  it('every presentation consumes the ticket: 32 presentations at once, one need_info', async () => {
    const agent = testAgent(authority)
    const ticket = await agent.ticket()
    const replies = await Promise.all(Array.from({ length: 32 }, () => agent.present(ticket)))
    expect(replies.filter(reply => reply.body.error === 'need_info')).toHaveLength(1)
    expect(replies.filter(reply => reply.body.error === 'invalid_grant')).toHaveLength(31)
  })

  it('need_info without an agreement answers need_info again, with a fresh ticket', async () => {
    const agent = testAgent(authority)
    const { ticket } = await agent.offer()
    const reply = await agent.present(ticket)
    expect(reply.body.error).toBe('need_info')
    expect(reply.body.ticket).not.toBe(ticket)
    expect((await agent.present(ticket)).body.error).toBe('invalid_grant')
  })

  it('an unknown claim_token_format is 400 and still rotates the ticket, so the agent is not stranded', async () => {
    const agent = testAgent(authority)
    const { ticket, template } = await agent.offer()
    const wrong = await agent.present(ticket, { claim_token: 'x', claim_token_format: 'urn:other' })
    expect([wrong.status, wrong.body.error]).toEqual([400, 'invalid_request'])
    const right = await agent.agree({ ticket: wrong.body.ticket, template })
    expect(right.body.error).toBe('request_submitted')
    await decide(authority, agent.handle, 'denied')
  })

  it('the agent sends decline=true: the negotiation ends, the refusal is in the ledger, the ticket is spent', async () => {
    const agent = testAgent(authority)
    const { ticket } = await agent.offer()
    const count = async () =>
      (await ledger('&kind=refused'))
        .filter(entry => entry['reason'] === 'declined')
        .reduce((sum, entry) => sum + Number(entry['count'] ?? 1), 0)
    const before = await count()
    const reply = await agent.present(ticket, { decline: 'true' })
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect((await agent.present(ticket)).body.error).toBe('invalid_grant')
    expect(await count()).toBe(before + 1)
  })

  it('decline=false counts as absent', async () => {
    const agent = testAgent(authority)
    const { ticket } = await agent.offer()
    expect((await agent.present(ticket, { decline: 'false' })).body.error).toBe('need_info')
  })
})

describe('What the service does', () => {
  it('new agent, any tier: first contact is held (403 request_submitted, kind=connection), then granted on approval', async () => {
    const agent = testAgent(authority)
    const held = await agent.ask('portfolio_read', { reason: 'to plan' })
    expect(held.status).toBe(403)
    expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'connection', interval: 1 })
    const item = (await pending()).find(entry => entry['handle'] === agent.handle)
    expect(item).toMatchObject({ kind: 'connection', tier: 'reading', reason: 'to plan', operation: null })
    expect((await agent.present(held.body.ticket)).body.error).toBe('request_submitted')
    // That poll rotated the ticket: the one before is spent.
    expect((await agent.present(held.body.ticket)).body.error).toBe('invalid_grant')
  })

  it('approval grants a proof-of-possession RPT and a receipt that embeds the signed agreement', async () => {
    const agent = testAgent(authority)
    const { ticket, template } = await agent.offer()
    const claimToken = agent.claimToken(template)
    const held = await agent.present(ticket, {
      claim_token: claimToken,
      claim_token_format: AGREEMENT_FORMAT,
    })
    await decide(authority, agent.handle, 'approved')
    const granted = await agent.present(held.body.ticket)
    expect(granted.status).toBe(200)
    expect(granted.body).toMatchObject({ token_type: 'PoP', expires_in: 3600 })
    const compact = decodeBase64url(claimToken).toString()
    const rpt = verifyRpt(granted.body.access_token, await keys(), {
      issuer: authority.issuer,
      audience: authority.alice.resourceUri,
      now: Date.now() / 1000,
    })
    expect(rpt).toMatchObject({
      sub: agent.handle,
      client_id: agent.handle,
      owner: 'alice',
      family: template.family,
      contract: s256(compact),
      consequence: 'reversible',
      cnf: { jwk: { x: agent.key.x } },
      permissions: [{ resource_id: 'alice/portfolio', resource_scopes: ['read'] }],
    })
    expect(rpt).not.toHaveProperty('single_use')
    const receipt = verifyReceipt(granted.body.receipt, await keys(), {
      issuer: authority.issuer,
      now: Date.now() / 1000,
      agreement: s256(compact),
    })
    expect(receipt.claims).toMatchObject({
      agreement_jws: compact,
      family: template.family,
      rpt: rpt.jti,
      cnf: { jkt: agent.key.thumbprint },
    })
  })

  it('known connection, non-ask-me tier: granted at once', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    const reply = await agent.ask('statement_read')
    expect(reply.status).toBe(200)
  })

  it('ask-me tier: held per operation, and the grant is single-use and bound to the exact parameters', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    const held = await agent.ask('place_trade', TRADE)
    expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    const item = (await pending()).find(entry => entry['handle'] === agent.handle)
    expect(item).toMatchObject({ kind: 'operation', operation: TRADE.operation })
    await decide(authority, agent.handle, 'approved')
    const granted = await agent.present(held.body.ticket)
    const rpt = verifyRpt(granted.body.access_token, await keys())
    expect(rpt).toMatchObject({
      single_use: true,
      consequence: 'irreversible',
      operation: { tool: 'place_trade', params_s256: 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8' },
    })
  })

  it('resources that no tier governs are denied', async () => {
    const agent = testAgent(authority)
    const reply = await agent.present(await agent.ticket('close_account'))
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.body.error_description).toMatch(/no terms/)
  })

  it('the owner denies: request_denied, and the ticket is spent', async () => {
    const agent = testAgent(authority)
    const held = await agent.ask()
    await decide(authority, agent.handle, 'denied')
    const reply = await agent.present(held.body.ticket)
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect((await agent.present(held.body.ticket)).body.error).toBe('invalid_grant')
  })

  it('an awaiting-owner ticket that expired is invalid_grant, and the item is neither listed nor decidable', async () => {
    const agent = testAgent(authority)
    const held = await agent.ask()
    const item = (await pending()).find(entry => entry['handle'] === agent.handle)!
    await sql`UPDATE families SET ticket_expires_at = now() - interval '1 second' WHERE handle = ${agent.handle}`.execute(
      authority.database.db,
    )
    expect((await agent.present(held.body.ticket)).body.error).toBe('invalid_grant')
    expect((await pending()).some(entry => entry['handle'] === agent.handle)).toBe(false)
    const late = await authority.call(authority.alice, {
      method: 'POST',
      target: `/owner/pending/${item.family}/decision`,
      json: { decision: 'approved' },
    })
    expect(late.status).toBe(409)
  })

  it('the agent may decline while it waits; the owner has nothing left to decide', async () => {
    const agent = testAgent(authority)
    const held = await agent.ask()
    expect((await agent.present(held.body.ticket, { decline: 'true' })).body.error).toBe('request_denied')
    expect((await pending()).some(entry => entry['handle'] === agent.handle)).toBe(false)
  })

  it('an agent whose answer was lost negotiates anew and joins its waiting item', async () => {
    await emptyQueue()
    const agent = testAgent(authority)
    const lost = await agent.ask()
    const again = await agent.ask()
    expect((await pending()).filter(entry => entry['handle'] === agent.handle)).toHaveLength(1)
    expect((await agent.present(lost.body.ticket)).body.error).toBe('invalid_grant')
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(again.body.ticket)).status).toBe(200)
  })

  it('a repeat that agrees to less takes the place of the waiting item: no grant outlives its agreement', async () => {
    await emptyQueue()
    const agent = testAgent(authority)
    const first = await agent.ask()
    const shorter = await agent.ask('portfolio_read', { expires_in: 60 })
    const waiting = (await pending()).filter(entry => entry['handle'] === agent.handle)
    expect(waiting).toMatchObject([{ expires_in: 60 }])
    expect((await agent.present(first.body.ticket)).body.error).toBe('invalid_grant')
    await decide(authority, agent.handle, 'approved')
    const granted = await agent.present(shorter.body.ticket)
    expect([granted.status, granted.body.expires_in]).toEqual([200, 60])
  })

  it('terms edited since the offer: need_info again, with the new ones', async () => {
    const agent = testAgent(authority)
    const offer = await agent.offer('statement_read')
    await sql`INSERT INTO terms_versions (owner, tier_id, version, name, purpose, scope, expires_in, prohibited, per_operation)
      SELECT owner, tier_id, 2, name, 'Edited', scope, expires_in, prohibited, per_operation FROM terms_versions
      WHERE owner = 'alice' AND tier_id = 'statements' AND version = 1`.execute(authority.database.db)
    await sql`UPDATE tiers SET version = 2 WHERE owner = 'alice' AND tier_id = 'statements'`.execute(
      authority.database.db,
    )
    const reply = await agent.agree(offer)
    expect(reply.body.error).toBe('need_info')
    const { terms_template: template } = reply.body.required_claims[0]
    expect(template).toMatchObject({ template_id: 'alice/statements/v2', purpose: 'Edited' })
    expect((await agent.agree({ ticket: reply.body.ticket, template })).body.error).toBe('request_submitted')
    await decide(authority, agent.handle, 'denied')
  })
})

describe('Connection', () => {
  it('revoked while an operation waits, approved or not: the next poll is refused', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    const held = await agent.ask('place_trade', TRADE)
    await decide(authority, agent.handle, 'approved')
    expect((await revoke(agent.handle)).status).toBe(200)
    const reply = await agent.present(held.body.ticket)
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
  })

  it('revoked, the agent starts from first contact, whatever the tier', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    await revoke(agent.handle)
    expect((await agent.ask('portfolio_read')).body).toMatchObject({ kind: 'connection' })
    await decide(authority, agent.handle, 'denied')
  })

  it('the ledger tells promised, approved, connected and revoked, each with its family or handle', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    await revoke(agent.handle)
    const kinds = (await ledger(`&handle=${encodeURIComponent(agent.handle)}`)).map(entry => entry['kind'])
    expect(kinds).toEqual(['promised', 'connected', 'approved', 'revoked'])
  })
})

describe('Limits: pending queue for agents with no standing', () => {
  it('past five of unknown operators the answer is 429 request_denied with a reason', async () => {
    await emptyQueue()
    const replies = []
    for (let n = 0; n < 6; n++) replies.push(await testAgent(authority).ask())
    expect(replies.map(reply => reply.status)).toEqual([403, 403, 403, 403, 403, 429])
    expect(replies[5]!.body).toMatchObject({ error: 'request_denied' })
    expect(replies[5]!.body.error_description).toMatch(/wait/)
    await emptyQueue()
  })

  it('a cap against 32 strangers at once: five wait, no more', { timeout: 400_000 }, async () => {
    // One PAT serves all of them, as it would serve one enforcement point.
    const pat = await authority.pat()
    const strangers = { ...authority, pat: async () => pat }
    for (let round = 0; round < raceRounds(100); round++) {
      await sql`UPDATE families SET decision = 'denied' WHERE state = 'awaiting_owner'`.execute(
        authority.database.db,
      )
      const replies = await Promise.all(Array.from({ length: 32 }, () => testAgent(strangers).ask()))
      expect(replies.filter(reply => reply.body.error === 'request_submitted')).toHaveLength(5)
      expect(replies.filter(reply => reply.status === 429)).toHaveLength(27)
      expect(await pending()).toHaveLength(5)
    }
    await emptyQueue()
  })

  it('a known connection is not held back by strangers in the queue', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    await Promise.all(Array.from({ length: 8 }, () => testAgent(authority).ask()))
    expect((await agent.ask('place_trade', TRADE)).body).toMatchObject({ kind: 'operation' })
    await emptyQueue()
  })
})
