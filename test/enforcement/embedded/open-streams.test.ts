/**
 * A stream that an MCP server inside its own enforcement point keeps open under a standing grant ends soon
 * after the grant. contract, "Grant (RPT) liveness"; docs/choices.md, "Authorized call". The tests run
 * beside each other, because each waits until the authority is asked again.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import express, { type RequestHandler } from 'express'
import { fastify } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  sendCall,
  embeddedOwner,
  serve,
  standEmbedded,
  standingGrant,
  verdictOf,
  type Answer,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { connect1, newWallet, signingFetch } from '../../support/mcp-clients.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../../support/scripted-authority.ts'
import { createSessionTools } from '../../support/session-tools.ts'
import { until } from '../../support/until.ts'
import { newKey, PUBLIC_URL, type CallParts } from '../calls.ts'

const agent = newKey()
const LISTEN = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: {} })
const GET: CallParts = { method: 'GET', body: { state: 'absent' } }
const open: (() => Promise<unknown>)[] = []
let authority: ScriptedAuthority
let stand: EmbeddedStand
/** The answers that servers keep open, by the field `x-name` of their requests. */
const kept = new Map<string, ServerResponse>()

beforeAll(async () => {
  authority = await startScriptedAuthority()
  stand = await standOf(authority)
})
afterAll(async () => {
  for (const response of kept.values()) response.destroy()
  for (const close of open.reverse()) await close()
  await stand?.close()
  await authority?.close()
})

function standOf({ issuer }: ScriptedAuthority): Promise<EmbeddedStand> {
  const methods = { 'subscriptions/listen': { tool: 'portfolio_read' } }
  return standEmbedded(issuer, { owners: [embeddedOwner(issuer, { methods })], open_methods: ['GET'] })
}

/** Begins to answer, and leaves the end to somebody else. */
function keepOpen(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: begun\n\n')
  kept.set(String(request.headers['x-name']), response)
}

const DOORS: [name: string, start: (point: EmbeddedStand['point']) => Promise<number>][] = [
  [
    'a handler of node:http',
    async point => {
      const { port, close } = await serve(point.protect(keepOpen))
      open.push(close)
      return port
    },
  ],
  [
    'middleware of Express',
    async point => {
      const app = express()
      app.use(point.middleware() as RequestHandler, (request, response) => keepOpen(request, response))
      const { port, close } = await serve(app)
      open.push(close)
      return port
    },
  ],
  [
    'a handler of Fastify',
    async point => {
      const app = fastify()
      await app.register(async scope => {
        await scope.register(point.fastify)
        scope.route({
          method: ['GET', 'POST'],
          url: '/mcp/*',
          handler: (request, reply) => {
            reply.hijack()
            keepOpen(request.raw, reply.raw)
          },
        })
      })
      await app.listen({ port: 0, host: '127.0.0.1' })
      open.push(() => app.close())
      return (app.server.address() as { port: number }).port
    },
  ],
]

/** What becomes of an answer: `cut`, if its connection was ended before it was whole. */
const ending = (answer: Promise<Answer>): Promise<string> =>
  answer.then(verdictOf, (error: NodeJS.ErrnoException) =>
    error.code === 'ECONNRESET' ? 'cut' : error.message,
  )

/** The same, once it is there; the wait for it has an end. */
async function soon(what: Promise<string>): Promise<string | undefined> {
  let found: string | undefined
  void what.then(one => (found = one))
  await until(() => found !== undefined)
  return found
}

const asked = (of: ScriptedAuthority, token: string): number =>
  of.received.filter(({ path, body }) => path === '/introspect' && body.includes(token)).length
const granted = (token: string, name: string, call: CallParts): CallParts => ({
  ...call,
  token,
  signer: agent,
  headers: { ...call.headers, 'x-name': [name] },
})
const grantAt = (of: ScriptedAuthority, family = 'fam_test'): string =>
  standingGrant(of, agent, { claims: { family } })
const endsIn = (lines: EmbeddedStand['lines']): [unknown, unknown][] =>
  lines.filter(({ msg }) => msg === 'a stream was ended').map(({ why, family }) => [why, family])

describe.concurrent('A stream that stays open under a grant', () => {
  test.each(DOORS)(
    '(GET), let through by %s, stays open while its grant lives, and ends soon after the owner has revoked it',
    async (door, start) => {
      const port = await start(stand.point)
      const family = `fam_${DOORS.findIndex(([name]) => name === door)}`
      const [ended, living] = [grantAt(authority, family), grantAt(authority)]
      const names = [`${door} 1`, `${door} 2`] as const
      const stream = ending(sendCall(port, granted(ended, names[0], GET)))
      void ending(sendCall(port, granted(living, names[1], GET)))
      await until(() => names.every(name => kept.has(name)))
      authority.end(ended, 'connection_revoked')
      expect(await soon(stream)).toBe('cut')
      expect(endsIn(stand.lines)).toContainEqual(['the grant has ended', family])
      // The third question comes only after a yes to the second.
      await until(() => asked(authority, living) > 2)
      expect(kept.get(names[1])!.destroyed).toBe(false)
      expect(await ending(sendCall(port, granted(ended, names[0], GET)))).toBe('403 access_revoked')
    },
  )

  test('that a client of MCP 2026-07-28 asked for (subscriptions/listen) ends with it, but no call of a tool', async () => {
    const port = await DOORS[0]![1](stand.point)
    const token = grantAt(authority)
    const answer = ending(sendCall(port, granted(token, 'call', {})))
    const stream = ending(sendCall(port, granted(token, 'listen', { body: LISTEN })))
    await until(() => kept.has('call') && kept.has('listen'))
    authority.end(token, 'revoked')
    expect(await soon(stream)).toBe('cut')
    kept.get('call')!.end('done')
    expect(await answer).toBe('allow')
  })

  test('that a grant for one use was spent on stays open, because nobody ended that', async () => {
    const port = await DOORS[0]![1](stand.point)
    const params_s256 = s256Json({ 'usher/method': 'subscriptions/listen' })
    const token = standingGrant(authority, agent, { operation: { tool: 'portfolio_read', params_s256 } })
    void ending(sendCall(port, granted(token, 'once', { body: LISTEN })))
    await until(() => asked(authority, token) > 2)
    expect(
      authority.received.filter(({ path, body }) => path === '/consume' && body.includes(token)),
    ).toHaveLength(1)
    expect(kept.get('once')!.destroyed).toBe(false)
  })

  test('ends if nobody can tell whether the grant lives, which the log tells apart', async () => {
    const silent = await startScriptedAuthority()
    open.push(() => silent.close())
    const own = await standOf(silent)
    open.push(() => own.close())
    const port = await DOORS[0]![1](own.point)
    const stream = ending(sendCall(port, granted(grantAt(silent), 'outage', GET)))
    await until(() => kept.has('outage'))
    silent.script('/introspect', { status: 503, body: { error: 'temporarily_unavailable' } })
    expect(await soon(stream)).toBe('cut')
    expect(endsIn(own.lines)).toEqual([['nobody could tell whether the grant lives', 'fam_test']])
  })

  test('is asked for again by the official client, under the grant that it has then', async () => {
    const tools = createSessionTools()
    const { port, close } = await serve(
      stand.point.protect((request, response, body) => tools.handle(request, response, body)),
    )
    open.push(close, () => tools.close())
    const wallet = newWallet(agent)
    wallet.token = grantAt(authority)
    const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
    const { client } = await connect1(url, signingFetch(wallet, `${PUBLIC_URL}/mcp/alice`))
    open.push(() => client.close())
    const streams = (): number => tools.arrivals.filter(({ method }) => method === 'GET').length
    await until(() => streams() === 1)
    const first = wallet.token
    wallet.token = grantAt(authority)
    authority.end(first, 'connection_revoked')
    await until(() => streams() === 2)
    expect(wallet.denied).toEqual([])
  })
})
