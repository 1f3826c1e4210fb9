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

/** Sends from the first file of a journal onwards. */
class JournalReader implements LeftJournal {
  readonly instance: string
  /** With what is appended, if the journal is that of the present run. */
  protected readonly files: Files
  readonly #directory: string
  /** The highest number that was used. */
  protected number: number
  /** What was read from the first file with waiting reports, and is not finished yet. */
  #read: Sized[] = []

  constructor(directory: string, instance: string, of: { files: Files; last: number }) {
    this.#directory = directory
    this.instance = instance
    this.files = of.files
    this.number = of.last
  }

  last(): number {
    return this.number
  }

  waiting(): number {
    return this.files.waiting
  }

  bytes(): number {
    return this.files.bytes
  }

  peek(max: number): AccessEntry[] {
    while (this.#read.length === 0 && this.files.waiting > 0) this.#readOn()
    return this.#read
      .slice(0, max)
      .map(([{ n, ...report }]): AccessEntry => entryOf(report, this.instance, n))
  }

  done(count: number): void {
    const done = this.#read.splice(0, count)
    this.#settle(
      done.length,
      done.reduce((sum, [, bytes]) => sum + bytes, 0),
    )
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #readOn(): void {
    const { name, waiting } = this.#first()
    const lines = linesOf(join(this.#directory, name)).slice(-waiting)
    this.#read = recordsIn(lines)
    // A report that can no longer be read is lost; the gap in the numbers shows that.
    if (this.#read.length < waiting) this.#settle(waiting - this.#read.length, 0)
  }

  #settle(count: number, bytes: number): void {
    if (count === 0) return
    const { files } = this
    this.#first().waiting -= count
    files.waiting -= count
    files.bytes -= bytes
    while (files.segments.length > 1 && files.segments[0]!.waiting === 0)
      removeFile(join(this.#directory, files.segments.shift()!.name))
  }

  #first(): Segment {
    return this.files.segments.find(({ waiting }) => waiting > 0)!
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
class Appender {
  readonly #options: Pick<JournalOptions, 'directory' | 'clock'>
  readonly #of: { head: () => string; onBegun: (name: string) => void }
  #name: string | undefined
  #count = 0
  #fd: number | undefined
  #size = 0
  #failedAt = -Infinity
  #failure: unknown
  #mayStand = false

  /** @param of the first line of each file, and who hears of each file that is begun. */
  constructor(
    options: Pick<JournalOptions, 'directory' | 'clock'>,
    of: { head: () => string; onBegun: (name: string) => void },
  ) {
    this.#options = options
    this.#of = of
  }

  /** Ensures that there is a file to write to. Throws if there is none now. */
  ready(): void {
    this.#file()
  }

  /**
   * Returns the bytes of the line. Throws if it was not written; `mayStand` says whether it may be in the
   * file all the same.
   */
  append(line: string): number {
    this.#mayStand = false
    const to = this.#file()
    try {
      const bytes = writeLine(to, line)
      this.#size += bytes
      return bytes
    } catch (error) {
      this.#mayStand = !truncate(to, this.#size)
      return this.#fail(error)
    }
  }

  get mayStand(): boolean {
    return this.#mayStand
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #file(): number {
    if (this.#name === undefined || this.#size >= SEGMENT_BYTES) return this.#begin()
    try {
      const path = join(this.#options.directory, this.#name)
      return (this.#fd ??= openSync(path, constants.O_WRONLY | constants.O_APPEND))
    } catch (error) {
      return this.#fail(error)
    }
  }

  #begin(): number {
    const { directory, clock } = this.#options
    this.close()
    if (Math.abs(clock() - this.#failedAt) < RETRY_MS) throw this.#failure
    const name = nameOf(++this.#count)
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      this.#fd = openSync(join(directory, name), APPEND, 0o600)
      this.#size = writeLine(this.#fd, this.#of.head())
    } catch (error) {
      if (this.#fd !== undefined) removeFile(join(directory, name))
      return this.#fail(error)
    }
    this.#name = name
    this.#failedAt = -Infinity
    this.#of.onBegun(name)
    return this.#fd
  }

  /** Nothing is written after a line that may be incomplete. */
  #fail(error: unknown): never {
    this.close()
    this.#name = undefined
    this.#failedAt = this.#options.clock()
    this.#failure = error
    throw error
  }
}

/** Begins the journal of this run for one owner. Makes nothing until the first report. */
export function createJournal(options: JournalOptions): Journal {
  return new RunJournal(options)
}

class RunJournal extends JournalReader implements Journal {
  readonly #appender: Appender

  constructor(options: JournalOptions) {
    const { directory, head } = options
    super(directory, head.instance, { files: { segments: [], waiting: 0, bytes: 0 }, last: 0 })
    this.#appender = new Appender(options, {
      head: () => headLine({ ...head, n: this.number }),
      onBegun: name => void this.files.segments.push({ name, waiting: 0 }),
    })
  }

  override done(count: number): void {
    super.done(count)
    // Files are open only for owners with waiting reports, however many owners there are.
    if (this.files.waiting === 0) this.#appender.close()
  }

  ready(): void {
    this.#appender.ready()
  }

  put(report: AccessReport): void {
    try {
      const bytes = this.#appender.append(recordLine({ n: this.number + 1, ...report }))
      this.files.segments.at(-1)!.waiting++
      this.files.waiting++
      this.files.bytes += bytes
    } catch (error) {
      // The number counts as used if its line may be in the file.
      if (this.#appender.mayStand) this.number++
      throw error
    }
    this.number++
  }

  close(): void {
    this.#appender.close()
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
    open: at => new JournalReader(at, head.instance, { files, last }),
  }
}
