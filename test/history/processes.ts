/**
 * Owns the processes of a history: a Postgres that writes as a deployment's does, two authorities and two
 * sidecars, each of which may be killed, held still and started again; what is done to them becomes part of
 * the history.
 */
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { stringify } from 'yaml'
import { ChildEnd, startChild, until, type Child } from '../../src/dev/stack/child-process.ts'
import { startRestartablePostgres } from '../../src/dev/stack/embedded-postgres.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { PUBLIC_URL } from '../enforcement/calls.ts'
import type { TestOwner } from '../support/authority.ts'
import { connect, type CheckClient } from '../support/check-client.ts'
import { killFamily, signalFamily } from '../support/process-family.ts'
import { usherProgram } from '../support/usher-program.ts'
import { sidecarEntry, worldsOf } from './desk.ts'
import { openLinks } from './links.ts'

/** One that a fault may happen to. */
export interface Victim {
  name: string
  /** Ends it outright, and all that belongs to it. */
  kill(): Promise<void>
  /** Ends it in order. */
  end(): Promise<void>
  /** Starts it again; settles once it serves. */
  start(): Promise<void>
  /** Holds it still, and all that belongs to it. */
  hold(): void
  release(): void
}

export type Person = Omit<TestOwner, 'client'> & {
  /** Of her second resource server, if she has an allowance. */
  deskSecret?: string
}

export interface Processes {
  issuer: string
  people: Person[]
  /** The URL of the database, for what no client sees. */
  database: string
  authorities: (Victim & { publicUrl: string; ownerUrl: string })[]
  sidecars: (Victim & { check(): CheckClient })[]
  /** `setRight` gives it its first clock again, if another one was in force: else nothing is issued. */
  postgres: Victim & { setRight(): Promise<void> }
  /** Of each sidecar its network and its clock, if both sidecars use answers again under a lease. */
  surroundings: Victim[]
  close(): Promise<void>
}

const CLI = [usherProgram()]
const SIDECARS = [0, 1]
/** What a sidecar whose clocks are moved loads before its program. */
const MOVED_CLOCKS = join(import.meta.dirname, 'moved-clocks.ts')

/** Two versions of the authority over one database. */
export interface Versions {
  /** What the older makes of an empty database. */
  schema: string
  /** What Node is to run as the first authority, and as the second, which brings the database up to date. */
  older: string[]
  newer: string[]
}

/**
 * Starts them all: this version everywhere, or two beside each other. The first of the sidecars, as many as
 * are `leased`, have `liveness: leased`. The owners who are `bounded` have a second resource server.
 */
export async function startProcesses(
  names: readonly string[],
  {
    versions,
    leased = versions === undefined ? 1 : 0,
    bounded = [],
    clocksApartMs = 0,
  }: { versions?: Versions; leased?: number; bounded?: readonly string[]; clocksApartMs?: number },
): Promise<Processes> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-history-'))
  const server = await startRestartablePostgres({ maxConnections: 200 })
  const closing: (() => Promise<void>)[] = [
    () => server.stop(),
    async () => rmSync(folder, { recursive: true, force: true }),
  ]
  const close = async (): Promise<void> => {
    for (const one of closing) await one()
  }
  try {
    await (versions === undefined
      ? AUTHORITY_DATABASE.migrate(server.url)
      : load(server.url, versions.schema))
    const programs = versions === undefined ? [CLI, CLI] : [versions.older, versions.newer]
    const people = names.map(name => ({
      owner: asOwner(name),
      key: importPrivateJwk(generatePrivateJwk()),
      clientSecret: randomBytes(24).toString('base64url'),
      resourceUri: `${PUBLIC_URL}/mcp/${name}`,
      ...(bounded.includes(name) && { deskSecret: randomBytes(24).toString('base64url') }),
    }))
    const addresses = await Promise.all(
      [0, 1].map(async () => (await freePorts(3)).map(port => `127.0.0.1:${port}`)),
    )
    const issuer = `http://${addresses[0]![0]!}`
    const shared = authorityEnvironment(folder, { issuer, database: server.url, people })
    const authorities = addresses.map(([agents, owner, metrics], at) => ({
      publicUrl: `http://${agents!}`,
      ownerUrl: `http://${owner!}`,
      ...program(`authority-${at + 1}`, folder, {
        command: [...programs[at]!, 'authority'],
        // An authority whose clock is far from the database's serves, and issues nothing.
        ready: `http://${agents!}/${clocksApartMs > 2_000 ? 'health' : 'ready'}`,
        environment: {
          ...shared,
          UMA_AS_MIGRATE: String(versions !== undefined),
          UMA_AS_LISTEN: agents!,
          UMA_AS_OWNER_LISTEN: owner!,
          UMA_AS_METRICS_LISTEN: metrics!,
        },
      }),
    }))
    const isMoved = leased === SIDECARS.length
    const direct = authorities.map(one => one.publicUrl)
    const links = isMoved ? await Promise.all(SIDECARS.map(at => openLinks(`network-${at + 1}`, direct))) : []
    closing.unshift(...links.map(one => () => one.close()))
    const sidecars = await Promise.all(
      SIDECARS.map(at =>
        sidecar(folder, at, {
          issuer,
          people,
          addresses: links[at]?.addresses ?? direct,
          liveness: at < leased ? 'leased' : 'asked',
          preload: isMoved ? MOVED_CLOCKS : undefined,
        }),
      ),
    )
    const surroundings = isMoved
      ? [...links.map(({ victim }) => victim), ...sidecars.map((one, at) => clockOf(one, `clock-${at + 1}`))]
      : []
    const processes = [...authorities, ...sidecars]
    closing.unshift(async () => {
      for (const one of processes) await one.kill()
      for (const one of sidecars) one.check().close()
    })
    // The older first: it is there before it is upgraded.
    for (const one of authorities) await one.start()
    await Promise.all(sidecars.map(one => one.start()))
    const { url: database } = server
    const postgres = postgresVictim(server, clocksApartMs)
    return { issuer, people, database, authorities, sidecars, postgres, surroundings, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function load(url: string, schema: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query(schema)
  await client.end()
}

function authorityEnvironment(
  folder: string,
  of: { issuer: string; database: string; people: Person[] },
): Record<string, string> {
  const [keys, provision] = [join(folder, 'keys.json'), join(folder, 'provision.yaml')]
  writeFileSync(keys, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  writeFileSync(provision, stringify(worldsOf(of.people)))
  return {
    PATH: process.env['PATH'] ?? '',
    DATABASE_URL: of.database,
    UMA_AS_ISSUER: of.issuer,
    UMA_AS_KEYS_FILE: keys,
    UMA_AS_PROVISION: provision,
    UMA_AS_POLL_SECONDS: '0',
    UMA_AS_LOG_LEVEL: 'warn',
    UMA_AS_DRAIN_MS: '0',
    UMA_AS_DATABASE_WAIT_SECONDS: '120',
    UMA_DEV_LOOPBACK: 'true',
  }
}

/** What Node is to run, by a name of its own in all that is told of it. */
function program(
  name: string,
  folder: string,
  of: { command: string[]; ready: string; environment: Record<string, string> },
): Victim & { moveClock(): void } {
  let child: Child | undefined
  const signal = (word: NodeJS.Signals): void => {
    if (child?.pid !== undefined) process.kill(child.pid, word)
  }
  return {
    name,
    kill: async () => {
      if (child === undefined || (await child.ended()) !== undefined) return
      signal('SIGKILL')
      await child.exited
    },
    end: async () => child?.stop(),
    start: async () => {
      const logFile = join(folder, `${name}.log`)
      const command = [process.execPath, ...of.command]
      child = startChild({ name, command, logFile, environment: of.environment })
      await until(`${name} to serve`, () => isServing(child!, of.ready), START_MS_MAX)
    },
    hold: () => signal('SIGSTOP'),
    release: () => signal('SIGCONT'),
    moveClock: () => signal('SIGUSR2'),
  }
}

type LocalSidecar = Processes['sidecars'][number] & { moveClock(): void }

/** Its wall clock goes forward by a second, or back by one, whatever is done to it. */
function clockOf(sidecar: LocalSidecar, name: string): Victim {
  const moveClock = (): void => sidecar.moveClock()
  const moved = async (): Promise<void> => moveClock()
  return { name, kill: moved, end: moved, hold: moveClock, release: moveClock, start: async () => undefined }
}

/** A busy machine takes long. */
const START_MS_MAX = 180_000

async function isServing(child: Child, url: string): Promise<boolean> {
  const ending = await child.ended()
  if (ending !== undefined) throw new ChildEnd(ending)
  return (await fetch(url, soon())).status === 200
}

const soon = () => ({ signal: AbortSignal.timeout(2_000) })

async function sidecar(
  folder: string,
  at: number,
  of: {
    issuer: string
    people: Person[]
    addresses: string[]
    liveness: 'asked' | 'leased'
    preload: string | undefined
  },
): Promise<LocalSidecar> {
  const name = `sidecar-${at + 1}`
  const here = join(folder, name)
  mkdirSync(here)
  const http = `127.0.0.1:${(await freePorts(1))[0]}`
  const socket = `unix:${join(here, 'check')}`
  const [keys_file, file] = [join(here, 'keys.json'), join(here, 'sidecar.yaml')]
  writeFileSync(keys_file, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const settings = {
    public_url: PUBLIC_URL,
    listen: { check: socket, http },
    keys_file,
    realm: 'tools',
    challenges_per_minute: 1_000_000,
    drain_ms: 0,
    liveness: of.liveness,
    reports: { state_dir: join(here, 'reports') },
    authorities: [{ issuer: of.issuer, addresses: of.addresses }],
    owners: of.people.map(person => sidecarEntry(person, of.issuer)),
  }
  writeFileSync(file, stringify(settings), { mode: 0o600 })
  const victim = program(name, folder, {
    command: [
      ...(of.preload === undefined ? [] : ['--import', of.preload]),
      ...CLI,
      'sidecar',
      '--config',
      file,
    ],
    ready: `http://${http}/health`,
    environment: { PATH: process.env['PATH'] ?? '', UMA_DEV_LOOPBACK: 'true' },
  })
  let client = connect(socket)
  return {
    ...victim,
    check: () => client,
    start: async () => {
      await victim.start()
      client.close()
      client = connect(socket)
    },
  }
}

/** The library that tells programs another time than it is; of the package `faketime`. */
const FAKETIME = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`

/** Starts a process whose wall clock is moved by so much; no other process of a history inherits that. */
async function byMovedClock(ms: number, start: () => Promise<void>): Promise<void> {
  if (!existsSync(FAKETIME)) throw new Error(`A clock is moved by ${FAKETIME}: install the package faketime.`)
  const moved = { LD_PRELOAD: FAKETIME, FAKETIME: `+${ms / 1_000}s`, DONT_FAKE_MONOTONIC: '1' }
  Object.assign(process.env, moved)
  try {
    await start()
  } finally {
    for (const name of Object.keys(moved)) delete process.env[name]
  }
}

function postgresVictim(
  server: Awaited<ReturnType<typeof startRestartablePostgres>>,
  clocksApartMs: number,
): Processes['postgres'] {
  let clockMs = 0
  const signal = (word: NodeJS.Signals): void => signalFamily(server.process().pid!, word)
  const gone = async (ends: (child: ChildProcess) => unknown): Promise<void> => {
    const child = server.process()
    const exited = new Promise(resolve => child.once('exit', resolve))
    await ends(child)
    await exited
  }
  const end = (): Promise<void> => gone(child => child.kill('SIGINT'))
  const start = (): Promise<void> => {
    clockMs = clocksApartMs - clockMs
    return clockMs === 0 ? server.startAgain() : byMovedClock(clockMs, () => server.startAgain())
  }
  return {
    name: 'postgres',
    kill: () => gone(({ pid }) => killFamily(pid!)),
    end,
    start,
    setRight: async () => {
      if (clockMs === 0) return
      await end()
      await start()
    },
    hold: () => signal('SIGSTOP'),
    release: () => signal('SIGCONT'),
  }
}
