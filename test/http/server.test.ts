import { connect } from 'node:net'
import * as fc from 'fast-check'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { parseBody, parseQuery } from '../../src/http/servers/bodies.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startRawServer } from '../../src/http/servers/raw-server.ts'
import { createHttpServer, listen, type HttpServer } from '../../src/http/servers/server.ts'
import { signatureBase, signedMessage } from '../../src/http/servers/signed-request.ts'
import { refuse, Refusal } from '../../src/wire/refusal.ts'

const lines: string[] = []
let healthy = true
let server: HttpServer
let base: string

const thing = z.strictObject({
  name: z.string(),
  count: z.int().optional(),
  inner: z.strictObject({ list: z.array(z.string()) }).optional(),
})

beforeAll(async () => {
  server = createHttpServer({
    logger: createLogger({ name: 'test', level: 'debug', write: line => lines.push(line) }),
    bodyBytesMax: 1000,
    healthy: () => healthy,
  })
  server.post('/things', async request => parseBody(thing, request.body))
  server.get('/things/:id', async request =>
    parseQuery(z.strictObject({ after: z.string().optional() }), request.url),
  )
  server.put('/things/:id', async () => ({}))
  server.post('/refused', async () =>
    refuse('invalid_token', 'Sign it.', { extra: { hint: 1, error: 'forged' } }),
  )
  server.post('/challenged', async () => {
    throw new Refusal('invalid_token', 'Sign it.', { headers: { 'www-authenticate': 'Bearer' } })
  })
  server.post('/broken', async () => {
    throw new Error('the password is hunter2')
  })
  server.post('/signed', async request => {
    const message = signedMessage(request, signatureBase('https://Tools.example.com:443'))
    return {
      ...message,
      headers: [...message.headers],
      body: message.body && Buffer.from(message.body).toString('hex'),
    }
  })
  base = `http://${await listen(server, { host: '127.0.0.1', port: 0 })}`
})
afterAll(() => server.close())

interface Answer {
  status: number
  body: { error?: string; error_description?: string } & Record<string, unknown>
  headers: Record<string, unknown>
}

async function post(
  path: string,
  body: string | Buffer,
  type: string | null = 'application/json',
): Promise<Answer> {
  const headers = type === null ? {} : { 'content-type': type }
  const answer = await request(base + path, { method: 'POST', body, headers })
  return {
    status: answer.statusCode,
    body: (await answer.body.json()) as Answer['body'],
    headers: answer.headers,
  }
}

/** Sends bytes as they are, and answers the status line and the body. */
async function raw(text: string, at = base): Promise<{ status: number; body: string }> {
  const { port } = new URL(at)
  const received = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.end(text))
    let all = ''
    socket.on('data', data => (all += data.toString()))
    socket.on('close', () => resolve(all))
    socket.on('error', reject)
  })
  return { status: Number(received.split(' ')[1]), body: received.slice(received.indexOf('\r\n\r\n') + 4) }
}

describe('Every bad input gets its coded 4xx with a sentence that says what to do', () => {
  const form = 'application/x-www-form-urlencoded'
  test.each([
    ['malformed JSON', '{"name":', 'application/json', 400, 'invalid_request'],
    ['a member named twice', '{"name":"a","name":"b"}', 'application/json', 400, 'invalid_request'],
    ['a byte order mark', '\ufeff{"name":"a"}', 'application/json', 400, 'invalid_request'],
    ['no body at all', '', 'application/json', 400, 'invalid_request'],
    ['a body of null', 'null', 'application/json', 400, 'invalid_request'],
    ['an array', '[]', 'application/json', 400, 'invalid_request'],
    ['a missing member', '{}', 'application/json', 400, 'invalid_request'],
    ['a wrong type', '{"name":7}', 'application/json', 400, 'invalid_request'],
    ['an unknown member', '{"name":"a","nmae":"b"}', 'application/json', 400, 'invalid_request'],
    [
      'an oversized body',
      JSON.stringify({ name: 'a'.repeat(2000) }),
      'application/json',
      413,
      'request_too_large',
    ],
    ['a repeated parameter', 'name=a&name=b', form, 400, 'invalid_request'],
    ['a parameter repeated empty', 'name=a&name=', form, 400, 'invalid_request'],
    ['an empty parameter, which counts as absent', 'name=', form, 400, 'invalid_request'],
    ['a bad percent encoding', 'name=%zz', form, 400, 'invalid_request'],
    ['text that is no UTF-8', 'name=%ff', form, 400, 'invalid_request'],
    ['plain text', 'name', 'text/plain', 415, 'unsupported_media_type'],
    ['XML', '<name/>', 'application/xml', 415, 'unsupported_media_type'],
    ['no content type', '{"name":"a"}', null, 415, 'unsupported_media_type'],
    ['a content type that is none', '{"name":"a"}', 'json', 415, 'unsupported_media_type'],
  ])('%s', async (...[, body, type, status, code]) => {
    const answer = await post('/things', body, type)
    expect([answer.status, answer.body.error]).toEqual([status, code])
    expect(answer.body.error_description).toMatch(/^[A-Z].*\.$/)
    expect(answer.headers['cache-control']).toBe('no-store')
  })

  test.each([
    ['{"nmae":"b","name":"a"}', 'Remove the unknown member "nmae".'],
    ['{"count":1}', 'Send the member "name".'],
    ['{"name":"a","inner":{"list":["a",1]}}', 'Correct the member "inner.list[1]"'],
    ['{"name":"a","inner":{"list":[],"x":1}}', 'Remove the unknown member "x" of "inner".'],
  ])('the sentence names the member at fault: %s', async (body, sentence) => {
    expect((await post('/things', body)).body.error_description).toContain(sentence)
  })

  test('whatever bytes are sent as JSON or as a form, the answer is 200 or 400', async () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.json().map(text => new TextEncoder().encode(text).slice(0, 900)),
    )
    await fc.assert(
      fc.asyncProperty(bytes, fc.boolean(), async (body, json) => {
        const answer = await post('/things', Buffer.from(body), json ? 'application/json' : form)
        expect([200, 400]).toContain(answer.status)
      }),
      { numRuns: 150 },
    )
  })

  test.each([
    ['Host', 'GET /things/1 HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n'],
    [
      'Authorization',
      'GET /things/1 HTTP/1.1\r\nHost: a\r\nAuthorization: PoP a\r\nAuthorization: PoP b\r\nConnection: close\r\n\r\n',
    ],
    [
      'Content-Type',
      'POST /things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
    ],
    ['an absolute target', 'GET http://other/things/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
    ['a fragment', 'GET /things/1#x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
    [
      'a body on GET',
      'GET /things/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
    ],
    [
      'a bad percent encoding in the path',
      'GET /things/%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    ],
    ['no HTTP', 'what\r\n\r\n'],
  ])('what two readers could take differently is refused: %s', async (_what, text) => {
    const { status, body } = await raw(text)
    expect(status).toBe(400)
    expect(JSON.parse(body)).toMatchObject({
      error: 'invalid_request',
      error_description: expect.stringMatching(/\.$/),
    })
  })

  test('an encoded body is 415', async () => {
    const answer = await request(`${base}/things`, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    })
    expect([answer.statusCode, await answer.body.json()]).toMatchObject([
      415,
      { error: 'unsupported_media_type' },
    ])
  })

  test('an unknown path is 404, also with a body of no known type', async () => {
    const answer = await post('/nothing', 'x', 'text/plain')
    expect([answer.status, answer.body.error]).toEqual([404, 'not_found'])
  })

  test('a wrong method is 405 and names the right ones', async () => {
    const answer = await post('/things/7', '{}')
    expect([answer.status, answer.body.error, answer.headers.allow]).toEqual([
      405,
      'method_not_allowed',
      'GET, PUT',
    ])
  })

  test('a query parameter is held to the schema', async () => {
    const answer = await request(`${base}/things/1?after=1&after=2`)
    expect(answer.statusCode).toBe(400)
    expect(await (await request(`${base}/things/1?after=a+b%2Fc`)).body.json()).toEqual({ after: 'a b/c' })
  })
})

describe('Refusals and faults', () => {
  test('a refusal is rendered with its own code; nothing in it can replace the code', async () => {
    const answer = await post('/refused', '{}')
    expect(answer.status).toBe(401)
    expect(answer.body).toEqual({ error: 'invalid_token', error_description: 'Sign it.', hint: 1 })
  })

  test.each([
    ['of everybody', 16_384, async () => ({ at: base, stop: async () => undefined })],
    [
      'of gateways',
      98_304,
      async () => {
        const listener = await startRawServer({
          address: { host: '127.0.0.1', port: 0 },
          bodyBytesMax: 1_000,
          handle: async () => ({ status: 200, headers: [], body: '' }),
          keepConnections: () => false,
        })
        return { at: `http://${listener.address}`, stop: () => listener.stop(0) }
      },
    ],
  ])(
    'a head that is too large for the listener %s is told the bytes that it may have: %i',
    async (_of, most, open) => {
      const { at, stop } = await open()
      const { status, body } = await raw(
        `GET /health HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(most)}\r\n\r\n`,
        at,
      )
      await stop()
      expect([status, JSON.parse(body)]).toEqual([
        431,
        {
          error: 'request_too_large',
          error_description: `Send fewer or shorter headers: with the request line, less than ${most} bytes are taken here.`,
        },
      ])
    },
  )

  test('a refusal carries its WWW-Authenticate', async () => {
    expect((await post('/challenged', '{}')).headers['www-authenticate']).toBe('Bearer')
  })

  test('what is no refusal is 500 without detail, and logged', async () => {
    const answer = await post('/broken', '{}')
    expect([answer.status, answer.body]).toEqual([500, { error: 'server_error' }])
    expect(lines.join('')).toContain('the password is hunter2')
  })
})

describe('Health', () => {
  test('GET /health is local liveness; a draining process is not healthy', async () => {
    expect((await request(`${base}/health`)).statusCode).toBe(200)
    healthy = false
    const draining = await request(`${base}/health`)
    healthy = true
    expect([draining.statusCode, await draining.body.json()]).toEqual([503, { status: 'draining' }])
  })
})

describe('The signature base is rebuilt from configured values', () => {
  test('scheme and authority are the configured ones, path, query, lines and body as received', async () => {
    const { body } = await raw(
      'POST /signed?b=%2F&a HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nX-A: 1\r\nx-a: 2\r\n' +
        'Content-Type: application/json\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{ }',
    )
    const message = JSON.parse(body)
    expect(message).toMatchObject({
      method: 'POST',
      scheme: 'https',
      authority: 'tools.example.com',
      path: '/signed',
      query: 'b=%2F&a',
      body: '7b207d',
    })
    expect(new Map(message.headers).get('x-a')).toEqual(['1', '2'])
  })
})

describe('Logs', () => {
  test('tokens and secrets are withheld by name, control and direction marks are escaped', () => {
    const written: string[] = []
    const logger = createLogger({ name: 'test', level: 'info', write: line => written.push(line) })
    logger.info(
      { ticket: 'one-secret', request: { authorization: 'two-secret' }, tool: 'a\u202eb\u001b[2J\u0085' },
      'x',
    )
    for (const forbidden of ['-secret', '\u202e', '\u001b', '\u0085'])
      expect(written[0]).not.toContain(forbidden)
    expect(JSON.parse(written[0]!)).toMatchObject({
      tool: 'a\u202eb\u001b[2J\u0085',
      ticket: '[withheld]',
      name: 'test',
    })
  })
})
