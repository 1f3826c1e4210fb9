/**
 * Owns a plain HTTP API behind a gateway that asks by forward-auth: a real authority, a real sidecar, the
 * gateway on a configuration that we ship, an API that writes down what arrives, and who calls it.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { createAgent, type Agent, type AgentEvent, type Grant } from '../../src/agent/index.ts'
import { readSidecarConfig } from '../../src/config.ts'
import { until } from '../../src/dev/stack/child-process.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { readAll } from '../../src/owner/index.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import {
  CLIENT_ID,
  startTestAuthority,
  WORLD,
  type ProvisionDocument,
  type TestAuthority,
} from './authority.ts'
import { callApiByHand, type HandCall } from './hand-call.ts'

/** The ports of loopback that a shipped configuration names. */
export interface GatewayPorts {
  gateway: number
  check: number
  documents: number
  api: number
}

export interface ForwardAuthGateway {
  /** Its shipped configuration, which says in a comment what `check_http` of the sidecar's file must be. */
  configuration: URL
  /** Runs it on that configuration. */
  start: (ports: GatewayPorts) => Promise<{ stop: () => Promise<void> }>
}

/** A request as it arrived at the API. */
export interface Arrival {
  method: string
  target: string
  headers: Record<string, string | string[] | undefined>
  body: string
}

export interface PlainApiStand {
  /** Where agents call. */
  origin: string
  agentKey: PrivateKey
  agent: Agent
  authority: TestAuthority
  sidecar: Sidecar
  /** The part of the sidecar's file that says what the gateway writes. */
  checkHttp: Record<string, string>
  arrivals: Arrival[]
  byHand: (call: HandCall) => ReturnType<typeof callApiByHand>
  /** Bytes as they are written here, and all that is answered until the gateway ends the connection. */
  raw: (bytes: string) => Promise<string>
  /** Waits until something waits for the owner, and approves it. */
  approveNext: () => Promise<void>
  /** The grant that the agent was given last. */
  granted: () => Grant
  /** Forgets what arrived and was granted. */
  forget: () => void
  endAuthority: () => Promise<void>
  close: () => Promise<void>
}

const API = [
  { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'GET', path: '/statements/{month}', tool: 'statement_read' },
  { method: 'POST', path: '/orders', tool: 'place_trade' },
  { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
  { method: 'POST', path: '/close', tool: 'close_account' },
]

/** Starts all of it. */
export async function standPlainApi(gateway: ForwardAuthGateway): Promise<PlainApiStand> {
  const [gatewayPort, check, documents, apiPort, authorityPort] = (await freePorts(5)) as [
    number,
    number,
    number,
    number,
    number,
  ]
  const ports: GatewayPorts = { gateway: gatewayPort, check, documents, api: apiPort }
  const origin = `http://127.0.0.1:${ports.gateway}`
  const authority = await startOwnersAuthority(`127.0.0.1:${authorityPort}`, `${origin}/api/alice`)
  const directory = mkdtempSync(join(tmpdir(), 'usher-plain-api-'))
  const checkHttp = checkHttpOf(await readFile(gateway.configuration, 'utf8'))
  const file = writeSidecarFile(directory, { origin, ports, authority, checkHttp })
  const sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), {
    logger: createLogger({ name: 'test', level: 'fatal' }),
  })
  const arrivals: Arrival[] = []
  const api = await startApi(ports.api, arrivals)
  const running = await gateway.start(ports)
  const agentKey = importPrivateJwk(generatePrivateJwk())
  const events: AgentEvent[] = []
  const agent = createAgent({ key: agentKey, allowLoopback: true, onEvent: event => events.push(event) })
  let ended: Promise<void> | undefined
  const endAuthority = (): Promise<void> => (ended ??= authority.close())
  return {
    origin,
    agentKey,
    agent,
    authority,
    sidecar,
    checkHttp,
    arrivals,
    endAuthority,
    byHand: call => callApiByHand(origin, agentKey, call),
    raw: bytes => exchange(ports.gateway, bytes),
    approveNext: async () => {
      const { client } = authority.alice
      const item = await until('something waits for her', async () => (await readAll(client.pending())).at(0))
      await client.decide(item.family, 'approved')
    },
    granted: () => events.findLast(event => event.type === 'granted')!.grant,
    forget: () => {
      arrivals.length = 0
      events.length = 0
    },
    close: async () => {
      await running.stop()
      await sidecar.close()
      await endAuthority()
      api.closeAllConnections()
      api.close()
      rmSync(directory, { recursive: true })
    },
  }
}

function startOwnersAuthority(address: string, resourceUri: string): Promise<TestAuthority> {
  return startTestAuthority({
    environment: { UMA_AS_ISSUER: `http://${address}`, UMA_AS_LISTEN: address, UMA_DEV_LOOPBACK: 'true' },
    provision: (document: ProvisionDocument) => {
      document.owners[0]!.resource_servers[0]!.resource_uri = resourceUri
      return document
    },
  })
}

/** `check_http` as the comment of a shipped configuration tells people to write it. */
function checkHttpOf(configuration: string): Record<string, string> {
  const [, block = ''] = /^# +check_http:\n((?:# +\w+: \S+\n)+)/m.exec(configuration) ?? []
  const pairs = [...block.matchAll(/(\w+): (\S+)/g)].map(([, name, value]) => [name!, value!] as const)
  if (pairs.length === 0) throw new Error('the configuration does not say what check_http must be')
  return Object.fromEntries(pairs)
}

function writeSidecarFile(
  directory: string,
  parts: {
    origin: string
    ports: GatewayPorts
    authority: TestAuthority
    checkHttp: Record<string, string>
  },
): string {
  const { origin, ports, authority, checkHttp } = parts
  const keysFile = join(directory, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const file = join(directory, 'sidecar.yaml')
  const owner = {
    owner: 'alice',
    authority: authority.issuer,
    client_id: CLIENT_ID,
    client_secret: authority.alice.clientSecret,
    tools: WORLD.map(({ tool, resource, scope, consequence }) => ({
      tool,
      resource_id: `alice/${resource}`,
      scopes: [scope],
      consequence,
    })),
    api: API,
  }
  const settings = {
    public_url: origin,
    listen: {
      check: '127.0.0.1:0',
      check_http: `127.0.0.1:${ports.check}`,
      http: `127.0.0.1:${ports.documents}`,
    },
    check_http: checkHttp,
    keys_file: keysFile,
    realm: 'api',
    owners: [owner],
  }
  writeFileSync(file, stringify(settings))
  return file
}

/** Answers 200, or what `x-status` says, to whatever arrives. */
async function startApi(port: number, arrivals: Arrival[]): Promise<Server> {
  const api = createServer((received, answer) => {
    const chunks: Buffer[] = []
    received.on('data', (chunk: Buffer) => chunks.push(chunk))
    received.on('end', () => {
      const { method = '', url = '', headers } = received
      arrivals.push({ method, target: url, headers, body: Buffer.concat(chunks).toString() })
      const status = headers['x-status'] === undefined ? 200 : Number(headers['x-status'])
      answer.writeHead(status, { 'content-type': 'application/json' }).end('{"balance":7}')
    })
  })
  await new Promise<void>(resolve => api.listen(port, '127.0.0.1', resolve))
  return api
}

function exchange(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    let text = ''
    socket
      .on('data', data => (text += data.toString()))
      .on('error', reject)
      .on('close', () => resolve(text))
  })
}
