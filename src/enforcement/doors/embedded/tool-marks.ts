/**
 * Owns the marks on the list of tools that a server sends, for the one client of a transport: by the
 * configuration, and by the results of its calls on that transport. Contract: "What the service does", beats
 * 1 to 4. A mark allows nothing: each call is judged as if there were no marks.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { CHALLENGE_ERROR } from '../../../wire/names.ts'
import { markTool, type ToolAccess } from '../../../wire/resources/tool-access.ts'
import { readRptClaims } from '../../../wire/negotiation/tokens.ts'
import type { Call, Outcome } from '../../call.ts'
import type { Route } from '../../request/routes.ts'
import { presentedGrant } from '../../upstream.ts'

export interface ToolMarks {
  /** Called when a message of the client was judged. */
  judged(message: JsonObject, call: Call, outcome: Outcome): void
  /** The message as it is sent to the client: a list of tools with its marks, anything else as it is. */
  sent<T>(message: T): T
}

/** A list request that nobody answers must not be remembered for ever. */
const LISTS_MAX = 100
const ENDING: ReadonlySet<unknown> = new Set(['access_revoked', 'request_denied'])

/**
 * `now` in seconds. `tell` is called if a mark changes after the client got a list, provided that the server
 * declared `listChanged` at `initialize` (clients of MCP 2026-07-28 subscribe at the server itself, and
 * nobody else can answer for it).
 */
export function createToolMarks(
  { tools }: Pick<Route, 'tools'>,
  now: () => number,
  tell: () => void,
): ToolMarks {
  const lists = new Set<Json>()
  /** The result of the last call of a tool, and until when a grant was held. */
  const met = new Map<string, { access: ToolAccess; until?: number }>()
  /** Tools with parts: what one call of such a tool needed says nothing of the next. */
  const split = new Set([...tools.values()].flatMap(({ of }) => (of === undefined ? [] : [of.tool])))
  const isWhole = (name: string): boolean => tools.has(name) && tools.get(name)!.of === undefined
  const accessOf = (name: Json | undefined): ToolAccess => {
    if (typeof name !== 'string' || !(isWhole(name) || split.has(name))) return 'closed'
    const { access, until } = met.get(name) ?? { access: 'asks' }
    return until !== undefined && until <= now() ? 'asks' : access
  }
  let tells = false
  /** If the client never read a list, nothing changed for it. */
  let isListed = false
  const note = (name: string, found: { access: ToolAccess; until?: number }): void => {
    const before = accessOf(name)
    met.set(name, found)
    if (tells && isListed && accessOf(name) !== before) tell()
  }
  return {
    judged: ({ id, method, params }, call, outcome) => {
      if (method === 'tools/list' && id !== undefined && outcome.kind === 'allow') {
        if (lists.size >= LISTS_MAX) lists.clear()
        lists.add(id)
      }
      const name = isJsonObject(params) ? params.name : undefined
      if (method !== 'tools/call' || typeof name !== 'string' || !isWhole(name) || split.has(name)) return
      if (outcome.kind === 'allow') note(name, accessAfter(call))
      else {
        const { error } = outcome.body as JsonObject
        if (error === CHALLENGE_ERROR) note(name, { access: 'asks' })
        if (ENDING.has(error)) note(name, { access: 'closed' })
      }
    },
    sent: message => {
      const { id, result } = (message ?? {}) as { id?: Json; result?: unknown }
      if (tellsOfChanges(result)) tells = true
      if (id === undefined || !lists.delete(id) || typeof result !== 'object' || result === null)
        return message
      const { tools: listed } = result as { tools?: unknown }
      if (!Array.isArray(listed)) return message
      isListed = true
      const marked = (listed as JsonObject[]).map(tool => markTool(tool, accessOf(tool.name)))
      return { ...message, result: { ...result, tools: marked } }
    },
  }
}

/** Whether it is the answer to `initialize` of a server that tells when its list of tools changed. */
function tellsOfChanges(result: unknown): boolean {
  const { protocolVersion, capabilities } = (result ?? {}) as {
    protocolVersion?: unknown
    capabilities?: { tools?: { listChanged?: unknown } }
  }
  return typeof protocolVersion === 'string' && capabilities?.tools?.listChanged === true
}

/** A standing grant is held until its end; one for a single use is gone with the call. */
function accessAfter(call: Call): { access: ToolAccess; until?: number } {
  const token = presentedGrant(call)
  if (token === undefined) return { access: 'free' }
  try {
    const { single_use, exp } = readRptClaims(token)
    return single_use === true ? { access: 'asks' } : { access: 'free', until: exp }
  } catch {
    // This is an authority of another kind, whose tokens say nothing about themselves.
    return { access: 'asks' }
  }
}
