import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { beforeEach, describe, expect, test } from 'vitest'
import { parseChallenge } from '../../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { Json } from '../../../src/wire/json.ts'
import {
  sendCall,
  serve,
  singleUseGrant,
  standingGrant,
  standProtected,
  verdictOf,
} from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedForEach, startedOnce } from '../../support/started.ts'
import { until } from '../../support/until.ts'
import { newKey, PUBLIC_URL, toolCallBody } from '../calls.ts'

/** What reached the protected handler. */
interface Arrival {
  method: string
  url: string
  headers: IncomingMessage['headers']
  rawHeaders: string[]
  bytes: string
  value: unknown
}

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
const OPERATION = { tool: 'place_trade', params_s256: s256Json(TRADE) }
let arrivals: Arrival[]
let handle: (response: ServerResponse) => unknown

const authority = startedOnce(startScriptedAuthority)
beforeEach(() => {
  authority.reset()
  arrivals = []
  handle = response => response.end('done')
})
const stand = startedForEach(() =>
  standProtected(authority.issuer, async (request, response, value) => {
    const { method = '', url = '', headers, rawHeaders } = request
    arrivals.push({ method, url, headers, rawHeaders, bytes: await text(request), value })
    await handle(response)
  }),
)

const standing = (): string => standingGrant(authority, agent)

describe('A handler inside which the resource enforces', () => {
  test('is not reached without a sufficient grant: the call is challenged as at a gateway', async () => {
    const answer = await sendCall(stand.port)
    expect(verdictOf(answer)).toBe('401 insufficient_authorization')
    const challenge = parseChallenge([answer.headers['www-authenticate']!])
    expect(challenge).toMatchObject({
      as_uri: authority.issuer,
      scope: 'read',
      resource_metadata: `${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp/alice`,
    })
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(arrivals).toEqual([])
  })

  test('gets the very bytes that were judged, and their value, once', async () => {
    const body = ` ${toolCallBody('portfolio_read', { a: 'ü', b: [1, { c: 1.5 }] })}\n`
    expect(verdictOf(await sendCall(stand.port, { token: standing(), signer: agent, body }))).toBe('allow')
    expect(arrivals).toHaveLength(1)
    expect(arrivals[0]).toMatchObject({ bytes: body, value: JSON.parse(body) as Json, method: 'POST' })
  })

  test('learns who calls from the grant, sees no credential and no field that a client forged', async () => {
    const forged = {
      'x-uma-agent': ['mallory', 'mallory-again'],
      x_uma_tool: ['other'],
      'x-uma-admin': ['yes'],
    }
    const token = standing()
    expect(verdictOf(await sendCall(stand.port, { token, signer: agent, headers: forged }))).toBe('allow')
    const [{ headers, rawHeaders }] = arrivals as [Arrival]
    expect(headers).toMatchObject({
      'x-uma-owner': 'alice',
      'x-uma-agent': `jkt:${agent.thumbprint}`,
      'x-uma-tool': 'portfolio_read',
    })
    const names = rawHeaders.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase())
    for (const gone of ['authorization', 'signature', 'signature-input', 'x-uma-admin', 'x_uma_tool']) {
      expect([names.includes(gone), headers[gone]]).toEqual([false, undefined])
    }
    expect(JSON.stringify([headers, rawHeaders])).not.toMatch(/mallory|PoP /)
  })

  test('a single-use grant passes once, with the approved parameters alone', async () => {
    const token = singleUseGrant(authority, agent, OPERATION)
    const call = { tool: 'place_trade', token, signer: agent }
    expect(verdictOf(await sendCall(stand.port, { ...call, args: { ...TRADE, qty: 3 } }))).toBe(
      '403 operation_mismatch',
    )
    expect(verdictOf(await sendCall(stand.port, { ...call, args: TRADE }))).toBe('allow')
    expect(verdictOf(await sendCall(stand.port, { ...call, args: TRADE }))).toBe(
      '401 insufficient_authorization',
    )
    expect(arrivals.map(({ value }) => (value as { params: Json }).params)).toEqual([
      { name: 'place_trade', arguments: TRADE },
    ])
  })

  test('allowed calls reach the ledger, and each decision leaves one log line and a number', async () => {
    await sendCall(stand.port, { token: standing(), signer: agent })
    await sendCall(stand.port)
    await until(() => authority.count('/audit/access') === 1)
    const decided = stand.lines.filter(({ msg }) => msg === 'decided')
    expect(decided.map(({ decision, reason, owner }) => [decision, reason, owner])).toEqual([
      ['allow', 'granted', 'alice'],
      ['deny', 'insufficient_authorization', 'alice'],
    ])
    expect((await stand.point.metrics()).text).toMatch(/usher_decisions_total\{outcome="allow",[^}]*\} 1/)
  })

  test.each(['HEAD', 'OPTIONS', 'PUT', 'PATCH', 'GET', 'DELETE'])(
    '%s does not go around the check',
    async method => {
      const { status, headers } = await sendCall(stand.port, { method, body: { state: 'absent' } })
      expect([status, headers.allow]).toEqual([405, 'POST'])
      expect(arrivals).toEqual([])
    },
  )

  test.each(['/', '/mcp/alice/', '/mcp/bea', '/MCP/alice', '/mcp/alice/x', '/other'])(
    'a path that nobody configured is nobody: %s',
    async path => {
      expect(verdictOf(await sendCall(stand.port, { path, token: standing(), signer: agent }))).toBe(
        '404 not_found',
      )
      expect(arrivals).toEqual([])
    },
  )

  test.each([
    '//mcp/alice',
    '/mcp/../mcp/alice',
    '/mcp%2falice',
    '/mcp/alice;x=1',
    'http://a/mcp/alice',
    '*',
  ])('a target that two readers could take differently is 400: %s', async path => {
    const raw = await exchange([
      `POST ${path} HTTP/1.1`,
      'host: a',
      'content-length: 0',
      'connection: close',
      '',
      '',
    ])
    expect(raw).toMatch(/^HTTP\/1\.1 400 .*"invalid_request"/s)
    expect(arrivals).toEqual([])
  })
})

describe('What a handler throws after the allow', () => {
  test('is its own failure, not a denial: 500 without a word that an agent could take for one', async () => {
    handle = () => {
      throw new Error('the tool broke, with a secret')
    }
    const answer = await sendCall(stand.port, { token: standing(), signer: agent })
    expect([answer.status, answer.body]).toEqual([500, 'Internal Server Error'])
    expect(stand.lines.find(({ msg }) => msg === 'the protected handler failed')).toBeDefined()
  })

  test('after its answer began cuts the answer off', async () => {
    handle = response => {
      response.write('half')
      throw new Error('broke')
    }
    await expect(sendCall(stand.port, { token: standing(), signer: agent })).rejects.toThrow()
  })
})

describe('One connection', () => {
  test('with several calls in a row, sent at once, has each of them judged', async () => {
    const body = toolCallBody('portfolio_read')
    const bare = [
      'POST /mcp/alice HTTP/1.1',
      'host: a',
      'content-type: application/json',
      `content-length: ${body.length}`,
    ]
    const last = [...bare, 'connection: close', '', body]
    const raw = await exchange([...bare, '', body + last.join('\r\n')])
    expect(raw.match(/HTTP\/1\.1 401/g)).toHaveLength(2)
    expect(arrivals).toEqual([])
  })

  test('whose sender goes away before the body is whole spends and executes nothing', async () => {
    const token = singleUseGrant(authority, agent, OPERATION)
    const socket = connect(stand.port, '127.0.0.1')
    socket.write(
      [
        'POST /mcp/alice HTTP/1.1',
        'host: a',
        `authorization: PoP ${token}`,
        'content-length: 100',
        '',
        '{',
      ].join('\r\n'),
    )
    await until(() => socket.bytesWritten > 100)
    socket.destroy()
    // A call on another connection is judged after it.
    expect(verdictOf(await sendCall(stand.port))).toBe('401 insufficient_authorization')
    expect([authority.count('/introspect'), arrivals]).toEqual([0, []])
  })

  test('whose sender goes away while the call is judged leaves the grant unspent', async () => {
    const token = singleUseGrant(authority, agent, OPERATION)
    const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as object
    authority.script('/introspect', { status: 200, body: { active: true, ...claims }, delayMs: 300 })
    const abort = new AbortController()
    const call = { tool: 'place_trade', args: TRADE, token, signer: agent }
    const sent = sendCall(stand.port, call, abort.signal)
    await until(() => authority.count('/introspect') === 1)
    abort.abort()
    await expect(sent).rejects.toThrow()
    await until(() => stand.lines.some(({ msg }) => msg === 'decided'))
    expect([authority.count('/consume'), arrivals]).toEqual([0, []])
  })
})

describe('A body', () => {
  test('over the cap is 413, whether announced or not, and the connection ends', async () => {
    const big = `"${'x'.repeat(1_100_000)}"`
    for (const headers of [{}, { 'transfer-encoding': ['chunked'] }]) {
      const answer = await sendCall(stand.port, { body: big, headers })
      expect([verdictOf(answer), answer.headers.connection]).toEqual(['413 request_body_too_large', 'close'])
    }
    expect(arrivals).toEqual([])
  })

  test('that is absent is 400, and one that is encoded is 415', async () => {
    expect(verdictOf(await sendCall(stand.port, { body: { state: 'absent' } }))).toBe(
      '400 request_body_missing',
    )
    expect(verdictOf(await sendCall(stand.port, { headers: { 'content-encoding': ['gzip'] } }))).toBe(
      '415 unsupported_media_type',
    )
  })
})

describe('The public documents', () => {
  test('are left out if somebody else has answered meanwhile, and nothing fails', async () => {
    const documents = stand.point.documents()
    const early = await serve((request, response) => {
      documents(request, response, () => undefined)
      response.writeHead(503).end('too slow')
    })
    const answers = await Promise.allSettled([sendCall(early.port, { method: 'GET', path: '/jwks' })])
    expect(answers[0]).not.toMatchObject({ value: { status: 200 } })
    await early.close()
  })
})

describe('An enforcement point that is closed', () => {
  test('denies everything with 503, also what needs no grant', async () => {
    await stand.point.close()
    const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
    expect(verdictOf(await sendCall(stand.port, { body: list }))).toBe('503 temporarily_unavailable')
    expect(arrivals).toEqual([])
  })
})

/** Sends lines over a socket of its own, and answers all that came back. */
async function exchange(lines: string[]): Promise<string> {
  const socket = connect(stand.port, '127.0.0.1')
  socket.write(lines.join('\r\n'))
  return text(socket)
}
