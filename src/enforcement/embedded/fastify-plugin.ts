/**
 * Owns the embedded door as Fastify plugins. contract, "Resource server enforcement point". Fastify itself is the user's: only its types
 * are named here.
 */
import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { changeFields } from '../../http/node-request.ts'
import type { Json } from '../../wire/json.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { denialMessage } from '../denial.ts'
import type { Admit, Caller } from './admission.ts'
import type { FindDocument } from './documents.ts'

/** Makes hooks apply to the scope that registers a plugin, and not to a scope of the plugin's own. */
const SKIP_OVERRIDE = Symbol.for('skip-override')

/**
 * A plugin that judges every request of the scope that registers it, before its body is parsed: parsers, validation and handlers get
 * the bytes that were judged.
 */
export function protectScope(admit: Admit, callers: WeakMap<IncomingMessage, Caller>): FastifyPluginCallback {
  const values = new WeakMap<IncomingMessage, Json>()
  const plugin: FastifyPluginCallback = (scope, _options, done) => {
    scope.addHook('preParsing', async (request, reply, payload) => {
      const admission = await admit(request.raw, reply.raw, payload)
      if (admission.kind === 'gone') {
        reply.hijack()
        return payload
      }
      if (admission.kind === 'deny') return sendDenial(admission, request, reply)
      changeFields(request.raw, admission.changes)
      if (admission.caller !== undefined) callers.set(request.raw, admission.caller)
      if (admission.value !== undefined) values.set(request.raw, admission.value)
      const { body } = admission
      return Object.assign(Readable.from(body.length === 0 ? [] : [body]), {
        receivedEncodedLength: body.length,
      })
    })
    scope.addHook('preValidation', async request => {
      // Whatever parser the scope has: the value is the one that was judged. Raw bytes and raw text are as they were judged anyway.
      const value = values.get(request.raw)
      if (value !== undefined && typeof request.body === 'object' && !Buffer.isBuffer(request.body)) {
        request.body = value
      }
    })
    done()
  }
  return Object.assign(plugin, { [SKIP_OVERRIDE]: true })
}

/** A plugin that serves the public documents; to be registered at the root, and not where `protectScope` is. */
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
): FastifyReply {
  const { status, headers, body } = denialMessage(denied)
  if (!request.raw.complete) reply.header('connection', 'close')
  return reply.code(status).headers(Object.fromEntries(headers)).send(body)
}
