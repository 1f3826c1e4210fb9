/**
 * Owns the log messages of servers: which level passes, and how much of a message reaches the client.
 * Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a message is
 * escaped, and a resource cannot fill the client's channel with them.
 */
import type { Progress } from '@modelcontextprotocol/client'
import { createBucket } from '../../../limits/bucket.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { foreignLine, foreignText } from '../answers/foreign-text.ts'

/** The levels of MCP, the least grave first. */
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const
export type McpLogLevel = (typeof LEVELS)[number]

/** A message as a client gets it. */
export type Log = JsonObject & { level: McpLogLevel; data: Json }

/** What the client of a call hears before the answer. */
export interface ProgressListeners {
  onProgress?: ((progress: Progress) => void) | undefined
  onLog?: ((log: Log) => void) | undefined
}

/** The lists of a server that may change, as MCP names them. */
export type ListName = 'tools' | 'prompts' | 'resources'

/** What a server says that belongs to no call. */
export interface UpstreamNotices {
  log: (log: Log) => void
  /** A list of the server is another one by now. */
  listChanged: (list: Exclude<ListName, 'tools'>) => void
  /** A resource of MCP that is followed changed. */
  updated: (uri: string) => void
  /** The stream on which the server told of that resource ended. */
  lost: (uri: string) => void
  /** The connection was made again, and the session before it is lost. */
  again: () => void
}

/** A level of MCP; undefined for anything else. */
export function levelIn(value: unknown): McpLogLevel | undefined {
  return LEVELS.find(level => level === value)
}

/** Whether a message of that level is at least as grave as the client wants. */
export function isGraveEnough(level: McpLogLevel, least: McpLogLevel): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(least)
}

/** The level that lets through what any of them wants; undefined for none. */
export function leastOf(levels: Iterable<McpLogLevel>): McpLogLevel | undefined {
  const choices = new Set(levels)
  return LEVELS.find(level => choices.has(level))
}

/** Characters of JSON, beyond which a message is shown as the beginning of its text. */
const DATA_LENGTH_MAX = 16_384

/** The message with every text escaped; undefined if it is none of MCP. */
export function readLog(params: unknown): Log | undefined {
  if (!isJsonObject(params)) return undefined
  const level = levelIn(params['level'])
  const { data, logger } = params
  if (level === undefined || data === undefined) return undefined
  const written = JSON.stringify(data)
  const name = typeof logger === 'string' ? { logger: foreignLine(logger) } : {}
  return { level, ...name, data: written.length > DATA_LENGTH_MAX ? foreignText(written) : escapeTexts(data) }
}

function escapeTexts(value: Json): Json {
  if (typeof value === 'string') return foreignText(value, DATA_LENGTH_MAX)
  if (Array.isArray(value)) return value.map(escapeTexts)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, Json] => [foreignLine(name), escapeTexts(member)]),
  )
}

const LOG_BURST_MAX = 64
const LOG_MILLISECONDS_EACH = 50

/**
 * Tells the listener of messages, 64 at once and 20 a second after that; the rest is dropped. `now` is in
 * milliseconds of a clock that only rises.
 */
export function limitLogs(
  listener: (log: Log) => void,
  now: () => number = () => performance.now(),
): (log: Log) => void {
  const mayPass = createBucket({ burst: LOG_BURST_MAX, millisecondsEach: LOG_MILLISECONDS_EACH, now })
  return log => {
    if (mayPass()) listener(log)
  }
}
