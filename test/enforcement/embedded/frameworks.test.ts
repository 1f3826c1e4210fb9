import express, { type RequestHandler } from 'express'
import { fastify } from 'fastify'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { s256Json } from '../../../src/wire/encoding.ts'
import { parseResourceMetadata } from '../../../src/wire/resources/resource-metadata.ts'
import {
  sendCall,
  serve,
  singleUseGrant,
  standEmbedded,
  standingGrant,
  verdictOf,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, PUBLIC_URL, toolCallBody, type CallParts } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
const METADATA = '/.well-known/oauth-protected-resource/mcp/alice'

/** What reached the protected handler. */
interface Arrival {
  body: unknown
  raw: string | undefined
  agent: unknown
  caller: unknown
  authorization: unknown
}

/** A framework with a protected handler at /mcp/alice. */
interface App {
  port: number
  arrivals: Arrival[]
  close: () => Promise<void>
}

let stand: EmbeddedStand
let app: App | undefined

const authority = startedOnce(startScriptedAuthority)
beforeEach(async () => {
  authority.reset()
  stand = await standEmbedded(authority.issuer)
})
afterEach(async () => {
  await app?.close()
  await stand.close()
})

const standing = (): string => standingGrant(authority, agent)
const granted = (parts: CallParts = {}): CallParts => ({ token: standing(), signer: agent, ...parts })

async function expressApp(before: RequestHandler[] = [], mount = '/'): Promise<App> {
  const arrivals: Arrival[] = []
  const server = express()
  const protect = stand.point.middleware() as RequestHandler
  server.use(stand.point.documents() as RequestHandler)
  const handler: RequestHandler = (request, response) => {
    arrivals.push({
      body: request.body as unknown,
      raw: (request as { rawBody?: Buffer }).rawBody?.toString(),
      agent: request.headers['x-uma-agent'],
      caller: stand.point.callerOf(request),
      authorization: request.headers.authorization,
    })
    response.send('done')
  }
  const next: RequestHandler = (_request, _response, next) => next()
  if (mount === '/') server.all(/^\/mcp\/.*/, ...before, protect, protect, next, handler)
  else server.use(mount, ...before, protect, handler)
  const { port, close } = await serve(server)
  return { port, arrivals, close }
}

async function fastifyApp(changes: { bodyLimit?: number } = {}): Promise<App> {
  const arrivals: Arrival[] = []
  const server = fastify(changes)
  await server.register(stand.point.fastifyDocuments)
  await server.register(async scope => {
    await scope.register(stand.point.fastify)
    scope.route({
      method: ['POST', 'GET', 'DELETE', 'OPTIONS'],
      url: '/mcp/alice',
      handler: async request => {
        arrivals.push({
          body: request.body,
          raw: undefined,
          agent: request.headers['x-uma-agent'],
          caller: stand.point.callerOf(request.raw),
          authorization: request.headers.authorization,
        })
        return 'done'
      },
    })
  })
  await server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = server.server.address() as { port: number }
  return { port, arrivals, close: () => server.close() }
}

describe.each([
  ['Express', () => expressApp()],
  ['Express, mounted at a path', () => expressApp([], '/mcp')],
  ['Fastify', () => fastifyApp()],
])('A handler of %s', (_name, open) => {
  test('is not reached without a sufficient grant', async () => {
    app = await open()
    const answer = await sendCall(app.port)
    expect(verdictOf(answer)).toBe('401 insufficient_authorization')
    expect(answer.headers['www-authenticate']).toMatch(/^UMA /)
    expect(app.arrivals).toEqual([])
  })

  test('gets the value that was judged, and learns from the grant who calls', async () => {
    app = await open()
    const body = toolCallBody('portfolio_read', { note: 'ü', __proto__x: 1 })
    expect(verdictOf(await sendCall(app.port, granted({ body })))).toBe('allow')
    expect(app.arrivals).toMatchObject([
      {
        body: JSON.parse(body) as object,
        agent: `jkt:${agent.thumbprint}`,
        caller: { owner: 'alice', agent: `jkt:${agent.thumbprint}`, tool: 'portfolio_read' },
        authorization: undefined,
      },
    ])
  })

  test('a single-use grant passes once', async () => {
    app = await open()
    const operation = { tool: 'place_trade', params_s256: s256Json(TRADE) }
    const token = singleUseGrant(authority, agent, operation)
    const call = { tool: 'place_trade', args: TRADE, token, signer: agent }
    expect(verdictOf(await sendCall(app.port, call))).toBe('allow')
    expect(verdictOf(await sendCall(app.port, call))).toBe('401 insufficient_authorization')
    expect([authority.count('/consume'), app.arrivals.length]).toEqual([1, 1])
  })

  test.each(['GET', 'DELETE', 'OPTIONS', 'HEAD'])('%s does not go around the check', async method => {
    app = await open()
    const { status } = await sendCall(app.port, { method, body: { state: 'absent' } })
    expect([status, app.arrivals]).toEqual([405, []])
  })

  test('what the resource publishes is served beside it', async () => {
    app = await open()
    const origin = `http://127.0.0.1:${app.port}`
    const metadata = (await (await fetch(origin + METADATA)).json()) as object
    expect(parseResourceMetadata(metadata, `${PUBLIC_URL}/mcp/alice`).authorization_servers).toEqual([
      authority.issuer,
    ])
    expect(await (await fetch(`${origin}/jwks`)).json()).toMatchObject({ keys: [{ alg: 'EdDSA' }] })
    const statuses = await Promise.all(
      ['/.well-known/oauth-protected-resource/mcp/bea', '/owner-resources', '/owner-resources/alice'].map(
        async path => (await fetch(origin + path)).status,
      ),
    )
    expect(statuses).toEqual([404, 401, 401])
  })
})

describe('Express', () => {
  test('a body that another middleware has read fails closed, and names what to change', async () => {
    app = await expressApp([express.json()])
    const answer = await sendCall(app.port, granted())
    expect(verdictOf(answer)).toBe('400 request_body_missing')
    expect(answer.body).toContain('before every body parser')
    expect([authority.received, app.arrivals]).toEqual([[], []])
  })

  test('a body parser after it finds nothing to read, and changes nothing', async () => {
    const body = toolCallBody('portfolio_read', { a: 1 })
    const server = express()
    let seen: unknown
    server.use(stand.point.middleware() as RequestHandler, express.json(), (request, response) => {
      seen = request.body
      response.send('done')
    })
    const { port, close } = await serve(server)
    expect(verdictOf(await sendCall(port, granted({ body })))).toBe('allow')
    expect(seen).toEqual(JSON.parse(body))
    await close()
  })

  test('a target that was rewritten before it was judged is our outage, not an allow', async () => {
    const rewrite: RequestHandler = (request, _response, next) => {
      request.url = '/mcp/alice'
      next()
    }
    app = await expressApp([rewrite])
    const answer = await sendCall(app.port, granted({ path: '/mcp/bea' }))
    expect(verdictOf(answer)).toBe('503 temporarily_unavailable')
    expect(app.arrivals).toEqual([])
  })

  test('what the next handlers throw is not a denial', async () => {
    const server = express()
    server.use(stand.point.middleware() as RequestHandler, () => {
      throw new Error('the tool broke')
    })
    server.use(((_error, _request, response, _next) => {
      response.status(500).send('theirs')
    }) as express.ErrorRequestHandler)
    const { port, close } = await serve(server)
    const answer = await sendCall(port, granted())
    expect([answer.status, answer.body]).toEqual([500, 'theirs'])
    await close()
  })
})

describe('Fastify', () => {
  test('a route of another scope is not judged, and an unknown path of the scope is not reached', async () => {
    app = await fastifyApp()
    expect((await sendCall(app.port, { path: '/mcp/bea' })).status).toBe(404)
    expect(app.arrivals).toEqual([])
  })

  test('a body over the cap of usher is 413 before Fastify parses it', async () => {
    app = await fastifyApp({ bodyLimit: 10_000_000 })
    const answer = await sendCall(app.port, { body: `"${'x'.repeat(1_100_000)}"` })
    expect(verdictOf(answer)).toBe('413 request_body_too_large')
  })

  test('whatever parser the scope has, the handler gets the value that was judged', async () => {
    const server = fastify()
    let seen: unknown
    await server.register(stand.point.fastify)
    server.removeAllContentTypeParsers()
    server.addContentTypeParser('application/json', { parseAs: 'string' }, async () => ({ other: true }))
    server.post('/mcp/alice', async request => {
      seen = request.body
      return 'done'
    })
    await server.listen({ port: 0, host: '127.0.0.1' })
    const { port } = server.server.address() as { port: number }
    const body = toolCallBody('portfolio_read')
    expect(verdictOf(await sendCall(port, granted({ body })))).toBe('allow')
    expect(seen).toEqual(JSON.parse(body))
    await server.close()
  })

  test('what a handler throws is not a denial', async () => {
    const server = fastify()
    await server.register(stand.point.fastify)
    server.post('/mcp/alice', async () => {
      throw new Error('the tool broke')
    })
    await server.listen({ port: 0, host: '127.0.0.1' })
    const { port } = server.server.address() as { port: number }
    expect((await sendCall(port, granted())).status).toBe(500)
    await server.close()
  })
})
