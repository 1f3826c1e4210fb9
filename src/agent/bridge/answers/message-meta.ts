/**
 * Owns which members of `_meta` of a client's request go on to the tool's server: those that are neither of
 * the protocol between the bridge and its client nor of usher, such as `traceparent`. Contract: "Authorized
 * call": what a client says about the sending alone is neither approved nor kept.
 */
import { isJsonObject, type JsonObject } from '../../../wire/json.ts'

/** The level of log messages that a client of 2026-07-28 wants about its request. */
export const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'

/** Each side of the bridge says these for itself. */
const OWN = /^(?:progressToken$|io\.modelcontextprotocol\/|usher\/)/

/** What goes on, with the level of log messages that the client wants; undefined if nothing does. */
export function passedMeta(meta: unknown, level?: string): JsonObject | undefined {
  const passed = isJsonObject(meta) ? Object.entries(meta).filter(([name]) => !OWN.test(name)) : []
  if (level !== undefined) passed.push([LOG_LEVEL, level])
  return passed.length === 0 ? undefined : Object.fromEntries(passed)
}

/** The same for a server of MCP 2025-11-25, which keeps the level for a session. */
export function withoutLevel(meta: JsonObject | undefined): JsonObject | undefined {
  if (meta === undefined) return undefined
  const { [LOG_LEVEL]: _level, ...rest } = meta
  return Object.keys(rest).length === 0 ? undefined : rest
}
