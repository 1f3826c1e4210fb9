import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, OutboundFault, type Outbound } from '../../src/http/outbound/outbound.ts'
import { isPublicAddress } from '../../src/http/outbound/public-address.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { until } from '../support/until.ts'

let server: Server
let origin: string
let answer: (request: IncomingMessage, response: ServerResponse) => void
let requests = 0

beforeAll(async () => {
  server = createServer((request, response) => {
    requests++
    answer(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const open: Outbound[] = []
afterAll(() => Promise.all(open.map(outbound => outbound.close())))
function client(options: Partial<Parameters<typeof createOutbound>[0]> = {}): Outbound {
  const outbound = createOutbound({ devLoopback: true, ...options })
  open.push(outbound)
  return outbound
}

async function faultOf(promise: Promise<unknown>): Promise<OutboundFault> {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(OutboundFault)
  return error as OutboundFault
}

test('A request that was sent counts as sent, also when its connection ends as one that never stood', async () => {
  const sockets: Socket[] = []
  const seen = (message: unknown) => sockets.push((message as { socket: Socket }).socket)
  subscribe('undici:client:connected', seen)
  answer = () => sockets[0]!.destroy(Object.assign(new Error('no route any more'), { code: 'EHOSTUNREACH' }))
  const fault = await faultOf(client().request({ url: origin, method: 'POST', body: '{}' }))
  unsubscribe('undici:client:connected', seen)
  expect(fault).toMatchObject({ reason: 'broken', sent: true })
})

describe('Outbound requests are https only, without redirects, bounded in time and size', () => {
  test.each([
    ['http to a host that is no literal loopback', 'http://localhost:1/x'],
    ['http to the world', 'http://example.com/x'],
    ['another scheme', 'file:///etc/passwd'],
    ['userinfo', 'https://user:pass@example.com/'],
    ['a fragment', 'https://example.com/#x'],
    ['no URL', 'example.com'],
    ['a label that DNS cannot have', `https://${'h'.repeat(64)}.example/`],
    ['a host of 6,000 characters', `https://${'h.'.repeat(3_000)}example/`],
  ])('%s is refused before anything is sent', async (_what, url) => {
    expect(await faultOf(client().request({ url }))).toMatchObject({ reason: 'forbidden_url', sent: false })
  })

  test('without UMA_DEV_LOOPBACK even http to loopback is refused', async () => {
    expect(await faultOf(client({ devLoopback: false }).request({ url: origin }))).toMatchObject({
      reason: 'forbidden_url',
    })
  })

  test('a redirect is an answer, never followed', async () => {
    answer = (_request, response) => response.writeHead(302, { location: `${origin}/elsewhere` }).end()
    requests = 0
    expect((await client().request({ url: origin })).status).toBe(302)
    expect(requests).toBe(1)
  })

  test('an answer over the cap is refused', async () => {
    answer = (_request, response) => response.end('x'.repeat(2000))
    expect(await faultOf(client().request({ url: origin, responseBytesMax: 1000 }))).toMatchObject({
      reason: 'too_large',
    })
  })

  test('a server that never answers is given up in time', async () => {
    answer = () => undefined
    requests = 0
    const giveUp = () => faultOf(client().request({ url: origin, timeoutMs: 50 }))
    let fault = await giveUp()
    // If the time was over before a busy machine sent anything, it is asked once more.
    for (let nth = 0; nth < 20 && !fault.sent; nth++) fault = await giveUp()
    expect(fault).toMatchObject({ reason: 'timeout', sent: true })
    await expect.poll(() => requests).toBeGreaterThan(0)
  })

  test('a server that trickles is given up in time', async () => {
    answer = (_request, response) => {
      const timer = setInterval(() => response.write('x'), 5)
      response.on('close', () => clearInterval(timer))
    }
    expect(await faultOf(client().request({ url: origin, timeoutMs: 60 }))).toMatchObject({
      reason: 'timeout',
    })
  })

  test('if nobody listens, nothing was sent', async () => {
    const free = createServer()
    await new Promise<void>(resolve => free.listen(0, '127.0.0.1', resolve))
    const { port } = free.address() as AddressInfo
    await new Promise(resolve => free.close(resolve))
    const url = `http://127.0.0.1:${port}/`
    expect(await faultOf(client().request({ url }))).toMatchObject({ reason: 'unreachable', sent: false })
  })

  test('requests one after the other share their connections', async () => {
    answer = (_request, response) => response.end('{}')
    let connections = 0
    const count = (): void => void connections++
    server.on('connection', count)
    const outbound = client()
    for (let i = 0; i < 20; i++) await outbound.request({ url: origin })
    server.off('connection', count)
    // The first may not be free again at once.
    expect(connections).toBeLessThanOrEqual(2)
  })

  test('a connection cut after the request is told as sent, and nothing is sent again', async () => {
    answer = request => request.socket.destroy()
    requests = 0
    const fault = await faultOf(client().request({ url: origin, method: 'POST', body: 'x' }))
    expect([fault.reason, fault.sent, requests]).toEqual(['broken', true, 1])
  })

  test.each([
    ['a status other than 200', 404, '{}'],
    ['malformed JSON', 200, '{"a":1,"a":2}'],
  ])('getJson refuses %s', async (_what, status, body) => {
    answer = (_request, response) => response.writeHead(status).end(body)
    expect(await faultOf(client().getJson(origin))).toMatchObject({ reason: 'broken' })
  })

  test.each([
    ['gzip', gzipSync],
    ['X-GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['identity', (bytes: Buffer) => bytes],
  ])('a document that comes as %s, which nobody asked for, is read', async (coding, encode) => {
    let wanted: string | undefined
    answer = (request, response) => {
      wanted = request.headers['accept-encoding']
      response.writeHead(200, { 'content-encoding': coding }).end(encode(Buffer.from('{"keys":[]}')))
    }
    expect(await client().getJson(origin)).toEqual({ keys: [] })
    expect(wanted).toBe('identity')
  })

  test.each([
    ['gzip', 'long once it is unpacked', gzipSync('x'.repeat(2_000)), /over 1000 bytes/],
    ['gzip', 'not packed as it says', Buffer.from('{}'), /not in its content-encoding, gzip/],
    ['zstd', 'packed in a way that we do not know', Buffer.from('{}'), /encoding "zstd"/],
    ['gzip, br', 'packed twice', Buffer.from('{}'), /encoding "gzip, br"/],
  ])('an answer in %s that is %s is refused in words', async (coding, _what, body, words) => {
    answer = (_request, response) => response.writeHead(200, { 'content-encoding': coding }).end(body)
    const fault = await faultOf(client().request({ url: origin, responseBytesMax: 1_000 }))
    expect(fault.sent).toBe(true)
    expect(fault.message).toMatch(words)
  })
})

describe('A URL named by a stranger leads only to public addresses', () => {
  test.each([
    'https://127.0.0.1/',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest',
    'https://[::1]/',
    'https://[fd00::1]/',
    'https://0x7f000001/',
    'https://2130706433/',
  ])('%s is refused', async url => {
    const outbound = client({ devLoopback: false, publicOnly: true })
    expect(await faultOf(outbound.request({ url }))).toMatchObject({
      reason: 'forbidden_address',
      sent: false,
    })
  })

  test('a name that leads to a private address is refused at the connection', async () => {
    const outbound = client({ devLoopback: false, publicOnly: true })
    expect(await faultOf(outbound.request({ url: 'https://localhost/' }))).toMatchObject({
      reason: 'forbidden_address',
      sent: false,
    })
  })

  test('in development a literal loopback host is admitted', async () => {
    answer = (_request, response) => response.end('{}')
    expect(await client({ publicOnly: true }).getJson(origin)).toEqual({})
  })

  test.each([
    '1.1.1.1',
    '8.8.8.8',
    '2606:4700::1111',
    '192.0.0.9',
    '2001:4:112::1',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
    '2002:808:808::',
  ])('%s is public', address => expect(isPublicAddress(address)).toBe(true))
  test.each([
    '0.0.0.0',
    '100.64.0.1',
    '192.168.1.1',
    '172.31.255.255',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::8.8.8.8',
    '::ffff:10.0.0.1',
    '::ffff:7f00:1',
    '64:ff9b::a00:1',
    '64:ff9b:1::808:808',
    '2001:0:808:808::1',
    '2002:a00:1::',
    '2001:db8::1',
    '4000::1',
    '100::1',
    '5f00::1',
    'fd00::1',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    'no address',
  ])('%s is not', address => expect(isPublicAddress(address)).toBe(false))
})

describe('Published keys are kept for 300 seconds; an unknown kid is worth one refetch, rate-limited', () => {
  const first = importPrivateJwk(generatePrivateJwk())
  const second = importPrivateJwk(generatePrivateJwk())
  let published = [first]
  let now = 0
  const serveKeys = () => {
    answer = (_request, response) =>
      response.end(JSON.stringify({ keys: published.map(key => publicJwk(key)) }))
    published = [first]
    now = 1_000_000
    requests = 0
    return createJwksCache({ outbound: client(), clock: () => now })
  }

  test('two callers at once cause one fetch, and later ones none', async () => {
    const cache = serveKeys()
    await Promise.all([cache.find(origin, first.kid), cache.find(origin, first.kid)])
    now += 299_000
    expect((await cache.find(origin, first.thumbprint))?.x).toBe(first.x)
    expect(requests).toBe(1)
    now += 2_000
    await cache.find(origin, first.kid)
    expect(requests).toBe(2)
  })

  test('a key rotated in is found at the next look after the rate limit', async () => {
    const cache = serveKeys()
    await cache.keys(origin)
    published = [second, first]
    expect(await cache.find(origin, second.kid)).toBeUndefined()
    now += 31_000
    const found = await Promise.all([cache.find(origin, second.kid), cache.find(origin, second.kid)])
    expect(found.map(key => key?.x)).toEqual([second.x, second.x])
    expect(requests).toBe(2)
  })

  test('keys that are read anew replace the former ones when they are there, and no failure does', async () => {
    const cache = serveKeys()
    await cache.refresh(origin)
    const good = answer
    let release = (): void => undefined
    answer = (request, response) => void (release = () => good(request, response))
    published = [second]
    const refreshed = cache.refresh(origin)
    await until(() => requests === 2)
    expect((await cache.find(origin, first.kid))?.x).toBe(first.x)
    release()
    await refreshed
    expect((await cache.find(origin, second.kid))?.x).toBe(second.x)
    answer = (_request, response) => response.writeHead(500).end()
    await faultOf(cache.refresh(origin))
    expect((await cache.find(origin, second.kid))?.x).toBe(second.x)
    expect(requests).toBe(3)
  })

  test('what a caller fetched meanwhile is not replaced by what was asked for before', async () => {
    const cache = serveKeys()
    await cache.keys(origin)
    const good = answer
    let release = (): void => undefined
    answer = (request, response) => void (release = () => good(request, response))
    now += 31_000
    const refreshed = cache.refresh(origin)
    await until(() => requests === 2)
    answer = good
    published = [second]
    expect((await cache.find(origin, second.kid))?.x).toBe(second.x)
    published = [first]
    release()
    await refreshed
    expect((await cache.find(origin, second.kid))?.x).toBe(second.x)
  })

  test('a failure is remembered shortly, and ends', async () => {
    const cache = serveKeys()
    const good = answer
    answer = (_request, response) => response.writeHead(500).end()
    await faultOf(cache.keys(origin))
    await faultOf(cache.keys(origin))
    expect(requests).toBe(1)
    answer = good
    now += 6_000
    expect(await cache.keys(origin)).toHaveLength(1)
  })
})
