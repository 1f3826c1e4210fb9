/**
 * Contract, "Owner's authorization server: public": what is everybody's, a page of any origin may read.
 * Clients of MCP in a page send fields of their own with that GET, so their browsers ask first.
 */
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENDPOINTS as AUTHORITY, JOINT_ENDPOINTS, LOG_ENDPOINTS } from '../../src/authority/endpoints.ts'
import { serveEndpoints, type Described, type Endpoint } from '../../src/http/servers/endpoint.ts'
import { HEALTH } from '../../src/http/servers/health.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createHttpServer, listen, type HttpServer } from '../../src/http/servers/server.ts'
import { ENDPOINTS as ORGANIZATION } from '../../src/organization/endpoints.ts'
import { ENDPOINTS as TALLY } from '../../src/tally/endpoints.ts'
import { ENDPOINTS as WITNESS } from '../../src/witness/endpoints.ts'

const LISTENERS = {
  authority: [...AUTHORITY.public, ...JOINT_ENDPOINTS.public, ...LOG_ENDPOINTS.public],
  owner: [...AUTHORITY.owner, ...JOINT_ENDPOINTS.owner, ...LOG_ENDPOINTS.owner],
  organization: ORGANIZATION.public,
  administration: ORGANIZATION.admin,
  tally: TALLY,
  witness: WITNESS,
} as const
type Listener = keyof typeof LISTENERS

/** What is everybody's, on each listener; every other path is answered as before. */
const PUBLIC: Record<Listener, readonly string[]> = {
  authority: [
    '/.well-known/agents-configuration',
    '/.well-known/uma2-configuration',
    '/.well-known/oauth-authorization-server',
    '/.well-known/uma4agents-configuration',
    '/jwks',
    '/terms',
    '/terms/{owner}/{tier}/{version}',
    '/ledger/jwks',
  ],
  owner: [],
  organization: ['/.well-known/ext-organization', '/.well-known/u4a-organization', '/jwks'],
  administration: [],
  tally: [
    '/.well-known/agents-configuration',
    '/.well-known/uma2-configuration',
    '/.well-known/oauth-authorization-server',
    '/.well-known/uma4agents-configuration',
    '/jwks',
    '/mandate/{account}',
    '/terms',
    '/terms/{owner}/{tier}/{version}',
  ],
  witness: [],
}

/** What clients of MCP send from a page, in one question and alone. */
const ASKED = [
  'mcp-protocol-version',
  'authorization',
  'content-type',
  'mcp-session-id',
  'last-event-id',
  'authorization,content-type,last-event-id,mcp-protocol-version,mcp-session-id',
]

const servers: HttpServer[] = []
const bases: Partial<Record<Listener, string>> = {}
beforeAll(async () => {
  for (const [name, endpoints] of Object.entries(LISTENERS)) {
    const logger = createLogger({ name: 'test', level: 'fatal' })
    const server = createHttpServer({ logger, bodyBytesMax: 1_000 })
    servers.push(server)
    // No handler runs: whether a page may read is known from the declaration alone.
    const declared = distinct(endpoints).filter(one => one !== HEALTH)
    serveEndpoints(server, undefined, declared as Endpoint<unknown>[])
    bases[name as Listener] = `http://${await listen(server, { host: '127.0.0.1', port: 0 })}`
  }
})
afterAll(() => Promise.all(servers.map(server => server.close())))

function distinct(endpoints: readonly Described[]): Described[] {
  return [...new Map(endpoints.map(one => [`${one.method} ${one.path}`, one])).values()]
}

async function ask(listener: Listener, path: string, headers: Record<string, string>) {
  const url = bases[listener]! + path.replaceAll(/\{\w+\}/g, 'some')
  const answer = await request(url, { method: 'OPTIONS', headers })
  await answer.body.dump()
  return answer
}

const QUESTION = { origin: 'https://page.example', 'access-control-request-method': 'GET' }
const ROWS = Object.entries(PUBLIC).flatMap(([listener, paths]) =>
  paths.map(path => [listener as Listener, path] as const),
)

describe('A browser that asks for a page of any origin', () => {
  test.each(ROWS)('%s %s may be read, with every field that a client sends', async (listener, path) => {
    for (const asked of ASKED) {
      const answer = await ask(listener, path, { ...QUESTION, 'access-control-request-headers': asked })
      expect(answer.statusCode).toBe(204)
      expect(answer.headers).toMatchObject({
        'access-control-allow-origin': '*',
        'access-control-allow-headers': asked,
        'access-control-allow-methods': 'GET, HEAD',
      })
    }
  })

  test.each(Object.keys(LISTENERS) as Listener[])(
    'is told no yes at any other path of %s',
    async listener => {
      const others = distinct(LISTENERS[listener]).filter(({ path }) => !PUBLIC[listener].includes(path))
      expect(others.length).toBeGreaterThan(0)
      for (const { path } of others) {
        const { statusCode, headers } = await ask(listener, path, QUESTION)
        expect([path, statusCode, headers['access-control-allow-origin']]).toEqual([path, 405, undefined])
      }
    },
  )
})

describe('At a document that is everybody’s', () => {
  test.each<[string, Record<string, string>]>([
    ['OPTIONS that ask nothing', { origin: QUESTION.origin }],
    ['a question without an origin', { 'access-control-request-method': 'GET' }],
    ['nothing at all', {}],
  ])('%s is a wrong method as before', async (_what, headers) => {
    const answer = await ask('authority', '/jwks', headers)
    expect([answer.statusCode, answer.headers['allow']]).toEqual([405, 'GET'])
  })

  test('fields that are no names are not answered', async () => {
    const fields = { ...QUESTION, 'access-control-request-headers': 'a b;c' }
    const answer = await ask('authority', '/jwks', fields)
    expect([answer.statusCode, answer.headers['access-control-allow-headers']]).toEqual([204, undefined])
  })

  test('a question about another method is answered with what may be asked', async () => {
    const answer = await ask('authority', '/jwks', { ...QUESTION, 'access-control-request-method': 'DELETE' })
    expect(answer.headers['access-control-allow-methods']).toBe('GET, HEAD')
  })
})
