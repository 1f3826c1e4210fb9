/**
 * Owns what others take for a decision on the same machine, in the same cycles: Envoy that answers by itself,
 * Envoy with its own `jwt_authn` and EdDSA, Envoy that asks usher about a standing grant (which asks its
 * authority about each call, or leases), and OpenFGA's Check on the same Postgres. Each is driven by h2load.
 * By itself: `node bench/scenarios/peers.ts --json bench/peers.json`; with `--tree DIR` usher is that of
 * another checkout.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import { findEnvoy } from '../../src/dev/stack/envoy-binary.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ROOT } from '../../test/support/repository.ts'
import { h2load } from '../cross-check.ts'
import { openOpenFga } from '../openfga.ts'
import { signedCall } from '../load/corpus.ts'
import { peerRatio, spreadOf, type PeerName, type Peers as Rates } from '../figures.ts'
import { readMachine, type Machine } from '../machine.ts'
import { startSystem, type System } from '../system.ts'

/** Calls a second, cycle by cycle, of those that were here. */
export interface Peers extends Rates {
  tools: Record<string, string>
  in_flight: number
  seconds: number
  /** Of the last minute, before anything was started. */
  load_average: number
}

/** What `--json` writes. */
export interface PeersRun extends Peers {
  command: string
  started_at: string
  machine: Machine
}

export const PEER_TITLES: Record<PeerName, string> = {
  envoy: 'Envoy that answers by itself',
  jwt_authn: 'Envoy with `jwt_authn`, EdDSA',
  usher: 'Envoy with usher, a standing grant',
  usher_leased: 'Envoy with usher that leases, the same',
  openfga: 'OpenFGA, Check of one tuple',
}

export interface PeersOptions {
  directory: string
  cycles: number
  seconds: number
  inFlight: number
  connections: number
  tell: (line: string) => void
}

const WARM_UP_SECONDS = 6
const GUESS: Record<PeerName, number> = {
  envoy: 10_000,
  jwt_authn: 3_000,
  usher: 1_000,
  usher_leased: 2_000,
  openfga: 2_000,
}
const execute = promisify(execFile)

interface Sent {
  url: string
  headers: Record<string, string>
  body: Buffer
}

/**
 * A request that one of them is sent again and again, made anew for each cycle: signatures are good for a
 * minute.
 */
interface Peer {
  name: PeerName
  request: () => Sent
  /** Waits until so many calls are where they must be. */
  settled?: (calls: number) => Promise<void>
}

/** Undefined if h2load is missing. Other missing tools are reported, and their scenarios are left out. */
export async function measurePeers(system: System, options: PeersOptions): Promise<Peers | undefined> {
  const load_average = loadavg()[0]!
  const program = process.env['H2LOAD_BIN'] ?? 'h2load'
  const version = await execute(program, ['--version']).catch(() => undefined)
  if (version === undefined) {
    options.tell('h2load is not installed (Debian has it in nghttp2-client): no peers are measured')
    return undefined
  }
  const stops: (() => Promise<void>)[] = []
  const run = (name: string, command: string[]): Child => {
    const logFile = join(options.directory, `${name}.log`)
    const child = startChild({ name, command, environment: { PATH: process.env['PATH']! }, logFile })
    stops.push(() => child.stop())
    return child
  }
  try {
    const envoy = await openEnvoy(system, { ...options, run })
    const openfga = await openOpenFga(system.world.databaseUrl, run)
    const peers = [...envoy.peers]
    const tools: Record<string, string> = { h2load: version.stdout.trim(), envoy: envoy.tool }
    if (openfga === undefined)
      options.tell(
        'OpenFGA is not here: go install github.com/openfga/openfga/cmd/openfga@v1.22.1, and OPENFGA_BIN',
      )
    else {
      peers.push({ name: 'openfga', request: () => openfga.check })
      tools['openfga'] = openfga.version
    }
    const rates: Partial<Record<PeerName, number[]>> = {}
    const once = async ({ name, request, settled }: Peer, seconds: number): Promise<number> => {
      const known = rates[name] ?? []
      const calls = Math.ceil((known.at(-1) ?? GUESS[name]) * seconds)
      const reached = await h2load({ ...options, ...request(), program, calls, seconds: seconds * 10 })
      await settled?.(calls)
      options.tell(`${name}: ${Math.round(reached)} a second`)
      return reached
    }
    for (const peer of peers) rates[peer.name] = [await once(peer, WARM_UP_SECONDS)]
    for (let n = 0; n < options.cycles; n++)
      for (const peer of peers) rates[peer.name]!.push(await once(peer, options.seconds))
    for (const { name } of peers) rates[name]!.shift()
    const { inFlight: in_flight, seconds } = options
    return { tools, in_flight, seconds, load_average, calls_per_second: rates }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

type Running = PeersOptions & { run: (name: string, command: string[]) => Child }

/** One Envoy with one worker and three doors, which differ in what happens before the answer. */
async function openEnvoy(
  system: System,
  { directory, run }: Running,
): Promise<{ peers: Peer[]; tool: string }> {
  const { world } = system
  const found = await findEnvoy({ binary: process.env['ENVOY_BIN'], fetch: true })
  const [alone, byJwt, byUsher, byLease] = (await freePorts(4)) as [number, number, number, number]
  const key = importPrivateJwk(generatePrivateJwk())
  const issuer = 'https://issuer.example.com'
  const { filter, cluster } = await asDeployed(world.ports.sidecar, 'usher_check')
  const leasing = await asDeployed(world.ports.leasingSidecar, 'usher_leasing')
  const jwtAuthn = {
    name: 'envoy.filters.http.jwt_authn',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication',
      providers: {
        one: { issuer, local_jwks: { inline_string: JSON.stringify({ keys: [publicJwk(key)] }) } },
      },
      rules: [{ match: { prefix: '/' }, requires: { provider_name: 'one' } }],
    },
  }
  const owner = {
    [String(filter.name)]: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute',
      check_settings: { context_extensions: { owner: world.owner } },
    },
  }
  const listeners = [
    listener(alone, [], {}),
    listener(byJwt, [jwtAuthn], {}),
    listener(byUsher, [filter], owner),
    listener(byLease, [leasing.filter], owner),
  ]
  const file = join(directory, 'peers-envoy.yaml')
  await writeFile(
    file,
    JSON.stringify({ static_resources: { listeners, clusters: [cluster, leasing.cluster] } }),
  )
  const more = [
    '--concurrency',
    '1',
    '--log-level',
    'error',
    '--base-id',
    String(10_000 + (process.pid % 10_000)),
  ]
  const envoy = run('peers-envoy', [...found.command(file, directory), ...more])
  await untilReady(envoy, async () => (await accepts(alone)) && (await accepts(byUsher)))
  const call = (): { headers: Record<string, string>; body: Buffer } => {
    const agent = world.agents[0]!
    const read = { tool: 'portfolio_read', arguments: { account: 'account-1', currency: 'EUR' } }
    const { headers, body } = signedCall(world, {
      call: read,
      key: importPrivateJwk(agent.jwk),
      rpt: agent.rpt,
    })
    const { 'content-length': _, ...sent } = headers
    return { headers: sent, body }
  }
  const url = (port: number): string => `http://127.0.0.1:${port}${world.path}`
  const bearer = (): string => {
    const now = Math.floor(Date.now() / 1_000)
    const payload = { iss: issuer, sub: 'agent', aud: world.resource, iat: now, exp: now + 600 }
    return `Bearer ${signJws({ typ: 'JWT', payload }, key)}`
  }
  const answered = {
    alone: () => ({ url: url(alone), ...call() }),
    byUsher: () => ({ url: url(byUsher), ...call() }),
    byLease: () => ({ url: url(byLease), ...call() }),
  }
  return {
    tool: found.source,
    peers: [
      { name: 'envoy', request: answered.alone },
      {
        name: 'jwt_authn',
        request: () => {
          const { headers, body } = call()
          return { url: url(byJwt), headers: { ...headers, authorization: bearer() }, body }
        },
      },
      { name: 'usher', request: answered.byUsher, settled: calls => system.untilRecorded(calls) },
      { name: 'usher_leased', request: answered.byLease, settled: calls => system.untilRecorded(calls) },
    ],
  }
}

/** The filter and the cluster of envoy/envoy.yaml; the latter under this name. */
async function asDeployed(
  checkPort: number,
  name: string,
): Promise<{ filter: { name: unknown }; cluster: unknown }> {
  const text = await readFile(join(ROOT, 'envoy', 'envoy.yaml'), 'utf8')
  const { static_resources: of } = parse(
    text
      .replaceAll('${CHECK_PORT}', String(checkPort))
      .replaceAll('usher_check', name)
      .replaceAll(/\$\{\w+\}/g, '1'),
  ) as {
    static_resources: {
      listeners: { filter_chains: { filters: { typed_config: { http_filters: { name: string }[] } }[] }[] }[]
      clusters: { name: string }[]
    }
  }
  const { http_filters } = of.listeners[0]!.filter_chains[0]!.filters[0]!.typed_config
  const filter = http_filters.find(one => one.name === 'envoy.filters.http.ext_authz')!
  return { filter, cluster: of.clusters.find(cluster => cluster.name === name) }
}

function listener(port: number, filters: object[], typed_per_filter_config: object): object {
  const extension = 'type.googleapis.com/envoy.extensions.filters'
  const route = {
    match: { prefix: '/' },
    direct_response: { status: 200, body: { inline_string: 'ok' } },
    typed_per_filter_config,
  }
  const manager = {
    '@type': `${extension}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: `port_${port}`,
    codec_type: 'AUTO',
    http_filters: [
      ...filters,
      {
        name: 'envoy.filters.http.router',
        typed_config: { '@type': `${extension}.http.router.v3.Router` },
      },
    ],
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route] }] },
  }
  return {
    name: `port_${port}`,
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
    filter_chains: [
      { filters: [{ name: 'envoy.filters.network.http_connection_manager', typed_config: manager }] },
    ],
  }
}

/** The lines of the report. */
export function renderPeers(peers: Peers): string {
  const shown = (values: number[] | undefined, digits: number): string => {
    const spread = spreadOf(values ?? [])
    if (spread === null) return '-'
    const { median, min, max } = spread
    return `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`
  }
  const lines = Object.entries(PEER_TITLES).map(
    ([name, title]) => `  ${title.padEnd(40)}${shown(peers.calls_per_second[name as PeerName], 0)}`,
  )
  return [
    `peers, calls a second by h2load, ${peers.in_flight} in flight; load average before: ${peers.load_average.toFixed(1)}`,
    ...lines,
    `  usher over jwt_authn                    ${shown(peerRatio(peers, 'usher', 'jwt_authn'), 3)}`,
    `  usher over OpenFGA                      ${shown(peerRatio(peers, 'usher', 'openfga'), 3)}`,
  ].join('\n')
}

async function main(): Promise<void> {
  const startedAt = new Date()
  const machine = await readMachine()
  const directory = await mkdtemp(join(tmpdir(), 'usher-bench-peers-'))
  const option = (name: string): string | undefined => {
    const at = process.argv.indexOf(name)
    return at < 0 ? undefined : process.argv[at + 1]
  }
  const json = option('--json')
  const tell = (line: string): void => void process.stderr.write(`${line}\n`)
  let system: System | undefined
  try {
    system = await startSystem({
      directory,
      tree: option('--tree'),
      databaseUrl: process.env['DATABASE_URL'],
      profileDirectory: undefined,
    })
    const options = { directory, cycles: 5, seconds: 5, inFlight: 100, connections: 4, tell }
    const peers = await measurePeers(system, options)
    if (peers === undefined) return
    process.stdout.write(`${renderPeers(peers)}\n`)
    const command = ['node bench/scenarios/peers.ts', ...process.argv.slice(2)].join(' ')
    const run: PeersRun = { command, started_at: startedAt.toISOString(), machine, ...peers }
    if (json !== undefined) await writeFile(json, `${JSON.stringify(run, null, 2)}\n`)
  } finally {
    await system?.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await main()
