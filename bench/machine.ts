/**
 * Owns what a figure depends on besides the code: the machine, the settings of Postgres, and which processes
 * used the CPU time of a round.
 */
import { readdir, readFile, statfs } from 'node:fs/promises'
import { arch, cpus, loadavg, release, tmpdir, totalmem } from 'node:os'
import type { Pool } from 'pg'

export interface Machine {
  cpu: string
  cores: number
  memory_mib: number
  system: string
  node: string
  /** Where the files of an embedded Postgres are. */
  file_system: string
  /** One-minute load before anything was started. */
  load_before: number
}

export interface PostgresFacts {
  version: string
  fsync: string
  synchronous_commit: string
  full_page_writes: string
  shared_buffers: string
}

const FILE_SYSTEMS: Record<number, string> = {
  0xef53: 'ext4',
  0x01021994: 'tmpfs',
  0x794c7630: 'overlay',
  0x58465342: 'xfs',
  0x9123683e: 'btrfs',
}

/** Names the machine. */
export async function readMachine(): Promise<Machine> {
  const { type } = await statfs(tmpdir())
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory_mib: Math.round(totalmem() / 1_048_576),
    system: `${process.platform} ${release()} ${arch()}`,
    node: process.version,
    file_system: FILE_SYSTEMS[type] ?? `0x${type.toString(16)}`,
    load_before: Math.round(loadavg()[0]! * 100) / 100,
  }
}

/** The settings of Postgres on which the cost of a commit depends. */
export async function readPostgres(pool: Pool): Promise<PostgresFacts> {
  const { rows } = await pool.query<PostgresFacts>(
    `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes, current_setting('shared_buffers') AS shared_buffers`,
  )
  return rows[0]!
}

/** CPU time so far, in milliseconds: of each party, and of the whole machine. */
export interface CpuReading {
  parties: Record<string, number>
  machine: number
  /** When it was read, by `performance.now()`. */
  at: number
}

/** `_SC_CLK_TCK` of every Linux that Node runs on. */
const TICK_MS = 10

/**
 * Reads the CPU time of the parties, each with the children of its processes; undefined if there is no
 * /proc.
 */
export async function readCpu(pids: Record<string, number[]>): Promise<CpuReading | undefined> {
  if (process.platform !== 'linux') return undefined
  const at = performance.now()
  const [, ...times] = (await readFile('/proc/stat', 'utf8')).split('\n', 1)[0]!.split(/\s+/).map(Number)
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = times
  const machine = (user + nice + system + irq + softirq + steal) * TICK_MS
  const all = await readProcesses()
  const parties: Record<string, number> = {}
  for (const [party, roots] of Object.entries(pids)) {
    const ticks = all.map(({ pid, parent, own, ended }) =>
      roots.includes(pid) ? own + ended : roots.includes(parent) ? own : 0,
    )
    parties[party] = ticks.reduce((sum, some) => sum + some, 0) * TICK_MS
  }
  return { parties, machine, at }
}

/** Resident memory of the first of these processes, in MiB; undefined if there is no /proc. */
export async function readResidentMib([pid]: readonly number[]): Promise<number | undefined> {
  if (process.platform !== 'linux' || pid === undefined) return undefined
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1_024
}

interface ProcessTicks {
  pid: number
  parent: number
  own: number
  /** Of its children that have ended. */
  ended: number
}

async function readProcesses(): Promise<ProcessTicks[]> {
  const names = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const lines = await Promise.all(names.map(name => readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')))
  return lines
    .filter(line => line !== '')
    .map(line => {
      // After the name, which may hold anything, come state, parent and, from the 14th field of the line, the
      // ticks.
      const [, parent, ...rest] = line
        .slice(line.lastIndexOf(')') + 2)
        .split(' ')
        .map(Number)
      const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = rest.slice(9)
      const own = user + system
      return { pid: Number.parseInt(line, 10), parent: parent!, own, ended: endedUser + endedSystem }
    })
}
