/**
 * The enforcement point and the authority meet on the wire. contract, "Authorized call", "Protection API".
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Denied } from '../../src/enforcement/call.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { callOf, startCore, verdict, type CallParts, type Core } from '../enforcement/calls.ts'
import type { TestAuthority } from '../support/authority.ts'
import { startEnforcedAuthority } from '../support/enforced-authority.ts'
import { decide as decideAs, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

let authority: TestAuthority
let core: Core
let agent: TestAgent
const params = { symbol: 'VTI', qty: 2 }

beforeAll(async () => {
  authority = await startEnforcedAuthority()
  core = startCore(authority.issuer, { secret: authority.alice.clientSecret, deadlineMs: 5_000 })
  agent = testAgent(authority)
})
afterAll(async () => {
  await core.close()
  await authority.close()
})

const decide = (parts: CallParts) => core.decide(callOf(parts))
const read = (token: string) => decide({ token, signer: agent.key })
const trade = (token: string, changes: CallParts = {}) =>
  decide({ tool: 'place_trade', args: params, token, signer: agent.key, ...changes })

/** The ticket that a refused call was given. */
async function challenged(parts: CallParts = {}): Promise<string> {
  const outcome = (await decide(parts)) as Denied
  expect(verdict(outcome)).toBe('401 insufficient_authorization')
  return parseChallenge(
    outcome.headers.filter(([name]) => name === 'www-authenticate').map(([, value]) => value),
  ).ticket
}

/** Beats 2 to 4 with the owner's approval. */
async function negotiate(ticket: string, claims = {}): Promise<string> {
  const offer = await agent.present(ticket)
  expect(offer.body.error).toBe('need_info')
  let reply = await agent.agree(
    { ticket: offer.body.ticket, template: offer.body.required_claims[0].terms_template },
    claims,
  )
  if (reply.body.error === 'request_submitted') {
    await decideAs(authority, agent.handle, 'approved')
    reply = await agent.present(reply.body.ticket)
  }
  expect(reply.status).toBe(200)
  return reply.body.access_token as string
}

describe('The enforcement point and the real authority', () => {
  test('challenge, grant, authorized call, and the touch in the ledger', async () => {
    const token = await negotiate(await challenged())
    const outcome = await read(token)
    expect(outcome).toMatchObject({
      kind: 'allow',
      headers: { 'x-uma-owner': 'alice', 'x-uma-agent': agent.handle },
    })
    const touched = async () =>
      (
        (await authority.call(authority.alice, { target: '/owner/ledger?kind=touched' })).body
          .entries as unknown[]
      ).length
    await until(async () => (await touched()) === 1)
  })

  test('an approved operation passes once, unspent by other parameters, another tool and a forged signature', async () => {
    const token = await negotiate(await challenged({ tool: 'place_trade', args: params }), {
      operation: { tool: 'place_trade', params },
    })
    expect(verdict(await trade(token, { args: { ...params, qty: 3 } }))).toBe('403 operation_mismatch')
    expect(verdict(await read(token))).toBe('401 insufficient_authorization')
    expect(verdict(await trade(token, { signer: testAgent(authority).key }))).toBe('401 invalid_token')
    expect(verdict(await trade(token))).toBe('allow')
    expect(verdict(await trade(token))).toBe('401 insufficient_authorization')
  })

  test('of many callers of one single-use grant exactly one is let through', async () => {
    const token = await negotiate(await challenged({ tool: 'place_trade', args: params }), {
      operation: { tool: 'place_trade', params },
    })
    const verdicts = (await Promise.all(Array.from({ length: 16 }, () => trade(token)))).map(verdict)
    expect(verdicts.filter(one => one === 'allow')).toHaveLength(1)
    expect(
      verdicts.filter(
        one => !['allow', '403 already_consumed', '401 insufficient_authorization'].includes(one),
      ),
    ).toEqual([])
  })

  test('after the owner has revoked, the very next call is 403 access_revoked, without a challenge', async () => {
    const token = await negotiate(await challenged())
    expect(verdict(await read(token))).toBe('allow')
    await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: agent.handle },
    })
    const outcome = (await read(token)) as Denied
    expect(verdict(outcome)).toBe('403 access_revoked')
    expect(outcome.headers).toEqual([])
  })
})
