/**
 * Browsers ask before they call, and read what they may. Contract: "Challenge (beat 1)": whoever may call can
 * read the challenge; docs/embedded.md.
 */
import express, { type RequestHandler } from 'express'
import Fastify from 'fastify'
import { request } from 'node:http'
import { beforeEach, describe, expect, test } from 'vitest'
import { serve, standProtected } from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedForEach, startedOnce } from '../../support/started.ts'
import { PUBLIC_URL, toolCallBody } from '../calls.ts'

let reached: string[]
beforeEach(() => void (reached = []))
const authority = startedOnce(startScriptedAuthority)
const stand = startedForEach(() =>
  standProtected(authority.issuer, (asked, response) => {
    reached.push(asked.method ?? '')
    response.end('done')
  }),
)

function send(
  method: string,
  headers: Record<string, string>,
  body = '',
): Promise<{ status: number; headers: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const asking = request(
      { port: stand.port, host: '127.0.0.1', path: '/mcp/alice', method, headers },
      answer => {
        answer.resume().once('end', () => resolve({ status: answer.statusCode!, headers: answer.headers }))
      },
    )
    asking.once('error', reject)
    asking.end(body)
  })
}
const ASKING = {
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,content-type,signature,signature-input',
}
const CALL = { 'content-type': 'application/json' }
const body = toolCallBody('place_trade', {})

describe('A browser of any origin', () => {
  test.each(['/jwks', '/.well-known/oauth-protected-resource/mcp/alice'])(
    'reads what is everybody’s to read: %s',
    async path => {
      const documents = stand.point.documents()
      const open = await serve((request, response) => documents(request, response, () => response.end()))
      const answer = await fetch(`http://127.0.0.1:${open.port}${path}`, {
        headers: { origin: 'https://elsewhere.example' },
      })
      expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, '*'])
      await open.close()
    },
  )

  /** Each serves the documents as its users do, and answers where. */
  const SERVING: Record<string, () => Promise<{ base: string; close: () => Promise<void> }>> = {
    node: async () => {
      const documents = stand.point.documents()
      const open = await serve((asked, response) => documents(asked, response, () => response.end()))
      return { base: `http://127.0.0.1:${open.port}`, close: () => open.close() }
    },
    express: async () => {
      const app = express()
      app.use(stand.point.documents() as RequestHandler)
      const open = await serve(app)
      return { base: `http://127.0.0.1:${open.port}`, close: () => open.close() }
    },
    fastify: async () => {
      const app = Fastify()
      await app.register(stand.point.fastifyDocuments)
      return { base: await app.listen({ host: '127.0.0.1', port: 0 }), close: () => app.close() }
    },
  }
  const DOCUMENTS = [
    '/jwks',
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-protected-resource/mcp/alice',
  ]
  const MCP_FIELDS = 'authorization,content-type,last-event-id,mcp-protocol-version,mcp-session-id'

  test.each(Object.keys(SERVING).flatMap(by => DOCUMENTS.map(path => [by, path] as const)))(
    'is told that it may send the fields of a client of MCP (%s: %s)',
    async (by, path) => {
      const { base, close } = await SERVING[by]!()
      const headers = {
        origin: 'https://elsewhere.example',
        'access-control-request-method': 'GET',
        'access-control-request-headers': MCP_FIELDS,
      }
      const asked = await fetch(base + path, { method: 'OPTIONS', headers })
      expect(asked.status).toBe(204)
      expect(Object.fromEntries(asked.headers)).toMatchObject({
        'access-control-allow-origin': '*',
        'access-control-allow-headers': MCP_FIELDS,
        'access-control-allow-methods': 'GET, HEAD',
      })
      const listing = await fetch(`${base}/owner-resources/alice`, { method: 'OPTIONS', headers })
      expect([listing.status >= 400, listing.headers.get('access-control-allow-origin')]).toEqual([
        true,
        null,
      ])
      await close()
    },
  )
})

describe('A browser of an origin that may call', () => {
  test('gets its answer before a call, and nothing is called', async () => {
    const answer = await send('OPTIONS', { origin: PUBLIC_URL, ...ASKING })
    expect(answer.status).toBe(204)
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': PUBLIC_URL,
      'access-control-allow-headers': ASKING['access-control-request-headers'],
      vary: 'Origin',
    })
    expect(answer.headers['access-control-allow-methods']).toContain('POST')
    expect(reached).toEqual([])
  })

  test('reads the challenge of a call', async () => {
    const answer = await send('POST', { origin: PUBLIC_URL, ...CALL }, body)
    expect(answer.status).toBe(401)
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': PUBLIC_URL,
      'www-authenticate': expect.stringContaining('UMA') as string,
    })
    expect(answer.headers['access-control-expose-headers']).toContain('WWW-Authenticate')
  })

  test('reads what needs no grant', async () => {
    const answer = await send(
      'POST',
      { origin: PUBLIC_URL, ...CALL },
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    )
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([200, PUBLIC_URL])
    expect(reached).toEqual(['POST'])
  })

  test('is answered no field that it could not have asked for', async () => {
    const answer = await send('OPTIONS', {
      origin: PUBLIC_URL,
      ...ASKING,
      'access-control-request-headers': 'a b;c',
    })
    expect([answer.status, answer.headers['access-control-allow-headers']]).toEqual([204, undefined])
  })
})

describe('Any other is told nothing', () => {
  test.each<[string, string, Record<string, string>, number]>([
    ['the question of another origin', 'OPTIONS', { origin: 'https://evil.example', ...ASKING }, 403],
    ['the question of null', 'OPTIONS', { origin: 'null', ...ASKING }, 403],
    ['OPTIONS that ask nothing', 'OPTIONS', { origin: PUBLIC_URL }, 405],
    ['a question without an origin', 'OPTIONS', ASKING, 405],
    ['a call of another origin', 'POST', { origin: 'https://evil.example', ...CALL }, 403],
  ])('%s', async (_what, method, headers, status) => {
    const answer = await send(method, headers, method === 'POST' ? body : '')
    expect(answer.status).toBe(status)
    if (headers['origin'] !== PUBLIC_URL)
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
    expect(reached).toEqual([])
  })
})
