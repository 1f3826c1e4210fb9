/**
 * Whose certificate may ask at the doors to a gateway. Contract: "Resource server enforcement point"
 * (`/check` is for the gateway), on real sockets.
 */
import { request } from 'node:https'
import { connect, type ConnectionOptions } from 'node:tls'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startCheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { ALLOW } from '../support/check-door.ts'
import { fixedCertificates } from '../support/fixed-certificates.ts'
import { stand } from '../support/http-check-stand.ts'
import { issueCertificate, makeCa, type Pair } from '../support/local-ca.ts'

const GATEWAY = 'gateway.example.com'
const WORKLOAD = 'spiffe://cluster.local/ns/gateways/sa/gateway'
/** What an HTTP/2 client sends first, with empty settings. */
const GREETING = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
])

let ca: Pair
let own: Pair
beforeAll(async () => {
  ca = await makeCa()
  own = await issueCertificate(ca, 'sidecar')
})

interface Door {
  /** Whether somebody with this certificate is answered; otherwise the connection is cut. */
  answers: (client: Pair) => Promise<boolean>
  /** The names of those who were turned away. */
  strangers: (readonly string[])[]
}

async function opened(
  allowed: readonly string[],
  open: (options: ReturnType<typeof secured>) => Promise<Door['answers']>,
): Promise<Door> {
  const strangers: (readonly string[])[] = []
  const asking = await open(secured(allowed, names => void strangers.push(names)))
  return { answers: ({ cert, key }) => asking({ cert, key }), strangers }
}

function secured(allowed: readonly string[], onStranger: (names: readonly string[]) => void) {
  const [cert, key, trusted] = [own.cert, own.key, ca.cert].map(pem => Buffer.from(pem))
  return {
    tls: fixedCertificates({ cert: cert!, key: key!, ca: trusted! }),
    clients: { allowed, onStranger },
  }
}

const portOf = (address: string): number => Number(address.split(':').at(-1))

async function grpcPort(options: ReturnType<typeof secured>): Promise<number> {
  const server = await startCheckServer({
    ...options,
    address: '127.0.0.1:0',
    health: createHealth(),
    bodyBytesMax: 1_000,
    deadlineMarginMs: 200,
    decide: async () => ALLOW,
  })
  onTestFinished(() => server.stop(100))
  return portOf(server.address)
}

/** Greets in HTTP/2, and says whether anything was answered. */
function greeted(port: number, as: ConnectionOptions, onSession?: (session: Buffer) => void) {
  return new Promise<boolean>(resolve => {
    const to = { port, host: '127.0.0.1', ca: ca.cert, servername: 'localhost', ALPNProtocols: ['h2'] }
    const socket = connect({ ...as, ...to })
    onTestFinished(() => void socket.destroy())
    if (onSession !== undefined) socket.on('session', onSession)
    socket.on('secureConnect', () => socket.write(GREETING))
    socket.once('data', () => resolve(true))
    socket.on('error', () => undefined).once('close', () => resolve(false))
  })
}

const grpcDoor = (allowed: readonly string[]): Promise<Door> =>
  opened(allowed, async options => {
    const port = await grpcPort(options)
    return as => greeted(port, as)
  })

const httpDoor = (allowed: readonly string[]): Promise<Door> =>
  opened(allowed, async options => {
    const { address } = await stand(options)
    return as =>
      new Promise(resolve => {
        const asked = request({
          ...as,
          agent: false,
          port: portOf(address),
          host: '127.0.0.1',
          path: '/health',
          ca: ca.cert,
          servername: 'localhost',
        })
        asked.once('response', answer => resolve(answer.resume().statusCode === 304))
        asked.once('error', () => resolve(false)).end()
      })
  })

const as = (names: string[], commonName = 'somebody'): Promise<Pair> =>
  issueCertificate(ca, commonName, { serverAuth: false, clientAuth: true }, names)

describe.each([
  ['gRPC', grpcDoor],
  ['HTTP', httpDoor],
])('The door for checks over %s, with the names of its clients', (_kind, door) => {
  test.each<[string, string[]]>([
    ['as a DNS name', ['localhost', GATEWAY]],
    ['as a DNS name in other letters', ['Gateway.Example.com']],
    ['as a URI', ['localhost', WORKLOAD]],
  ])('answers a certificate that has one of them %s', async (_how, names) => {
    const { answers, strangers } = await door([GATEWAY, WORKLOAD])
    expect(await answers(await as(names))).toBe(true)
    expect(strangers).toEqual([])
  })

  test.each<[string, string[], string?]>([
    ['only as its common name', ['localhost'], GATEWAY],
    ['only under a wildcard', ['*.example.com']],
    ['as the beginning of another name', [`${GATEWAY}.evil.example`]],
    ['as a part of another name', [`evil.example, DNS:${GATEWAY}, DNS:more.example`]],
    ['as a part of a URI', [`${WORKLOAD}/and/more`]],
  ])(
    'cuts off one of the same CA that has it %s, and says what names it has',
    async (_how, names, common) => {
      const { answers, strangers } = await door([GATEWAY, WORKLOAD])
      expect(await answers(await as(names, common))).toBe(false)
      expect(strangers).toHaveLength(1)
      expect(strangers[0]).not.toContain(GATEWAY)
    },
  )
})

test('a session of the gateway that is resumed is answered, and shows the same names', async () => {
  const strangers: (readonly string[])[] = []
  const port = await grpcPort(secured([GATEWAY], names => void strangers.push(names)))
  const gateway = await as([GATEWAY])
  const sessions: Buffer[] = []
  expect(await greeted(port, gateway, session => void sessions.push(session))).toBe(true)
  await expect.poll(() => sessions.length).toBeGreaterThan(0)
  expect(await greeted(port, { ...gateway, session: sessions[0]! })).toBe(true)
  expect(strangers).toEqual([])
})

test('without names, whoever has a certificate of the CA may ask', async () => {
  const { tls } = secured([], () => undefined)
  const { address } = await stand({ tls })
  const client = await as(['anything.example'])
  const status = await new Promise((resolve, reject) => {
    const to = { ...client, agent: false as const, port: portOf(address), host: '127.0.0.1', path: '/health' }
    const asked = request({ ...to, ca: ca.cert, servername: 'localhost' })
    asked.once('response', answer => resolve(answer.resume().statusCode)).once('error', reject)
    asked.end()
  })
  expect(status).toBe(304)
})
