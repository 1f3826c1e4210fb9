/**
 * Owns which members of `_meta` of a client's request go on to the tool's server: those that are neither of
 * the protocol between the bridge and its client nor of usher, such as `traceparent`. Contract: "Authorized
 * call": what a client says about the sending alone is neither approved nor kept.
 */
import { isJsonObject, type JsonObject } from '../../../wire/json.ts'

/** Each side of the bridge says these for itself. */
const OWN = /^(?:progressToken$|io\.modelcontextprotocol\/|usher\/)/

/** What goes on; undefined if nothing does. */
export function passedMeta(meta: unknown): JsonObject | undefined {
  if (!isJsonObject(meta)) return undefined
  const passed = Object.entries(meta).filter(([name]) => !OWN.test(name))
  return passed.length === 0 ? undefined : Object.fromEntries(passed)
}
