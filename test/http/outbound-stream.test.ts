/** Contract, "Events": streams that our servers read go to whom other requests may go, and end when told. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OutboundFault } from '../../src/http/outbound/outbound.ts'
import {
  createOutboundStreams,
  type OutboundStreams,
  type StreamRequest,
} from '../../src/http/outbound/outbound-stream.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { streamsWithReplicas, trackReplicas } from '../../src/http/outbound/replicas.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'

let server: ScriptedServer
let streams: OutboundStreams
beforeAll(async () => {
  server = await startScriptedServer(({ path }) => {
    if (path === '/refused') return { status: 403, body: 'no'.repeat(1_000) }
    if (path === '/full') return { status: 503, body: {} }
    if (path === '/silent') return { write: () => undefined }
    if (path === '/ends') return { body: 'all of it' }
    return { write: response => void response.writeHead(200).write('first\n') }
  })
  streams = createOutboundStreams({ devLoopback: true })
})
afterAll(async () => {
  await streams.close()
  await server.close()
})

const wanted = (path: string, more: Partial<StreamRequest> = {}): StreamRequest => ({
  url: server.origin + path,
  silenceMs: 10_000,
  onData: () => undefined,
  ...more,
})
const faultOf = async (promise: Promise<unknown>): Promise<OutboundFault> => {
  const thrown = await promise.catch((error: unknown) => error)
  expect(thrown).toBeInstanceOf(OutboundFault)
  return thrown as OutboundFault
}

describe('A stream', () => {
  test('is read as it comes, and ends when it is closed from here', async () => {
    let text = ''
    const opened = await streams.open(wanted('/', { onData: chunk => (text += chunk.toString()) }))
    expect(opened.status).toBe(200)
    await until(() => text === 'first\n')
    opened.close()
    await expect(opened.ended).resolves.toBeUndefined()
  })

  test('has ended once its server ended it', async () => {
    let text = ''
    const opened = await streams.open(wanted('/ends', { onData: chunk => (text += chunk.toString()) }))
    await expect(opened.ended).resolves.toBeUndefined()
    expect(text).toBe('all of it')
  })

  test('that is refused is not read', async () => {
    let read = 0
    const opened = await streams.open(wanted('/refused', { onData: () => read++ }))
    await expect(opened.ended).resolves.toBeUndefined()
    expect([opened.status, read]).toEqual([403, 0])
  })

  test('on which nothing comes for too long has ended', async () => {
    const opened = await streams.open(wanted('/', { silenceMs: 50 }))
    await expect(opened.ended).resolves.toBeUndefined()
  })

  test('whose line is cut has ended', async () => {
    const link = await severableLink(server.origin)
    const opened = await streams.open(wanted('/', { url: link.url }))
    link.cut()
    await expect(opened.ended).resolves.toBeUndefined()
    await link.close()
  })

  test('whose head does not come in time is a fault, and so is one that nobody answers', async () => {
    expect(await faultOf(streams.open(wanted('/silent', { timeoutMs: 50 })))).toMatchObject({
      reason: 'timeout',
    })
    expect(await faultOf(streams.open(wanted('', { url: 'http://127.0.0.1:1/' })))).toMatchObject({
      reason: 'unreachable',
    })
  })

  test.each(['http://example.com/', 'http://localhost:1/', 'ftp://example.com/', 'https://a@example.com/'])(
    'is not asked for at %s',
    async url => {
      expect(await faultOf(streams.open(wanted('', { url })))).toMatchObject({ reason: 'forbidden_url' })
    },
  )
})

describe('A stream of a peer with several addresses', () => {
  test('is opened at the first that works and has room, and one without room is not passed over', async () => {
    const full = await startScriptedServer(() => ({ status: 503, body: {} }))
    const outbound = createOutbound({ devLoopback: true })
    const changes: [string, boolean][] = []
    const addresses = new Map([
      ['https://as.example.com', ['http://127.0.0.1:1', full.origin, server.origin]],
    ])
    const observer = {
      changed: (address: string, up: boolean) => void changes.push([address, up]),
      failedOver: () => undefined,
    }
    const replicas = trackReplicas({ outbound, addresses, observer, probeMs: 60_000 })
    const all = streamsWithReplicas(streams, replicas)
    const opened = await all.open(wanted('', { url: 'https://as.example.com/leases' }))
    expect(opened.status).toBe(200)
    expect(full.to('/leases')).toHaveLength(1)
    expect(changes.filter(([, up]) => !up)).toEqual([['http://127.0.0.1:1', false]])
    opened.close()
    replicas.stop()
    await Promise.all([outbound.close(), full.close()])
  })
})
