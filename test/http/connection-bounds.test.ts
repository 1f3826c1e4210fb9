/** contract, "Limits": what a stranger holds open ends when it is said to, at every HTTP listener. */
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { ConnectionBounds } from '../../src/http/servers/connection-bounds.ts'
import { openEventStream } from '../../src/http/servers/event-stream.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startRawServer } from '../../src/http/servers/raw-server.ts'
import { createHttpServer, listen } from '../../src/http/servers/server.ts'
import { until } from '../support/until.ts'

/** What ends a connection in these tests; each has one of them, and the others far away. */
const BOUNDS: ConnectionBounds = {
  headersMs: 1_000,
  requestMs: 2_500,
  idleMs: 500,
  answerMs: 1_000,
  connectionsMax: 3,
}
/** Beyond the patience of any test, so that none of these ends what another one should. */
const FAR: ConnectionBounds = {
  headersMs: 600_000,
  requestMs: 600_000,
  idleMs: 600_000,
  answerMs: 600_000,
  connectionsMax: 1_000,
}
/** Node looks once a second, and the machine may be busy. */
const LATE_MS = 10_000
/** More than all the buffers between two sockets of one machine. */
const LARGE = 'x'.repeat(32 * 1_048_576)

const ends: (() => Promise<unknown> | void)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** What the handler of /held waits for, and whether it does. */
interface Held {
  isAsked: boolean
  answer: () => void
}

/** With one bound near: only that one can have ended a connection. */
function only(near: keyof ConnectionBounds): ConnectionBounds {
  const bounds = { ...FAR, [near]: BOUNDS[near] }
  // Node takes no server that gives a head more time than its whole request.
  return { ...bounds, headersMs: Math.min(bounds.headersMs, bounds.requestMs) }
}

async function strictServer(bounds: ConnectionBounds, held?: Held): Promise<number> {
  const server = createHttpServer({
    logger: createLogger({ name: 'test', level: 'fatal' }),
    bodyBytesMax: 1_000,
    bounds,
  })
  server.get('/large', async () => LARGE)
  server.get('/never', () => new Promise(() => undefined))
  server.get('/held', { config: { holdsAnswer: true } }, async () => {
    await new Promise<void>(resolve => Object.assign(held!, { isAsked: true, answer: resolve }))
    return 'held'
  })
  server.get('/events', { config: { holdsAnswer: true } }, async (_request, reply) => {
    const stream = openEventStream(reply, 1)
    await new Promise(resolve => stream.closed.addEventListener('abort', resolve))
  })
  const address = await listen(server, { host: '127.0.0.1', port: 0 })
  ends.push(() => server.close())
  return Number(address.split(':')[1])
}

async function rawServer(bounds: ConnectionBounds): Promise<number> {
  const server = await startRawServer({
    address: { host: '127.0.0.1', port: 0 },
    bodyBytesMax: 1_000,
    handle: async ({ target }) => ({ status: 200, headers: [], body: target === '/large' ? LARGE : 'ok' }),
    keepConnections: () => true,
    bounds,
  })
  ends.push(() => server.stop(0))
  return Number(server.address.split(':')[1])
}

interface Client {
  socket: Socket
  /** Before it asked for the connection, so that no bound of the server began earlier. */
  since: number
  heard: () => string
  isEnded: () => boolean
  /** Milliseconds from then until the server ended the connection. */
  endedAfter: (from: number) => Promise<number>
}

/** A client that leaves its own side open, whatever the server does. */
async function client(port: number, read: 'reads' | 'never reads' = 'reads'): Promise<Client> {
  const since = performance.now()
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  ends.push(() => void socket.destroy())
  socket.on('error', () => undefined)
  let heard = ''
  let endedAt: number | undefined
  const ended = (): void => void (endedAt ??= performance.now())
  if (read === 'reads') socket.on('data', data => (heard += data.toString()))
  else socket.pause()
  socket.once('end', ended).once('close', ended)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return {
    socket,
    since,
    heard: () => heard,
    isEnded: () => endedAt !== undefined,
    endedAfter: async from => {
      await until(() => endedAt !== undefined)
      return endedAt! - from
    },
  }
}

function within(bound: number, seen: number): void {
  expect(seen).toBeGreaterThanOrEqual(bound - 50)
  expect(seen).toBeLessThan(bound + LATE_MS)
}

/** A byte now and then, for as long as the connection takes any. */
function trickle({ socket }: Client, text: string): void {
  const drip = setInterval(() => socket.writable && socket.write(text), 200)
  ends.push(() => clearInterval(drip))
}

describe.each([
  ['of strict requests', (bounds: ConnectionBounds) => strictServer(bounds)],
  ['of requests handed on', rawServer],
])('A listener %s', (_name, start) => {
  test('cuts who says nothing', async () => {
    const silent = await client(await start(only('headersMs')))
    within(BOUNDS.headersMs, await silent.endedAfter(silent.since))
  })

  test('cuts a head that comes in drops, and tells why', async () => {
    const slow = await client(await start(only('headersMs')))
    slow.socket.write('POST / HTTP/1.1\r\nhost: a\r\n')
    trickle(slow, 'x-a: b\r\n')
    within(BOUNDS.headersMs, await slow.endedAfter(slow.since))
    expect(slow.heard()).toContain('408 Request Timeout')
  })

  test('cuts a body that comes in drops, also from one who leaves his side open', async () => {
    const slow = await client(await start(only('requestMs')))
    slow.socket.write(
      'POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n',
    )
    let closedAt: number | undefined
    slow.socket.once('close', () => (closedAt = performance.now()))
    trickle(slow, ' ')
    await until(() => closedAt !== undefined)
    within(BOUNDS.requestMs, closedAt! - slow.since)
  })

  test('ends a connection that is idle between requests', async () => {
    const idle = await client(await start(only('idleMs')))
    const since = performance.now()
    idle.socket.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n')
    await until(() => idle.heard() !== '')
    within(BOUNDS.idleMs, await idle.endedAfter(since))
  })

  test('cuts who does not take the answer', async () => {
    const slow = await client(await start(only('answerMs')), 'never reads')
    const since = performance.now()
    let closedAt: number | undefined
    slow.socket.once('close', () => (closedAt = performance.now()))
    slow.socket.write('GET /large HTTP/1.1\r\nhost: a\r\n\r\n')
    // Only who writes hears that the other side is gone.
    trickle(slow, '\r\n')
    await until(() => closedAt !== undefined)
    within(BOUNDS.answerMs, closedAt! - since)
  })

  test('takes no more connections at a time than its cap, and others again once one has gone', async () => {
    const port = await start(only('connectionsMax'))
    const kept: Client[] = []
    for (let n = 0; n < BOUNDS.connectionsMax; n++) kept.push(await client(port))
    const excess = await client(port)
    expect(await excess.endedAfter(excess.since)).toBeLessThan(LATE_MS)
    expect(kept.map(one => one.isEnded())).toEqual(kept.map(() => false))
    kept[0]!.socket.destroy()
    await until(async () => {
      const next = await client(port)
      next.socket.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n')
      await until(() => next.heard() !== '' || next.socket.readableEnded || next.socket.destroyed)
      return next.heard() !== ''
    })
  })
})

describe('Of the bound on answers', () => {
  test('a handler that never ends is cut', async () => {
    const waiting = await client(await strictServer(only('answerMs')))
    const since = performance.now()
    waiting.socket.write('GET /never HTTP/1.1\r\nhost: a\r\n\r\n')
    within(BOUNDS.answerMs, await waiting.endedAfter(since))
  })

  test('held answers and event streams are exempt', async () => {
    const held: Held = { isAsked: false, answer: () => undefined }
    const port = await strictServer(only('answerMs'), held)
    const [polling, listening] = [await client(port), await client(port)]
    polling.socket.write('GET /held HTTP/1.1\r\nhost: a\r\n\r\n')
    listening.socket.write('GET /events HTTP/1.1\r\nhost: a\r\n\r\n')
    await until(() => held.isAsked && listening.heard() !== '')
    // Asked later than both, and bounded: once it is cut, so would they have been.
    const bounded = await client(port)
    bounded.socket.write('GET /never HTTP/1.1\r\nhost: a\r\n\r\n')
    await bounded.endedAfter(performance.now())
    held.answer()
    await until(() => polling.heard().endsWith('held'))
    const beats = (): number => listening.heard().split(':\n\n').length
    const seen = beats()
    await until(() => beats() > seen)
  })
})
