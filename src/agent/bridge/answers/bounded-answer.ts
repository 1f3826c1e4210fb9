/**
 * Owns how an answer of a resource is read before the SDK reads it: an answer that is longer, or nested
 * deeper, than allowed is cut off, and reported with its own code; any other reaches the SDK in the form that
 * its schemas know. Contract: "Errors".
 */
import { EventStreamReader, type ServerSentEvent } from '../../../wire/event-stream.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { TOOL_ANSWER_BYTES_MAX } from '../../transports/mcp.ts'
import { ANSWER_DEPTH_MAX, depthGuard } from './depth.ts'
import { asQuestion, asWritten, isMarkedNumber, keepIds, parseMarked } from './as-written.ts'
import type { Exchange } from '../upstream/exchange.ts'
import { completed } from './foreign-answer.ts'
import { readableMessage, type ReadFor } from './readable-message.ts'
import { EVENT_STREAM_TYPE, JSON_TYPE } from '../protocol.ts'

/** Where an answer comes from, and what it answers; left out of `exchange`, it is no answer to one. */
export interface Bounds {
  url: URL
  exchange: Exchange | undefined
  /** The request that it answers; undefined if none is, as in a stream of notifications. */
  request: ReadFor | undefined
  /** Where a stream goes on that broke off. */
  lastEventId?: string | undefined
}

/** What is made of the chunks of a body. */
interface Reading {
  /** The parts that can be passed on by now. */
  take: (chunk: Uint8Array) => Uint8Array[]
  end: () => Uint8Array[]
  /** How much was read and belongs to no part that is complete. */
  pendingBytes: () => number
  /** The stream can be opened again where it ended. */
  isResumable: () => boolean
}

/**
 * The response as the SDK can read it, cut off with an error if it, or one event of its stream, is longer
 * than any answer may be, or nested deeper.
 */
export function bounded(response: Response, bounds: Bounds): Response {
  const { exchange, url } = bounds
  const isStream = mediaTypeOf(response) === EVENT_STREAM_TYPE
  const isShallow = depthGuard(isStream)
  const reading = isStream ? eventsOf(response, bounds) : documentOf(response, bounds)
  const over = (): void => {
    // The SDK opens a stream again whose events have ids.
    if (!reading.isResumable()) completed(exchange)
  }
  if (response.body === null) {
    noteUnread(response, bounds, '')
    over()
    return response
  }
  const reader = response.body.getReader()
  const refuse = async (code: AnswerLimitCode): Promise<AgentError> => {
    const error = refused(code, url, exchange?.isCall === true && response.ok)
    if (exchange !== undefined) exchange.failure = error
    exchange?.ending.abort()
    await reader.cancel().catch(() => undefined)
    return error
  }
  const next = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<boolean> => {
    const { done, value } = await reader.read().catch((error: unknown) => {
      over()
      throw error
    })
    if (done) {
      for (const part of reading.end()) controller.enqueue(part)
      over()
      controller.close()
      return true
    }
    const parts = isShallow(value) ? reading.take(value) : undefined
    const bytes = reading.pendingBytes()
    const isSmallEnough = bytes <= TOOL_ANSWER_BYTES_MAX
    if (!isSmallEnough || parts === undefined) {
      controller.error(await refuse(isSmallEnough ? 'answer_too_deep' : 'answer_too_large'))
      return true
    }
    for (const part of parts) controller.enqueue(part)
    return parts.length > 0
  }
  const body = new ReadableStream<Uint8Array>({
    pull: async controller => {
      // A stream that is pulled and given nothing would not be pulled again.
      while (!(await next(controller)));
    },
    cancel: reason => reader.cancel(reason),
  })
  const { status, statusText } = response
  const headers = new Headers(response.headers)
  headers.delete('content-length')
  const isAnswer = bounds.request !== undefined && response.ok
  // The SDK reads no other type, and nothing under 202, whatever a server calls its answers.
  if (!isStream && isAnswer) headers.set('content-type', JSON_TYPE)
  return new Response(body, { status: isAnswer ? 200 : status, statusText, headers })
}

/** A server that asks to be asked again at once gets this much peace, milliseconds. */
const RESUME_MILLISECONDS_MIN = 100
/** The most that one waits before it asks again. */
const RESUME_MILLISECONDS_MAX = 60_000

function mediaTypeOf({ headers }: Response): string | undefined {
  return headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
}

/** Keeps what came in the place of the answer to a call, as far as anybody would read it. */
function noteUnread(response: Response, { exchange, request }: Bounds, text: string): void {
  if (exchange?.isCall !== true || request?.method !== exchange.method) return
  exchange.unread = {
    status: response.status,
    type: mediaTypeOf(response),
    text: text.slice(0, UNREAD_LENGTH_MAX),
  }
}

/** More of it than is ever shown. */
const UNREAD_LENGTH_MAX = 2000

/** A document: passed on whole, when all of it has come. */
function documentOf(response: Response, bounds: Bounds): Reading {
  const { request } = bounds
  if (request === undefined) return passing()
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    take: chunk => {
      chunks.push(chunk)
      bytes += chunk.byteLength
      return []
    },
    end: () => {
      const whole = Buffer.concat(chunks)
      const text = new TextDecoder().decode(whole)
      noteUnread(response, bounds, text)
      const message = parsedFor(text, request)
      if (message !== undefined) return [Buffer.from(JSON.stringify(readableMessage(message, request)))]
      return [whole]
    },
    pendingBytes: () => bytes,
    isResumable: () => false,
  }
}

function passing(): Reading {
  let bytes = 0
  return {
    take: chunk => {
      bytes += chunk.byteLength
      return [chunk]
    },
    end: () => [],
    pendingBytes: () => bytes,
    isResumable: () => false,
  }
}

/** A stream of events, each passed on when it has come, with line feeds for line ends. */
function eventsOf(response: Response, bounds: Bounds): Reading {
  const { request, lastEventId = '' } = bounds
  const events = new EventStreamReader(lastEventId, Infinity)
  let sentId = lastEventId
  let sentRetry: number | undefined
  const written = ({ type, data, id }: ServerSentEvent): string => {
    const retry = events.retryMilliseconds
    const lines = [
      ...(retry === sentRetry || retry === undefined ? [] : [`retry: ${patience(retry)}`]),
      ...(id === sentId || !isSendable(id) ? [] : [`id: ${id}`]),
      // The SDK reads no other type, whatever a server calls its answers.
      ...(type === 'message' || isAnswer(data) ? [] : [`event: ${type}`]),
      ...data.split('\n').map(line => `data: ${line}`),
    ]
    sentRetry = retry
    sentId = id
    return `${lines.join('\n')}\n\n`
  }
  return {
    take: chunk => {
      const texts = events.read(chunk).map(event => {
        if (event.data !== '' && !isMessage(event.data)) noteUnread(response, bounds, event.data)
        return written({ ...event, data: readableData(event.data, request) })
      })
      const id = events.lastEventId
      // An id alone is where a stream goes on that ends before its first message.
      const last = id === sentId ? [] : [written({ type: 'message', data: '', id })]
      return [...texts, ...last].map(text => Buffer.from(text))
    },
    end: () => {
      const rest = events.rest()
      if (rest === undefined || !isAnswer(rest.data)) return []
      return [Buffer.from(written({ ...rest, data: readableData(rest.data, request) }))]
    },
    pendingBytes: () => events.pendingLength,
    isResumable: () => events.lastEventId !== '' && isSendable(events.lastEventId),
  }
}

/** The pause before a stream is opened again, as a server wants it, within what a client can wait for. */
function patience(retry: number): number {
  return Math.min(Math.max(retry, RESUME_MILLISECONDS_MIN), RESUME_MILLISECONDS_MAX)
}

/** Whether a header field can carry an id: a stream whose id none can carry cannot go on. */
function isSendable(id: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(id)
}

/** Whether the data of an event is a whole answer. */
function isAnswer(data: string): boolean {
  const message = parsed(data)
  return isJsonObject(message) && (message['result'] !== undefined || message['error'] !== undefined)
}

/** Whether the data of an event is of JSON-RPC, an answer or not. */
function isMessage(data: string): boolean {
  const message = parsed(data)
  return isJsonObject(message) && (typeof message['method'] === 'string' || isAnswer(data))
}

function readableData(data: string, request: ReadFor | undefined): string {
  const message = parsedFor(data, request)
  if (message === undefined) return data
  return JSON.stringify(request === undefined ? message : readableMessage(message, request))
}

/**
 * The answer as every parser reads it. The result of a tool, the tools of a list and the ids of a server's
 * own requests are kept as they were written. A form loses the numbers that it could only show changed.
 */
function parsedFor(text: string, request: ReadFor | undefined): Json | undefined {
  const read = marked(text)
  if (read === undefined) return undefined
  const { plain, exact } = read
  const isCall = request?.method === 'tools/call'
  const isList = request?.method === 'tools/list'
  const exactly = Array.isArray(exact) ? exact : [exact]
  for (const [at, one] of (Array.isArray(plain) ? plain : [plain]).entries()) {
    const as = exactly[at]
    if (!isJsonObject(one) || !isJsonObject(as)) continue
    if (typeof one['method'] === 'string') keepIds(one, as)
    if (one['method'] === FORM && as['params'] !== undefined) one['params'] = asQuestion(as['params'])
    if (isCall && as['result'] !== undefined) one['result'] = as['result']
    if (isList && isJsonObject(one['result']) && isJsonObject(as['result']))
      keepList(one['result'], as['result'])
  }
  return plain
}

const FORM = 'elicitation/create'

/** Some servers write the place of the next page as a number. */
function keepList(result: JsonObject, { tools, nextCursor: cursor }: JsonObject): void {
  if (tools !== undefined) result['tools'] = tools
  if (cursor !== undefined && isMarkedNumber(cursor)) result['nextCursor'] = JSON.stringify(asWritten(cursor))
}

function marked(text: string): ReturnType<typeof parseMarked> | undefined {
  try {
    return parseMarked(text)
  } catch {
    return undefined
  }
}

/** As any parser of JSON reads it: an answer is data for the caller, and nothing is authorized by it. */
function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}

type AnswerLimitCode = 'answer_too_deep' | 'answer_too_large'

function refused(code: AnswerLimitCode, url: URL, isMade: boolean): AgentError {
  const what =
    code === 'answer_too_large'
      ? `more than ${TOOL_ANSWER_BYTES_MAX} bytes`
      : `an answer that is nested more than ${ANSWER_DEPTH_MAX} deep`
  const made = isMade ? 'The call was made; its answer was not taken.' : 'It was not taken.'
  return new AgentError(code, { detail: `${url.origin} sent ${what}. ${made}`, local: true })
}
