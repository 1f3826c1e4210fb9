/**
 * contract, "What the service does", for clients that speak HTTP: no request meets a connection which the
 * bridge is just closing, because it keeps an idle one for longer than clients and balancers do. No answer
 * tells the time (the SDK writes `connection` itself), so it is read from the server that answered.
 */
import { channel } from 'node:diagnostics_channel'
import type { Server } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { serveOnLoopback } from '../../../src/agent/bridge/listen.ts'
import type { Serving } from '../../../src/agent/bridge/serve.ts'
import { IDLE_SECONDS } from '../../../src/http/servers/connection-bounds.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { plainOptions } from '../../support/opened-bridge.ts'

let serving: Serving | undefined
let folder: Awaited<ReturnType<typeof bridgeFolder>> | undefined
afterEach(async () => {
  await serving?.close()
  await serving?.closed
  await folder?.remove()
})

describe('An idle connection of a client', () => {
  it('is kept by the listener of the bridge for as long as by those of servers', async () => {
    folder = await bridgeFolder()
    const token = 'A'.repeat(43)
    serving = await serveOnLoopback(plainOptions('http://127.0.0.1:9/mcp', folder.folder), {
      host: '127.0.0.1',
      port: 0,
      token,
    })
    const answering: Server[] = []
    const note = (message: unknown): void => void answering.push((message as { server: Server }).server)
    channel('http.server.request.start').subscribe(note)
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const { status } = await fetch(serving.address!, { method: 'POST', headers, body: '{}' })
    channel('http.server.request.start').unsubscribe(note)
    expect(status).toBe(400)
    expect(answering.map(({ keepAliveTimeout }) => keepAliveTimeout)).toEqual([IDLE_SECONDS * 1000])
  })
})
