/**
 * Owns a denial as a JSON-RPC error. Contract: "Challenge (beat 1)": if there is no status line, the
 * challenge is carried by an error with the code -32001; docs/choices.md has the code of other denials, and
 * says which callers get a JSON-RPC error besides a status line.
 */
import type { JsonObject } from '../wire/json.ts'
import { CHALLENGE_ERROR, GRANT_UNSPENT, RPC_ERROR } from '../wire/names.ts'
import type { Denied } from './call.ts'

/** What is not opened here is, for the caller, a method that the server does not have. */
const UNKNOWN_METHOD = 'unknown_method'

/**
 * The error member: `data` is the whole challenge, or `{error, status}`, with `grant_unspent` if that is
 * certain. The sentence is the message.
 */
export function rpcDenial({ status, body }: Denied): { code: number; message: string; data: JsonObject } {
  const { error_description: sentence, ...members } = body as JsonObject
  const error = typeof members.error === 'string' ? members.error : 'temporarily_unavailable'
  const message = typeof sentence === 'string' ? sentence : error
  if (error === UNKNOWN_METHOD) return { code: RPC_ERROR.methodNotFound, message, data: { error, status } }
  return error === CHALLENGE_ERROR
    ? { code: RPC_ERROR.challenge, message, data: members }
    : {
        code: RPC_ERROR.refusal,
        message,
        data: { error, status, ...(members[GRANT_UNSPENT] === true ? { [GRANT_UNSPENT]: true } : {}) },
      }
}
