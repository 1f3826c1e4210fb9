/**
 * The gRPC server of ext_authz: time, ends of calls, health, addresses, certificates. contract, "Resource
 * server enforcement point", "Health".
 */
import { credentials } from '@grpc/grpc-js'
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generate } from 'selfsigned'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Call, Outcome } from '../../src/enforcement/call.ts'
import {
  startCheckServer,
  type CheckServer,
  type CheckServerOptions,
} from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth, type Health } from '../../src/enforcement/telemetry/health.ts'
import { fixedCertificates } from '../support/fixed-certificates.ts'
import {
  checkBytes,
  connect,
  deniedBody,
  readAnswer,
  type Answer,
  type CheckClient,
} from '../support/check-client.ts'
import { until } from '../support/until.ts'

const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3
const AUTHORIZATION = 'envoy.service.auth.v3.Authorization'
const ALLOW: Outcome = { kind: 'allow', headers: {}, remove: [], metadata: {} }

interface Stand {
  server: CheckServer
  client: CheckClient
  health: Health
}

const ends: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function stand(options: Partial<CheckServerOptions> = {}): Promise<Stand> {
  const health = createHealth()
  const server = await startCheckServer({
    address: '127.0.0.1:0',
    health,
    bodyBytesMax: 1_000,
    deadlineMarginMs: 200,
    decide: async () => ALLOW,
    ...options,
  })
  const client = connect(server.address)
  ends.push(
    () => server.stop(100),
    () => client.close(),
  )
  return { server, client, health }
}

/** A promise that the test resolves itself. */
function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: resolve }
}

const statusOf = (reply: Answer): unknown => reply.denied_response?.status?.code

describe('time', () => {
  test('the call knows the deadline of the proxy', async () => {
    let call: Call | undefined
    const { client } = await stand({ decide: async each => ((call = each), ALLOW) })
    const deadline = Date.now() + 600_000
    await client.check(checkBytes(), { deadline })
    // It is told how long the proxy waits, and not until when: it took a while to come here.
    expect(Math.abs(call!.deadline!.at - deadline)).toBeLessThan(60_000)
  })

  test('without a deadline it has none', async () => {
    let call: Call | undefined
    const { client } = await stand({ decide: async each => ((call = each), ALLOW) })
    await client.check(checkBytes())
    expect(call).not.toHaveProperty('deadline')
  })

  test('an undecided call is denied with 503 before the deadline, not ended with an error after it', async () => {
    let judged = 0
    const decide = () => (judged++, new Promise<Outcome>(() => {}))
    const { client } = await stand({ deadlineMarginMs: 50_000, decide })
    // It is denied when half of the margin is left: five seconds from now.
    const reply = await client.check(checkBytes(), { deadline: Date.now() + 30_000 })
    expect([judged, statusOf(reply)]).toEqual([1, 503])
    expect(deniedBody(reply)).toMatchObject({ error: 'temporarily_unavailable' })
  })

  test('a call that comes with less than the margin left is denied unjudged', async () => {
    let judged = 0
    const { client } = await stand({ deadlineMarginMs: 120_000, decide: async () => (judged++, ALLOW) })
    expect(statusOf(await client.check(checkBytes(), { deadline: Date.now() + 30_000 }))).toBe(503)
    expect(judged).toBe(0)
  })

  test('a call that the proxy gave up says so while it is judged', async () => {
    const { opened, open } = gate()
    let call: Call | undefined
    const { client } = await stand({ decide: async each => ((call = each), await opened, ALLOW) })
    const started = client.start(checkBytes())
    const refused = expect(started.done).rejects.toMatchObject({ code: 1 })
    await until(() => call !== undefined)
    expect(call!.isCancelled()).toBe(false)
    started.cancel()
    await refused
    await until(() => call!.isCancelled())
    open()
  })
})

describe('a connection', () => {
  test('is given up when it is old, in good order, so that replicas share the load', async () => {
    const { server } = await stand({ connectionAgeSeconds: 1 })
    const session = connectHttp2(`http://${server.address}`)
    ends.push(() => session.destroy())
    let said: number | undefined
    session.once('goaway', code => (said = code))
    await until(() => said !== undefined)
    expect(said).toBe(constants.NGHTTP2_NO_ERROR)
  })
})

describe('what the gRPC library would end with an error is a denied response', () => {
  let session: ClientHttp2Session

  /** Sends one check as raw HTTP/2: header fields beside the usual ones, and frames as they are. */
  async function raw(
    address: string,
    headers: Record<string, string>,
    frames: Buffer,
  ): Promise<Record<string, unknown>> {
    session = connectHttp2(`http://${address}`)
    ends.push(() => session.destroy())
    session.on('error', () => {})
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${AUTHORIZATION}/Check`,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    const chunks: Buffer[] = []
    const trailers: Record<string, unknown> = {}
    stream
      .on('response', fields => Object.assign(trailers, fields))
      .on('trailers', fields => Object.assign(trailers, fields))
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', () => {})
    stream.end(frames)
    await new Promise(resolve => stream.on('close', resolve))
    const framed = Buffer.concat(chunks)
    const answer = framed.length > 5 ? readAnswer(framed.subarray(5)) : {}
    return { rpc: trailers['grpc-status'], status: statusOf(answer), length: framed.length }
  }

  const frame = (message: Buffer, compressed = 0): Buffer => {
    const head = Buffer.alloc(5)
    head.writeUInt8(compressed, 0)
    head.writeUInt32BE(message.length, 1)
    return Buffer.concat([head, message])
  }

  test.each<[string, Record<string, string>, Buffer, number]>([
    ['no message at all', {}, Buffer.alloc(0), 503],
    ['half a message', {}, frame(checkBytes()).subarray(0, 12), 503],
    ['two messages', {}, Buffer.concat([frame(checkBytes()), frame(checkBytes())]), 503],
    [
      'a message said to be gzip that is none',
      { 'grpc-encoding': 'gzip' },
      frame(Buffer.from('nonsense'), 1),
      503,
    ],
    ['an unknown encoding', { 'grpc-encoding': 'snappy' }, frame(checkBytes(), 1), 503],
    ['a deadline that cannot be read', { 'grpc-timeout': 'soon' }, frame(checkBytes()), 503],
    ['a length of 4 GiB', {}, Buffer.of(0, 0xff, 0xff, 0xff, 0xff, 1), 413],
    ['a message that is no CheckRequest', {}, frame(Buffer.from('nonsense')), 400],
  ])('%s', async (_title, headers, frames, status) => {
    const { server } = await stand()
    expect(await raw(server.address, headers, frames)).toMatchObject({ rpc: '0', status })
  })

  test('a message far above the cap is 413 naming the setting, and the connection lives on', async () => {
    const { client } = await stand()
    const reply = await client.check(checkBytes({ raw_body: Buffer.alloc(20_000_000) }))
    expect(statusOf(reply)).toBe(413)
    expect(deniedBody(reply)).toMatchObject({
      error: 'request_body_too_large',
      error_description: expect.stringContaining('max_request_bytes'),
    })
    expect((await client.check(checkBytes())).ok_response).toBeDefined()
  })

  test('a body within the cap fits beside a megabyte of header fields', async () => {
    const { client } = await stand()
    const headers = {
      'content-length': '900',
      ...Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`x-${i}`, 'v'.repeat(16_000)])),
    }
    expect(
      (await client.check(checkBytes({ headers, raw_body: Buffer.alloc(900, 0x20) }))).ok_response,
    ).toBeDefined()
  })

  test('a deadline that passes while nobody answers still ends in a denied response', async () => {
    const { opened, open } = gate()
    // A margin below zero keeps our own guard from answering first.
    const { server } = await stand({ deadlineMarginMs: -60_000, decide: async () => (await opened, ALLOW) })
    expect(await raw(server.address, { 'grpc-timeout': '100m' }, frame(checkBytes()))).toMatchObject({
      rpc: '0',
      status: 503,
    })
    open()
  })
})

describe('gRPC health is truthful', () => {
  test.each(['', AUTHORIZATION])('for the service %j it follows what was set', async service => {
    const { client, health } = await stand()
    expect(await client.health(service)).toBe(NOT_SERVING)
    health.set(true)
    expect(await client.health(service)).toBe(SERVING)
    health.set(false)
    expect(await client.health(service)).toBe(NOT_SERVING)
  })

  test('an unknown service is not found', async () => {
    const { client } = await stand()
    await expect(client.health('envoy.service.auth.v2.Authorization')).rejects.toMatchObject({ code: 5 })
  })

  test('a watch tells the status at once and every change', async () => {
    const { client, health } = await stand()
    const { statuses } = client.watch(AUTHORIZATION)
    await until(() => statuses.length === 1)
    health.set(true)
    await until(() => statuses.length === 2)
    health.set(true)
    health.drain()
    await until(() => statuses.length === 3)
    expect(statuses).toEqual([NOT_SERVING, SERVING, NOT_SERVING])
  })

  test('a watch of an unknown service says so and stays open', async () => {
    const { client, health } = await stand()
    const { statuses } = client.watch('nobody')
    await until(() => statuses.length === 1)
    health.set(true)
    expect(statuses).toEqual([SERVICE_UNKNOWN])
  })

  test('a watcher that leaves is forgotten', async () => {
    let listeners = 0
    const health = createHealth()
    const counted: Health = {
      ...health,
      onChange: listener => {
        listeners++
        const stop = health.onChange(listener)
        return () => (listeners--, stop())
      },
    }
    const { client } = await stand({ health: counted })
    const watches = [client.watch(''), client.watch('')]
    await until(() => listeners === 2)
    for (const watch of watches) watch.cancel()
    await until(() => listeners === 0)
  })
})

describe('stopping', () => {
  test('draining says not serving for good, while checks are still answered', async () => {
    const { server, client, health } = await stand()
    health.set(true)
    server.drain()
    health.set(true)
    expect(await client.health('')).toBe(NOT_SERVING)
    expect((await client.check(checkBytes())).ok_response).toBeDefined()
  })

  test('a call that is being judged is answered, an open watch does not hold the server', async () => {
    const { opened, open } = gate()
    let judging = false
    const { server, client } = await stand({ decide: async () => ((judging = true), await opened, ALLOW) })
    const watch = client.watch('')
    const { done } = client.start(checkBytes())
    await until(() => judging && watch.statuses.length > 0)
    let answered = false
    const stopped = server.stop(60_000).then(() => answered)
    await watch.ended
    open()
    expect((await done.finally(() => (answered = true))).ok_response).toBeDefined()
    // What is done after the server stopped, such as sending the last reports, comes after the answer.
    expect(await stopped).toBe(true)
  })

  test('a call that nobody decides does not hold the server beyond the grace', async () => {
    let judging = false
    const { server, client } = await stand({
      decide: () => ((judging = true), new Promise<Outcome>(() => {})),
    })
    const refused = expect(client.start(checkBytes()).done).rejects.toBeDefined()
    await until(() => judging)
    await server.stop(50)
    await refused
  })
})

describe('addresses', () => {
  test('port 0 takes a free port and says which', async () => {
    const { server } = await stand()
    expect(server.address).toMatch(/^127\.0\.0\.1:[1-9]\d*$/)
  })

  test('an address in use is refused', async () => {
    const { server } = await stand()
    await expect(stand({ address: server.address })).rejects.toThrow()
  })

  test('a Unix socket works, even if a killed process left its file behind', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'usher-check-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const path = join(directory, 'check.sock')
    await leaveSocketBehind(path)
    const { client, server } = await stand({ address: `unix:${path}` })
    expect(server.address).toBe(`unix:${path}`)
    expect((await client.check(checkBytes())).ok_response).toBeDefined()
  })

  test('a file that is no socket is not touched', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'usher-check-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    await expect(stand({ address: `unix:${directory}` })).rejects.toThrow()
    expect((await stat(directory)).isDirectory()).toBe(true)
  })

  /** A socket file without a listener. */
  async function leaveSocketBehind(path: string): Promise<void> {
    const script =
      'require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))'
    spawnSync(process.execPath, ['-e', script, path])
    expect((await stat(path)).isSocket()).toBe(true)
  }
})

describe('certificates', () => {
  const authority = (name: string) =>
    generate([{ name: 'commonName', value: name }], {
      keySize: 2048,
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, digitalSignature: true, critical: true },
      ],
    })
  type Certificate = Awaited<ReturnType<typeof generate>>
  const signedBy = (ca: Certificate, name: string) =>
    generate([{ name: 'commonName', value: name }], {
      keySize: 2048,
      ca: { key: ca.private, cert: ca.cert },
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
    })
  const pem = (text: string): Buffer => Buffer.from(text)

  test('with certificates a client must show one that the configured authority signed', async () => {
    const [ca, strangers] = await Promise.all([authority('ca'), authority('strangers')])
    const [own, envoy, stranger] = await Promise.all([
      signedBy(ca, 'sidecar'),
      signedBy(ca, 'envoy'),
      signedBy(strangers, 'envoy'),
    ])
    const { server } = await stand({
      tls: fixedCertificates({ cert: pem(own.cert), key: pem(own.private), ca: pem(ca.cert) }),
    })
    const checkAs = async (client: Certificate | undefined): Promise<Answer> => {
      const channel = client
        ? credentials.createSsl(pem(ca.cert), pem(client.private), pem(client.cert))
        : credentials.createSsl(pem(ca.cert))
      const connection = connect(server.address.replace('127.0.0.1', 'localhost'), channel)
      ends.push(() => connection.close())
      return connection.check(checkBytes(), { deadline: Date.now() + 30_000 })
    }
    expect((await checkAs(envoy)).ok_response).toBeDefined()
    await expect(checkAs(undefined)).rejects.toMatchObject({ code: 14 })
    await expect(checkAs(stranger)).rejects.toMatchObject({ code: 14 })
    await expect(
      connect(server.address).check(checkBytes(), { deadline: Date.now() + 30_000 }),
    ).rejects.toMatchObject({ code: 14 })
  })
})
