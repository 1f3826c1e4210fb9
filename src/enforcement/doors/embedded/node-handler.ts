/**
 * Owns the embedded door for handlers of Node's own server and for middleware of Connect and Express.
 * Contract: "Resource server enforcement point": what a handler sees is what was judged.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../../../http/telemetry/log.ts'
import { changeFields, replayRequest } from '../../../http/servers/node-request.ts'
import type { Denied } from '../../call.ts'
import { denialMessage } from '../../denial.ts'
import type { CallAdmission, Admit, Caller } from './admission.ts'
import type { AnswerDocument } from './documents.ts'

/** A handler of `node:http`; `body` is the JSON value of the bytes that were judged, if they are JSON. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse, body?: unknown) => unknown

/** Middleware of Connect and Express. */
export type Middleware = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void

export interface NodeDoorOptions {
  admit: Admit
  answerDocument: AnswerDocument
  /** The caller, by the request that a handler gets. */
  callers: WeakMap<IncomingMessage, Caller>
  logger: Logger
}

/**
 * The request handler that serves the public documents, and passes each allowed request to `handler` once.
 */
export function protectHandler(handler: NodeHandler, options: NodeDoorOptions): NodeHandler {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (await options.answerDocument(request, response)) return
    const admission = await options.admit(request, response)
    if (admission.kind !== 'admitted') return answerDenied(admission, request, response)
    const replay = replayRequest(request, admission.body, admission.changes)
    if (admission.caller !== undefined) options.callers.set(replay, admission.caller)
    try {
      await handler(replay, response, admission.value)
    } catch (error) {
      // A failure of the handler is no denial, so it must not look like one.
      options.logger.error({ err: error }, 'the protected handler failed')
      answerFailure(response)
    }
  }
  return (request, response) => void serve(request, response)
}

/**
 * Middleware that calls `next` once for each allowed request: `body` is the parsed value, `rawBody` the
 * bytes.
 */
export function protectMiddleware(options: NodeDoorOptions): Middleware {
  const judged = new WeakSet<IncomingMessage>()
  return (request, response, next) => {
    // If it is mounted twice, it judges once, because the credential is gone after the first time.
    if (judged.has(request)) return next()
    options
      .admit(request, response)
      .then(admission => {
        if (admission.kind !== 'admitted') return answerDenied(admission, request, response)
        changeFields(request, admission.changes)
        Object.assign(request, { rawBody: admission.body, body: admission.value })
        if (admission.caller !== undefined) options.callers.set(request, admission.caller)
        judged.add(request)
        // Called outside this promise, so that errors of the next handlers are not caught here.
        process.nextTick(next)
      })
      // If a request cannot be passed on, only the request ends, not the process.
      .catch((error: unknown) => process.nextTick(next, error))
  }
}

/** Middleware that serves the public documents and hands on everything else. */
export function documentsMiddleware({ answerDocument }: Pick<NodeDoorOptions, 'answerDocument'>): Middleware {
  return (request, response, next) => {
    void answerDocument(request, response).then(answered => {
      if (!answered) process.nextTick(next)
    })
  }
}

function answerDenied(
  denied: Exclude<CallAdmission, { kind: 'admitted' }>,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (denied.kind === 'gone') response.destroy()
  else writeDenial(denied, request, response)
}

/**
 * Writes a denial. It does not wait for the unread part of the request: the connection ends with the answer.
 */
function writeDenial(denied: Denied, request: IncomingMessage, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return void response.destroy()
  const { status, headers, body } = denialMessage(denied)
  response.statusCode = status
  for (const [name, value] of headers) response.setHeader(name, value)
  if (!request.complete) response.setHeader('connection', 'close')
  response.end(body)
}

function answerFailure(response: ServerResponse): void {
  if (response.headersSent || response.destroyed) return void response.destroy()
  response.statusCode = 500
  response.setHeader('content-type', 'text/plain')
  response.end('Internal Server Error')
}
