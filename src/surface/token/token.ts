/**
 * POST /token: the two grant types, form-encoded or JSON. Contract: "Token endpoint".
 */
import type { FastifyRequest } from 'fastify'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { signatureBase, signedMessage, type SignatureBase } from '../../http/servers/signed-request.ts'
import { GRANT_TYPE_CLIENT_CREDENTIALS, GRANT_TYPE_UMA_TICKET } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { refuseWhileOff, type Clock } from '../clock.ts'
import type { Issuer } from '../issuer.ts'
import { NEGOTIATING, TOKEN_ANSWER, type TokenReply } from './answers.ts'
import type { TokenCaller } from './client-credentials.ts'
import type { TicketRequest } from './negotiation.ts'
import { TOKEN_REQUEST, type TokenRequest } from './token-request.ts'

/** The grant types, each with the function that handles it. */
export interface TokenEndpoint {
  clock: Pick<Clock, 'fault'>
  issuer: Pick<Issuer, 'issuer'>
  negotiate(request: TicketRequest): Promise<TokenReply>
  issuePat(form: TokenRequest, caller: TokenCaller): Promise<TokenReply>
}

const headers = { 'cache-control': 'no-store', pragma: 'no-cache' }

export const TOKEN: Endpoint<TokenEndpoint> = endpoint({
  method: 'post',
  path: '/token',
  rows: ['token-uma-ticket', 'token-client-credentials'],
  summary: 'The uma-ticket grant (agents) and client_credentials (resource servers)',
  // Nothing is issued while the clock is off.
  refuses: {
    400: ['invalid_grant', 'invalid_scope', 'unsupported_grant_type'],
    401: ['invalid_client', 'invalid_token'],
  },
  first: ({ clock }: TokenEndpoint) => refuseWhileOff(clock),
  holdsAnswer: true,
  body: { schema: TOKEN_REQUEST, form: true },
  answers: {
    200: { says: 'A grant with its receipt, or a PAT.', schema: TOKEN_ANSWER, headers },
    403: { says: 'Terms to sign, a decision to wait for, or a refusal.', schema: NEGOTIATING, headers },
    429: { says: 'There is no room for the request now.', schema: NEGOTIATING, headers },
  },
  async handle(of: TokenEndpoint, { body: form, request, answer }) {
    const { status, body } = await answerTo(of, form, callerOf(request, signatureBase(of.issuer.issuer)))
    return answer(status as 200 | 403 | 429, body as never)
  },
})

/**
 * A signed request comes from a resource server; `@authority` is the issuer's, even if the request came to
 * another address.
 */
function callerOf(request: FastifyRequest, base: SignatureBase): TokenCaller {
  const isSigned = request.headers['signature-input'] !== undefined
  return {
    // An empty field says nothing; a client may send it empty so that its signature covers it (RFC 9421
    // §2.1).
    authorization: request.headers.authorization === '' ? undefined : request.headers.authorization,
    signed: isSigned ? signedMessage(request, base) : undefined,
  }
}

function answerTo(of: TokenEndpoint, form: TokenRequest, caller: TokenCaller): Promise<TokenReply> {
  switch (form.grant_type) {
    case GRANT_TYPE_UMA_TICKET:
      if (form.ticket === undefined)
        refuse('invalid_request', 'Send the ticket of the challenge as `ticket`.')
      return of.negotiate({ ...form, ticket: form.ticket })
    case GRANT_TYPE_CLIENT_CREDENTIALS:
      return of.issuePat(form, caller)
    default:
      return refuse(
        'unsupported_grant_type',
        `Use ${GRANT_TYPE_UMA_TICKET} (agents) or ${GRANT_TYPE_CLIENT_CREDENTIALS} (resource servers).`,
      )
  }
}
