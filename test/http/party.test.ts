/** Contract, "Health": a party with a database starts completely or not at all, and ends in order. */
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startParty, type Opening, type PartyConfig, type PartyListener } from '../../src/http/party.ts'
import { createServerMetrics } from '../../src/http/telemetry/server-metrics.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { mountSecret } from '../support/mounted-secret.ts'

const FREE = { host: '127.0.0.1', port: 0 }
const CONFIG = {
  issuer: 'https://party.example',
  devLoopback: false,
  logLevel: 'silent' as const,
  metricsListen: FREE,
  tls: undefined,
  traces: undefined,
  idleSeconds: 60,
}

/** Starts a party of these listeners; `done` is what it did, in order. */
function start<L extends Record<string, PartyListener>>(
  listeners: L,
  done: string[],
  tls?: PartyConfig['tls'],
) {
  const lines: Record<string, unknown>[] = []
  const log = createLogger({
    name: 'party',
    level: 'info',
    write: line => lines.push(JSON.parse(line) as Record<string, unknown>),
  })
  const party = startParty(
    { ...CONFIG, tls },
    { log },
    {
      name: 'party',
      prefix: 'UMA_PARTY',
      exposed: [FREE],
      database: {
        open: async ({ closers }: Opening) => {
          done.push('database opened')
          closers.push(async () => void done.push('database closed'))
          return { answers: true }
        },
        fault: async () => undefined,
        refusalOf: () => undefined,
      },
      metrics: (_opened, health) =>
        createServerMetrics(
          'tally',
          { pools: {}, clock: { offsetSeconds: () => 0 }, databaseAnswers: async () => true },
          health,
        ),
      serve: () => ({
        workers: [
          () => {
            done.push('worker started')
            return { stop: async () => void done.push('worker stopped') }
          },
          () => undefined,
        ],
        listeners,
        onServing: () => done.push('serving'),
        handles: { more: 'more' },
      }),
    },
  )
  return { party, lines }
}

/** A listener that notes which listeners were bound before it. */
const listener = (done: string[], name: string) => ({
  address: FREE,
  setting: `UMA_PARTY_${name.toUpperCase()}_LISTEN`,
  routes: (_app: unknown, bound: Readonly<Record<string, string>>) =>
    void done.push(`${name} after ${Object.keys(bound).join(', ')}`),
})

test('opens its database, begins its work, binds its listeners in their order, and ends the other way round', async () => {
  const done: string[] = []
  const listeners = {
    owner: listener(done, 'owner'),
    admin: { ...listener(done, 'admin'), address: undefined },
    public: listener(done, 'public'),
  }
  const { party, lines } = start(listeners, done)
  const running = await party
  const { ownerAddress, adminAddress, publicAddress, metricsAddress, more } = running
  expect(done).toEqual([
    'database opened',
    'worker started',
    'owner after metrics',
    'public after metrics, owner',
    'serving',
  ])
  expect(adminAddress).toBeUndefined()
  expect(more).toBe('more')
  for (const address of [ownerAddress, publicAddress, metricsAddress])
    expect((await fetch(`http://${address}/health`)).status).toBe(200)
  expect(lines.at(-1)).toMatchObject({
    msg: 'the party is serving',
    issuer: CONFIG.issuer,
    owner: ownerAddress,
    public: publicAddress,
    metrics: metricsAddress,
  })
  await running.close()
  expect(done.slice(5)).toEqual(['worker stopped', 'database closed'])
  await expect(fetch(`http://${publicAddress}/health`)).rejects.toThrow('fetch failed')
})

test('frees everything, and names the setting, if one of its addresses cannot be bound', async () => {
  const done: string[] = []
  const { party: first } = start({ public: listener([], 'public') }, [])
  const running = await first
  onTestFinished(() => running.close())
  const port = Number(running.publicAddress.split(':').at(-1))
  const taken = { ...listener(done, 'public'), address: { host: '127.0.0.1', port } }
  const { party } = start({ owner: listener(done, 'owner'), public: taken }, done)
  await expect(party).rejects.toThrow('UMA_PARTY_PUBLIC_LISTEN')
  expect(done.slice(-2)).toEqual(['worker stopped', 'database closed'])
  expect(done).not.toContain('serving')
})

test('warns of a certificate that does not name the host of its issuer, and serves', async () => {
  const { cert, key } = await issueCertificate(await makeCa(), 'party')
  const secret = await mountSecret({ 'cert.pem': cert, 'key.pem': key })
  onTestFinished(() => secret.remove())
  const { party, lines } = start({ public: listener([], 'public') }, [], {
    files: { cert: secret.path('cert.pem'), key: secret.path('key.pem') },
    initial: { cert: Buffer.from(cert), key: Buffer.from(key) },
  })
  const running = await party
  onTestFinished(() => running.close())
  expect(lines.filter(({ setting }) => setting === 'UMA_PARTY_TLS_CERT_FILE')).toMatchObject([
    { names: 'DNS:localhost', url: CONFIG.issuer },
  ])
})
