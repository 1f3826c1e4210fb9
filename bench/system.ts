/**
 * Owns the measured system, each part as its own process: Postgres with everything durable, authority,
 * sidecar, and the bare check servers; and the owner's world in it. Started as a deployment starts them, with
 * the settings that they have by default.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { startChild, until, untilReady, type Child } from '../src/dev/stack/child-process.ts'
import { startEmbeddedPostgres } from '../src/dev/stack/embedded-postgres.ts'
import { CLIENT_ID, OWNER, RESOURCE_PATH, writeHousehold } from '../src/dev/stack/household.ts'
import { accepts, choosePorts, freePorts } from '../src/dev/stack/ports.ts'
import { admitConnection } from '../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../src/storage/core/database.ts'
import { openDatabase, type Database } from '../src/storage/authority/database.ts'
import { lockQueue } from '../src/storage/authority/owners/owners.ts'
import { thumbprintHandle } from '../src/wire/agents/handles.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../src/wire/signatures/keys.ts'
import type { Histogram } from './histogram.ts'
import { bundledCommand } from '../test/support/deployed.ts'
import { openAuthority } from './scenarios/negotiation.ts'
import { startSidecar, timeToReady, type MeasuredSidecar, type SidecarPlace } from './sidecars.ts'
import type { KnownAgent, World } from './world.ts'
import { asClientId, asOwner } from '../src/wire/identifiers.ts'

/** The processes whose CPU time is told apart. */
export type Party = 'bare' | 'sidecar' | 'authority' | 'postgres'

export interface System {
  world: World
  database: Database
  /** Where her API listens, and the device key that she signs with. */
  ownerApi: string
  ownerKey: PrivateKey
  pids: Partial<Record<Party, number[]>>
  /**
   * Waits until the owner's ledger holds so many calls more than were waited for before. Throws if they do
   * not come.
   */
  untilRecorded(more: number): Promise<void>
  /** Access reports that the sidecars gave up. */
  droppedReports(): Promise<number>
  /**
   * The time of the first sidecar's calls except for waiting for the authority, in seconds, since its start;
   * undefined if it does not report that.
   */
  ownTimes(): Promise<Histogram | undefined>
  /** Starts a further sidecar, which differs from the others in this; it ends with the system. */
  sidecarWith(more: Pick<SidecarPlace, 'others' | 'liveness'>): Promise<MeasuredSidecar>
  /** How long a further sidecar takes from its start until it answers that it serves, in milliseconds. */
  timeToReady(): Promise<number>
  stop(): Promise<void>
}

export interface SystemOptions {
  /** Where files and logs go. */
  directory: string
  /** The checkout of usher to start; left out: this one. */
  tree: string | undefined
  /** A server to measure on, as a superuser; left out: an embedded one. */
  databaseUrl: string | undefined
  /** Write CPU profiles of authority and sidecar there. */
  profileDirectory: string | undefined
  /** Further settings of the authority, in addition to those here. */
  settings?: Record<string, string>
}

const THIS_TREE = join(import.meta.dirname, '..')
const BARE = join(import.meta.dirname, 'bare-check.ts')
/** More than calls in flight, so that agents seldom have two negotiations at once. */
const AGENTS = 256
/** The default of UMA_AS_POOL_MAX, said so that the bare negotiation has the same. */
const POOL_MAX = 20
const ADMITTED_AT_ONCE = 8
const RECORDED_TIMEOUT_MS = 60_000

type Stoppable = () => Promise<void>

/** Starts everything. If a part does not start, everything that was started is stopped again. */
export async function startSystem(options: SystemOptions): Promise<System> {
  const stops: Stoppable[] = []
  const stop = async (): Promise<void> => {
    for (const one of stops.splice(0).reverse()) await one()
  }
  try {
    return { ...(await start(options, stops)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Starts this checkout for one scenario, with its files in this folder, on the server that `DATABASE_URL`
 * names or on an embedded one.
 */
export async function startOwnSystem(
  directory: string,
  settings: Record<string, string> = {},
): Promise<System> {
  await mkdir(directory, { recursive: true, mode: 0o755 })
  const databaseUrl = process.env['DATABASE_URL']
  return startSystem({ directory, tree: undefined, databaseUrl, profileDirectory: undefined, settings })
}

async function start(options: SystemOptions, stops: Stoppable[]): Promise<Omit<System, 'stop'>> {
  const { directory, tree = THIS_TREE } = options
  const usher = await commandOf(tree, options.profileDirectory)
  const postgres = await obtainDatabase(options.databaseUrl, stops)
  const ports = await choosePorts({ sidecars: 0, authorities: 1, preferred: {} })
  const [noop, verify] = (await freePorts(2)) as [number, number]
  const issuer = `http://127.0.0.1:${ports.authorities[0].agents}`
  const publicUrl = `http://127.0.0.1:${ports.envoy}`
  const household = await writeHousehold(directory, { issuer, publicUrl })
  const run = (name: string, command: string[], environment: Record<string, string>): Child => {
    const child = startChild({ name, command, environment, logFile: join(directory, `${name}.log`) })
    stops.push(() => child.stop())
    return child
  }

  const authority = run('authority', [...usher, 'authority'], {
    UMA_DEV_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
    UMA_AS_ISSUER: issuer,
    UMA_AS_LISTEN: `127.0.0.1:${ports.authorities[0].agents}`,
    UMA_AS_OWNER_LISTEN: `127.0.0.1:${ports.authorities[0].owner}`,
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
    UMA_AS_DRAIN_MS: '0',
    UMA_AS_KEYS_FILE: household.authorityKeysFile,
    UMA_AS_PROVISION: household.provisionFile,
    UMA_AS_POOL_MAX: String(POOL_MAX),
    // Within a minute, a bench makes more grants of one owner than she may have by default.
    UMA_AS_GRANTS_PER_OWNER: '1000000',
    ...options.settings,
  })
  await untilReady(authority, async () => (await fetch(`${issuer}/health`)).status === 200)
  const place: SidecarPlace = {
    household,
    issuer,
    publicUrl,
    command: usher,
    logFile: join(directory, 'sidecar.log'),
  }
  const sidecar = await startSidecar('sidecar', place)
  stops.push(() => sidecar.stop())
  const otherSidecar = await startSidecar('other-sidecar', place)
  stops.push(() => otherSidecar.stop())
  const keepingSidecar = await startSidecar('keeping-sidecar', {
    ...place,
    stateDirectory: join(directory, 'kept-reports'),
  })
  stops.push(() => keepingSidecar.stop())
  // An older checkout knows no leases, and would not start with them.
  const leases = existsSync(join(tree, 'src', 'enforcement', 'leases'))
  const leasingSidecar = await startSidecar('leasing-sidecar', {
    ...place,
    liveness: leases ? 'leased' : undefined,
  })
  stops.push(() => leasingSidecar.stop())
  const sidecars = [sidecar, otherSidecar, keepingSidecar, leasingSidecar]

  const database = openDatabase({ url: postgres.url, poolMax: 4 })
  stops.push(() => database.close())
  const world: World = {
    publicUrl,
    resource: publicUrl + RESOURCE_PATH,
    path: RESOURCE_PATH,
    ports: {
      sidecar: sidecar.checkPort,
      otherSidecar: otherSidecar.checkPort,
      keepingSidecar: keepingSidecar.checkPort,
      leasingSidecar: leasingSidecar.checkPort,
      noop,
      verify,
    },
    issuer,
    owner: asOwner(OWNER),
    clientId: asClientId(CLIENT_ID),
    clientSecret: household.clientSecret,
    authorityKeysFile: household.authorityKeysFile,
    databaseUrl: postgres.url,
    poolMax: POOL_MAX,
    agents: [],
  }
  world.agents = await admitAgents(world, database)
  // Does what autovacuum does within a minute, because a plan that was made for empty tables reads all grants
  // of an owner to find one.
  await analyze(postgres.url)
  const bare = await startBare(world, directory, run)
  let recorded = 0
  let furtherSidecars = 0
  return {
    world,
    database,
    ownerApi: `http://127.0.0.1:${ports.authorities[0].owner}`,
    ownerKey: household.ownerKey,
    pids: pidsOf({ bare, sidecar: sidecars, authority: [authority], postgres: [postgres] }),
    untilRecorded: more => untilRecorded(database, (recorded += more)),
    droppedReports: async () =>
      (await Promise.all(sidecars.map(one => one.droppedReports()))).reduce((sum, dropped) => sum + dropped),
    ownTimes: () => sidecar.ownTimes(),
    sidecarWith: async more => {
      const further = await startSidecar(`further-sidecar-${++furtherSidecars}`, { ...place, ...more })
      stops.push(() => further.stop())
      return further
    },
    timeToReady: () => timeToReady('sidecar-ready', place),
  }
}

/** As the log-in that owns the tables: that it is not done for the serving role, Postgres only warns. */
export async function analyze(databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const passedOver: string[] = []
  client.on('notice', ({ message = '' }) => {
    if (message.includes('skipping') && message.includes('"grants"')) passedOver.push(message)
  })
  try {
    await client.query('ANALYZE')
  } finally {
    await client.end()
  }
  if (passedOver.length > 0) throw new Error(passedOver.join('; '))
}

/** A database of its own, which goes when the bench ends. */
export async function obtainDatabase(
  given: string | undefined,
  stops: Stoppable[],
): Promise<{ url: string; pid?: number | undefined }> {
  if (given === undefined) {
    const server = await startEmbeddedPostgres({ maxConnections: 100, durable: true })
    stops.push(() => server.stop())
    return server
  }
  const name = `usher_bench_${randomBytes(6).toString('hex')}`
  const execute = async (statement: string): Promise<void> => {
    const client = new Client({ connectionString: given })
    await client.connect()
    try {
      await client.query(statement)
    } finally {
      await client.end()
    }
  }
  await execute(`CREATE DATABASE ${name}`)
  stops.push(() => execute(`DROP DATABASE ${name} WITH (FORCE)`))
  const url = new URL(given)
  url.pathname = `/${name}`
  return { url: url.href }
}

/**
 * Started as it is deployed; or from the sources if it is profiled, so that the profile shows their names, or
 * if it is too old for a bundle.
 */
async function commandOf(tree: string, profileDirectory: string | undefined): Promise<string[]> {
  const cli = join(tree, 'src', 'cli.ts')
  if (profileDirectory !== undefined)
    return [process.execPath, '--cpu-prof', '--cpu-prof-dir', profileDirectory, cli]
  return existsSync(join(tree, 'rolldown.config.js')) ? bundledCommand(tree) : [process.execPath, cli]
}

/** The owner knows them, as if she had approved each; their standing grants they negotiate themselves. */
async function admitAgents(world: World, database: Database): Promise<KnownAgent[]> {
  const { owner } = world
  const admitted = await inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    const agents = []
    for (let n = 0; n < AGENTS; n++) {
      const jwk = generatePrivateJwk()
      const handle = thumbprintHandle(importPrivateJwk(jwk))
      const admission = { owner, handle, identity: 'pseudonymous', label: null, operator: null } as const
      agents.push({
        jwk,
        handle,
        generation: await admitConnection(tx, { ...admission, introduced_by: null }),
      })
    }
    return agents
  })
  const door = await openAuthority(world, { inFlight: ADMITTED_AT_ONCE, connections: ADMITTED_AT_ONCE })
  try {
    const agents: KnownAgent[] = []
    const lane = async (): Promise<void> => {
      for (let agent = admitted.pop(); agent !== undefined; agent = admitted.pop())
        agents.push({ ...agent, rpt: await door.negotiate(importPrivateJwk(agent.jwk)) })
    }
    await Promise.all(Array.from({ length: ADMITTED_AT_ONCE }, lane))
    return agents
  } finally {
    await door.close()
  }
}

async function startBare(
  { publicUrl, ports, agents }: World,
  directory: string,
  run: (name: string, command: string[], environment: Record<string, string>) => Child,
): Promise<Child[]> {
  const keysFile = join(directory, 'bench-agents.json')
  const keys = agents.map(({ jwk }) => publicJwk(importPrivateJwk(jwk)))
  await writeFile(keysFile, JSON.stringify({ publicUrl, keys }))
  const start = async (mode: 'noop' | 'verify'): Promise<Child> => {
    const child = run(`bare-${mode}`, [process.execPath, BARE, mode, String(ports[mode]), keysFile], {})
    await untilReady(child, () => accepts(ports[mode]))
    return child
  }
  return Promise.all([start('noop'), start('verify')])
}

async function untilRecorded({ pool }: Database, calls: number): Promise<void> {
  await until(
    `the ledger to hold the ${calls} calls that were allowed`,
    async () => {
      const { rows } = await pool.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM ledger WHERE owner = $1 AND kind = 'touched'`,
        [OWNER],
      )
      return rows[0]!.n >= calls
    },
    RECORDED_TIMEOUT_MS,
  )
}

function pidsOf(parties: Record<Party, { pid?: number | undefined }[]>): System['pids'] {
  const known = Object.entries(parties).map(([party, processes]) => [
    party,
    processes.flatMap(({ pid }) => pid ?? []),
  ])
  return Object.fromEntries(known.filter(([, pids]) => pids!.length > 0)) as System['pids']
}
