/**
 * Owns the directory in which reports outlive this process (`reports.state_dir`). Contract: "Events", 2. Each
 * run has its own directory there, and every few seconds gives a sign of life. If a run has not given a sign
 * of life for a while, another run, in this process or another one, takes over what it left: by renaming, so
 * that of several only one does.
 */
import { createHash, randomBytes } from 'node:crypto'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createJournal, readJournal, type FoundJournal, type Journal, type LeftJournal } from './journal.ts'
import type { ReportsOf } from './outbox.ts'

/** A journal that was taken over. */
export interface Takeover {
  of: ReportsOf
  journal: LeftJournal
  /**
   * Whether it holds everything that its run let through: nothing was damaged, and no crash of the machine
   * can have lost what was not on the disk yet.
   */
  whole: boolean
  damaged: number
}

export interface StateDirectory {
  /**
   * The id of this run. It changes if another run took over what this process had, because its sign of life
   * came too late.
   */
  instance(): string
  /** A new journal of this run. */
  journal(of: ReportsOf): Journal
  /**
   * Gives a sign of life, if the last one is a while ago. Call this before a report is written. Throws if
   * that fails.
   */
  live(): void
  /** Journals of others in this directory that nobody in this process can send. */
  left(): number
  /** Stops taking over journals, and removes empty directories. */
  close(): void
}

export interface StateDirectoryOptions {
  path: string
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Whether reports of these can be sent by this process. */
  serves: (of: ReportsOf) => boolean
  onTakeover: (takeover: Takeover) => void
  /**
   * Called if this process was stopped for so long that another took over what it had. That one now has all
   * its journals.
   */
  onDisplaced: () => void
  /** Called if a journal is left where it is, with the reason. */
  onLeft: (path: string, why: string) => void
  onFault: (error: unknown) => void
  /**
   * The milliseconds between two signs of life; after five missing ones a run counts as dead. 3,000 if left
   * out.
   */
  lifeMs?: number | undefined
}

const LIFE_MS = 3_000
const SIGNS_MISSED_MAX = 5
const LIFE = 'alive'

/**
 * Opens the directory, and creates it if it is missing. If it cannot be written, throws an error that says
 * what to do.
 */
export function openStateDirectory(options: StateDirectoryOptions): StateDirectory {
  const { path, clock, lifeMs = LIFE_MS } = options
  const boot = bootId()
  const run = beginRun(path)
  let { instance } = run
  let livedAt = clock()
  const begin = (): void => {
    ;({ instance } = beginRun(path))
    livedAt = clock()
  }
  const live = (): void => {
    // A clock that was set back or ahead does not say how much time passed.
    if (Math.abs(clock() - livedAt) < lifeMs) return
    const now = new Date(clock())
    try {
      utimesSync(join(path, instance, LIFE), now, now)
      livedAt = clock()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      begin()
      options.onDisplaced()
    }
  }
  const others = watchOthers(options, { own: () => instance, boot, lostMs: lifeMs * SIGNS_MISSED_MAX })
  const timer = setInterval(() => {
    try {
      live()
      others.look()
    } catch (error) {
      options.onFault(error)
    }
  }, lifeMs).unref()
  return {
    instance: () => instance,
    journal: of => {
      const name = `${instance}.${createHash('sha256')
        .update(JSON.stringify([of.authority, of.client_id, of.owner]))
        .digest('hex')
        .slice(0, 16)}`
      return createJournal({ directory: join(path, instance, name), head: { instance, ...of, boot }, clock })
    },
    live,
    left: () => others.left(),
    close: () => {
      clearInterval(timer)
      removeRun(join(path, instance))
    },
  }
}

function beginRun(path: string): { instance: string } {
  const instance = randomBytes(12).toString('hex')
  try {
    mkdirSync(join(path, instance), { recursive: true, mode: 0o700 })
    writeFileSync(join(path, instance, LIFE), '', { mode: 0o600 })
  } catch (cause) {
    const { code = 'unwritable' } = cause as NodeJS.ErrnoException
    throw new Error(
      `reports.state_dir: nothing can be written in ${path} (${code}). Give a directory that this process may write.`,
      { cause },
    )
  }
  return { instance }
}

/** Files that are no journals: the sign of life, and the name that it gets when a run is taken over. */
const isSign = (name: string): boolean => name === LIFE || name.startsWith('.')

/** Removes the directory of a run if nothing is left in it. */
function removeRun(directory: string): void {
  try {
    const names = readdirSync(directory)
    if (!names.every(isSign)) return
    for (const name of names) rmSync(join(directory, name), { force: true })
    rmdirSync(directory)
  } catch {
    // Somebody else removed it, or it stays, empty.
  }
}

/**
 * The boot id of the machine: what one process writes survives a kill, but may not survive a crash of the
 * machine.
 */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return `unknown ${randomBytes(12).toString('hex')}`
  }
}

/**
 * Looks for runs that no longer give a sign of life. Any change counts as a sign, so no clock of another
 * machine is read.
 */
function watchOthers(
  { path, clock, serves, onTakeover, onLeft, onFault }: StateDirectoryOptions,
  { own, boot, lostMs }: { own: () => string; boot: string; lostMs: number },
): { look(): void; left(): number } {
  const signs = new Map<string, { sign: number | undefined; since: number }>()
  const left = new Set<string>()

  const takeOverOne = (directory: string, name: string): void => {
    const from = join(directory, name)
    if (left.has(from)) return
    const found = readJournal(from)
    if (found === 'empty') return rmSync(from, { recursive: true, force: true })
    const why =
      found === 'other'
        ? 'it is of another version, or damaged'
        : serves(found.head)
          ? undefined
          : 'its owner is not configured here'
    if (why !== undefined || found === 'other') {
      left.add(from)
      return onLeft(from, why!)
    }
    const to = join(path, own(), name)
    renameSync(from, to)
    onTakeover(takeoverOf(found, to))
  }
  const takeoverOf = (found: FoundJournal, at: string): Takeover => ({
    of: found.head,
    journal: found.open(at),
    whole: found.damaged === 0 && found.head.boot === boot,
    damaged: found.damaged,
  })
  const takeOver = (name: string, sign: number | undefined): void => {
    const directory = join(path, name)
    if (sign !== undefined && !endLife(directory, sign)) return
    for (const journal of readdirSync(directory).filter(one => !isSign(one))) {
      try {
        takeOverOne(directory, journal)
      } catch (error) {
        // Another run was quicker.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') onFault(error)
      }
    }
    removeRun(directory)
  }
  return {
    left: () => left.size,
    look: () => {
      const now = clock()
      const names = readdirSync(path).filter(name => /^[0-9a-f]{24}$/.test(name) && name !== own())
      for (const name of signs.keys()) if (!names.includes(name)) signs.delete(name)
      for (const name of names) {
        const sign = signOf(join(path, name))
        const before = signs.get(name)
        if (before === undefined || before.sign !== sign) signs.set(name, { sign, since: now })
        else if (Math.abs(now - before.since) >= lostMs) takeOver(name, sign)
      }
    },
  }
}

/** The modification time of a run's sign of life; undefined if there is none any more. */
function signOf(directory: string): number | undefined {
  return statSync(join(directory, LIFE), { throwIfNoEntry: false })?.mtimeMs
}

/**
 * Makes sure that a run that wakes up again finds that it was declared dead. Returns false if it just woke
 * up, or if another run takes it over.
 */
function endLife(directory: string, sign: number): boolean {
  const ended = join(directory, `.${randomBytes(6).toString('hex')}`)
  try {
    renameSync(join(directory, LIFE), ended)
    if (statSync(ended).mtimeMs !== sign) {
      renameSync(ended, join(directory, LIFE))
      return false
    }
    rmSync(ended)
    return true
  } catch {
    return false
  }
}
