/**
 * The stream on which a server of MCP 2025-11-25 says what belongs to no call (GET). contract, "Authorized
 * call": the bridge asks for it as the enforcement point lets it pass, so that a tool which asks its client
 * there is heard.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Upstream } from '../../../src/agent/bridge/upstream/upstream.ts'
import { upstreamTo } from '../../support/opened-upstream.ts'
import { newKey } from '../../support/operators.ts'
import { createSessionTools, type SessionTools } from '../../support/session-tools.ts'

/** So late would the SDK open a stream again that ended, by the word of its server, milliseconds. */
const SDK_MILLISECONDS = 60_000
/** The calls here ask for the stream sooner than that. */
const SOONER = { timeout: SDK_MILLISECONDS / 2 }

let tools: SessionTools
let http: Server
let upstream: Upstream
/** The requests for the stream, oldest first. */
let streams: ServerResponse[]
/** The status of the next answers to them. */
let status: number

beforeEach(async () => {
  tools = createSessionTools()
  streams = []
  status = 200
  http = createServer((request, response) => {
    if (request.method === 'GET') {
      streams.push(response)
      if (status !== 200) return void response.writeHead(status).end()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      return void response.write(`id: ${streams.length}\nretry: ${SDK_MILLISECONDS}\ndata:\n\n`)
    }
    void (async () => {
      const body = request.method === 'POST' ? (JSON.parse(await text(request)) as unknown) : undefined
      await tools.handle(request, response, body)
    })().catch(() => response.destroy())
  })
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  upstream = upstreamTo(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp/alice`, {
    capabilities: () => ({ elicitation: {} }),
  })
})
afterEach(async () => {
  await upstream.close()
  await tools.close()
  http.closeAllConnections()
  http.close()
})

const call = { tool: 'portfolio_read', arguments: { parts: 0 } }
/** One call under the grant, and how often the stream was asked for by then. */
const afterCall = async (accessToken?: string): Promise<number> => {
  const proof = accessToken === undefined ? undefined : { accessToken, key: newKey() }
  await upstream.send({ call, proof })
  return streams.length
}

describe('The stream of a session', () => {
  it.each([
    ['was ended by its server', (one: ServerResponse) => one.end()],
    ['broke off', (one: ServerResponse) => one.destroy()],
  ])('that %s is asked for again by the next call, and is open then', async (_what, end) => {
    expect(await afterCall('an RPT')).toBe(1)
    end(streams[0]!)
    await expect.poll(() => afterCall('an RPT'), SOONER).toBe(2)
    expect(await afterCall('an RPT')).toBe(2)
    expect(await afterCall('another RPT')).toBe(2)
  })

  it('that needed no grant and ended is asked for again by a call that has none', async () => {
    await expect.poll(() => afterCall(), SOONER).toBe(1)
    streams[0]!.end()
    await expect.poll(() => afterCall(), SOONER).toBe(2)
  })

  it('is asked for no more where that is refused, until there is another grant', async () => {
    expect(await afterCall('an RPT')).toBe(1)
    status = 401
    streams[0]!.end()
    await expect.poll(() => afterCall('an RPT'), SOONER).toBe(2)
    expect(await afterCall('an RPT')).toBe(2)
    status = 200
    expect(await afterCall('another RPT')).toBe(3)
  })
})
