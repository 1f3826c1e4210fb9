/**
 * Owns how a command line ends: exit codes, and one clear line per error. Contract: "Errors":
 * `temporarily_unavailable` is the only value that is worth a retry, so it has its own exit code.
 */
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { CommanderError, type Command } from 'commander'
import { boundedLines } from '../limits/bounded-lines.ts'
import { printable } from './printable.ts'

/**
 * 0 done; 1 refused, denied or failed; 2 wrong usage; 3 try again later; 4 the owner did not decide in time;
 * 130 interrupted. 141: nobody reads the output any more (unread-output.ts).
 */
export const EXIT = { done: 0, refused: 1, usage: 2, unavailable: 3, waiting: 4, interrupted: 130 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Where a command writes: results to `out`, messages about them to `err`. */
export interface Terminal {
  out(text: string): void
  err(text: string): void
  /**
   * Resolves when the reader of `out` has taken so much that more may be written, or when `signal` ends the
   * wait. A command that prints without end waits for it; undefined if all is taken at once.
   */
  readonly ready?: ((signal?: AbortSignal) => Promise<void>) | undefined
  /**
   * How many characters fit on a line; undefined if the output goes to a file or a program, which gets
   * everything in full.
   */
  readonly columns?: number | undefined
  /** Asks a person for yes or no; undefined if no person is there to answer. */
  readonly confirm?: ((question: string) => Promise<boolean>) | undefined
}

/**
 * The most bytes of messages that were written and not read yet. The program that starts the bridge may never
 * read them, and the bridge writes some for as long as it runs.
 */
const UNREAD_BYTES_MAX = 1_024 * 1_024

const writeMessage = boundedLines(process.stderr, {
  bytesMax: UNREAD_BYTES_MAX,
  noticeOf: dropped => `usher: ${dropped} messages were dropped here: nobody read them in time\n`,
})

/** How wide a terminal is taken to be that does not tell its width. */
const COLUMNS_USUAL = 80

/**
 * The width of a terminal in characters. One that was made by a program, as by `docker exec -t` or `script`,
 * may tell 0: without this each word of a sentence would stand on a line by itself.
 */
export function widthOf(columns: number | undefined): number {
  return columns === undefined || columns < 1 ? COLUMNS_USUAL : columns
}

/** The terminal of this process. */
export const processTerminal: Terminal = {
  out: text => void process.stdout.write(text),
  err: text => writeMessage(text, 1),
  ready: signal => awaitDrain(process.stdout, signal),
  get columns() {
    return process.stdout.isTTY ? widthOf(process.stdout.columns) : undefined
  },
  get confirm() {
    return process.stdin.isTTY && process.stdout.isTTY ? askYesOrNo : undefined
  },
}

/** Listens for no failure of the stream, because that would be taken for a reader (unread-output.ts). */
async function awaitDrain(stream: NodeJS.WriteStream, signal: AbortSignal | undefined): Promise<void> {
  if (!stream.writableNeedDrain || signal?.aborted === true) return
  await new Promise<void>(resolve => {
    const end = (): void => {
      stream.off('drain', end)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    stream.once('drain', end)
    signal?.addEventListener('abort', end)
  })
}

/** Any answer but yes counts as no. */
async function askYesOrNo(question: string): Promise<boolean> {
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await prompt.question(`${printable(question)} [y/N] `)).trim())
  } finally {
    prompt.close()
  }
}

/** The command cannot be run as it was given; the message says what to give. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * The text of a file, or of the standard input for `-`: secrets that are given as arguments are visible in
 * process lists. @throws UsageError if it cannot be read.
 */
export async function readInput(path: string): Promise<string> {
  try {
    return path === '-' ? await text(process.stdin) : await readFile(path, 'utf8')
  } catch (cause) {
    throw new UsageError(`${path} cannot be read.`, { cause })
  }
}

/** How a failure is reported: its sentence, or our own lines, and its exit code. */
export interface CommandEnd {
  code: ExitCode
  message: string | readonly string[]
}

/**
 * Parses `args` (without the program's own name) and runs the chosen command. Returns the exit code and
 * throws nothing: a failure becomes one line on `err`. `endingOf` says how the party's own errors end;
 * undefined leaves it to this.
 */
export async function runCommand(
  program: Command,
  args: readonly string[],
  terminal: Terminal,
  endingOf: (error: unknown) => CommandEnd | undefined = () => undefined,
): Promise<number> {
  quieten(program, terminal)
  try {
    await program.parseAsync(args, { from: 'user' })
    return EXIT.done
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    const ending = endingOf(error) ?? defaultEnding(error)
    // Each line is escaped separately, because a line feed inside one comes from foreign text.
    const lines = typeof ending.message === 'string' ? [ending.message] : ending.message
    for (const line of lines) if (line !== '') terminal.err(`${printable(line)}\n`)
    return ending.code
  }
}

/** An exit code chosen by a command that has already said why. */
export class Exit extends Error {
  override readonly name = 'Exit'
  readonly code: ExitCode
  constructor(code: ExitCode) {
    super('')
    this.code = code
  }
}

function defaultEnding(error: unknown): CommandEnd {
  if (error instanceof Exit) return { code: error.code, message: '' }
  if (error instanceof UsageError) return { code: EXIT.usage, message: error.message }
  return { code: EXIT.refused, message: `Failed: ${error instanceof Error ? error.message : String(error)}` }
}

/** Commander must neither exit the process nor write to it by itself. */
function quieten(command: Command, terminal: Terminal): void {
  command.exitOverride()
  command.configureOutput({
    writeOut: text => terminal.out(text),
    writeErr: text => terminal.err(text),
    // What was meant stands in a line of its own; any other line feed is one of the arguments.
    outputError: (text, write) =>
      text
        .trimEnd()
        .split(/\n(?=\(Did you mean [^\n]*\)$)/)
        .forEach(line => write(`${printable(line)}\n`)),
  })
  command.commands.forEach(sub => quieten(sub, terminal))
}
