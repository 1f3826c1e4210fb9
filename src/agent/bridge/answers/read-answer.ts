/**
 * Owns how an answer is read for the SDK's client: what it answers, in which form the client can read it, and
 * which answer to its first question says that the server has never seen that question. Contract: "Errors".
 */
import { EventStreamReader } from '../../../wire/event-stream.ts'
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { challengeIn } from '../../answer.ts'
import { readMessage } from '../../transports/message.ts'
import { neverLeft } from '../../transports/transport.ts'
import { bounded } from './bounded-answer.ts'
import type { Exchange } from '../upstream/exchange.ts'
import { isSame, type ReadFor } from './readable-message.ts'
import type { SpoiltTool } from './readable-tool.ts'
import { EVENT_STREAM_TYPE, JSON_TYPE, RPC_CODE } from '../protocol.ts'

/**
 * The SDK's client is loaded when a resource is first asked, so that the bridge's own client gets its first
 * answer sooner.
 */
export const loadSdk = () => import('@modelcontextprotocol/client')

/**
 * The message of a request; `revision` is the revision of MCP that it was sent in, empty if none was named.
 */
export type SentMessage = Pick<ReadFor, 'id' | 'method'> & { revision: string }

/** The message that a `fetch` sends; undefined if it sends none. */
export function sentIn({ body, headers }: RequestInit = {}): SentMessage | undefined {
  const message = typeof body === 'string' ? readMessage(body) : undefined
  if (!isJsonObject(message)) return undefined
  const revision = new Headers(headers).get('mcp-protocol-version') ?? ''
  return { id: message['id'], method: message['method'], revision }
}

/** What an answer is about. */
export interface AnswerTo {
  url: URL
  specNs: string
  now: () => number
  exchange: Exchange | undefined
  /** The message that was sent, and in which revision of MCP; undefined for a stream of notifications. */
  request: SentMessage | undefined
  /** Where a stream goes on that broke off. */
  lastEventId?: string | undefined
  /** Called for each tool of a list that cannot be read. */
  onSpoilt?: ((tool: SpoiltTool) => void) | undefined
}

/** The response in the form that the SDK can read, and no longer or deeper than an answer may be. */
export async function readAnswer(response: Response, to: AnswerTo): Promise<Response> {
  const { url, exchange, request, lastEventId, onSpoilt } = to
  if (request?.id === undefined) return bounded(response, { url, exchange, request: undefined })
  const { specTypeSchemas } = await loadSdk()
  const readFor: ReadFor = {
    id: request.id,
    method: request.method,
    isModern: request.revision >= MODERN,
    isContent: part => {
      const checked = specTypeSchemas.ContentBlock['~standard'].validate(part)
      return !(checked instanceof Promise) && checked.issues === undefined
    },
    onSpoilt: tool => {
      exchange?.spoilt.push(tool)
      onSpoilt?.(tool)
    },
  }
  const read = bounded(response, { url, exchange, request: readFor, lastEventId })
  return request.method === 'server/discover' ? answerToProbe(read, to) : read
}

/** The first revision whose results and lists say more of themselves. */
const MODERN = '2026'

/**
 * The answer to `server/discover`. Servers before 2026-07-28 have never seen it, and answer whatever they
 * like: if it is not about the question, it is as good as "no such method", and `initialize` follows. A
 * challenge of ours is an answer: it would meet `initialize` too.
 */
async function answerToProbe(response: Response, to: AnswerTo): Promise<Response> {
  const { status, ok, headers } = response
  if (isChallenge(response, to)) return response
  const id = to.request?.id
  const isStream = headers.get('content-type')?.toLowerCase().startsWith(EVENT_STREAM_TYPE) === true
  const text = isStream ? await firstAnswer(response, id) : await response.text()
  const isAnswer = isAnswerTo(text, id)
  const isUnseen = status === 401 || status === 403 || status >= 500 || (ok && !isAnswer)
  if (!isUnseen)
    return new Response(text, {
      status,
      headers: { ...Object.fromEntries(headers), 'content-type': JSON_TYPE },
    })
  return unseen(id)
}

/** As a server answers that says itself what it does not know. */
function unseen(id: Json | undefined): Response {
  const error = { code: RPC_CODE.methodNotFound, message: 'This server does not know server/discover.' }
  return Response.json({ jsonrpc: '2.0', id, error })
}

/** The longest wait for the answer to `server/discover`: a server that knows it answers at once. */
export const PROBE_MILLISECONDS_MAX = 10_000

/**
 * Asks `server/discover`, at most so long. No answer, or one that breaks off, is as good as "no such method",
 * because some servers before 2026-07-28 drop what they do not know. A request that never left fails, and so
 * does one whose caller gave up.
 */
export async function probeRevision(
  init: RequestInit,
  millisecondsMax: number,
  ask: (init: RequestInit) => Promise<Response>,
): Promise<Response> {
  const late = AbortSignal.timeout(millisecondsMax)
  const signal = AbortSignal.any([late, ...(init.signal instanceof AbortSignal ? [init.signal] : [])])
  try {
    return await ask({ ...init, signal })
  } catch (error) {
    if (error instanceof AgentError || neverLeft(error) || init.signal?.aborted === true) throw error
    return unseen(sentIn(init)?.id)
  }
}

function isAnswerTo(text: string, id: Json | undefined): boolean {
  const message = readMessage(text)
  if (!isJsonObject(message) || !isSame(message['id'], id)) return false
  return isJsonObject(message['result']) || isJsonObject(message['error'])
}

/** The message of a stream that answers the request; empty if it ends, or says nothing, before that. */
async function firstAnswer({ body }: Response, id: Json | undefined): Promise<string> {
  const events = new EventStreamReader('', Infinity)
  const reader = body!.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      const answer = done ? '' : events.read(value).find(({ data }) => isAnswerTo(data, id))?.data
      if (answer !== undefined) return answer
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Also one that cannot be used: what is wrong with it is told by the call that meets it. */
function isChallenge(response: Response, to: AnswerTo): boolean {
  try {
    return challengeIn(to, response) !== undefined
  } catch {
    return true
  }
}
