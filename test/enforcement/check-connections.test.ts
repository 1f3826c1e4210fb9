/** contract, "Limits": who may hold a connection to the gRPC server of ext_authz, and for how long. */
import { connect as connectHttp2, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { startCheckServer, type CheckServerOptions } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { fixedCertificates } from '../support/fixed-certificates.ts'
import { checkBytes, connect as connectClient } from '../support/check-client.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { until } from '../support/until.ts'

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const EMPTY_SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
const PREFACE_MS = 1_000
/** The machine may be busy. */
const LATE_MS = 10_000

const ends: (() => Promise<unknown> | void)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function start(options: Partial<CheckServerOptions> = {}): Promise<string> {
  const server = await startCheckServer({
    address: '127.0.0.1:0',
    health: createHealth(),
    bodyBytesMax: 1_000,
    deadlineMarginMs: 200,
    decide: async () => ({ kind: 'allow', headers: {}, remove: [], metadata: {} }),
    prefaceMs: PREFACE_MS,
    ...options,
  })
  ends.push(() => server.stop(100))
  return server.address
}

interface Stranger {
  socket: Socket
  /** Milliseconds since it connected until the server closed the connection. */
  closedAfter: () => Promise<number>
  heard: () => Buffer
}

async function stranger(
  address: string,
  open: (to: { port: number; host: string }) => Socket = connect,
): Promise<Stranger> {
  const since = performance.now()
  const socket = open({ port: Number(address.split(':')[1]), host: '127.0.0.1' })
  ends.push(() => void socket.destroy())
  let closedAt: number | undefined
  const heard: Buffer[] = []
  socket.on('error', () => undefined)
  socket.on('data', (data: Buffer) => heard.push(data))
  socket.once('close', () => (closedAt = performance.now()))
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return {
    socket,
    closedAfter: async () => {
      await until(() => closedAt !== undefined)
      return closedAt! - since
    },
    heard: () => Buffer.concat(heard),
  }
}

function inTime(seen: number): void {
  expect(seen).toBeGreaterThanOrEqual(PREFACE_MS - 50)
  expect(seen).toBeLessThan(PREFACE_MS + LATE_MS)
}

describe('A connection to the check server', () => {
  test('that sends no HTTP/2 preface in time is closed', async () => {
    const silent = await stranger(await start())
    inTime(await silent.closedAfter())
  })

  test('that begins the preface and does not end it is closed as late', async () => {
    const slow = await stranger(await start())
    slow.socket.write(PREFACE.slice(0, 10))
    inTime(await slow.closedAfter())
  })

  test('that speaks something else is closed at once', async () => {
    const other = await stranger(await start({ prefaceMs: 60_000 }))
    other.socket.write('GET / HTTP/1.1\r\n\r\n')
    expect(await other.closedAfter()).toBeLessThan(PREFACE_MS + LATE_MS)
  })

  test('may send its preface in pieces, and with what follows it', async () => {
    const slow = await stranger(await start({ prefaceMs: 60_000 }))
    slow.socket.write(PREFACE.slice(0, 5))
    await new Promise(resolve => setImmediate(resolve))
    slow.socket.write(Buffer.concat([Buffer.from(PREFACE.slice(5)), EMPTY_SETTINGS]))
    // Its settings are acknowledged: a SETTINGS frame with the flag ACK.
    const acknowledged = Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0])
    await until(() => slow.heard().includes(acknowledged))
  })

  test('with TLS is closed in the same time, before the handshake and after it', async () => {
    const ca = await makeCa()
    const [own, client] = await Promise.all([issueCertificate(ca, 'sidecar'), issueCertificate(ca, 'envoy')])
    const [cert, key, trusted] = [own.cert, own.key, ca.cert].map(pem => Buffer.from(pem))
    const address = await start({ tls: fixedCertificates({ cert: cert!, key: key!, ca: trusted! }) })
    const [silent, shaken] = await Promise.all([
      stranger(address),
      stranger(address, options =>
        connectTls({
          ...options,
          cert: client.cert,
          key: client.key,
          rejectUnauthorized: false,
          ALPNProtocols: ['h2'],
        }),
      ),
    ])
    for (const one of [silent, shaken]) expect(await one.closedAfter()).toBeLessThan(PREFACE_MS + LATE_MS)
  })

  test('that carries no call is told to go and closed in good order, and one that carries a call stays', async () => {
    const address = await start({ connectionIdleSeconds: 1 })
    const idle = connectHttp2(`http://${address}`)
    ends.push(() => idle.destroy())
    const told: (number | Error)[] = []
    let closed = false
    idle.on('goaway', code => void told.push(code))
    idle.on('error', error => void told.push(error))
    idle.socket.on('error', error => void told.push(error))
    idle.once('close', () => (closed = true))
    const watching = connectClient(address)
    ends.push(() => watching.close())
    const watch = watching.watch('')
    ends.push(() => watch.cancel())
    await until(() => closed)
    expect(new Set(told)).toEqual(new Set([constants.NGHTTP2_NO_ERROR]))
    let ended = false
    void watch.ended.then(() => (ended = true))
    expect(await watching.check(checkBytes())).toHaveProperty('ok_response')
    expect(ended).toBe(false)
  })

  test('is one of so many at a time', async () => {
    const prefaceMs = 300_000
    const address = await start({ connectionsMax: 1, prefaceMs })
    const client = connectClient(address)
    ends.push(() => client.close())
    await client.check(checkBytes())
    const excess = await stranger(address)
    expect(await excess.closedAfter()).toBeLessThan(prefaceMs)
  })
})
