/**
 * Owns what the refusal of a request says about the session that it named. Contract: "Authorized call" and
 * "Single-use grant": a call is sent again only if the server said that the session had ended before it
 * acted. MCP 2025-11-25, "Session Management": a session that has ended is a 404, for which no words are
 * prescribed, and a tool may answer by the same status.
 */
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { asRpcError } from '../../transports/mcp.ts'
import { RPC_CODE } from '../protocol.ts'

/**
 * `ended`: the server did not read the request, because it does not know the session. `doubtful`: that may be
 * meant, and only the server's answer to a request that changes nothing tells.
 */
export type SessionWord = 'ended' | 'doubtful'

/** What the official SDKs' servers and their examples say. */
const GONE = /session (?:not found|expired|ended|has been terminated)|(?:invalid|expired) session/i
const NEVER_BEGUN = /not initialized|no valid session/i

/**
 * The meaning of an answer to a request that named a session; undefined if it is the answer to the request.
 * `message` is its body, if that is JSON; `id` is that of the request: an error that bears it may be the
 * tool's own, however it is worded.
 */
export function sessionWord(
  { status, message }: { status: number; message: Json | undefined },
  id: Json | undefined,
): SessionWord | undefined {
  if (status !== 404 && status !== 400) return undefined
  const error = isJsonObject(message) ? asRpcError(message['error']) : undefined
  const isAnswer = id !== undefined && isJsonObject(message) && message['id'] === id
  if (status === 400) {
    // A 400 is about anything that a server dislikes, unless it says what.
    if (error === undefined) return undefined
    if (NEVER_BEGUN.test(error.message)) return isAnswer ? 'doubtful' : 'ended'
    return GONE.test(error.message) ? 'doubtful' : undefined
  }
  const isEnd = error !== undefined && (error.code === RPC_CODE.sessionNotFound || GONE.test(error.message))
  if (isAnswer) return isEnd ? 'doubtful' : undefined
  return isEnd ? 'ended' : 'doubtful'
}
