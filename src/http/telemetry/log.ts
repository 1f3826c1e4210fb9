/**
 * Owns the loggers. Contract: "Authentication": what a log line may say about a call; never a token, a
 * ticket, a signature or a secret, and never a raw control or direction mark that could forge a terminal's
 * output.
 */
import type { Writable } from 'node:stream'
import type { WriteLines } from '../../limits/bounded-lines.ts'
import { boundedOutput } from './log-output.ts'
import { pino, type Logger, type LoggerOptions } from 'pino'

export type { Logger }

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'

export interface LogOptions {
  /** Every line has it as `name`. */
  name: string
  level: LogLevel
  /** Where lines go; standard output if left out. */
  write?: ((line: string) => void) | undefined
}

const SECRETS: ReadonlySet<string> = new Set([
  'authorization',
  'ticket',
  'token',
  'access_token',
  'claim_token',
  'client_secret',
  'agent_token',
  'signature',
  'password',
  'secret',
])
const WITHHELD = '[withheld]'

/** A logger of one JSON object per line, secrets blanked by name at the top and one level below. */
export function createLogger(options: LogOptions): Logger {
  const write = options.write ?? writeToOutput
  const settings: LoggerOptions = {
    level: options.level,
    base: { name: options.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: label => ({ level: label }), log: withhold },
    serializers: { err: error => describeError(error) },
  }
  return pino(settings, { write: line => write(escapeMarks(line)) })
}

/** The members of a line and of the level below, without members whose name is that of a secret. */
function withhold(members: Record<string, unknown>): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const name of Object.keys(members)) {
    const value = members[name]
    shown[name] = SECRETS.has(name) ? WITHHELD : isPlainObject(value) ? withoutSecrets(value) : value
  }
  return shown
}

function withoutSecrets(members: Record<string, unknown>): Record<string, unknown> {
  if (!Object.keys(members).some(name => SECRETS.has(name))) return members
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => [name, SECRETS.has(name) ? WITHHELD : value]),
  )
}

/** An error is shown by its own serializer, which names no such member. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Error)
}

/**
 * Lines of one turn of the event loop become one write, because each write is a system call that the call
 * path waits for.
 */
function togetherTo(stream: () => Writable): (line: string) => void {
  let unwritten: string[] = []
  let flushesAtExit = false
  let output: WriteLines | undefined
  const flush = (): void => {
    const lines = unwritten.join('')
    const { length } = unwritten
    unwritten = []
    if (length === 0) return
    output ??= boundedOutput(stream())
    output(lines, length)
  }
  return line => {
    if (unwritten.push(line) > 1) return
    setImmediate(flush)
    if (flushesAtExit) return
    flushesAtExit = true
    process.once('exit', flush)
  }
}

const writeToOutput = togetherTo(() => process.stdout)
/** Writes lines to standard error, for a process whose standard output belongs to somebody else. */
export const writeToError = togetherTo(() => process.stderr)

// JSON escapes the C0 controls; these it leaves as they are: DEL, the C1 controls, and the marks that reorder
// text.
// oxlint-disable-next-line no-control-regex -- matching them is the purpose
const MARKS = /[\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

function escapeMarks(line: string): string {
  return line.replace(MARKS, mark => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * What a log line says about an error: its message and those of its causes, but no enumerable members, which
 * may contain a request.
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  const cause = error.cause === undefined ? {} : { cause: describeError(error.cause) }
  return { type: error.name, message: error.message, ...code, stack: error.stack, ...cause }
}
