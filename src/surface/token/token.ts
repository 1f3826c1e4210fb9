/**
 * POST /token: the two grant types, form-encoded or JSON. Contract: "Token endpoint".
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { parseBody } from '../../http/bodies.ts'
import { signatureBase, signedMessage, type SignatureBase } from '../../http/signed-request.ts'
import { GRANT_TYPE_CLIENT_CREDENTIALS, GRANT_TYPE_UMA_TICKET } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { refuseWhileOff, type Clock } from '../clock.ts'
import type { Answer } from './answers.ts'
import { issuePat, type PatIssuance, type TokenCaller } from './client-credentials.ts'
import type { Negotiation, TicketGrant } from './negotiation.ts'
import { negotiate } from './ticket-grant.ts'
import { TOKEN_REQUEST, type TokenRequest } from './token-request.ts'

/** What the grant types take, by the member that each is handed. */
export interface TokenEndpoint<Row extends Negotiation, Governed> {
  clock: Pick<Clock, 'fault'>
  tickets: TicketGrant<Row, Governed>
  pats: PatIssuance
}

/** Registers POST /token. */
export function registerToken<Row extends Negotiation, Governed>(
  app: FastifyInstance,
  of: TokenEndpoint<Row, Governed>,
): void {
  const base = signatureBase(of.tickets.issuer.issuer)
  app.post('/token', { config: { holdsAnswer: true } }, async (request, reply) => {
    // 1. Nothing is issued by a clock that is off.
    refuseWhileOff(of.clock)

    // 2. What is asked for, and who asks.
    const form = parseBody(TOKEN_REQUEST, request.body)
    const caller = callerOf(request, base)

    // 3. By the grant type.
    const { status, body } = await answerTo(of, form, caller)
    return reply.status(status).headers({ 'cache-control': 'no-store', pragma: 'no-cache' }).send(body)
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

function answerTo<Row extends Negotiation, Governed>(
  of: TokenEndpoint<Row, Governed>,
  form: TokenRequest,
  caller: TokenCaller,
): Promise<Answer> {
  switch (form.grant_type) {
    case GRANT_TYPE_UMA_TICKET:
      if (form.ticket === undefined)
        refuse('invalid_request', 'Send the ticket of the challenge as `ticket`.')
      return negotiate(of.tickets, { ...form, ticket: form.ticket })
    case GRANT_TYPE_CLIENT_CREDENTIALS:
      return issuePat(of.pats, form, caller)
    default:
      return refuse(
        'unsupported_grant_type',
        `Use ${GRANT_TYPE_UMA_TICKET} (agents) or ${GRANT_TYPE_CLIENT_CREDENTIALS} (resource servers).`,
      )
  }
}
