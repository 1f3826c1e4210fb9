/**
 * Owns what the parameters of an MCP call are. Contract: "Authorized call", order 4 (`operation.params_s256`
 * must match exactly, no arguments means `{}`); docs/choices.md for what a call carries besides its
 * arguments. The agent signs them, the enforcement point hashes what is called, and both must come to one
 * hash.
 */
import { isJsonObject, type JsonObject } from '../json.ts'
import { FURTHER_INPUT, METHOD_PARAMETER } from '../names.ts'
import { refuse } from '../refusal.ts'

/**
 * The parameters of a `tools/call`, by its `params`: the arguments (absent: `{}`), and the caller's answers
 * to a tool that asked back, under separate names. So an approval of the parameters covers the answers, too.
 * Refuses (`invalid_request`) arguments that are no object, or that have such a name themselves, or the name
 * under which a method is approved.
 */
export function toolParameters(params: JsonObject): JsonObject {
  const args = params.arguments === undefined ? {} : params.arguments // null is not absent
  if (!isJsonObject(args)) refuse('invalid_request', 'Send arguments as a JSON object, or leave them out.')
  if (Object.hasOwn(args, METHOD_PARAMETER))
    refuse('invalid_request', `Give no argument the name ${METHOD_PARAMETER}.`)
  const further: JsonObject = {}
  for (const [member, name] of Object.entries(FURTHER_INPUT)) {
    if (Object.hasOwn(args, name)) refuse('invalid_request', `Give no argument the name ${name}.`)
    const value = params[member]
    if (value !== undefined) further[name] = value
  }
  return Object.keys(further).length === 0 ? args : { ...args, ...further }
}

/**
 * The parameters of a request of another method than `tools/call` that needs the grant of a tool: the method
 * under a name that no argument can have, and everything in its `params` but `_meta`. So an approval of such
 * a request is none of a call of the tool, and the reverse. Refuses (`invalid_request`) members that have
 * such a name themselves.
 */
export function methodParameters(method: string, params: JsonObject): JsonObject {
  const names: Readonly<Record<string, string>> = FURTHER_INPUT
  const approved: JsonObject = { [METHOD_PARAMETER]: method }
  for (const [member, value] of Object.entries(params)) {
    if (member === '_meta') continue
    if (member === METHOD_PARAMETER || Object.values(names).includes(member))
      refuse('invalid_request', `Give no member of params the name ${member}.`)
    const name = Object.hasOwn(names, member) ? names[member]! : member
    Object.defineProperty(approved, name, { value, enumerable: true, writable: true, configurable: true })
  }
  return approved
}
