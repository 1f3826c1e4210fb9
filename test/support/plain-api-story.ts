/**
 * Owns what must hold of a plain HTTP API behind any gateway that asks by forward-auth, as tests. contract,
 * "What the service does" and "Errors"; "Authorized call": what was judged is what is executed.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Grant } from '../../src/agent/index.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import type { HandCall } from './hand-call.ts'
import { standPlainApi, type ForwardAuthGateway, type PlainApiStand } from './plain-api-stand.ts'

/**
 * What the gateway makes of bodies: it shows them to usher; or not, and one of unknown length beside a call
 * that needs none is …
 */
export type Bodies = 'shown' | 'dropped' | 'refused'

type Stand = () => PlainApiStand

/**
 * How a call with a body is refused that the token does not cover: because of the body, if it is not shown.
 */
const UNSEEN: Record<Bodies, [number, string]> = {
  shown: [401, 'insufficient_authorization'],
  dropped: [400, 'request_body_missing'],
  refused: [400, 'request_body_missing'],
}

/** The tests, and the stand for more of them. */
export function plainApiStory(gateway: ForwardAuthGateway, bodies: Bodies): void {
  let standing: PlainApiStand | undefined
  let grant: Grant | undefined
  const stand: Stand = () => standing!
  beforeAll(async () => {
    standing = await standPlainApi(gateway)
  })
  afterAll(() => standing?.close())
  beforeEach(() => standing?.forget())
  const token: Token = () => grant!.access_token

  describeGrant(stand, token, granted => {
    grant = granted
  })
  const unseen = UNSEEN[bodies]
  describeRefusals(stand, token, bodies)
  describeGatewayFields(stand, token, unseen)
  if (bodies === 'shown') describeShownBodies(stand, token)
  else describeUnseenBodies(stand, token, bodies)
  describeDenials(stand, token, bodies)
  describeOutages(stand, token, bodies)
}

type Token = () => string

function describeGrant(stand: Stand, token: Token, keep: (granted: Grant) => void): void {
  test('a call without a grant is refused with one challenge, which names the base as the resource', async () => {
    const { status, challenges, json } = await stand().byHand({ path: '/api/alice/accounts/7' })
    expect(status).toBe(401)
    const challenge = parseChallenge(challenges)
    expect(challenge).toMatchObject({
      as_uri: stand().authority.issuer,
      resource_metadata: `${stand().origin}/.well-known/oauth-protected-resource/api/alice`,
    })
    expect(json).toMatchObject({ error: 'insufficient_authorization', ticket: challenge.ticket })
    expect(stand().arrivals).toEqual([])
  })

  test('the agent learns from the metadata how to call, signs the terms, is approved, and the call goes through', async () => {
    const calling = stand().agent.call({
      resource: `${stand().origin}/api/alice`,
      tool: 'portfolio_read',
      arguments: { path: { account: '7' } },
      http: 'published',
    })
    await stand().approveNext()
    const { result } = await calling
    expect(result).toMatchObject({ status: 200, body: { balance: 7 } })
    keep(stand().granted())
    expect(stand().arrivals).toMatchObject([
      {
        method: 'GET',
        target: '/api/alice/accounts/7',
        headers: {
          'x-uma-owner': 'alice',
          'x-uma-agent': `jkt:${stand().agentKey.thumbprint}`,
          'x-uma-tool': 'portfolio_read',
        },
      },
    ])
    const { headers } = stand().arrivals[0]!
    expect(
      Object.keys(headers).filter(name =>
        /authorization|signature|usher|original|forwarded-(method|uri)/.test(name),
      ),
    ).toEqual([])
  })

  test('the next one needs nobody: the same grant, another account', async () => {
    const { status } = await stand().byHand({
      path: '/api/alice/accounts/8',
      query: 'full=1',
      token: token(),
    })
    expect(status).toBe(200)
    expect(stand().arrivals).toMatchObject([{ target: '/api/alice/accounts/8?full=1' }])
    const refused = await stand().byHand({ path: '/api/alice/statements/1', token: token() })
    expect([refused.status, refused.error]).toEqual([401, 'insufficient_authorization'])
  })

  test('the status of the API itself is its own', async () => {
    for (const status of [401, 403, 500]) {
      const headers = { 'x-status': String(status) }
      const answer = await stand().byHand({ path: '/api/alice/accounts/8', token: token(), headers })
      expect([answer.status, answer.json]).toEqual([status, { balance: 7 }])
    }
  })

  test('cancelling an order is asked about, and passes once', async () => {
    const calling = stand().agent.call({
      resource: `${stand().origin}/api/alice`,
      tool: 'place_trade',
      arguments: { path: { order: 'o 1' }, query: { why: 'too dear' } },
      http: { method: 'DELETE', path: '/orders/{order}' },
    })
    await stand().approveNext()
    expect((await calling).result).toMatchObject({ status: 200 })
    expect(stand().arrivals).toMatchObject([
      { method: 'DELETE', target: '/api/alice/orders/o%201?why=too%20dear' },
    ])
    const again = {
      method: 'DELETE',
      path: '/api/alice/orders/o%201',
      query: 'why=too%20dear',
      token: stand().granted().access_token,
    }
    expect(await stand().byHand(again)).toMatchObject({ status: 401, error: 'insufficient_authorization' })
    expect(stand().arrivals).toHaveLength(1)
  })
}

function describeRefusals(stand: Stand, token: Token, bodies: Bodies): void {
  const unseen = UNSEEN[bodies]
  // Traefik decodes what need not be encoded, before the check and for good: what it asks about was not
  // signed.
  const encoded: [number, string] = bodies === 'shown' ? [401, 'invalid_token'] : [403, 'unknown_tool']
  test.each<[string, HandCall, number, string | undefined]>([
    ['a path that nobody listed', { path: '/api/alice/nothing' }, 403, 'unknown_tool'],
    [
      'another method',
      { method: 'PUT', path: '/api/alice/accounts/7', headers: { 'content-length': '0' } },
      405,
      'method_not_allowed',
    ],
    ["another owner's base", { path: '/api/bea/accounts/7' }, 404, 'not_found'],
    ['dot segments', { path: '/api/alice/accounts/../accounts/7' }, 400, 'invalid_request'],
    ['dot segments that stay below', { path: '/api/x/../alice/accounts/7' }, 400, 'invalid_request'],
    ['encoded dot segments', { path: '/api/alice/accounts/%2e%2e/7' }, 400, 'invalid_request'],
    ['a path parameter', { path: '/api/alice/accounts/..;/7' }, 400, 'invalid_request'],
    ['an encoded slash', { path: '/api/alice/accounts/a%2f7' }, 400, 'invalid_request'],
    ['two slashes', { path: '/api/alice//accounts/7' }, 400, 'invalid_request'],
    ['an encoded literal', { path: '/api/alice/%61ccounts/7' }, ...encoded],
    [
      'a method to be overridden',
      { path: '/api/alice/accounts/7', headers: { 'X-HTTP-Method-Override': 'DELETE' } },
      400,
      'invalid_request',
    ],
    [
      'a path to be overridden',
      { path: '/api/alice/accounts/7', headers: { 'X-Rewrite-URL': '/x' } },
      400,
      'invalid_request',
    ],
    [
      'a forged identity',
      { path: '/api/alice/accounts/7', headers: { 'X-Uma-Owner': 'mallory' } },
      400,
      'invalid_request',
    ],
    ['a body', { method: 'POST', path: '/api/alice/orders', body: '{"qty":2}' }, ...unseen],
    [
      'a body that announces no length',
      { method: 'POST', path: '/api/alice/orders', body: 'x', headers: { 'transfer-encoding': 'chunked' } },
      ...unseen,
    ],
    ['an MCP call', { method: 'POST', path: '/api/alice', body: '{"jsonrpc":"2.0"}' }, 403, 'unknown_tool'],
  ])('with %s a call is refused as what it is, and does not arrive', async (_what, call, status, error) => {
    const answer = await stand().byHand({ ...call, token: token() })
    expect([answer.status, answer.error]).toEqual([status, error])
    if (status === 405) expect(answer.allow).toBe('GET')
    expect(stand().arrivals).toEqual([])
  })
}

function describeGatewayFields(stand: Stand, token: Token, unseen: [number, string]): void {
  const call = (headers: Record<string, string>) =>
    stand().byHand({ path: '/api/alice/accounts/8', token: token(), headers })

  test('what a client writes into the fields of the gateway counts for nothing', async () => {
    const written = stand().checkHttp
    const forged = {
      method_header: 'GET',
      uri_header: '/api/alice/accounts/7',
      length_header: '0',
      peer_header: '6.6.6.6',
    }
    const headers = Object.fromEntries(
      Object.entries(forged).flatMap(([setting, value]) => {
        const name = written[setting]
        return name === undefined ? [] : [[name, value]]
      }),
    )
    // An API may heed them as it heeds X-Original-URL, and usher sees what the gateway writes in their place.
    expect((await call(headers)).status).toBe(200)
    const [arrival] = stand().arrivals.splice(0)
    expect(Object.keys(headers).filter(name => arrival!.headers[name] === headers[name])).toEqual([])
    const elsewhere = await stand().byHand({
      method: 'DELETE',
      path: '/api/alice/orders/7',
      headers,
      token: token(),
    })
    expect([elsewhere.status, elsewhere.error]).toEqual([401, 'insufficient_authorization'])
    const body = await stand().byHand({
      method: 'POST',
      path: '/api/alice/orders',
      body: 'x',
      headers: { ...headers, 'transfer-encoding': 'chunked' },
      token: token(),
    })
    expect([body.status, body.error]).toEqual(unseen)
    expect(stand().arrivals).toEqual([])
  })

  test('nothing like them, nor like the fields that say who calls, reaches the API by another spelling', async () => {
    const names = [...Object.values(stand().checkHttp), 'x-uma-owner'].map(name => name.replaceAll('-', '_'))
    for (const name of names) await call({ [name]: '/api/alice/accounts/7' })
    expect(stand().arrivals.flatMap(({ headers }) => names.filter(name => name in headers))).toEqual([])
  })

  test('no field escapes the check, and none that says who calls is lost, because Connection names it', async () => {
    const names = 'X-HTTP-Method-Override, X-Uma-Owner, X-Uma-Agent, X-Uma-Tool, close'
    const { status } = await call({ connection: names })
    expect(status).toBe(200)
    expect(stand().arrivals).toMatchObject([{ headers: { 'x-uma-owner': 'alice' } }])
    stand().forget()
    await call({ connection: names, 'x-http-method-override': 'DELETE' })
    expect(stand().arrivals.map(({ headers }) => headers['x-http-method-override'])).toEqual(
      stand().arrivals.map(() => undefined),
    )
  })

  test('a call does not become a stream that nobody judges', async () => {
    const { status } = await call({ connection: 'Upgrade', upgrade: 'websocket' })
    expect(status).toBe(200)
    expect(stand().arrivals).toMatchObject([{ headers: { 'x-uma-owner': 'alice' } }])
    expect(stand().arrivals[0]!.headers['upgrade']).toBeUndefined()
  })

  test('a target in absolute form is the path in it', async () => {
    const head = 'GET http://evil.example/api/alice/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
    expect(await stand().raw(head)).toMatch(/^HTTP\/1\.1 403 [^]*unknown_tool/)
    expect(stand().arrivals).toEqual([])
  })

  test('what is below no path of the API reaches it in no way, whatever Host says', async () => {
    for (const target of [
      '/',
      '/apix',
      '/api',
      '//api/alice/accounts/7',
      '/health',
      '/check',
      '/jwks/../api/x',
    ])
      for (const host of ['127.0.0.1', 'evil.example'])
        await stand().raw(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    expect(stand().arrivals).toEqual([])
  })
}

function describeUnseenBodies(stand: Stand, token: Token, bodies: Bodies): void {
  const path = '/api/alice/accounts/7'

  test('a body beside a call that needs none is not passed on, because nobody judged it', async () => {
    const headers = { 'transfer-encoding': 'chunked' }
    const answer = await stand().byHand({ path, token: token(), headers, body: 'x' })
    if (bodies === 'dropped') {
      expect(answer.status).toBe(200)
      expect(stand().arrivals).toMatchObject([{ body: '', target: path }])
    } else {
      expect([answer.status, answer.error]).toEqual([400, 'request_body_missing'])
      expect(stand().arrivals).toEqual([])
    }
  })

  test('one that announces its length is refused', async () => {
    const headers = { 'content-length': '1' }
    const { status, error } = await stand().byHand({ path, token: token(), body: 'x', headers })
    expect([status, error]).toEqual([400, 'request_body_missing'])
    expect(stand().arrivals).toEqual([])
  })
}

function describeShownBodies(stand: Stand, token: Token): void {
  const path = '/api/alice/orders'

  test('an order is approved with its body, and no other body passes with its grant', async () => {
    const calling = stand().agent.call({
      resource: `${stand().origin}/api/alice`,
      tool: 'place_trade',
      arguments: { body: { qty: 2 } },
      http: { method: 'POST', path: '/orders' },
    })
    await stand().approveNext()
    expect((await calling).result).toMatchObject({ status: 200 })
    expect(stand().arrivals).toMatchObject([{ method: 'POST', target: path, body: '{"qty":2}' }])
    const other = { method: 'POST', path, body: '{"qty":3}', headers: { 'content-type': 'application/json' } }
    expect(await stand().byHand({ ...other, token: stand().granted().access_token })).toMatchObject({
      status: 401,
      error: 'insufficient_authorization',
    })
    expect(stand().arrivals).toHaveLength(1)
  })

  test('a body beside a call that needs none is judged, however its length is told', async () => {
    const form = 'application/x-www-form-urlencoded'
    for (const length of [{ 'transfer-encoding': 'chunked' }, { 'content-length': '14' }]) {
      const answer = await stand().byHand({
        path: '/api/alice/accounts/7',
        token: token(),
        headers: { ...length, 'content-type': form },
        body: '_method=DELETE',
      })
      expect([answer.status, answer.error]).toEqual([400, 'invalid_request'])
    }
    expect(stand().arrivals).toEqual([])
  })

  test('one beyond the cap is 413', async () => {
    const { status } = await stand().byHand({
      method: 'POST',
      path,
      token: token(),
      body: 'x'.repeat(70_000),
    })
    expect(status).toBe(413)
    expect(stand().arrivals).toEqual([])
  })
}

function describeDenials(stand: Stand, token: Token, bodies: Bodies): void {
  test('a tool that no tier governs is denied', async () => {
    const http = { method: 'POST', path: '/close' }
    const calling = stand().agent.call({
      resource: `${stand().origin}/api/alice`,
      tool: 'close_account',
      arguments: bodies === 'shown' ? { body: {} } : {},
      http,
    })
    await expect(calling).rejects.toMatchObject({ code: 'request_denied' })
    expect(stand().arrivals).toEqual([])
  })

  test('once she revokes, the very next call is refused for good, without a challenge', async () => {
    await stand().authority.alice.client.revoke(`jkt:${stand().agentKey.thumbprint}`)
    const { status, error, challenges } = await stand().byHand({
      path: '/api/alice/accounts/7',
      token: token(),
    })
    expect([status, error, challenges]).toEqual([403, 'access_revoked', []])
    expect(stand().arrivals).toEqual([])
  })
}

function describeOutages(stand: Stand, token: Token, bodies: Bodies): void {
  describe('an outage is 503, neither a denial nor a pass', () => {
    const outage = { status: 503, error: 'temporarily_unavailable', challenges: [] }
    const calls = () => [
      stand().byHand({ path: '/api/alice/accounts/7' }),
      stand().byHand({ path: '/api/alice/accounts/7', token: token() }),
    ]
    test('with the authority down', async () => {
      await stand().endAuthority()
      for (const answer of await Promise.all(calls())) expect(answer).toMatchObject(outage)
      expect(stand().arrivals).toEqual([])
    })
    test('with the sidecar down', async () => {
      await stand().sidecar.close()
      // Traefik has no words of its own.
      const { status, challenges } = outage
      const wanted = bodies === 'shown' ? { status, challenges } : outage
      for (const answer of await Promise.all(calls())) expect(answer).toMatchObject(wanted)
      expect(stand().arrivals).toEqual([])
    })
  })
}
