/**
 * Owns what the answer of a tool's resource means. Contract: "Challenge (beat 1)" in both encodings, and
 * "Errors": an unknown refusal is terminal.
 */
import { parseAuthChallenges } from '../wire/negotiation/auth-challenges.ts'
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { GRANT_UNSPENT, UMA_SCHEME } from '../wire/names.ts'
import {
  isChallengeData,
  parseChallenge,
  parseChallengeData,
  type Challenge,
} from '../wire/negotiation/negotiation.ts'
import { AgentError, fail, isRefusalWord, reading, receivedSentence, refusalWord } from './agent-error.ts'
import type { ApiAnswer } from './transports/api.ts'
import { asRpcError, type RpcAnswer, type RpcError } from './transports/mcp.ts'
import type { Profile } from './profile.ts'
import { retryAfterSeconds } from './transports/transport.ts'

/**
 * The answer of a tool's resource: a result, or beat 1. Refusals are thrown, unless another client reads the
 * answer; then the answer is the result, with the `refusal` in it.
 */
export type CallAnswer<T = Json> =
  | { kind: 'result'; result: T; refusal?: AgentError | undefined }
  | { kind: 'challenge'; challenge: Challenge }

/**
 * The meaning of an answer: beat 1 by its shape, a result, or a refusal, which is thrown with its own code
 * (terminal, except for `temporarily_unavailable`). A JSON-RPC error of the tool's own is `rpc_error`,
 * anything else `unexpected_answer`.
 */
export function interpret(
  profile: Pick<Profile, 'specNs' | 'now'>,
  response: Response,
  answer: { rpc: RpcAnswer | undefined; body: Json | undefined; text?: string | undefined },
): CallAnswer {
  const { status, headers } = response
  const { rpc, body, text } = answer
  const carried = rpc?.kind === 'error' ? challengeInError(profile, rpc.error) : undefined
  if (carried !== undefined) return { kind: 'challenge', challenge: carried }
  const challenge = challengeIn(profile, response)
  if (challenge !== undefined) return { kind: 'challenge', challenge }
  if (rpc?.kind === 'result' && response.ok) return { kind: 'result', result: rpc.result }
  const retry = retryAfterSeconds(headers, profile.now())
  if (rpc?.kind === 'error') throw rpcError(rpc.error, status, retry)
  if (isJsonObject(body) && body['error'] !== undefined) throw refusalError(body, status, retry)
  const outage = gatewayOutage(profile, response, text)
  if (outage !== undefined) throw outage
  const hint = status === 404 ? ` ${NOTHING_THERE}` : ''
  const detail = `The resource answered with status ${status} and no JSON-RPC answer.${hint}`
  return fail('unexpected_answer', detail, { status })
}

/** The usual cause of a 404 in the place of an answer: the resource has another path than its server. */
export const NOTHING_THERE =
  'If it does so at each call, the server has nothing at that path: whoever runs it must let the gateway rewrite ' +
  'the path (docs/attaching.md, "Your server\'s own path").'

/**
 * Whether Envoy itself answered 503 and the call reached no tool: it could not ask its enforcement point (no
 * body), or no upstream could be connected to. Any other 503 may come after the tool has run.
 */
function isGatewayOutage({ status, headers }: Response, text: string): boolean {
  if (status !== 503 || headers.get('server') !== 'envoy') return false
  if (headers.has('x-envoy-upstream-service-time')) return false
  const reason = text.trim()
  return reason === '' || reason === 'no healthy upstream' || NEVER_CONNECTED.test(reason)
}

const NEVER_CONNECTED =
  /reset reason: (?:(?:remote|local) )?(?:connection failure|connection timeout|overflow)/

/** The outage that the gateway itself answered with, if it did. `text`: a body that is not JSON. */
export function gatewayOutage(
  profile: Pick<Profile, 'now'>,
  response: Response,
  text: string | undefined,
): AgentError | undefined {
  if (text === undefined || !isGatewayOutage(response, text)) return undefined
  const detail =
    'The gateway before the resource answered with status 503, and did not pass the call on: its enforcement point or the server behind it takes no calls now.'
  const retry = retryAfterSeconds(response.headers, profile.now())
  return new AgentError('temporarily_unavailable', {
    detail,
    status: 503,
    by: 'gateway',
    retryAfterSeconds: retry,
  })
}

/**
 * The meaning of an answer of a plain API: beat 1; a refusal in the form of ours (an error status whose JSON
 * body has a word in `error`), which is thrown; or the API's own answer, with its status.
 */
export function interpretApi(
  profile: Pick<Profile, 'specNs' | 'now'>,
  response: Response,
  answer: ApiAnswer,
): CallAnswer {
  const challenge = challengeIn(profile, response)
  if (challenge !== undefined) return { kind: 'challenge', challenge }
  const refusal = plainRefusal(profile, response, answer.body)
  if (refusal !== undefined) throw refusal
  return { kind: 'result', result: answer }
}

/**
 * The refusal in an answer of an MCP resource: an error status whose JSON body has a word in `error`, or, for
 * callers of MCP 2026-07-28, a JSON-RPC error with that word in `data.error`; undefined for any other.
 */
export function refusalIn(
  profile: Pick<Profile, 'now'>,
  response: Response,
  body: Json | undefined,
): AgentError | undefined {
  return plainRefusal(profile, response, body) ?? rpcRefusal(profile, response, body)
}

function plainRefusal(
  profile: Pick<Profile, 'now'>,
  { status, headers }: Response,
  body: Json | undefined,
): AgentError | undefined {
  if (status < 400 || !isJsonObject(body) || !isRefusalWord(body['error'])) return undefined
  return refusalError(body, status, retryAfterSeconds(headers, profile.now()))
}

/**
 * The id does not tell whether the error answers our request, because a refusal may be made before the
 * request was read.
 */
function rpcRefusal(
  profile: Pick<Profile, 'now'>,
  { status, headers }: Response,
  body: Json | undefined,
): AgentError | undefined {
  if (status < 400 || !isJsonObject(body) || body['jsonrpc'] !== '2.0') return undefined
  const error = asRpcError(body['error'])
  const word = isJsonObject(error?.data) ? error.data['error'] : undefined
  if (error === undefined || word === undefined || !isRefusalWord(word)) return undefined
  return rpcError(error, status, retryAfterSeconds(headers, profile.now()))
}

/**
 * The meaning of a JSON-RPC error if there is no status line: beat 1, or a refusal or the tool's own error,
 * which are thrown as `interpret` throws them.
 */
export function interpretRpc(
  profile: Pick<Profile, 'specNs'>,
  error: RpcError,
): { kind: 'challenge'; challenge: Challenge } {
  const challenge = challengeInError(profile, error)
  if (challenge === undefined) throw rpcError(error)
  return { kind: 'challenge', challenge }
}

/** The shape decides, never the code, because others use -32001 for a timeout. */
function challengeInError(profile: Pick<Profile, 'specNs'>, { data }: RpcError): Challenge | undefined {
  if (!isChallengeData(data)) return undefined
  return readChallenge(() => parseChallengeData(data, { specNs: profile.specNs }))
}

/** Beat 1 in its HTTP form; undefined if the answer is something else. */
export function challengeIn(
  profile: Pick<Profile, 'specNs'>,
  { status, headers }: Response,
): Challenge | undefined {
  const challenged = status === 401 ? headers.get('www-authenticate') : null
  if (challenged === null || !asksForUma(challenged)) return undefined
  return readChallenge(() => parseChallenge([challenged], { specNs: profile.specNs }))
}

function refusalError(body: JsonObject, status: number, retry: number | undefined): AgentError {
  return new AgentError(refusalWord(body['error']), {
    detail: receivedSentence(body['error_description'], `The resource refused with status ${status}.`),
    by: 'resource',
    status,
    retryAfterSeconds: retry,
    unspent: body[GRANT_UNSPENT] === true,
  })
}

/**
 * Fields of one name reach us joined. If one of our challenges is in a line that cannot be parsed, it is
 * found to be unusable.
 */
function asksForUma(challenged: string): boolean {
  try {
    return parseAuthChallenges([challenged]).some(one => one.scheme === UMA_SCHEME.toLowerCase())
  } catch {
    return new RegExp(String.raw`(?:^|[\s,])${UMA_SCHEME}\s`, 'i').test(challenged)
  }
}

function readChallenge(parse: () => Challenge): Challenge {
  return reading('challenge_untrusted', 'The challenge is not usable', parse)
}

/**
 * A refusal in the form of a JSON-RPC error carries its code in `data.error`; any other error is the tool's
 * own.
 */
function rpcError(error: RpcError, status?: number, retry?: number): AgentError {
  const { data } = error
  if (isJsonObject(data) && typeof data['error'] === 'string') {
    const description = data['error_description'] ?? error.message
    return new AgentError(refusalWord(data['error']), {
      detail: receivedSentence(description, 'The resource refused.'),
      by: 'resource',
      status: typeof data['status'] === 'number' ? data['status'] : status,
      retryAfterSeconds: retry,
      unspent: data[GRANT_UNSPENT] === true,
      rpc: error,
    })
  }
  const detail = `The tool answered with JSON-RPC error ${error.code}: ${receivedSentence(error.message, 'no message')}`
  return new AgentError('rpc_error', { detail, status, rpc: error })
}
