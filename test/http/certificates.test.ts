/**
 * Certificates that are renewed on disk while servers and clients run: seen without a restart, and never at
 * the cost of a connection. contract, "Authentication".
 */
import { credentials } from '@grpc/grpc-js'
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Agent as HttpsAgent, get } from 'node:https'
import { connect as connectTls } from 'node:tls'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startCheckServer, type CheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import {
  certificateFault,
  watchCertificates,
  type Certificates,
  type TlsMaterial,
} from '../../src/http/servers/certificates.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createMetricsRegistry, type MetricsRegistry } from '../../src/http/telemetry/metrics.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { createHttpServer, listen, type HttpServer } from '../../src/http/servers/server.ts'
import { checkBytes, connect as connectCheck } from '../support/check-client.ts'
import { issueCertificate, issueExpired, makeCa, type Pair } from '../support/local-ca.ts'
import { mountSecret, type MountedSecret } from '../support/mounted-secret.ts'
import { until } from '../support/until.ts'

let ca: Pair
let otherCa: Pair
let secret: MountedSecret
let lines: string[]
let metrics: MetricsRegistry
let watched: Certificates | undefined

beforeAll(async () => {
  ca = await makeCa()
  otherCa = await makeCa()
})
beforeEach(async () => {
  lines = []
  metrics = createMetricsRegistry('sidecar')
  secret = await mountSecret(files(await issueCertificate(ca, 'first')))
})
afterEach(async () => {
  watched?.stop()
  watched = undefined
  await secret.remove()
})

const files = ({ cert, key }: Pair, trusted: Pair = ca) => ({
  'cert.pem': cert,
  'key.pem': key,
  'ca.pem': trusted.cert,
})

async function watch<K extends keyof TlsMaterial>(...names: K[]): Promise<Certificates<Record<K, Buffer>>> {
  const paths = Object.fromEntries(names.map(name => [name, secret.path(`${name}.pem`)])) as Record<K, string>
  const read = await Promise.all(names.map(async name => [name, await readFile(paths[name])] as const))
  const certificates = watchCertificates({
    use: 'test',
    files: paths,
    initial: Object.fromEntries(read) as Record<K, Buffer>,
    logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
    observer: metrics.certificates,
    everyMs: 20,
  })
  watched = certificates
  return certificates
}

/** The name in the certificate that a new connection is shown. */
function shown(address: string, client: Partial<Pair> = {}): Promise<string> {
  const port = Number(address.split(':').at(-1))
  return new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca: ca.cert, ...client })
    socket.once('secureConnect', () => {
      resolve(String(socket.getPeerCertificate().subject.CN))
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

const counted = async (line: string) => (await metrics.render()).text.includes(line)

describe('A server of HTTPS', () => {
  let server: HttpServer
  let address: string
  let answerSlow: () => void

  beforeEach(async () => {
    const slow = new Promise<void>(resolve => (answerSlow = resolve))
    server = createHttpServer({
      logger: createLogger({ name: 'test', level: 'silent' }),
      bodyBytesMax: 1_000,
      tls: await watch('cert', 'key'),
    })
    server.get('/slow', async (_request, reply) => {
      await slow
      return reply.send({ done: true })
    })
    address = await listen(server, { host: '127.0.0.1', port: 0 })
  })
  afterEach(() => server.close())

  const ask = (path: string, agent: HttpsAgent) =>
    new Promise<{ status: number | undefined; name: string; reused: boolean }>((resolve, reject) => {
      const port = Number(address.split(':').at(-1))
      const request = get({ host: '127.0.0.1', port, path, agent, servername: 'localhost', ca: ca.cert })
      request.once('error', reject).once('response', response => {
        const socket = response.socket as import('node:tls').TLSSocket
        const name = String(socket.getPeerCertificate().subject?.CN)
        response
          .resume()
          .once('end', () => resolve({ status: response.statusCode, name, reused: request.reusedSocket }))
      })
    })

  test('shows the renewed certificate, and leaves open connections and requests under way alone', async () => {
    const agent = new HttpsAgent({ keepAlive: true, maxSockets: 1 })
    const busy = new HttpsAgent({ keepAlive: true })
    expect(await ask('/health', agent)).toMatchObject({ status: 200, name: 'first' })
    const underWay = ask('/slow', busy)
    await secret.swap(files(await issueCertificate(ca, 'second')))
    await until(async () => (await shown(address)) === 'second')
    expect(await ask('/health', agent)).toMatchObject({ status: 200, name: 'first', reused: true })
    answerSlow()
    expect(await underWay).toMatchObject({ status: 200, name: 'first' })
    agent.destroy()
    busy.destroy()
    expect(await counted('usher_certificate_reloads_total{use="test",outcome="loaded"} 1')).toBe(true)
  })

  test.each<[string, () => Promise<Record<string, string>>]>([
    [
      'a key that is another certificate’s',
      async () => ({
        ...files(await issueCertificate(ca, 'second')),
        'key.pem': (await issueCertificate(ca, 'third')).key,
      }),
    ],
    [
      'no certificate at all',
      async () => ({ ...files(await issueCertificate(ca, 'x')), 'cert.pem': 'oops' }),
    ],
    ['an empty file', async () => ({ ...files(await issueCertificate(ca, 'x')), 'key.pem': '' })],
    ['a missing file', async () => ({ 'key.pem': (await issueCertificate(ca, 'x')).key })],
  ])(
    'goes on with the one before if there is %s, tells it once, and takes a good one after',
    async (_what, broken) => {
      await secret.swap(await broken())
      await until(() => lines.some(line => line.includes('cannot be used')))
      expect(await shown(address)).toBe('first')
      await secret.swap(files(await issueCertificate(ca, 'fourth')))
      await until(async () => (await shown(address)) === 'fourth')
      expect(lines.filter(line => line.includes('cannot be used'))).toHaveLength(1)
      expect(await counted('usher_certificate_reloads_total{use="test",outcome="refused"} 1')).toBe(true)
      expect(lines.join('')).not.toContain('PRIVATE KEY')
    },
  )

  test('a key that became open to others is refused and told once, and the earlier one goes on serving', async () => {
    await secret.swap(files(await issueCertificate(ca, 'second')), 0o444)
    await until(() => lines.some(line => line.includes('cannot be used')))
    expect(await shown(address)).toBe('first')
    expect(lines.find(line => line.includes('cannot be used'))).toMatch(
      /key\.pem has the mode 0444, so others can read it: chmod 600 /,
    )
    await secret.swap(files(await issueCertificate(ca, 'third')))
    await until(async () => (await shown(address)) === 'third')
    expect(lines.filter(line => line.includes('cannot be used'))).toHaveLength(1)
  })

  test('when it expires can be read off', async () => {
    const notAfter = /usher_certificate_not_after_seconds\{use="test"\} (\d+)/
    const [, seconds] = notAfter.exec((await metrics.render()).text) ?? []
    expect(Number(seconds)).toBeGreaterThan(Date.now() / 1_000)
  })
})

describe('A certificate that clients refuse', () => {
  const setting = 'UMA_AS_TLS_CERT_FILE'
  const started = (pair: Pair, url?: string): Record<string, unknown>[] => {
    watched = watchCertificates({
      use: 'test',
      files: { cert: secret.path('cert.pem'), key: secret.path('key.pem') },
      initial: { cert: Buffer.from(pair.cert), key: Buffer.from(pair.key) },
      logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
      observer: metrics.certificates,
      shown: { setting, url },
      everyMs: 20,
    })
    return warnings()
  }
  const warnings = () =>
    lines
      .map(line => JSON.parse(line) as Record<string, unknown>)
      .filter(({ setting: named }) => named === setting)

  test('because it has expired is warned of at the start, with the date and the remedy', async () => {
    const pair = await issueExpired(ca, 'old')
    const [warning, ...others] = started(pair, 'https://localhost:9443')
    expect(warning).toMatchObject({
      not_after: new X509Certificate(pair.cert).validToDate.toISOString(),
      msg: expect.stringMatching(/^the certificate of UMA_AS_TLS_CERT_FILE has expired.*renew/) as string,
    })
    expect(others).toEqual([])
  })

  test.each(['https://as.example.com', 'https://127.0.0.1:9443', 'https://[::1]:9443'])(
    'because it does not name the host of our URL is warned of at the start, with its names and the remedy: %s',
    async url => {
      const [warning, ...others] = started(await issueCertificate(ca, 'as.example.com'), url)
      expect(warning).toMatchObject({
        names: 'DNS:localhost',
        url,
        msg: expect.stringMatching(
          /does not name the host of .*give one that does, unless a proxy/,
        ) as string,
      })
      expect(others).toEqual([])
    },
  )

  test('is warned of when it is renewed by one with other names, too', async () => {
    const pair = await issueCertificate(ca, 'first')
    await secret.swap(files(pair))
    expect(started(pair, 'https://localhost')).toEqual([])
    await secret.swap(files(await issueCertificate(ca, 'second', undefined, ['other.example'])))
    await expect.poll(warnings).toMatchObject([{ names: 'DNS:other.example', url: 'https://localhost' }])
  })

  test.each([['https://localhost:9443'], ['http://as.example.com'], [undefined]])(
    'is none if it names the host, or no client comes by a URL of https: %s',
    async url => {
      expect(started(await issueCertificate(ca, 'first'), url)).toEqual([])
    },
  )
})

describe('The check server, which wants a certificate of its clients', () => {
  let server: CheckServer
  let release: () => void

  beforeEach(async () => {
    const held = new Promise<void>(resolve => (release = resolve))
    server = await startCheckServer({
      address: '127.0.0.1:0',
      tls: await watch('cert', 'key', 'ca'),
      health: createHealth(),
      bodyBytesMax: 2_000,
      deadlineMarginMs: 100,
      decide: async call => {
        if (call.path === '/slow') await held
        return { kind: 'allow', headers: {}, remove: [], metadata: {} }
      },
    })
  })
  afterEach(() => server.stop(100))

  const channel = ({ cert, key }: Pair) =>
    connectCheck(
      server.address.replace('127.0.0.1', 'localhost'),
      credentials.createSsl(Buffer.from(ca.cert), Buffer.from(key), Buffer.from(cert)),
    )

  test('shows the renewed certificate, and leaves open channels and checks under way alone', async () => {
    const own = await issueCertificate(ca, 'envoy')
    const client = channel(own)
    expect((await client.check(checkBytes())).status).toEqual({ code: 0 })
    const underWay = client.check(checkBytes({ path: '/slow' }))
    await secret.swap(files(await issueCertificate(ca, 'second')))
    await until(async () => (await shown(server.address, own)) === 'second')
    expect((await client.check(checkBytes())).status).toEqual({ code: 0 })
    release()
    expect((await underWay).status).toEqual({ code: 0 })
    client.close()
  })

  test('lets in whom the renewed CA signed, and nobody else any more', async () => {
    const before = await issueCertificate(ca, 'envoy')
    const after = await issueCertificate(otherCa, 'envoy')
    await secret.swap(files(await issueCertificate(ca, 'second'), otherCa))
    await until(async () => (await shown(server.address, after)) === 'second')
    const [old, renewed] = [channel(before), channel(after)]
    expect((await renewed.check(checkBytes())).status).toEqual({ code: 0 })
    await expect(old.check(checkBytes(), { deadline: Date.now() + 2_000 })).rejects.toThrow()
    old.close()
    renewed.close()
  })
})

describe('A client', () => {
  test('trusts whom the renewed CA signed, from the next connection on', async () => {
    const server = createHttpServer({
      logger: createLogger({ name: 'test', level: 'silent' }),
      bodyBytesMax: 1_000,
      tls: await watch('cert', 'key'),
    })
    const address = await listen(server, { host: '127.0.0.1', port: 0 })
    const serving = watched!
    await secret.swap({ ...files(await issueCertificate(otherCa, 'second')), 'ca.pem': ca.cert })
    await until(() => lines.some(line => line.includes('were renewed')))
    const trusted = await watch('ca')
    const outbound = createOutbound({ devLoopback: false, ca: () => trusted.current().ca, idleMs: 1 })
    const ask = () => outbound.request({ url: `https://localhost:${address.split(':').at(-1)}/health` })
    await expect(ask()).rejects.toMatchObject({ reason: 'broken', sent: false })
    await secret.swap({ ...files(await issueCertificate(otherCa, 'second')), 'ca.pem': otherCa.cert })
    await until(() =>
      ask().then(
        ({ status }) => status === 200,
        () => false,
      ),
    )
    await outbound.close()
    serving.stop()
    await server.close()
  })
})

describe('A file of certificates', () => {
  const one = () => `${ca.cert.trim()}\n`
  const other = () => `${otherCa.cert.trim()}\n`
  const spoilt = () => other().replace('MII', 'MIJ')
  const fault = (file: string | Buffer) => certificateFault({ ca: Buffer.from(file) })?.why

  test.each<[string, () => string]>([
    ['two certificates', () => one() + other()],
    ['line ends of Windows', () => (one() + other()).replaceAll('\n', '\r\n')],
    ['a byte order mark', () => `\ufeff${one()}${other()}`],
    ['words between', () => `# one\n${one()}# other\n${other()}`],
    ['a certificate that OpenSSL calls trusted', () => one().replaceAll('CERT', 'TRUSTED CERT')],
  ])('is used with %s', (_what, file) => {
    expect(fault(file())).toBeUndefined()
  })

  test.each<[string, () => string | Buffer, RegExp]>([
    ['is in DER', () => new X509Certificate(one()).raw, /holds no certificate. Give certificates in PEM/],
    ['is in UTF-16', () => Buffer.from(`\ufeff${one()}`, 'utf16le'), /holds no certificate/],
    ['is cut off in its second', () => one() + other().slice(0, 200), /certificate 2 of 2 cannot be read/],
    ['is spoilt in its second', () => one() + spoilt(), /certificate 2 of 2 cannot be read/],
    ['is spoilt in its first', () => spoilt() + one(), /certificate 1 of 2 cannot be read/],
    ['has two on one line', () => one().trim() + other(), /certificate [12] of 2 cannot be read/],
    ['has its second indented', () => `${one()}  ${other()}`, /certificate 2 of 2 cannot be read/],
  ])('is a fault where it %s, since those that are not read would not be trusted', (_what, file, words) => {
    expect(fault(file())).toMatch(words)
  })

  test('that is renewed by one in DER does not replace the one before', async () => {
    const trusted = await watch('ca')
    const before = trusted.current()
    const der = new X509Certificate(otherCa.cert).raw
    await secret.swap({ ...files(await issueCertificate(ca, 'second')), 'ca.pem': der as never })
    await until(() => lines.some(line => line.includes('cannot be used')))
    expect(trusted.current()).toBe(before)
  })
})
