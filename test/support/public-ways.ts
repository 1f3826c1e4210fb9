/**
 * Owns the ways through usher to servers that nobody here wrote: behind `guard` in memory, in an HTTP server
 * that embeds usher, and behind one Envoy listener with one sidecar for all of them. Each request that needs
 * a grant goes under a standing one.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { proveMessage } from '../../src/agent/index.ts'
import type { proposalFor } from '../../src/agent/bridge/survey/block.ts'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import type { Envoy } from '../../src/dev/stack/envoy-binary.ts'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { newKey, PUBLIC_URL } from '../enforcement/calls.ts'
import { standEmbedded, standingGrant } from './embedded.ts'
import { newWallet, signingFetch } from './mcp-clients.ts'
import { changedEnvoy } from './envoy.ts'
import { stdioOf, type Sample } from './public-servers.ts'
import { startScriptedAuthority, type ScriptedAuthority } from './scripted-authority.ts'
import { servedStdio, type ServedStdio } from './served-stdio.ts'
import { startTestSidecar } from './sidecar.ts'

/** What must be ended when the tests have, the last first. */
export type Closers = (() => Promise<unknown>)[]

/** A server, and what `usher sidecar tools` proposes for it. */
export interface Surveyed {
  sample: Sample
  proposal: ReturnType<typeof proposalFor>
}

/** A way that is open. */
export interface Opened {
  /** Connects the client to a new process of that server, with that folder. */
  connect: (client: Client, sample: Sample, folder: string) => Promise<void>
  /** How many requests were judged under a grant until now. */
  asked: () => number
  /** What a list of tools says of a tool by every way; all of it, if left out. */
  listed?: readonly string[]
  /** What it answers by its own rules, by what is asked for; the rest as without it. */
  own?: ReadonlyMap<string, unknown>
}

const agent = newKey()
const pathOf = ({ name }: Sample): string => `/mcp/alice/${name}`

/** A server's entry in the sidecar's file: each tool and method under the grant of her portfolio. */
function resourceOf({ sample, proposal }: Surveyed): object {
  return {
    path: pathOf(sample),
    client_id: sample.name,
    client_secret: 'shh',
    tools: proposal.tools.map(({ tool }) => ({ tool, resource_id: 'alice/portfolio', scopes: ['read'] })),
    methods: Object.fromEntries(
      Object.entries(proposal.methods).map(([method, tool]) => [method, tool === 'free' ? tool : { tool }]),
    ),
  }
}

const ownersOf = ({ issuer }: ScriptedAuthority, surveyed: readonly Surveyed[]): object[] => [
  { owner: 'alice', authority: issuer, resources: surveyed.map(resourceOf) },
]

const grantFor = (authority: ScriptedAuthority, sample: Sample): string =>
  standingGrant(authority, agent, { resource: PUBLIC_URL + pathOf(sample) })

async function openAuthority(open: Closers): Promise<ScriptedAuthority> {
  const authority = await startScriptedAuthority()
  open.push(() => authority.close())
  return authority
}

/** Each client and its server are joined in this process, with `guard` between them. */
export async function behindGuard(surveyed: readonly Surveyed[], open: Closers): Promise<Opened> {
  const authority = await openAuthority(open)
  const stand = await standEmbedded(authority.issuer, { owners: ownersOf(authority, surveyed) })
  open.push(stand.close)
  const connect = async (client: Client, sample: Sample, folder: string): Promise<void> => {
    const { proposal } = surveyed.find(one => one.sample === sample)!
    const process = stdioOf(sample, folder)
    open.push(() => process.close())
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    const guard = stand.point.guard(theirs, pathOf(sample))
    guard.onmessage = message => void process.send(message)
    process.onmessage = message => {
      // What a server says after its client has left reaches nobody.
      guard.send(message).catch(() => undefined)
    }
    await Promise.all([process.start(), guard.start()])
    const grant = {
      resource: PUBLIC_URL + pathOf(sample),
      accessToken: grantFor(authority, sample),
      key: agent,
    }
    const needsGrant = ({ method = '' }: { method?: string }): boolean =>
      method === 'tools/call' || (proposal.methods[method] ?? 'free') !== 'free'
    const plain = ours.send.bind(ours) as unknown as (message: object) => Promise<void>
    const send = (message: object): Promise<void> => {
      if (!needsGrant(message)) return plain(message)
      return plain(proveMessage({ ...grant, message: JSON.parse(JSON.stringify(message)) as JsonObject }))
    }
    await client.connect(Object.assign(ours, { send }))
  }
  return { connect, asked: () => authority.count('/introspect') }
}

/** What a client of MCP 2025-11-25 asks for by HTTP beside its messages. */
const SESSION_METHODS = ['GET', 'DELETE']

/** The servers over HTTP, each process with the folder of its client. */
function servedOf(surveyed: readonly Surveyed[]): { served: ServedStdio; folders: Map<string, string> } {
  const folders = new Map<string, string>()
  const served = servedStdio(name =>
    stdioOf(surveyed.find(({ sample }) => sample.name === name)!.sample, folders.get(name)!),
  )
  return { served, folders }
}

/** Clients that call over HTTP at that port, each under a standing grant of its server's resource. */
function overHttp(port: number, authority: ScriptedAuthority, folders: Map<string, string>): Opened {
  const connect = async (client: Client, sample: Sample, folder: string): Promise<void> => {
    folders.set(sample.name, folder)
    const wallet = { ...newWallet(agent), token: grantFor(authority, sample) }
    const fetch = signingFetch(wallet, PUBLIC_URL + pathOf(sample))
    const url = new URL(`http://127.0.0.1:${port}${pathOf(sample)}`)
    await client.connect(new StreamableHTTPClientTransport(url, { fetch }))
  }
  return { connect, asked: () => authority.count('/introspect') }
}

/** An HTTP server that embeds usher. */
export async function behindHandler(surveyed: readonly Surveyed[], open: Closers): Promise<Opened> {
  const authority = await openAuthority(open)
  const settings = { owners: ownersOf(authority, surveyed), open_methods: SESSION_METHODS }
  const stand = await standEmbedded(authority.issuer, settings)
  open.push(stand.close)
  const { served, folders } = servedOf(surveyed)
  const tools = await served.start(0, handler => stand.point.protect(handler))
  open.push(() => tools.stop(), served.end)
  return overHttp(tools.port, authority, folders)
}

/** One sidecar (`owners[].resources[]`), and one listener whose routes rewrite the path of each server. */
export async function behindEnvoy(
  surveyed: readonly Surveyed[],
  open: Closers,
  envoy: Envoy,
): Promise<Opened> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-public-envoy-'))
  open.push(() => rm(directory, { recursive: true }))
  const authority = await openAuthority(open)
  const { served, folders } = servedOf(surveyed)
  const tools = await served.start(0)
  open.push(() => tools.stop(), served.end)
  const settings = { owners: ownersOf(authority, surveyed), open_methods: SESSION_METHODS }
  const sidecar = await startTestSidecar({ directory, authority, settings })
  open.push(() => sidecar.close())
  const [port] = (await freePorts(1)) as [number]
  const [check, documents] = [sidecar.checkAddress, sidecar.httpAddress].map(one =>
    Number(one.split(':').at(-1)),
  )
  const ports = { envoy: port, checks: [check!], documents: [documents!], tool: tools.port }
  const file = join(directory, 'envoy.yaml')
  await writeFile(file, withRoutes(await envoyConfig(ports), surveyed))
  const child = startChild({
    name: 'Envoy',
    command: [...envoy.command(file, directory), '--concurrency', '1', '--disable-hot-restart'],
    logFile: join(directory, 'envoy.log'),
  })
  open.push(() => child.stop())
  await untilReady(child, () => accepts(port))
  return overHttp(port, authority, folders)
}

/** The shipped configuration with a route for each server, as docs/owners.md has it. */
function withRoutes(yaml: string, surveyed: readonly Surveyed[]): string {
  const routes = surveyed.map(({ sample }) => ({
    match: { path: pathOf(sample) },
    route: {
      cluster: 'tool_server',
      prefix_rewrite: `/${sample.name}/mcp`,
      timeout: '300s',
      idle_timeout: '60s',
    },
  }))
  return changedEnvoy(
    yaml,
    ({
      route_config: {
        virtual_hosts: [host],
      },
    }) => {
      host.routes.unshift(...routes)
    },
  )
}
