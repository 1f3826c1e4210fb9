/** contract, "Permission ticket", "Grant (RPT) liveness" and "Errors", as far as they bind the agent. */
import { describe, expect, it } from 'vitest'
import { memoryStore, type AgentError, type AgentEvent, type AgentOptions } from '../../src/agent/index.ts'
import { challengeData } from '../../src/wire/negotiation/challenge.ts'
import { challengeOf, startScriptedPeers } from '../support/scripted-resource.ts'
import type { Reply } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith, answerAuthorized } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

const target = () => ({ resource: peers.resource, tool: 'portfolio_read' })
const call = (options: Partial<AgentOptions> = {}) => agentWith(options).call(target())
const calls = () => peers.tools.to('/mcp/alice')
const authorized = () => calls().filter(one => one.headers.authorization !== undefined)

describe('while the owner decides', () => {
  it.each(['connection', 'operation', undefined] as const)(
    'an authority that holds no early poll is polled early once, then no sooner than asked, with a ticket that changes (%s)',
    async kind => {
      peers.twists.owner = { polls: 2, kind, interval: 1 }
      const observedCall = async () => {
        const waits: AgentEvent[] = []
        const before = peers.authority.to('/token').length
        await call({ onEvent: event => event.type === 'waiting' && waits.push(event) })
        const presented = peers.authority.to('/token').slice(before)
        return { waits, presented, gaps: presented.slice(1).map((one, i) => one.at - presented[i]!.at) }
      }
      let seen = await observedCall()
      // If this machine stood still for a second, the early poll was late, and another call is made.
      for (let nth = 0; nth < 5 && seen.gaps[1]! >= 999; nth++) seen = await observedCall()
      const { waits, presented, gaps } = seen
      expect(presented).toHaveLength(4)
      // The clock of a timer may fire a millisecond early.
      expect(gaps[1]).toBeLessThan(999)
      expect(gaps.slice(2).every(gap => gap >= 999)).toBe(true)
      expect(new Set(presented.map(one => one.form.get('ticket'))).size).toBe(4)
      expect(presented.slice(2).map(one => one.form.has('claim_token'))).toEqual([false, false])
      expect(waits).toEqual(
        [1, 1].map(intervalSeconds => ({
          type: 'waiting',
          kind,
          intervalSeconds,
          family: expect.any(String) as string,
        })),
      )
    },
  )

  it('her denial ends the call as request_denied', async () => {
    peers.twists.owner = { polls: 1, kind: 'connection', interval: 1, denied: true }
    await expect(call()).rejects.toMatchObject({ code: 'request_denied', status: 403, terminal: true })
    expect(authorized()).toEqual([])
  })

  it('the wait ends in time, leaving the request with her', async () => {
    peers.twists.owner = { polls: 100, kind: 'operation', interval: 3600 }
    await expect(call({ waitSecondsMax: 2 })).rejects.toMatchObject({
      code: 'waiting_timed_out',
      terminal: false,
    })
    expect(peers.tokenForms().some(form => form['decline'])).toBe(false)
  })

  it('the caller may give up, and nothing more is sent', async () => {
    peers.twists.owner = { polls: 100, kind: 'operation', interval: 60 }
    const stop = new AbortController()
    const pending = agentWith({ onEvent: event => event.type === 'waiting' && stop.abort() }).call({
      ...target(),
      signal: stop.signal,
    })
    await expect(pending).rejects.toMatchObject({ code: 'aborted', terminal: false })
    expect(peers.authority.to('/token')).toHaveLength(2)
  })

  it('an interval of hours is not believed, and neither is one of zero', async () => {
    for (const interval of [0, 90_000, -1, '5']) {
      peers.authority.script('/token', ({ form }) =>
        form.has('claim_token')
          ? {
              status: 403,
              body: { error: 'request_submitted', kind: 'operation', ticket: 'tag~tkt_z', interval },
            }
          : undefined,
      )
      await expect(call()).rejects.toMatchObject({ code: 'answer_malformed' })
    }
  })
})

describe('a ticket that does not rotate', () => {
  it('in need_info ends the negotiation', async () => {
    peers.authority.script('/token', async ({ form }) => ({
      status: 403,
      body: { error: 'need_info', ticket: form.get('ticket'), required_claims: [{ claim_token_format: [] }] },
    }))
    await expect(call()).rejects.toMatchObject({ code: 'ticket_not_rotated', terminal: true })
    expect(peers.authority.to('/token')).toHaveLength(1)
  })

  it('while waiting ends it too, also when it is an older one that comes back', async () => {
    let first: string | undefined
    peers.authority.script('/token', ({ form }, nth) => {
      first ??= form.get('ticket')!
      if (!form.has('claim_token')) return nth === 1 ? undefined : { status: 500 }
      return {
        status: 403,
        body: { error: 'request_submitted', kind: 'operation', ticket: first, interval: 1 },
      }
    })
    await expect(call()).rejects.toMatchObject({ code: 'ticket_not_rotated' })
    expect(peers.authority.to('/token')).toHaveLength(2)
  })
})

describe('a refusal by the authority is terminal', () => {
  it.each([
    [403, 'request_denied'],
    [429, 'request_denied'],
    [400, 'invalid_grant'],
    [400, 'invalid_request'],
    [403, 'some_word_from_the_future'],
    [503, 'some_other_word'],
  ])('%i %s', async (status, error) => {
    peers.authority.script('/token', () => ({ status, body: { error, error_description: 'Because.' } }))
    await expect(call()).rejects.toMatchObject({
      code: error,
      status,
      detail: 'Because.',
      terminal: true,
      local: false,
    })
    expect(peers.authority.to('/token')).toHaveLength(1)
    expect(calls()).toHaveLength(1)
  })

  it('even if the word is no word', async () => {
    peers.authority.script('/token', () => ({ status: 403, body: { error: ['request_denied'] } }))
    await expect(call()).rejects.toMatchObject({ code: 'unknown_refusal', terminal: true })
  })

  it.each([
    ['a page', { status: 403, headers: { 'content-type': 'text/html' }, body: '<h1>no</h1>' }],
    ['nothing', { status: 200 }],
    [
      'a grant with another status',
      { status: 403, body: { access_token: 'a.b.c', token_type: 'PoP', expires_in: 1, receipt: 'a.b.c' } },
    ],
    [
      'a bearer token',
      { body: { access_token: 'a.b.c', token_type: 'Bearer', expires_in: 1, receipt: 'a.b.c' } },
    ],
    [
      'a member named twice',
      {
        status: 403,
        headers: { 'content-type': 'application/json' },
        body: '{"error":"need_info","error":"x"}',
      },
    ],
  ])('and so is %s', async (_what, reply) => {
    peers.authority.script('/token', reply)
    await expect(call()).rejects.toMatchObject({ terminal: true })
    expect(peers.authority.to('/token')).toHaveLength(1)
  })

  it('a grant before anything was signed is not taken', async () => {
    peers.authority.script('/token', {
      body: { access_token: 'a.b.c', token_type: 'PoP', expires_in: 1, receipt: 'a.b.c' },
    })
    await expect(call()).rejects.toMatchObject({ code: 'grant_untrusted' })
    expect(peers.authority.to('/jwks')).toEqual([])
  })
})

describe('a refusal by the resource is terminal for the token presented', () => {
  it.each([
    [403, 'access_revoked'],
    [403, 'operation_mismatch'],
    [403, 'consequence_changed'],
    [401, 'invalid_token'],
    [403, 'some_word_from_the_future'],
    [503, 'some_other_word'],
  ])('%i %s: the call is not sent again, and a kept grant is given up', async (status, error) => {
    const store = memoryStore()
    answerAuthorized(peers, { status, body: { error, error_description: 'No more.' } })
    await expect(call({ store })).rejects.toMatchObject({
      code: error,
      status,
      detail: 'No more.',
      terminal: true,
    })
    expect(authorized()).toHaveLength(1)
    expect(peers.agreements).toHaveLength(1)
    expect(await store.grants(peers.resource)).toEqual([])
    expect(await store.receipts()).toHaveLength(1)
  })

  it('access_revoked in a JSON-RPC error ends the call as in a status', async () => {
    peers.tools.script('/mcp/alice', ({ headers, body }) => {
      if (headers.authorization === undefined) return undefined
      const { id } = JSON.parse(body.toString()) as { id: string }
      const data = { error: 'access_revoked', status: 403, error_description: 'Revoked.' }
      return { body: { jsonrpc: '2.0', id, error: { code: -32002, message: 'Refused', data } } }
    })
    await expect(call()).rejects.toMatchObject({
      code: 'access_revoked',
      status: 403,
      detail: 'Revoked.',
      terminal: true,
    })
    expect(authorized()).toHaveLength(1)
  })

  it('what the tool itself answers leaves the grant as it was', async () => {
    const agent = agentWith()
    answerAuthorized(peers, nth =>
      nth === 1
        ? { body: { jsonrpc: '2.0', id: null, error: { code: -32602, message: 'No such account' } } }
        : undefined,
    )
    await expect(agent.call(target())).rejects.toMatchObject({ code: 'rpc_error', rpc: { code: -32602 } })
    await agent.call(target())
    expect(peers.agreements).toHaveLength(1)
  })

  it('a page of a proxy is not taken for a code, and is not tried again', async () => {
    answerAuthorized(peers, {
      status: 503,
      headers: { 'content-type': 'text/plain' },
      body: 'no healthy upstream',
    })
    await expect(call()).rejects.toMatchObject({ code: 'unexpected_answer', status: 503, terminal: true })
    expect(authorized()).toHaveLength(1)
  })

  it('a challenge to the very grant that was negotiated for the call ends it: one negotiation per call', async () => {
    peers.tools.script('/mcp/alice', ({ headers, body }) => {
      if (headers.authorization === undefined) return undefined
      const { id } = JSON.parse(body.toString()) as { id: string }
      return challenge(id)
    })
    await expect(call()).rejects.toMatchObject({ code: 'challenged_again', terminal: true })
    expect(peers.agreements).toHaveLength(1)
    expect(calls()).toHaveLength(2)
  })

  it('a lost answer is not asked for twice', async () => {
    answerAuthorized(peers, { write: (_response, request) => void request.socket.destroy() })
    await expect(call()).rejects.toMatchObject({ code: 'unreachable', terminal: false })
    expect(authorized()).toHaveLength(1)
  })
})

function challenge(id: string): Reply {
  const { resource, issuer } = peers
  return {
    body: {
      jsonrpc: '2.0',
      id,
      error: {
        code: -32001,
        message: 'again',
        data: challengeData(challengeOf({ resource, issuer }, 'portfolio_read')),
      },
    },
  }
}

describe('temporarily_unavailable alone is tried again', () => {
  const unavailable = (seconds: string): Reply => ({
    status: 503,
    headers: { 'retry-after': seconds },
    body: { error: 'temporarily_unavailable', error_description: 'Soon.' },
  })

  it('with the same token, no sooner than Retry-After asks', async () => {
    answerAuthorized(peers, nth => (nth === 1 ? unavailable('1') : undefined))
    const events: AgentEvent[] = []
    await call({ onEvent: event => event.type === 'retrying' && events.push(event) })
    const [first, second] = authorized()
    expect(second!.headers.authorization).toBe(first!.headers.authorization)
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(999)
    expect(events).toEqual([{ type: 'retrying', code: 'temporarily_unavailable', afterSeconds: 1 }])
  })

  it('and where that answer has a ticket, the same agreement is presented with it', async () => {
    peers.authority.script('/token', ({ form }, nth) => {
      if (nth !== 2) return undefined
      const ticket = form.get('ticket')!
      return { ...unavailable('0'), body: { error: 'temporarily_unavailable', ticket: `${ticket}-rotated` } }
    })
    await call().catch(() => undefined)
    const [, agreed, again] = peers.authority.to('/token').map(({ form }) => form)
    expect(again!.get('ticket')).toBe(`${agreed!.get('ticket')}-rotated`)
    expect(agreed!.get('claim_token')).not.toBeNull()
    expect(again!.get('claim_token')).toBe(agreed!.get('claim_token'))
  })

  it('and not for ever', async () => {
    answerAuthorized(peers, unavailable('0'))
    await expect(call()).rejects.toMatchObject({
      code: 'temporarily_unavailable',
      status: 503,
      terminal: false,
    })
    expect(authorized()).toHaveLength(4)
  })

  it('and not if it asks for a longer wait than a call has', async () => {
    answerAuthorized(peers, unavailable('3600'))
    await expect(call()).rejects.toMatchObject({ code: 'temporarily_unavailable', retryAfterSeconds: 3600 })
    expect(authorized()).toHaveLength(1)
  })

  it('and under a grant for one use only where the enforcement point says that it is unspent', async () => {
    peers.twists.perOperation = true
    const unspent = { error: 'temporarily_unavailable', grant_unspent: true }
    answerAuthorized(peers, nth => (nth === 1 ? { ...unavailable('0'), body: unspent } : undefined))
    expect((await call()).grant).toMatchObject({ single_use: true })
    expect(authorized()).toHaveLength(2)
  })

  it.each([
    ['503 without that', unavailable('0')],
    ['no answer', { write: (_response, request) => void request.socket.destroy() } satisfies Reply],
  ])('else a call under a grant for one use has an outcome that nobody knows: %s', async (_what, reply) => {
    peers.twists.perOperation = true
    answerAuthorized(peers, reply)
    await expect(call()).rejects.toMatchObject({ code: 'outcome_unknown', terminal: true, local: true })
    expect(authorized()).toHaveLength(1)
  })

  it('before there is a grant, too', async () => {
    peers.tools.script('/mcp/alice', (_, nth) =>
      nth <= 2 ? { ...unavailable('0'), status: 429 } : undefined,
    )
    expect((await call()).grant).toBeDefined()
  })

  it('at the token endpoint, with the same ticket', async () => {
    peers.authority.script('/token', (_, nth) => (nth === 1 ? unavailable('0') : undefined))
    expect((await call()).grant).toBeDefined()
    const [first, second] = peers.tokenForms()
    expect(second).toEqual(first)
  })
})

describe('terms that are declined', () => {
  it('by the one who confirms them are declined at the authority, and nothing is signed', async () => {
    const seen: string[] = []
    const confirmTerms: AgentOptions['confirmTerms'] = (template, url) => {
      seen.push(template.template_id, url)
      return false
    }
    await expect(call({ confirmTerms })).rejects.toMatchObject({ code: 'terms_declined', local: true })
    expect(seen).toEqual(['alice/reading/v1', `${peers.issuer}/terms/alice/reading/v1`])
    const [, declined] = peers.tokenForms()
    expect(declined).toMatchObject({ decline: 'true' })
    expect(declined).not.toHaveProperty('claim_token')
    expect(calls()).toHaveLength(1)
  })

  it('on purpose are answered with the terms, and the owner is told', async () => {
    expect(await agentWith().decline(target())).toMatchObject({ template_id: 'alice/reading/v1' })
    expect(peers.tokenForms().map(form => form['decline'])).toEqual([undefined, 'true'])
    expect(peers.agreements).toEqual([])
  })

  it('of a tool that needs no grant cannot be, and that is said', async () => {
    peers.tools.script('/mcp/alice', ({ body }) => {
      const { id } = JSON.parse(body.toString()) as { id: string }
      return { body: { jsonrpc: '2.0', id, result: {} } }
    })
    await expect(agentWith().decline(target())).rejects.toMatchObject({ code: 'not_challenged' })
  })
})

describe('a failure', () => {
  it('is an error that says what happened, in words', async () => {
    const failure = (await call({ allowLoopback: false }).catch((error: unknown) => error)) as AgentError
    expect(failure).toBeInstanceOf(Error)
    expect(failure.message).toContain(`address_refused: The resource must be an https URL: ${peers.resource}`)
  })

  it('of a tool call that names no tool, or has arguments that are no object, is one of the request', async () => {
    await expect(agentWith().call({ ...target(), tool: '' })).rejects.toMatchObject({
      code: 'request_invalid',
    })
    await expect(agentWith().call({ ...target(), arguments: [1] })).rejects.toMatchObject({
      code: 'request_invalid',
    })
  })

  it('of a resource that nobody serves is its being out of reach', async () => {
    await peers.tools.close()
    await expect(call()).rejects.toMatchObject({ code: 'unreachable', status: undefined, terminal: false })
  })
})
