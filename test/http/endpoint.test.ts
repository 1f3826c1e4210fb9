/**
 * Contract, "Endpoints": the declaration of an endpoint is what is served and described, and answers are
 * compared with it.
 */
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { endpoint, serveEndpoints, type Credential } from '../../src/http/servers/endpoint.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { openApiDocument } from '../../src/http/openapi/openapi.ts'
import { createHttpServer, listen, type HttpServer } from '../../src/http/servers/server.ts'
import { refuse } from '../../src/wire/refusal.ts'

interface Shelf {
  isOpen: boolean
  held: string[]
}

const rows = { addedUnder: 'Owner API' } as const
const around: string[] = []
const BY_NAME: Credential<Shelf, string> = {
  names: ['name'],
  async admit(_shelf, { headers }, run) {
    if (typeof headers['x-name'] !== 'string') refuse('invalid_credential', 'Say who you are.')
    around.push(`${headers['x-name']} comes`)
    return run(headers['x-name']).finally(() => around.push(`${headers['x-name'] as string} leaves`))
  },
}

const PUT_THING = endpoint({
  method: 'put',
  path: '/things/{id}',
  rows,
  summary: 'Keeps a thing',
  credential: BY_NAME,
  first: ({ isOpen }: Shelf) => void (isOpen || refuse('temporarily_unavailable', 'It is closed.')),
  parameters: { schema: z.object({ id: z.string().max(5) }), unknown: 'There is no such thing.' },
  query: z.strictObject({ times: z.string().optional() }),
  reads: { 'x-colour': 'Of the thing.' },
  body: { schema: z.strictObject({ size: z.int() }) },
  answers: {
    200: {
      says: 'It was kept before.',
      schema: z.strictObject({ by: z.string(), size: z.int() }),
      headers: { 'cache-control': 'no-store' },
    },
    201: { says: 'It is kept.' },
  },
  handle: async ({ held }: Shelf, { caller, parameters, query, body, answer }) => {
    if (held.includes(parameters.id)) return answer(200, { by: caller, size: body.size })
    held.push(parameters.id)
    return answer(201, `${query.times ?? '1'} time`, { 'x-kept': 'now' })
  },
})

const ANSWER = z.object({ n: z.number() })
const LIAR = endpoint({
  method: 'post',
  path: '/lies',
  rows,
  summary: 'Answers with what it is sent',
  body: { schema: z.object({ status: z.int(), body: z.unknown().optional() }), form: 'unlisted' },
  answers: { 200: { says: 'A number.', schema: ANSWER }, 204: { says: 'Nothing.' } },
  handle: async (_shelf: Shelf, { body: { status, body }, answer }) =>
    answer(status as 200, body as z.infer<typeof ANSWER>),
})

const shelf: Shelf = { isOpen: true, held: [] }
const faults: string[] = []
let server: HttpServer
let base: string
beforeAll(async () => {
  server = createHttpServer({
    logger: createLogger({ name: 'test', level: 'fatal', write: () => undefined }),
    bodyBytesMax: 1000,
    onUndeclared: fault => void faults.push(fault),
  })
  serveEndpoints(server, shelf, [PUT_THING, LIAR])
  base = `http://${await listen(server, { host: '127.0.0.1', port: 0 })}`
})
afterAll(() => server.close())

async function put(
  target: string,
  { name = 'ann', type = 'application/json', body = '{"size":1}' }: Record<string, string | null> = {},
) {
  const headers = { 'content-type': type ?? undefined, 'x-name': name ?? undefined }
  const reply = await request(base + target, { method: 'PUT', headers, body })
  const text = await reply.body.text()
  const error = text.startsWith('{') ? (JSON.parse(text) as { error?: string }).error : undefined
  return { status: reply.statusCode, headers: reply.headers, text, error }
}

describe('a declared endpoint', () => {
  test('hands its handler who calls and what was sent, and sends what it answers', async () => {
    const first = await put('/things/a?times=3')
    expect([first.status, first.text, first.headers['x-kept']]).toEqual([201, '3 time', 'now'])
    const again = await put('/things/a')
    expect([again.status, again.text, again.headers['cache-control']]).toEqual([
      200,
      '{"by":"ann","size":1}',
      'no-store',
    ])
  })

  test('refuses what its declaration does not take: the caller first, then the path, the query, the body', async () => {
    const wrong = { name: null, type: 'text/plain', body: '{}' }
    expect((await put('/things/too-long?x=1', wrong)).error).toBe('unsupported_media_type')
    const json = { ...wrong, type: 'application/json' }
    expect((await put('/things/too-long?x=1', json)).error).toBe('invalid_credential')
    expect((await put('/things/too-long?x=1', { ...json, name: 'ann' })).error).toBe('not_found')
    expect((await put('/things/a?x=1', { ...json, name: 'ann' })).text).toContain('"x\\"')
    expect((await put('/things/a', { ...json, name: 'ann' })).text).toContain('size')
    const form = { type: 'application/x-www-form-urlencoded', body: 'size=1' }
    expect((await put('/things/a', form)).status).toBe(415)
  })

  test('refuses first of all what its context says, to a known caller', async () => {
    shelf.isOpen = false
    expect((await put('/things/too-long')).error).toBe('temporarily_unavailable')
    expect((await put('/things/too-long', { name: null })).error).toBe('invalid_credential')
    shelf.isOpen = true
  })

  test('runs within what its credential puts around it', async () => {
    around.length = 0
    await put('/things/a', { name: 'bob', body: '{"size":"x"}' })
    expect(around).toEqual(['bob comes', 'bob leaves'])
  })
})

test.each([
  [200, { n: 1 }, undefined],
  [200, { n: 'one' }, /otherwise than it declares/],
  [200, { n: 1, m: 2 }, /members that it does not declare/],
  [202, { n: 1 }, /POST \/lies answered 202, which it does not declare/],
  [204, undefined, undefined],
])('an answer %i %o is held against its declaration', async (status, body, fault) => {
  faults.length = 0
  const reply = await request(`${base}/lies`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ status, body }),
  })
  expect(reply.statusCode).toBe(status)
  await reply.body.dump()
  expect(faults).toEqual(fault === undefined ? [] : [expect.stringMatching(fault)])
})

test('the OpenAPI document says of it what it serves', () => {
  const about = {
    title: 'things',
    description: 'Of things.',
    server: '/',
    chapters: [{ name: 'things', description: 'All of them.', paths: ['/things'] }],
    securitySchemes: { name: { type: 'apiKey' } },
  }
  const { paths, components } = openApiDocument([PUT_THING], about)() as unknown as {
    paths: Record<string, Record<string, object>>
    components: { schemas: object }
  }
  expect(paths['/things/{id}']?.['put']).toMatchObject({
    operationId: 'putThingsId',
    summary: 'Keeps a thing',
    security: [{ name: [] }],
    parameters: [
      { name: 'id', in: 'path', required: true },
      { name: 'times', in: 'query', required: false },
      { name: 'x-colour', in: 'header', description: 'Of the thing.' },
    ],
    requestBody: {
      content: { 'application/json': { schema: { $ref: '#/components/schemas/PutThingsIdRequest' } } },
    },
    responses: {
      200: { content: { 'application/json': {} } },
      201: {},
      400: {},
      401: {},
      404: {},
      413: {},
      415: {},
      default: {},
    },
  })
  expect(components.schemas).toMatchObject({ PutThingsIdRequest: { required: ['size'] } })
})
