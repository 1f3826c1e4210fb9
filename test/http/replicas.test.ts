import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer as createTlsServer } from 'node:https'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createOutbound,
  OutboundFault,
  type Outbound,
  type OutboundRequest,
} from '../../src/http/outbound/outbound.ts'
import { trackReplicas, withReplicas, type Replicas } from '../../src/http/outbound/replicas.ts'
import { makeLocalCa } from '../support/local-ca.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'

const PEER = 'https://as.example.com'
let first: ScriptedServer
let second: ScriptedServer
let outbound: Outbound
let replicas: Replicas
let changes: [string, boolean][]
let failovers: string[]
const healthy = { status: 200, body: { status: 'ok' } }

beforeEach(async () => {
  const plain = ({ path }: { path: string }) => (path === '/health' ? healthy : { body: { ok: true } })
  first = await startScriptedServer(plain)
  second = await startScriptedServer(plain)
  open([first.origin, second.origin])
})
afterEach(() => {
  replicas.stop()
  return Promise.all([outbound.close(), first.close(), second.close()])
})

interface Opening {
  connections?: number
  /** What stands between the client that turns to the next address and the one that sends. */
  through?: (plain: Outbound) => Outbound
}

function open(addresses: string[], { connections = 16, through = plain => plain }: Opening = {}): void {
  changes = []
  failovers = []
  const plain = createOutbound({ devLoopback: true, connections })
  replicas?.stop()
  replicas = trackReplicas({
    outbound: plain,
    addresses: new Map([[PEER, addresses]]),
    observer: {
      changed: (address, up) => changes.push([address, up]),
      failedOver: reason => failovers.push(reason),
    },
    probeMs: 20,
  })
  outbound = withReplicas(through(plain), replicas)
}

const introspect = (parts: Partial<OutboundRequest> = {}) =>
  outbound.request({ method: 'POST', url: `${PEER}/introspect`, body: '{}', repeatable: true, ...parts })
const consume = (parts: Partial<OutboundRequest> = {}) =>
  outbound.request({ method: 'POST', url: `${PEER}/consume`, body: '{}', repeatable: false, ...parts })
const fault = async (promise: Promise<unknown>): Promise<OutboundFault> => {
  const thrown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (!(thrown instanceof OutboundFault)) throw new Error(`no fault: ${String(thrown)}`)
  return thrown
}
const cut = { write: (response: { socket: Socket | null }) => void response.socket?.destroy() }
const hang = { write: () => undefined }

/**
 * Takes connections and never says anything: what a replica that is frozen, or behind a broken network, looks
 * like. `reached` resolves when the first request has come.
 */
async function silentServer(): Promise<Server & { origin: string; reached: Promise<void> }> {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const server = createServer(socket => void socket.on('error', () => undefined).on('data', () => reach()))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return Object.assign(server, { origin, reached })
}

/** So long that no machine is busy for half of it between two lines. */
const ALL_MS = 600_000

/** How long an attempt at one address might have taken, and how long it took. */
interface Attempt {
  origin: string
  allowedMs: number
  tookMs: number
}

/**
 * Sends everything and records the attempts. What goes to a mute address is given up soon, so that the test
 * need not wait as long as it might.
 */
function attemptsThrough(plain: Outbound, mute: ReadonlySet<string>, attempts: Attempt[]): Outbound {
  return {
    ...plain,
    request: message => {
      const beganAt = performance.now()
      const { origin } = new URL(message.url)
      const allowedMs = message.timeoutMs ?? Infinity
      const timeoutMs = mute.has(origin) ? Math.min(allowedMs, 100) : allowedMs
      return plain
        .request({ ...message, timeoutMs })
        .finally(() => attempts.push({ origin, allowedMs, tookMs: performance.now() - beganAt }))
    },
  }
}

/** Half of the time is for the first address, and for the next one what the first left. */
function expectOneTimeForAll([one, next]: readonly Attempt[]): void {
  expect(one!.allowedMs).toBeLessThanOrEqual(ALL_MS / 2)
  expect(one!.allowedMs).toBeGreaterThan(ALL_MS / 4)
  expect(next!.allowedMs).toBeLessThanOrEqual(ALL_MS - one!.tookMs)
  expect(next!.allowedMs).toBeGreaterThan(ALL_MS / 2)
}

describe('A peer is asked at the first of its addresses that works', () => {
  test('and at that one alone while it does', async () => {
    for (let i = 0; i < 5; i++) expect((await introspect()).status).toBe(200)
    expect([first.to('/introspect').length, second.received.length]).toEqual([5, 0])
  })

  test('its path and query stay as they were, and a URL of somebody else is left alone', async () => {
    await outbound.request({ url: `${PEER}/a/b?c=d` })
    expect(first.received[0]).toMatchObject({ path: '/a/b', query: 'c=d' })
    await outbound.request({ url: `${second.origin}/x` })
    expect(second.received[0]).toMatchObject({ path: '/x' })
  })

  test('keys and documents come from the next one too', async () => {
    await first.close()
    second.script('/jwks', { body: { keys: [] } })
    expect(await outbound.getJson(`${PEER}/jwks`)).toEqual({ keys: [] })
  })
})

describe('What was not sent goes to the next address, whatever it is', () => {
  test.each([
    ['introspect', introspect],
    ['consume', consume],
  ])('%s to an address where nothing listens', async (_what, send) => {
    await first.close()
    expect((await send()).status).toBe(200)
    expect([second.received.length, failovers]).toEqual([1, ['unreachable']])
  })

  test('consume, while every connection to the first is held up by others', async () => {
    const silent = await silentServer()
    await outbound.close()
    open([silent.origin], { connections: 1 })
    const over = new AbortController()
    const held = fault(consume({ timeoutMs: PATIENCE_MS, signal: over.signal }))
    await silent.reached
    const waiting = await fault(consume({ timeoutMs: 100 }))
    expect([waiting.reason, waiting.sent]).toEqual(['timeout', false])
    over.abort()
    expect((await held).sent).toBe(true)
    await new Promise(resolve => silent.close(resolve))
  })
})

describe('What may have been sent goes to the next address only where sending it twice does no harm', () => {
  test.each([
    ['cut off', cut, 'broken'],
    ['never answered', hang, 'timeout'],
  ])('introspect that is %s', async (_what, script, reason) => {
    first.script('/introspect', script)
    // Half of it for each: as much as a request has by default.
    expect((await introspect({ timeoutMs: 10_000 })).status).toBe(200)
    expect([first.to('/introspect').length, second.to('/introspect').length]).toEqual([1, 1])
    expect(failovers).toEqual([reason])
  })

  test.each([
    ['cut off', cut, 'broken'],
    ['never answered', hang, 'timeout'],
  ])('consume that is %s is sent once, and nowhere else', async (_what, script, reason) => {
    first.script('/consume', script)
    const thrown = await fault(consume())
    expect([thrown.reason, thrown.sent]).toEqual([reason, true])
    expect([first.to('/consume').length, second.to('/consume').length]).toEqual([1, 0])
  })

  test.each([502, 503, 504])('introspect answered %i, and never consume', async status => {
    first.script('/introspect', { status, body: {} })
    first.script('/consume', { status, body: {} })
    expect((await introspect()).status).toBe(200)
    await until(() => changes.filter(([, up]) => up).length === 3)
    expect((await consume()).status).toBe(status)
    expect(second.to('/consume')).toEqual([])
  })

  test.each([400, 401, 403, 429, 500])('an answer of %i is an answer', async status => {
    first.script('/introspect', { status, body: {} })
    expect((await introspect()).status).toBe(status)
    expect(second.received).toEqual([])
  })

  test('all within the time of the one request, an address that hangs leaving the next one half of it', async () => {
    const silent = await silentServer()
    await outbound.close()
    const mute = new Set([silent.origin])
    const attempts: Attempt[] = []
    open([silent.origin, second.origin], { through: plain => attemptsThrough(plain, mute, attempts) })
    expect((await introspect({ timeoutMs: ALL_MS })).status).toBe(200)
    expect(attempts.map(({ origin }) => origin)).toEqual([silent.origin, second.origin])
    expectOneTimeForAll(attempts)
    attempts.length = 0
    second.script('/introspect', hang)
    mute.add(second.origin)
    expect((await fault(introspect({ timeoutMs: ALL_MS }))).reason).toBe('timeout')
    // The one that hung before is asked last now.
    expect(attempts.map(({ origin }) => origin)).toEqual([second.origin, silent.origin])
    expectOneTimeForAll(attempts)
    await new Promise(resolve => silent.close(resolve))
  })
})

describe('An address that fails is passed over, and looked at again', () => {
  test('it is not asked while it is down, and is asked again once its /health says so', async () => {
    let isWell = false
    let wellAnswers = 0
    first.script('/introspect', (_received, nth) => (nth === 1 ? cut : undefined))
    first.script('/health', () => {
      if (!isWell) return { status: 503, body: {} }
      wellAnswers++
      return healthy
    })
    await introspect()
    await introspect()
    await until(() => first.to('/health').length >= 2)
    await introspect()
    expect(first.to('/introspect').length).toBe(1)
    expect(changes.at(-1)).toEqual([first.origin, false])
    isWell = true
    await until(() => changes.at(-1)?.[1] === true && changes.length > 2)
    const seen = wellAnswers
    await introspect()
    expect(first.to('/introspect').length).toBe(2)
    // One such answer in time is enough: while calls go there, for longer than a pause, none is asked for.
    const calledFrom = performance.now()
    await until(async () => (await introspect()).status === 200 && performance.now() - calledFrom > 500)
    expect(wellAnswers).toBe(seen)
  })

  test('one that says that it closes its connections is left before it goes', async () => {
    first.script('/health', { status: 503, body: {} })
    first.script('/introspect', { headers: { connection: 'close' }, body: { ok: true } })
    expect((await introspect()).status).toBe(200)
    expect((await consume()).status).toBe(200)
    expect([first.to('/consume').length, second.to('/consume').length]).toEqual([0, 1])
    expect(changes).toContainEqual([first.origin, false])
  })

  test('if all are down each is still tried, in order', async () => {
    first.script('/introspect', (_received, nth) => (nth === 1 ? cut : undefined))
    second.script('/introspect', (_received, nth) => (nth === 1 ? cut : undefined))
    first.script('/health', { status: 503, body: {} })
    second.script('/health', { status: 503, body: {} })
    expect((await fault(introspect())).reason).toBe('broken')
    expect((await introspect()).status).toBe(200)
    expect(first.to('/introspect').length).toBe(2)
  })
})

describe('Connections', () => {
  test('are kept alive, and used no longer than their age allows, so that load moves on', async () => {
    const ports = new Set<number>()
    first.script('/introspect', {
      write: (response, request) => {
        ports.add(request.socket.remotePort!)
        response.end('{}')
      },
    })
    await outbound.close()
    const connectionAgeMs = 1_000
    outbound = createOutbound({ devLoopback: true, connectionAgeMs })
    const ask = () => outbound.request({ url: `${first.origin}/introspect` })
    const since = performance.now()
    for (let i = 0; i < 10; i++) await ask()
    const young = ports.size
    // On a slow machine, those before have become too old meanwhile.
    expect(young).toBeLessThanOrEqual(2 + Math.floor((performance.now() - since) / connectionAgeMs))
    await until(async () => {
      await ask()
      return ports.size > young
    })
  })

  test('to a name of several addresses are made to another one if the first refuses them', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'usher-names-'))
    const tls = await makeLocalCa(directory)
    const [cert, key] = await Promise.all([readFile(tls.authority.certFile), readFile(tls.authority.keyFile)])
    const server = createTlsServer({ cert, key }, (_request, response) => response.end('{}'))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.2', resolve))
    const { port } = server.address() as AddressInfo
    await outbound.close()
    // Nothing listens at that port of the first.
    const addresses = ['127.0.0.1', '127.0.0.2'].map(address => ({ address, family: 4 }))
    outbound = createOutbound({
      devLoopback: false,
      ca: tls.ca,
      lookup: (_name, _options, callback) => callback(null, addresses),
    })
    const consumed = await outbound.request({ method: 'POST', url: `https://localhost:${port}/consume` })
    expect(consumed.status).toBe(200)
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
    await rm(directory, { recursive: true })
  })
})
