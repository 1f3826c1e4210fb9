/**
 * Owns the rule that one process at a time leads a request, even if two containers share the folder and
 * cannot see each other's processes. Contract: "Permission ticket" and "Single-use grant": if two would lead
 * the same request, one does.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isThere, wasThere } from '../../../files/durable-file.ts'

/** A request that this process holds. */
export interface Hold {
  /**
   * Whether it still holds it: a process that was stopped for too long counts as dead for processes of
   * another place.
   */
  isOurs(): Promise<boolean>
  /** From now on any process may take it over, although this one lives. */
  offer(): Promise<void>
  /** Takes the offer back; false if another process took it first, which then has the request. */
  retake(): Promise<boolean>
  release(): Promise<void>
}

/** The holder of a file, by its own statement. */
interface Holder {
  /** Identifies this process, whatever its number is. */
  instance: string
  /** Within one place the numbers of processes mean the same. */
  place: string
  pid: number
  started: string
}

const HEARTBEAT_MILLISECONDS = 5000
/**
 * A holder of another place that was silent for this long counts as dead.
 * @internal its test waits for nobody.
 */
export const SILENT_MILLISECONDS_MAX = 60_000
const HOLD_ATTEMPTS = 5
const HOLD_PAUSE_MILLISECONDS = 40

const instance = crypto.randomUUID()
let place: string | undefined
/** The files that this process holds, by name, which is unique: a folder may have several names. */
const ownFiles = new Map<string, { path: string; text: string }>()
let heartbeat: NodeJS.Timeout | undefined

/**
 * This file lies beside the file of a holder that offers its request. Only one of the processes that try to
 * remove it succeeds, and becomes the holder.
 */
const OFFERED = '.offered'

/**
 * Holds the request of that id; undefined if another live process holds it, and does not offer it or `target`
 * is not `offered`. The file of a holder lies beside those of others that want the same request. Each process
 * writes its own file before it looks, so of two at least one sees the other. A process removes the file of
 * another only if that holder is dead, or if its offer was taken.
 */
export async function holdIn(
  folder: string,
  id: string,
  target: 'abandoned' | 'offered',
): Promise<Hold | undefined> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let attempt = 1; ; attempt++) {
    const mine = `${id}.${crypto.randomUUID()}`
    const path = join(folder, mine)
    const offer = `${path}${OFFERED}`
    const draft = join(folder, `.${mine}`)
    const release = async (): Promise<void> => {
      await rm(draft, { force: true })
      await rm(path, { force: true })
      forget(mine)
      await rm(offer, { force: true })
    }
    try {
      const self: Holder = { instance, place: ownPlace(), pid: process.pid, started: startOf(process.pid) }
      const text = JSON.stringify(self)
      ownFiles.set(mine, { path, text })
      // A process that is killed while it writes must leave nothing that looks like a hold.
      await writeFile(draft, text, { mode: 0o600, flag: 'wx' })
      await rename(draft, path)
      if (!(await hasOtherHolder(folder, { id, mine, target }))) {
        heartbeat ??= setInterval(() => void beat(), HEARTBEAT_MILLISECONDS).unref()
        return {
          isOurs: () => isThere(path),
          offer: () => writeFile(offer, '', { mode: 0o600, flag: 'wx' }),
          retake: async () => (await isRemoved(offer)) && isThere(path),
          release,
        }
      }
    } catch (error) {
      await release().catch(() => forget(mine))
      throw error
    }
    await release()
    if (attempt === HOLD_ATTEMPTS) return undefined
    // If two came at the same moment, both have stepped back.
    await delay(HOLD_PAUSE_MILLISECONDS * (1 + Math.random()))
  }
}

function forget(name: string): void {
  ownFiles.delete(name)
  if (ownFiles.size > 0) return
  clearInterval(heartbeat)
  heartbeat = undefined
}

/** Shows processes of other places that this one lives: by the clock of the file system, which all share. */
async function beat(): Promise<void> {
  // The file is overwritten, never created: if another process removed it, it was taken over, and must stay
  // removed.
  const beats = [...ownFiles.values()].map(({ path, text }) => writeFile(path, text, { flag: 'r+' }))
  await Promise.allSettled(beats)
}

/** Removes the file; false if somebody did before. */
const isRemoved = (path: string): Promise<boolean> => wasThere(unlink(path))

interface HoldAttempt {
  id: string
  mine: string
  target: 'abandoned' | 'offered'
}

async function hasOtherHolder(folder: string, { id, mine, target }: HoldAttempt): Promise<boolean> {
  const names = (await readdir(folder)).filter(name => name.startsWith(`${id}.`) && name !== mine)
  const others = names.filter(name => !name.endsWith(OFFERED))
  if (others.length === 0) return false
  const { mtimeMs: now } = await stat(join(folder, mine))
  const offering: string[] = []
  for (const name of others) {
    const path = join(folder, name)
    const file = await Promise.all([readFile(path, 'utf8'), stat(path)]).catch(unlessMissing)
    if (file === undefined) continue
    const [text, { mtimeMs }] = file
    if (!isAlive(name, text, now - mtimeMs)) await removeHolder(path)
    else if (target === 'offered' && names.includes(`${name}${OFFERED}`)) offering.push(path)
    else return true
  }
  // Only if nobody else wants it: the process that then holds the request takes the offer.
  for (const path of offering) {
    if (!(await isRemoved(`${path}${OFFERED}`))) return true
    await rm(path, { force: true })
  }
  return false
}

/** Released meanwhile; a holder whose file cannot be read for another reason may live. */
function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function removeHolder(path: string): Promise<void> {
  await rm(path, { force: true })
  await rm(`${path}${OFFERED}`, { force: true })
}

function isAlive(name: string, text: string, silentMilliseconds: number): boolean {
  const holder = readHolder(text)
  const isSilent = silentMilliseconds > SILENT_MILLISECONDS_MAX
  // What cannot be read says nothing about its holder.
  if (holder === undefined || holder.place !== ownPlace()) return !isSilent
  if (holder.instance === instance) return ownFiles.has(name)
  if (!isRunning(holder.pid)) return false
  // Process numbers are reused. So if the system tells when a process began, that must match, too.
  const started = startOf(holder.pid)
  return holder.started === UNKNOWN || started === UNKNOWN ? !isSilent : holder.started === started
}

function readHolder(text: string): Holder | undefined {
  try {
    const { instance, place, pid, started } = JSON.parse(text) as Partial<Record<keyof Holder, unknown>>
    if (typeof instance !== 'string' || typeof place !== 'string' || typeof started !== 'string')
      return undefined
    return typeof pid === 'number' ? { instance, place, pid, started } : undefined
  } catch {
    return undefined
  }
}

/**
 * Identifies the place in which a process number names the same process for all: one boot of one machine, one
 * namespace. If that cannot be determined, no other process counts as being in the same place.
 */
function ownPlace(): string {
  place ??= readPlace()
  return place
}

function readPlace(): string {
  if (process.platform !== 'linux') return `${process.platform} ${hostname()}`
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return `unknown ${instance}`
  }
}

const UNKNOWN = 'unknown'

/** When a process began, as Linux counts it; `UNKNOWN` if the system does not tell, for whatever reason. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is a name in parentheses, which may hold anything.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? UNKNOWN
  } catch {
    return UNKNOWN
  }
}

function isRunning(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
