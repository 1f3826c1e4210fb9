/**
 * POST /token: the two grant types, form-encoded or JSON. Contract: "Token endpoint".
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { parseBody } from '../../http/bodies.ts'
import { signatureBase, signedMessage, type SignatureBase } from '../../http/signed-request.ts'
import { GRANT_TYPE_CLIENT_CREDENTIALS, GRANT_TYPE_UMA_TICKET } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Answer } from './answers.ts'
import { issuePat, type TokenCaller } from '../protection/client-credentials.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import type { Authority } from '../context.ts'
import { negotiate } from './phases.ts'
import { TOKEN_REQUEST, type TokenRequest } from './token-request.ts'

/** Registers POST /token. */
export function registerToken(app: FastifyInstance, authority: Authority): void {
  const base = signatureBase(authority.issuer)
  app.post('/token', { config: { holdsAnswer: true } }, async (request, reply) => {
    refuseWhileOff(authority.clock)
    const answer = await answerToken(
      authority,
      parseBody(TOKEN_REQUEST, request.body),
      callerOf(request, base),
    )
    return reply
      .status(answer.status)
      .headers({ 'cache-control': 'no-store', pragma: 'no-cache' })
      .send(answer.body)
  })
}

/** Who signs is a resource server; `@authority` is the issuer's, whatever address the request came to. */
function callerOf(request: FastifyRequest, base: SignatureBase): TokenCaller {
  const isSigned = request.headers['signature-input'] !== undefined
  return {
    authorization: request.headers.authorization,
    signed: isSigned ? signedMessage(request, base) : undefined,
  }
}

function answerToken(authority: Authority, form: TokenRequest, caller: TokenCaller): Promise<Answer> {
  switch (form.grant_type) {
    case GRANT_TYPE_UMA_TICKET:
      if (form.ticket === undefined)
        refuse('invalid_request', 'Send the ticket of the challenge as `ticket`.')
      return negotiate(authority, { ...form, ticket: form.ticket })
    case GRANT_TYPE_CLIENT_CREDENTIALS:
      return issuePat(authority, form, caller)
    default:
      return refuse(
        'unsupported_grant_type',
        `Use ${GRANT_TYPE_UMA_TICKET} (agents) or ${GRANT_TYPE_CLIENT_CREDENTIALS} (resource servers).`,
      )
  }
}
