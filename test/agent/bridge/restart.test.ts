/**
 * contract, "Single-use grant" and "What the service does", for a resource of MCP 2025-11-25 that keeps
 * sessions and is started anew: it is reached again, what it refuses for want of a session is no call, and no
 * grant is spent on that.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Upstream } from '../../../src/agent/bridge/upstream/upstream.ts'
import { upstreamTo } from '../../support/opened-upstream.ts'
import { newKey } from '../../support/operators.ts'
import { createSessionTools, type SessionTools } from '../../support/session-tools.ts'

let tools: SessionTools
let http: Server
let upstream: Upstream
/** The calls of tools that came since the last start. */
let calls: number
interface Said {
  status: number
  body: string
}
/** What is said to a call in the place of the tools, by the id of its request. */
let said: ((id: number) => Said) | undefined
/** What is said to whatever names a session that is not known. */
let saidOfSession: Said | undefined

async function start(port: number): Promise<number> {
  tools = createSessionTools()
  calls = 0
  said = saidOfSession = undefined
  http = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'POST' ? (JSON.parse(await text(request)) as { id: number }) : undefined
      const isCall = JSON.stringify(body ?? {}).includes('"tools/call"')
      if (isCall) calls++
      const session = request.headers['mcp-session-id']
      const isUnknown = typeof session === 'string' && !tools.sessions.has(session)
      const instead = (isUnknown ? saidOfSession : undefined) ?? (isCall ? said?.(body!.id) : undefined)
      if (instead === undefined) return tools.handle(request, response, body)
      response.writeHead(instead.status, { 'content-type': 'application/json' }).end(instead.body)
    })().catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => http.once('error', reject).listen(port, '127.0.0.1', resolve))
  return (http.address() as AddressInfo).port
}

async function stop(): Promise<void> {
  await tools.close()
  http.closeAllConnections()
  await new Promise(resolve => http.close(resolve))
}

let port: number
beforeEach(async () => {
  port = await start(0)
  upstream = upstreamTo(`http://127.0.0.1:${port}/mcp/alice`, {
    capabilities: () => ({ elicitation: {} }),
  })
})
afterEach(async () => {
  await upstream.close()
  await stop()
})

/** As behind a proxy: the connections stay, and nothing is known of the sessions. */
const restart = async (): Promise<void> => {
  await tools.close()
  tools = createSessionTools()
  calls = 0
}
const rpcError = (code: number, message: string, id: number | null = null): string =>
  JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id })
const call = { tool: 'portfolio_read', arguments: { parts: 0 } }
const proof = () => ({ accessToken: 'an RPT', key: newKey() })

describe('A resource that keeps sessions, started anew between calls', () => {
  it('lists its tools again', async () => {
    const before = await upstream.listTools()
    await restart()
    expect((await upstream.listTools()).tools.map(({ name }) => name)).toEqual(
      before.tools.map(({ name }) => name),
    )
  })

  it.each([
    ['without a grant', undefined],
    ['under a standing grant', proof()],
  ])('has a call %s made once, in a session of its own', async (_what, proof) => {
    expect(await upstream.send({ call, proof })).toMatchObject({ kind: 'result' })
    await restart()
    expect(await upstream.send({ call, proof })).toMatchObject({ kind: 'result' })
    expect(tools.executions).toHaveLength(1)
    expect(tools.sessions.size).toBeGreaterThan(0)
  })

  it('has no single-use grant spent on a call that it would refuse for want of a session', async () => {
    await upstream.listTools()
    await restart()
    expect(await upstream.send({ call, proof: proof(), once: true })).toMatchObject({ kind: 'result' })
    expect(calls).toBe(1)
    expect(tools.executions).toHaveLength(1)
  })

  it.each([
    ['the SDK for TypeScript', 404, rpcError(-32001, 'Session not found')],
    ['the SDK for TypeScript before a session', 400, rpcError(-32000, 'Bad Request: Server not initialized')],
    ['the examples of it', 400, rpcError(-32000, 'Bad Request: No valid session ID provided')],
    ['the SDK for Python', 404, rpcError(-32600, 'Session not found')],
    ['the SDK for Python at the end', 404, rpcError(-32600, 'Not Found: Session has been terminated')],
    ['the SDK for Python later', 404, rpcError(-32600, 'Not Found: Invalid or expired session ID')],
    ['the SDK for Go', 404, 'session not found'],
    ['MCP, which asks for no words', 404, ''],
  ])('has a call made once where it says so as %s does', async (_who, status, body) => {
    await upstream.listTools()
    await restart()
    saidOfSession = { status, body }
    expect(await upstream.send({ call, proof: proof() })).toMatchObject({ kind: 'result' })
    expect(calls).toBe(2)
    expect(tools.executions).toHaveLength(1)
  })

  it('has each of several calls made once that come together', async () => {
    await upstream.listTools()
    await restart()
    const answers = await Promise.all([1, 2, 3].map(() => upstream.send({ call, proof: proof() })))
    expect(answers).toMatchObject([{ kind: 'result' }, { kind: 'result' }, { kind: 'result' }])
    expect(tools.executions).toHaveLength(3)
  })

  it('is an outage while it is down, and reached once it is back', async () => {
    await upstream.listTools()
    await stop()
    await expect(upstream.listTools()).rejects.toMatchObject({ code: 'unreachable', terminal: false })
    await expect(upstream.send({ call, once: true })).rejects.toMatchObject({ code: 'unreachable' })
    await start(port)
    expect(await upstream.send({ call, proof: proof(), once: true })).toMatchObject({ kind: 'result' })
    expect(calls).toBe(1)
  })
})

describe('A tool whose session lives', () => {
  it.each([
    ['404 without a body', () => ({ status: 404, body: '' })],
    ['404 in words', () => ({ status: 404, body: 'No such order' })],
    ['404 as a page', () => ({ status: 404, body: '<h1>Not Found</h1>' })],
    ['404 as its JSON-RPC error', (id: number) => ({ status: 404, body: rpcError(-32000, 'No order', id) })],
    [
      '404 about a session of its own',
      (id: number) => ({ status: 404, body: rpcError(-32001, 'Trading session not found', id) }),
    ],
    ['400 without a body', () => ({ status: 400, body: '' })],
    ['400 in words', () => ({ status: 400, body: 'Not so' })],
    ['400 as a JSON-RPC error', () => ({ status: 400, body: rpcError(-32600, 'Invalid Request') })],
    [
      '400 about something of its own',
      (id: number) => ({ status: 400, body: rpcError(-32000, 'The account is not initialized', id) }),
    ],
  ])('is called once, though it answers %s', async (_what, answer: (id: number) => Said) => {
    await upstream.listTools()
    said = answer
    const { size } = tools.sessions
    await expect(upstream.send({ call, proof: proof() })).rejects.toMatchObject({ code: 'outcome_unknown' })
    expect(calls).toBe(1)
    said = undefined
    expect(await upstream.send({ call, proof: proof() })).toMatchObject({ kind: 'result' })
    expect(tools.sessions.size).toBe(size)
  })
})

describe('A resource of MCP 2025-11-25', () => {
  it('is told that its forms can be put to a person, and of no other way to ask back', async () => {
    await upstream.listTools()
    const told = [...tools.sessions.values()].map(({ server }) => server.server.getClientCapabilities())
    expect(told.at(-1)).toEqual({ elicitation: { form: {} } })
  })

  it('has its tool that asks nobody’s call end in an error that says why, which the client is shown', async () => {
    await upstream.listTools()
    const { server } = [...tools.sessions.values()].at(-1)!
    const requestedSchema = { type: 'object' as const, properties: {} }
    server.registerTool('asks', {}, async () => {
      await server.server.elicitInput({ message: 'Which account?', requestedSchema })
      return { content: [] }
    })
    expect(await upstream.send({ call: { tool: 'asks', arguments: {} } })).toMatchObject({
      kind: 'result',
      result: { isError: true, content: [{ text: expect.stringContaining('Nobody can be asked') }] },
    })
  })
})
