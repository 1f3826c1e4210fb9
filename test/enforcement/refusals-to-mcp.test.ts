/**
 * A caller of MCP 2026-07-28 is refused with a JSON-RPC error in addition to status and header fields, in the
 * same way at every door. contract, "Challenge (beat 1)" (both encodings) and "Errors"; docs/choices.md says
 * exactly to whom.
 */
import { describe, expect, test } from 'vitest'
import { challengeData, parseChallenge, parseChallengeData } from '../../src/wire/negotiation/challenge.ts'
import { checkBytes } from '../support/check-client.ts'
import { sendCall, standProtected } from '../support/embedded.ts'
import { startedOnce } from '../support/started.ts'
import { startBothDoors } from './both-doors.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL, type CallParts } from './calls.ts'

const doors = startedOnce(() =>
  startBothDoors({
    api: [{ method: 'POST', path: '/orders', tool: 'place_trade' }],
    bodyBytesMax: 4_096,
    deadlineMarginMs: 50,
  }),
)
const embedded = startedOnce(() =>
  standProtected(doors.authority.issuer, (_request, response) => response.end('done')),
)

interface Told {
  status: number
  challenge: string | undefined
  retryAfter: string | undefined
  json: Record<string, unknown>
}

const told = (status: number, header: (name: string) => string | undefined, body: string): Told => ({
  status,
  challenge: header('www-authenticate'),
  retryAfter: header('retry-after'),
  json: JSON.parse(body) as Record<string, unknown>,
})

const DOORS: Record<string, (parts: CallParts) => Promise<Told>> = {
  gRPC: async parts => {
    const { method, path, headers, body } = callOf(parts)
    const fields = Object.fromEntries([...headers].map(([name, values]) => [name, values[0]!]))
    const raw_body = body.state === 'complete' ? body.bytes : Buffer.alloc(0)
    const answer = await doors.grpc.check(checkBytes({ method, path, headers: fields, raw_body }))
    const denied = answer.denied_response!
    const header = (name: string) => denied.headers?.find(one => one.header?.key === name)?.header?.value
    return told(Number(denied.status!.code), header, denied.body!)
  },
  HTTP: async parts => {
    const { method, path, headers, body } = callOf(parts)
    const bytes = body.state === 'complete' ? body.bytes : Buffer.alloc(0)
    const lines = [...headers].map(([name, values]): [string, string] => [name, values[0]!])
    const answer = await doors.http.check({
      method,
      target: `/check${path}`,
      lines: [...lines, ['x-length', String(bytes.length)]],
      body: bytes,
    })
    return told(answer.status, name => answer.headers[name]?.[0], answer.body)
  },
  embedded: async parts => {
    const { status, headers, body } = await sendCall(embedded.port, parts)
    return told(status, name => headers[name] as string | undefined, body)
  },
}

const ID = 'question-7'
const call = (name: string, params: object = {}, id: unknown = ID): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, ...params } })
const modern = (name: string): Record<string, string[]> => ({
  'mcp-protocol-version': ['2026-07-28'],
  'mcp-method': ['tools/call'],
  'mcp-name': [name],
})
const READ = { body: call('portfolio_read'), headers: modern('portfolio_read') }

describe.each(Object.keys(DOORS))('At the %s door, a caller of MCP 2026-07-28', name => {
  const ask = DOORS[name]!

  test('is challenged by the header and, in the same words, by the error -32001 that answers its request', async () => {
    const { status, challenge, json } = await ask(READ)
    expect(status).toBe(401)
    expect(json).toMatchObject({ jsonrpc: '2.0', id: ID, error: { code: -32001 } })
    const { data, message } = json['error'] as { data: object; message: string }
    expect(parseChallengeData(data)).toEqual(parseChallenge([challenge!]))
    expect(data).toEqual(challengeData(parseChallenge([challenge!])))
    expect(message).not.toBe('')
  })

  test('is refused by the error -32002, with word and status in its data and the sentence as its message', async () => {
    const { status, json } = await ask({ body: call('no_such_tool'), headers: modern('no_such_tool') })
    expect(status).toBe(403)
    expect(json).toEqual({
      jsonrpc: '2.0',
      id: ID,
      error: {
        code: -32002,
        message: expect.stringMatching(/\.$/) as string,
        data: { error: 'unknown_tool', status: 403 },
      },
    })
  })

  test('is told of an outage as one: 503 and Retry-After, the word in data', async () => {
    const key = newKey()
    const token = doors.authority.issue({
      owner: 'alice',
      resource: `${PUBLIC_URL}/mcp/alice`,
      key,
      permissions: [{ resource_id: 'alice/portfolio', resource_scopes: ['read'], exp: nowSeconds() + 600 }],
    })
    doors.authority.script('/introspect', { status: 500, body: {} })
    const { status, retryAfter, json } = await ask({ ...READ, token, signer: key })
    doors.authority.script('/introspect', undefined)
    expect([status, retryAfter]).toEqual([503, expect.stringMatching(/^\d+$/)])
    expect(json).toMatchObject({
      id: ID,
      error: { code: -32002, data: { error: 'temporarily_unavailable', status: 503 } },
    })
  })

  test('may say so in the body alone', async () => {
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    const { status, json } = await ask({ body: call('portfolio_read', { _meta }) })
    expect([status, json['id']]).toEqual([401, ID])
    expect(json['error']).toMatchObject({ code: -32001 })
  })

  test.each([
    ['cannot be read', '{'],
    ['has no id', JSON.stringify({ jsonrpc: '2.0', method: 'tools/call', params: { name: 'no_such_tool' } })],
    ['has an id too long to repeat', call('no_such_tool', {}, 'x'.repeat(257))],
  ])('gets the id null where its message %s', async (_what, body) => {
    const { status, json } = await ask({ body, headers: modern('no_such_tool') })
    expect(status).toBeGreaterThanOrEqual(400)
    expect(json).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32002 } })
  })

  test('whose mirrors disagree gets MCP’s own -32020', async () => {
    const { status, json } = await ask({ body: call('portfolio_read'), headers: modern('place_trade') })
    expect(status).toBe(400)
    expect(json).toMatchObject({ id: ID, error: { code: -32020, data: { error: 'header_body_mismatch' } } })
  })
})

describe.each(Object.keys(DOORS))('At the %s door the refusal stands by itself', name => {
  const ask = DOORS[name]!

  test.each<[string, CallParts]>([
    ['for a caller that names no revision', { body: READ.body }],
    ['for one of an earlier revision', { ...READ, headers: { 'mcp-protocol-version': ['2025-11-25'] } }],
    ['at a path where no MCP is served', { ...READ, path: '/mcp/nobody' }],
  ])('%s', async (_what, parts) => {
    const { status, json } = await ask(parts)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(json).not.toHaveProperty('jsonrpc')
    expect(json['error']).toEqual(expect.any(String))
  })
})

test('at a plain API it stands by itself, whatever the caller says of MCP', async () => {
  for (const ask of [DOORS['gRPC']!, DOORS['HTTP']!]) {
    const { status, json } = await ask({ ...READ, path: '/api/alice/orders', body: '{}' })
    expect([status, json['error']]).toEqual([401, 'insufficient_authorization'])
  }
})

describe.each(Object.keys(DOORS))('At the %s door, a method that is not opened', name => {
  const ask = DOORS[name]!
  /** A gateway lets a call pass by the status alone, so there it is never that of an answer. */
  const statusOf = (status: number): number => (name === 'HTTP' ? 403 : status)
  const asking = (id: unknown, headers: Record<string, string[]> = {}): CallParts => ({
    body: JSON.stringify({ jsonrpc: '2.0', id, method: 'resources/list', params: {} }),
    headers,
  })
  const notFound = (id: unknown) => ({
    jsonrpc: '2.0',
    id,
    error: {
      code: -32601,
      message: expect.stringMatching(/\.$/) as string,
      data: { error: 'unknown_method', status: 403 },
    },
  })

  test('is -32601 for a caller of 2025-11-25, with the status of every JSON-RPC answer', async () => {
    const { status, json } = await ask(asking(7, { 'mcp-protocol-version': ['2025-11-25'] }))
    expect([status, json]).toEqual([statusOf(200), notFound(7)])
  })

  test('is -32601 for a caller that names no revision', async () => {
    const { status, json } = await ask(asking(ID))
    expect([status, json]).toEqual([statusOf(200), notFound(ID)])
  })

  test('is -32601 with status 404 for a caller of 2026-07-28', async () => {
    const headers = { 'mcp-protocol-version': ['2026-07-28'], 'mcp-method': ['resources/list'] }
    const { status, json } = await ask(asking(ID, headers))
    expect([status, json]).toEqual([statusOf(404), notFound(ID)])
  })

  test('is the coded refusal for a message that asks for no answer', async () => {
    const { status, json } = await ask(asking(undefined))
    expect([status, json['error']]).toEqual([403, 'unknown_method'])
  })
})
