/**
 * Owns the embedded door as Fastify plugins. Contract: "Resource server enforcement point". The application
 * brings Fastify itself: only its types are used here.
 */
import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { changeFields } from '../../../http/servers/node-request.ts'
import type { Json } from '../../../wire/json.ts'
import { WELL_KNOWN } from '../../../wire/names.ts'
import { outage } from '../../outage.ts'
import { denialMessage } from '../../denial.ts'
import type { Admit, Caller } from './admission.ts'
import type { FindDocument } from './documents.ts'

/** Makes hooks apply to the scope that registers a plugin, and not to a scope of the plugin's own. */
const SKIP_OVERRIDE = Symbol.for('skip-override')

/**
 * A plugin that judges every request of the scope that registers it, before its body is parsed: parsers,
 * validation and handlers get the bytes that were judged.
 */
export function protectScope(admit: Admit, callers: WeakMap<IncomingMessage, Caller>): FastifyPluginCallback {
  const admitted = new WeakMap<IncomingMessage, Json | undefined>()
  const plugin: FastifyPluginCallback = (scope, _options, done) => {
    // Uses a callback, which is called only for calls that are let through. An async hook, or a reply that it
    // waits for, also ends when the sender goes away, and Fastify would then run the handler.
    scope.addHook('preParsing', (request, reply, payload, next) => {
      admit(request.raw, reply.raw, payload)
        .then(admission => {
          if (admission.kind === 'gone') return void reply.hijack()
          if (admission.kind === 'deny') return sendDenial(admission, request, reply)
          changeFields(request.raw, admission.changes)
          if (admission.caller !== undefined) callers.set(request.raw, admission.caller)
          admitted.set(request.raw, admission.value)
          // Called outside this promise, so that errors of the next hooks are not caught here.
          process.nextTick(next, null, streamOf(admission.body))
        })
        // If a request cannot be passed on, only the request ends, not the process.
        .catch((error: unknown) => process.nextTick(next, error))
    })
    scope.addHook('preValidation', async request => {
      if (!admitted.has(request.raw)) throw outage('The call was not judged: try again.')
      // The handler gets the value that was judged, not what the scope's parser made of the body. Raw bytes
      // and raw text are unchanged anyway.
      const value = admitted.get(request.raw)
      if (value !== undefined && typeof request.body === 'object' && !Buffer.isBuffer(request.body)) {
        request.body = value
      }
    })
    done()
  }
  return Object.assign(plugin, { [SKIP_OVERRIDE]: true })
}

function streamOf(body: Buffer): Readable & { receivedEncodedLength: number } {
  return Object.assign(Readable.from(body.length === 0 ? [] : [body]), { receivedEncodedLength: body.length })
}

/** A plugin that serves the public documents. Register it at the root, not in the scope of `protectScope`. */
export function documentsPlugin(find: FindDocument): FastifyPluginCallback {
  return (scope, _options, done) => {
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      const found = await find(request.raw)
      if (found === undefined) return reply.callNotFound()
      return reply.code(found.status).headers(Object.fromEntries(found.headers)).send(found.body)
    }
    // Public documents answer preflights too: a browser sends one before a page's request with own fields.
    for (const url of [WELL_KNOWN.protectedResource, `${WELL_KNOWN.protectedResource}/*`, '/jwks'])
      scope.route({ method: ['GET', 'OPTIONS'], url, handler })
    for (const url of ['/owner-resources', '/owner-resources/*']) scope.route({ method: 'GET', url, handler })
    done()
  }
}

function sendDenial(
  denied: Parameters<typeof denialMessage>[0],
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { status, headers, body } = denialMessage(denied)
  if (!request.raw.complete) reply.header('connection', 'close')
  reply.code(status).headers(Object.fromEntries(headers)).send(body)
}
