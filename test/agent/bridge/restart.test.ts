/**
 * contract, "Single-use grant" and "What the service does", for a resource of MCP 2025-11-25 that keeps
 * sessions and is started anew: it is reached again, what it refuses for want of a session is no call, and no
 * grant is spent on that.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openUpstream, type Upstream } from '../../../src/agent/bridge/upstream.ts'
import { newKey } from '../../support/operators.ts'
import { createSessionTools, type SessionTools } from '../../support/session-tools.ts'

let tools: SessionTools
let http: Server
let upstream: Upstream
/** The calls of tools that came since the last start. */
let calls: number

async function start(port: number): Promise<number> {
  tools = createSessionTools()
  calls = 0
  http = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'POST' ? (JSON.parse(await text(request)) as object) : undefined
      if (JSON.stringify(body ?? {}).includes('"tools/call"')) calls++
      await tools.handle(request, response, body)
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
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  upstream = openUpstream({
    resource: url.href,
    url,
    specNs: 'https://spec.example',
    now: () => Math.floor(Date.now() / 1000),
    capabilities: () => ({ elicitation: {} }),
    onToolsChanged: () => undefined,
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
