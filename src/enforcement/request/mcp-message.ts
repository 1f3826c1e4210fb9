/**
 * Owns the shape of a JSON-RPC message as far as authorization depends on it. Contract: "Authorized call";
 * docs/choices.md: a reader that folds the case of keys must find what was checked.
 */
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { FURTHER_INPUT } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'

/** The keys that decide what is executed: a reader that folds case must not find a second one. */
const DECIDING_KEYS = ['method', 'params', 'name', 'arguments', 'uri', 'ref', ...Object.keys(FURTHER_INPUT)]
/** Upper case comes first, because it turns ſ into S, as readers that fold case by Unicode do. */
const folded = (key: string): string => key.toUpperCase().toLowerCase()
const SPELLINGS: ReadonlyMap<string, string> = new Map(DECIDING_KEYS.map(key => [folded(key), key]))

/** One JSON-RPC message. `method` is undefined for a response. */
export interface McpMessage {
  id: Json | undefined
  method: string | undefined
  params: JsonObject | undefined
}

/**
 * Reads one JSON-RPC 2.0 message. Refuses 400 `invalid_request` for a batch, for anything that is not a
 * request, notification or response, and for a key that differs only in case from one of the deciding keys.
 */
export function readMessage(value: Json): McpMessage {
  if (Array.isArray(value)) refuse('invalid_request', 'Send one JSON-RPC message per request, no batch.')
  if (!isJsonObject(value)) refuse('invalid_request', 'Send a JSON-RPC message: a JSON object.')
  refuseCaseVariants(value)
  if (value.jsonrpc !== '2.0') refuse('invalid_request', 'Send a JSON-RPC message with "jsonrpc": "2.0".')
  const { id, method, params } = value
  const answers = Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error')
  if (answers === (method !== undefined)) {
    refuse('invalid_request', 'Send either a method or a result, and not both.')
  }
  if (method !== undefined && typeof method !== 'string')
    refuse('invalid_request', 'Send method as a string.')
  if (id !== undefined && typeof id !== 'string' && typeof id !== 'number' && !(answers && id === null)) {
    refuse('invalid_request', 'Send id as a string or a number.')
  }
  if (params !== undefined && !isJsonObject(params))
    refuse('invalid_request', 'Send params as a JSON object.')
  if (params !== undefined) refuseCaseVariants(params)
  return { id, method, params }
}

/** Refuses 400 `invalid_request` for a key that differs only in case from one of the deciding keys. */
export function refuseCaseVariants(object: JsonObject): void {
  for (const key of Object.keys(object)) {
    const spelling = SPELLINGS.get(folded(key))
    if (spelling !== undefined && spelling !== key) {
      refuse('invalid_request', `Spell ${DECIDING_KEYS.join(', ')} exactly as written here, each once.`)
    }
  }
}
