/**
 * Who closes an idle connection first: the one in front of us, for a request that meets a connection which
 * its server is closing is lost. Contract: "Limits" (times are ours to choose).
 */
import { readFileSync } from 'node:fs'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readAuthorityConfig } from '../../src/config.ts'
import { SIDECAR_FILE } from '../../src/config/sidecar/sidecar-file.ts'
import { boundsWithIdle, CONNECTION_BOUNDS, IDLE_SECONDS } from '../../src/http/servers/connection-bounds.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createHttpServer, listen } from '../../src/http/servers/server.ts'
import { startRawServer } from '../../src/http/servers/raw-server.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'
import { listPoints, ROOT } from '../support/repository.ts'

const { keysFile } = configFolder()
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** The seconds that a server says it keeps an idle connection for (RFC 9112, `Keep-Alive`). */
async function toldBy(port: number): Promise<number> {
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n'))
    socket.once('data', data => resolve(data.toString()) ?? socket.destroy())
    socket.once('error', reject)
  })
  return Number(/keep-alive: timeout=(\d+)/i.exec(answer)?.[1])
}

async function httpServer(bounds?: typeof CONNECTION_BOUNDS): Promise<number> {
  const server = createHttpServer({
    logger: createLogger({ name: 'test', level: 'silent' }),
    bodyBytesMax: 1_024,
    bounds,
  })
  closing.push(() => server.close())
  await listen(server, { host: '127.0.0.1', port: 0 })
  return (server.server.address() as AddressInfo).port
}

async function rawServer(bounds?: typeof CONNECTION_BOUNDS): Promise<number> {
  const server = await startRawServer({
    address: { host: '127.0.0.1', port: 0 },
    bodyBytesMax: 1_024,
    handle: async () => ({ status: 200, headers: [], body: '' }),
    keepConnections: () => true,
    bounds,
  })
  closing.push(() => server.stop(0))
  return Number(server.address.split(':').at(-1))
}

describe('An idle connection', () => {
  test.each([
    ['the listeners of servers', httpServer],
    ['the HTTP door of a sidecar', rawServer],
  ])(
    'is kept at %s for longer than by the balancers in front, or as long as is set',
    async (_what, start) => {
      expect(await toldBy(await start())).toBe(IDLE_SECONDS)
      expect(await toldBy(await start(boundsWithIdle(65)))).toBe(65)
      expect(await toldBy(await start(boundsWithIdle(4_000)))).toBe(4_000)
    },
  )

  test('is kept for a time that is set at each process, within bounds', () => {
    const authority = (more: object) =>
      readAuthorityConfig({
        UMA_AS_ISSUER: 'https://as.example.com',
        DATABASE_URL: 'postgres://x',
        UMA_AS_KEYS_FILE: keysFile,
        ...more,
      })
    expect(authority({}).idleSeconds).toBe(IDLE_SECONDS)
    expect(authority({ UMA_AS_IDLE_SECONDS: '65' }).idleSeconds).toBe(65)
    expect(faultsOf(() => authority({ UMA_AS_IDLE_SECONDS: '0' }))).toEqual([
      expect.stringMatching(/^UMA_AS_IDLE_SECONDS: Give a whole number from 1 to 4000/),
    ])
    const ofSidecar = SIDECAR_FILE.shape.idle_seconds
    expect([ofSidecar.parse(undefined), ofSidecar.parse(65)]).toEqual([IDLE_SECONDS, 65])
    expect(ofSidecar.safeParse(0).success).toBe(false)
  })
})

describe('What stands in front', () => {
  test('of the page that lists it keeps connections for less, or is told to', () => {
    const page = readFileSync(join(ROOT, 'docs', 'operating.md'), 'utf8')
    const rows = listPoints(page).flatMap(({ text }) => {
      const [, name, seconds, by] = /^([^:]+): (\d+); (.+)$/.exec(text) ?? []
      return name === undefined ? [] : [{ name, seconds: Number(seconds), by }]
    })
    expect(rows.length).toBeGreaterThanOrEqual(7)
    for (const { name, seconds, by } of rows)
      expect([name, seconds < IDLE_SECONDS || by!.includes('30 s in')]).toEqual([name, true])
    expect(
      Math.max(...rows.filter(({ seconds }) => seconds < IDLE_SECONDS).map(({ seconds }) => seconds)),
    ).toBe(600)
  })

  test('in our example for Envoy closes first', () => {
    const text = readFileSync(join(ROOT, 'envoy', 'envoy-http.yaml'), 'utf8')
    const { static_resources } = parse(text) as {
      static_resources: {
        clusters: { name: string; common_http_protocol_options?: { idle_timeout: string } }[]
      }
    }
    const times = static_resources.clusters.flatMap(
      one => one.common_http_protocol_options?.idle_timeout ?? [],
    )
    const deep = [...text.matchAll(/common_http_protocol_options: \{ idle_timeout: (\d+)s \}/g)].map(
      ([, s]) => Number(s),
    )
    expect([...times.map(time => Number.parseInt(time, 10)), ...deep].every(s => s < IDLE_SECONDS)).toBe(true)
    expect(deep.length).toBeGreaterThan(0)
  })
})
