/**
 * Owns reports that wait in files, so that they outlive this process. Contract: "Events", 2. A journal is a
 * directory of one run's reports for one owner, in files of bounded size: reports are appended to the last
 * one, sent from the first one on, and a file whose reports were all taken is removed. The last one stays,
 * for it says how far the run has come.
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

/** Beyond, the next file is begun: what a restart sends again, at most, for one owner. */
const SEGMENT_BYTES = 65_536
/** Between attempts to write after one that failed. */
const RETRY_MS = 1_000
/** Written at the end only, by one process; what stands there is not read by others on the machine. */
const APPEND = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND

/** A file of a journal, and how many of its reports wait: the last ones. */
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

/** A journal that is read from its first file on. */
export interface LeftJournal extends Outbox {
  /** Bytes of what waits. */
  bytes(): number
  /** Removes the journal. */
  remove(): void
}

/** The journal of the run that goes on. */
export interface Journal extends LeftJournal, OpenOutbox {
  /** Throws where a report could not be written now. */
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

/** The whole lines of a file. What ends it without a line's end was cut off by a kill. */
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

/** Sending from the first file of a journal on. `files` is shared with whoever appends. */
function reading(directory: string, instance: string, files: Files, last: () => number): LeftJournal {
  /** What was read of the first file in which something waits, and is not done yet. */
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
    // One that cannot be read any more is lost, which its number will tell.
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

/** What cannot be removed is sent again after a restart, and recorded once: no harm. */
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
 * The end of a journal: one line at a time, each whole or not at all, for one that was cut off would spoil
 * the one after it.
 */
interface Appender {
  /** Has a file to write to. Throws where there is none now. */
  ready(): void
  /**
   * Answers the bytes of the line. Throws where it was not written: `mayStand` says whether it may be there
   * all the same.
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
  /** Nothing is written behind what may stand at the end of a file. */
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
      // Open for those alone of whom something waits, however many owners there are.
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
        // The number counts as given where its line may stand there.
        if (appender.mayStand()) last++
        throw error
      }
      last++
    },
    close: () => appender.close(),
  }
}

/** @returns the bytes written: all of the line, or it throws. */
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

/** What a run left, before anybody takes it over. */
export interface FoundJournal {
  readonly head: SegmentHead
  /** Lines that cannot be read, of which their numbers will tell. */
  readonly damaged: number
  /** For sending, from where it stands now. */
  open(directory: string): LeftJournal
}

/**
 * Reads what a run left: `empty` where nothing stands in it, `other` where it is of another version or no
 * journal. Throws where it cannot be read.
 */
export function readJournal(directory: string): FoundJournal | 'empty' | 'other' {
  if (readdirSync(directory).some(name => !SEGMENT.test(name))) return 'other'
  const found = segmentsIn(directory).map(name => {
    const [first, ...lines] = linesOf(join(directory, name))
    const records = recordsIn(lines)
    return { name, first, lines, records, head: first === undefined ? undefined : readHead(first) }
  })
  // A file without a whole first line was begun by a process that was killed then: nothing stands in it.
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
