/**
 * Owns what any call may ask for, whatever protocol its resource speaks. Contract: "Authorized call": a tool
 * with exact parameters, or one of the few things that need less.
 */
import type { JsonObject } from '../../wire/json.ts'
import type { Call } from '../call.ts'

/**
 * `pass`: needs no grant; `grantFields` are header fields that only come with one, so the server does not get
 * them. `open`: needs a live grant and a signature, no permission. `tool`: needs all; `params` are what an
 * owner approves, `params_s256` their hash.
 */
export type CallRequest =
  | { kind: 'pass'; method: string; grantFields?: readonly string[] }
  | { kind: 'open'; method: string }
  | ({ kind: 'tool' } & ToolRequest)

/**
 * A call of a tool. `method`: the MCP method, if it is another than `tools/call`. `inexactNumber`: the first
 * number of the body that a double cannot carry unchanged. `ambiguity`: a sentence, if the tool may read
 * other parameters than were hashed. Both matter if the exact parameters were approved.
 */
export interface ToolRequest {
  tool: string
  method?: string
  params: JsonObject
  params_s256: string
  inexactNumber?: string
  ambiguity?: string
}

/** Reads what a call asks for. Refuses what can be read in more than one way. Never decides about a grant. */
export type RequestReader = (call: Call) => CallRequest
