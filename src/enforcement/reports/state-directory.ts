/**
 * Owns the directory in which reports outlive this process (`reports.state_dir`). Contract: "Events", 2. Each
 * run has a directory of its own there, and says every few seconds that it lives. Where one has not said so
 * for a while, another run, in this place or beside it, takes over what it left: by renaming, so that of
 * several only one does.
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
export interface TakenOver {
  of: ReportsOf
  journal: LeftJournal
  /**
   * Whether it holds all that its run let through: nothing was damaged, and no fall of the machine can have
   * cost what was not on the disk yet.
   */
  whole: boolean
  damaged: number
}

export interface StateDirectory {
  /**
   * Names this run; another one where somebody took over what this process had, because it did not say in
   * time that it lives.
   */
  instance(): string
  /** A new journal of this run. */
  journal(of: ReportsOf): Journal
  /**
   * Says that this run lives, where that was a while ago: to be asked before a report is written. Throws
   * where it cannot be said.
   */
  live(): void
  /** Journals of others that stand here and that nobody in this process can send. */
  left(): number
  /** Takes over no more, and removes what is empty. */
  close(): void
}

export interface StateDirectoryOptions {
  path: string
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Whether reports of these can be sent by this process. */
  serves: (of: ReportsOf) => boolean
  onTakenOver: (taken: TakenOver) => void
  /**
   * This process was away for so long that another took over what it had: all its journals are that one's
   * now.
   */
  onDisplaced: () => void
  /** A journal is left where it is, and why. */
  onLeft: (path: string, why: string) => void
  onFault: (error: unknown) => void
  /** Between two signs of life; a run is taken for dead after five without one. 3,000 when left out. */
  lifeMs?: number | undefined
}

const LIFE_MS = 3_000
const SIGNS_MISSED_MAX = 5
const LIFE = 'alive'

/**
 * Opens it, and makes it where it is missing. Throws an error that says what to do where it cannot be
 * written.
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
    // Set back or ahead, a clock says nothing of how long it was.
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

/** What is no journal: the sign of life, and what taking one over makes of it. */
const isSign = (name: string): boolean => name === LIFE || name.startsWith('.')

/** Removes what a run has here where nothing is left in it. */
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
 * Of the machine's start: what one process writes is there for the next after a kill, and may not be after a
 * fall of the machine.
 */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return `unknown ${randomBytes(12).toString('hex')}`
  }
}

/**
 * Looks for runs that give no sign of life any more. A sign is anything new: no clock of another machine is
 * read.
 */
function watchOthers(
  { path, clock, serves, onTakenOver, onLeft, onFault }: StateDirectoryOptions,
  { own, boot, lostMs }: { own: () => string; boot: string; lostMs: number },
): { look(): void; left(): number } {
  const seen = new Map<string, { sign: number | undefined; since: number }>()
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
    onTakenOver(takenOver(found, to))
  }
  const takenOver = (found: FoundJournal, at: string): TakenOver => ({
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
        // Another one was quicker.
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
      for (const name of seen.keys()) if (!names.includes(name)) seen.delete(name)
      for (const name of names) {
        const sign = signOf(join(path, name))
        const before = seen.get(name)
        if (before === undefined || before.sign !== sign) seen.set(name, { sign, since: now })
        else if (Math.abs(now - before.since) >= lostMs) takeOver(name, sign)
      }
    },
  }
}

/** When a run last gave a sign of life, by whatever clock; undefined where it gives none any more. */
function signOf(directory: string): number | undefined {
  return statSync(join(directory, LIFE), { throwIfNoEntry: false })?.mtimeMs
}

/**
 * Has a run find that it was taken for dead, should it wake up again. Answers false where it just did, or
 * another takes it over.
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
