/**
 * Owns how a JSON-RPC message carries a grant and its proof if no HTTP request does (stdio, in process).
 * Contract: "Challenge (beat 1)" ("Where there is no status line") and "Authorized call": the fields are
 * those of the HTTP request that would carry the message to its resource, and are in `params._meta`.
 */
import { canonicalize, isJsonObject, type JsonObject } from '../json.ts'
import { MESSAGE_META } from '../names.ts'
import { refuse } from '../refusal.ts'

const FIELDS = ['authorization', 'signature', 'signature-input', 'content-digest'] as const

/** Header fields by their lower-case names. */
export type MessageProof = Partial<Record<(typeof FIELDS)[number], string>>

/**
 * The body that represents a message: its RFC 8785 text, without a proof. A content-digest is computed over
 * these bytes.
 */
export function messageBody(message: JsonObject): string {
  return canonicalize(takeProof(message).message)
}

/** The message with this proof in it, in place of any other. Its params are added if it has none. */
export function carryProof(message: JsonObject, proof: MessageProof): JsonObject {
  const bare = takeProof(message).message
  const params = isJsonObject(bare.params) ? bare.params : {}
  const meta = isJsonObject(params._meta) ? params._meta : {}
  return {
    ...bare,
    params: { ...params, _meta: { ...meta, [MESSAGE_META.authorization]: { ...proof } } },
  }
}

/**
 * Removes the proof from a message, and also any statement about the caller, which the sender may not make.
 * An empty `_meta` is then removed too, and then empty params. Refuses `invalid_request` if the proof is no
 * object of texts under the known names.
 */
export function takeProof(message: JsonObject): { message: JsonObject; proof: MessageProof } {
  const { params } = message
  if (!isJsonObject(params) || !isJsonObject(params._meta)) return { message, proof: {} }
  const { [MESSAGE_META.authorization]: carried, [MESSAGE_META.caller]: _, ...meta } = params._meta
  const { _meta, ...others } = params
  const { params: __, ...bare } = message
  const bareParams = Object.keys(meta).length === 0 ? others : { ...others, _meta: meta }
  return {
    message: Object.keys(bareParams).length === 0 ? bare : { ...bare, params: bareParams },
    proof: carried === undefined ? {} : readProof(carried),
  }
}

function readProof(carried: unknown): MessageProof {
  const known = new Set<string>(FIELDS)
  const isProof =
    isJsonObject(carried) &&
    Object.entries(carried).every(([name, value]) => known.has(name) && typeof value === 'string')
  if (!isProof) {
    refuse('invalid_request', `Give ${MESSAGE_META.authorization} as an object of ${FIELDS.join(', ')}.`)
  }
  return carried
}
