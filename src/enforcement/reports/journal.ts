/**
 * Owns the reports that wait in files, so that they outlive this process. Contract: "Events", 2. A journal is
 * a directory of one run's reports for one owner, in files of bounded size: reports are appended to the last
 * file and sent from the first one on. A file is removed when all its reports were accepted. The last one
 * stays, because it says how far the run has come.
 */
import {
  closeSync,
  constants,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { entryOf, type AccessEntry, type AccessReport, type OpenOutbox, type Outbox } from './outbox.ts'
import {
  headLine,
  readHead,
  readRecord,
  recordLine,
  type SegmentHead,
  type SegmentRecord,
} from './segment.ts'

/** Above this size the next file is begun. This is the most that a restart sends again for one owner. */
const SEGMENT_BYTES = 65_536
/** The pause before another attempt after a failed write. */
const RETRY_MS = 1_000
/** One process writes, only at the end. Other users of the machine may not read it. */
const APPEND = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND

/** A file of a journal, and how many of its reports, counted from the end, still wait. */
interface Segment {
  name: string
  waiting: number
}

/** The files of a journal, oldest first, and how many reports of how many bytes wait in all of them. */
interface Files {
  segments: Segment[]
  waiting: number
  bytes: number
}

/** A journal that is read from its first file onwards. */
export interface LeftJournal extends Outbox {
  /** The bytes of waiting reports. */
  bytes(): number
  /** Removes the journal. */
  remove(): void
}

/** The journal of the present run. */
export interface Journal extends LeftJournal, OpenOutbox {
  /** Throws if a report could not be written now. */
  ready(): void
  /** Frees its file. */
  close(): void
}

const SEGMENT = /^\d{10}$/
const nameOf = (number: number): string => String(number).padStart(10, '0')
const segmentsIn = (directory: string): string[] =>
  readdirSync(directory)
    .filter(name => SEGMENT.test(name))
    .sort()

/** The whole lines of a file. A last line without a line end was cut off by a kill. */
const linesOf = (path: string): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1)

/** A report and the bytes of its line. */
type Sized = [SegmentRecord, bytes: number]

/** The reports in these lines that can be read. */
function recordsIn(lines: readonly string[]): Sized[] {
  return lines.flatMap((line): Sized[] => {
    const record = readRecord(line)
    return record === undefined ? [] : [[record, Buffer.byteLength(line) + 1]]
  })
}

/** Sends from the first file of a journal onwards. `files` is shared with the appending side. */
function reading(directory: string, instance: string, files: Files, last: () => number): LeftJournal {
  /** What was read from the first file with waiting reports, and is not finished yet. */
  let read: Sized[] = []
  const first = () => files.segments.find(({ waiting }) => waiting > 0)!
  const settle = (count: number, bytes: number): void => {
    if (count === 0) return
    first().waiting -= count
    files.waiting -= count
    files.bytes -= bytes
    while (files.segments.length > 1 && files.segments[0]!.waiting === 0)
      removeFile(join(directory, files.segments.shift()!.name))
  }
  const readOn = (): void => {
    const { name, waiting } = first()
    const lines = linesOf(join(directory, name)).slice(-waiting)
    read = recordsIn(lines)
    // A report that can no longer be read is lost; the gap in the numbers shows that.
    if (read.length < waiting) settle(waiting - read.length, 0)
  }
  return {
    instance,
    last,
    waiting: () => files.waiting,
    bytes: () => files.bytes,
    peek: max => {
      while (read.length === 0 && files.waiting > 0) readOn()
      return read.slice(0, max).map(([{ n, ...report }]): AccessEntry => entryOf(report, instance, n))
    },
    done: count => {
      const done = read.splice(0, count)
      settle(
        done.length,
        done.reduce((sum, [, bytes]) => sum + bytes, 0),
      )
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}

/**
 * A file that cannot be removed is sent again after a restart. That is harmless, because each report is
 * recorded once.
 */
function removeFile(path: string): void {
  try {
    rmSync(path)
  } catch {
    // as above
  }
}

export interface JournalOptions {
  directory: string
  head: Omit<SegmentHead, 'n'>
  /** Milliseconds since the epoch. */
  clock: () => number
}

/**
 * The end of a journal: lines are written one at a time, each completely or not at all, because a partial
 * line would spoil the next one.
 */
interface Appender {
  /** Ensures that there is a file to write to. Throws if there is none now. */
  ready(): void
  /**
   * Returns the bytes of the line. Throws if it was not written; `mayStand` says whether it may be in the
   * file all the same.
   */
  append(line: string): number
  mayStand(): boolean
  close(): void
}

function createAppender(
  { directory, clock }: JournalOptions,
  { head, onBegun }: { head: () => string; onBegun: (name: string) => void },
): Appender {
  let current: string | undefined
  let count = 0
  let fd: number | undefined
  let size = 0
  let failedAt = -Infinity
  let failure: unknown
  let mayStand = false

  const close = (): void => {
    if (fd !== undefined) closeSync(fd)
    fd = undefined
  }
  /** Nothing is written after a line that may be incomplete. */
  const fail = (error: unknown): never => {
    close()
    current = undefined
    failedAt = clock()
    failure = error
    throw error
  }
  const begin = (): number => {
    close()
    if (Math.abs(clock() - failedAt) < RETRY_MS) throw failure
    const name = nameOf(++count)
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      fd = openSync(join(directory, name), APPEND, 0o600)
      size = writeLine(fd, head())
    } catch (error) {
      if (fd !== undefined) removeFile(join(directory, name))
      return fail(error)
    }
    current = name
    failedAt = -Infinity
    onBegun(name)
    return fd
  }
  const file = (): number => {
    if (current === undefined || size >= SEGMENT_BYTES) return begin()
    try {
      return (fd ??= openSync(join(directory, current), constants.O_WRONLY | constants.O_APPEND))
    } catch (error) {
      return fail(error)
    }
  }
  return {
    ready: () => void file(),
    append: line => {
      mayStand = false
      const to = file()
      try {
        const bytes = writeLine(to, line)
        size += bytes
        return bytes
      } catch (error) {
        mayStand = !truncate(to, size)
        return fail(error)
      }
    },
    mayStand: () => mayStand,
    close,
  }
}

/** Begins the journal of this run for one owner. Makes nothing until the first report. */
export function createJournal(options: JournalOptions): Journal {
  const { directory, head } = options
  const files: Files = { segments: [], waiting: 0, bytes: 0 }
  let last = 0
  const appender = createAppender(options, {
    head: () => headLine({ ...head, n: last }),
    onBegun: name => void files.segments.push({ name, waiting: 0 }),
  })
  const sending = reading(directory, head.instance, files, () => last)
  return {
    ...sending,
    done: count => {
      sending.done(count)
      // Files are open only for owners with waiting reports, however many owners there are.
      if (files.waiting === 0) appender.close()
    },
    ready: () => appender.ready(),
    put: (report: AccessReport) => {
      try {
        const bytes = appender.append(recordLine({ n: last + 1, ...report }))
        files.segments.at(-1)!.waiting++
        files.waiting++
        files.bytes += bytes
      } catch (error) {
        // The number counts as used if its line may be in the file.
        if (appender.mayStand()) last++
        throw error
      }
      last++
    },
    close: () => appender.close(),
  }
}

/** @returns the number of bytes written: the whole line, or it throws. */
function writeLine(fd: number, line: string): number {
  const bytes = Buffer.from(line)
  const written = writeSync(fd, bytes)
  if (written !== bytes.length) throw new Error(`only ${written} of ${bytes.length} bytes could be written`)
  return written
}

function truncate(fd: number, size: number): boolean {
  try {
    ftruncateSync(fd, size)
    return true
  } catch {
    return false
  }
}

/** What a run left, before another one takes it over. */
export interface FoundJournal {
  readonly head: SegmentHead
  /** The number of lines that cannot be read; the gaps in the numbers show them. */
  readonly damaged: number
  /** The journal, for sending from its present position. */
  open(directory: string): LeftJournal
}

/**
 * Reads what a run left: `empty` if it contains nothing, `other` if it has another version or is no journal.
 * Throws if it cannot be read.
 */
export function readJournal(directory: string): FoundJournal | 'empty' | 'other' {
  if (readdirSync(directory).some(name => !SEGMENT.test(name))) return 'other'
  const found = segmentsIn(directory).map(name => {
    const [first, ...lines] = linesOf(join(directory, name))
    const records = recordsIn(lines)
    return { name, first, lines, records, head: first === undefined ? undefined : readHead(first) }
  })
  // A process was killed when it had just begun a file without a whole first line, so the file contains
  // nothing.
  const begun = found.filter(({ first }) => first !== undefined)
  const heads = begun.flatMap(({ head }) => (head === undefined ? [] : [head]))
  const [head] = heads
  if (begun.length === 0) return 'empty'
  if (head === undefined || heads.length < begun.length) return 'other'
  const records = found.flatMap(one => one.records)
  const last = [...heads.map(({ n }) => n), ...records.map(([{ n }]) => n)].reduce(
    (a, b) => Math.max(a, b),
    0,
  )
  const files: Files = {
    segments: found.map(({ name, lines }) => ({ name, waiting: lines.length })),
    waiting: found.reduce((sum, { lines }) => sum + lines.length, 0),
    bytes: records.reduce((sum, [, bytes]) => sum + bytes, 0),
  }
  return {
    head,
    damaged: files.waiting - records.length,
    open: at => reading(at, head.instance, files, () => last),
  }
}
