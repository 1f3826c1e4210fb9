/**
 * Owns the embedded door as Fastify plugins. Contract: "Resource server enforcement point". Fastify itself is
 * the user's: only its types are named here.
 */
import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { changeFields } from '../../../http/node-request.ts'
import type { Json } from '../../../wire/json.ts'
import { WELL_KNOWN } from '../../../wire/names.ts'
import { outage } from '../../deadline.ts'
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
    // With a callback, which is called for what is let through and for nothing else: what an async hook
    // returns, or a reply that it waits for, also ends when the sender goes away, and Fastify would then run
    // the handler.
    scope.addHook('preParsing', (request, reply, payload, next) => {
      admit(request.raw, reply.raw, payload)
        .then(admission => {
          if (admission.kind === 'gone') return void reply.hijack()
          if (admission.kind === 'deny') return sendDenial(admission, request, reply)
          changeFields(request.raw, admission.changes)
          if (admission.caller !== undefined) callers.set(request.raw, admission.caller)
          admitted.set(request.raw, admission.value)
          // Out of this promise: what the next hooks throw is theirs to handle.
          process.nextTick(next, null, streamOf(admission.body))
        })
        // A request that cannot be handed on ends here, not the process.
        .catch((error: unknown) => process.nextTick(next, error))
    })
    scope.addHook('preValidation', async request => {
      if (!admitted.has(request.raw)) throw outage('The call was not judged: try again.')
      // Whatever parser the scope has: the value is the one that was judged. Raw bytes and raw text are as
      // they were judged anyway.
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

/**
 * A plugin that serves the public documents; to be registered at the root, and not where `protectScope` is.
 */
export function documentsPlugin(find: FindDocument): FastifyPluginCallback {
  return (scope, _options, done) => {
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      const found = await find(request.raw)
      if (found === undefined) return reply.callNotFound()
      return reply.code(found.status).headers(Object.fromEntries(found.headers)).send(found.body)
    }
    for (const url of [
      WELL_KNOWN.protectedResource,
      `${WELL_KNOWN.protectedResource}/*`,
      '/jwks',
      '/owner-resources',
      '/owner-resources/*',
    ]) {
      scope.route({ method: 'GET', url, handler })
    }
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
