/**
 * Owns what the parameters of an MCP call are. Contract: "Authorized call", order 4 (`operation.params_s256`
 * must match exactly, no arguments means `{}`); docs/choices.md for what a call carries besides its
 * arguments. The agent signs them, the enforcement point hashes what is called, and both must come to one
 * hash.
 */
import { isJsonObject, type JsonObject } from './json.ts'
import { FURTHER_INPUT } from './names.ts'
import { refuse } from './refusal.ts'

/**
 * The parameters of a `tools/call`, by its `params`: the arguments (absent: `{}`), and the caller's answers
 * to a tool that asked back, under separate names. So an approval of the parameters covers the answers, too.
 * Refuses (`invalid_request`) arguments that are no object, or that have such a name themselves.
 */
export function toolParameters(params: JsonObject): JsonObject {
  const args = params.arguments === undefined ? {} : params.arguments // null is not absent
  if (!isJsonObject(args)) refuse('invalid_request', 'Send arguments as a JSON object, or leave them out.')
  const further: JsonObject = {}
  for (const [member, name] of Object.entries(FURTHER_INPUT)) {
    if (Object.hasOwn(args, name)) refuse('invalid_request', `Give no argument the name ${name}.`)
    const value = params[member]
    if (value !== undefined) further[name] = value
  }
  return Object.keys(further).length === 0 ? args : { ...args, ...further }
}
