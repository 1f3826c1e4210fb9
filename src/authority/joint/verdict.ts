/**
 * POST /joint/verdict: her signed answer to one question of the tally that she agreed to, or the answer that
 * there is none yet. Contract: "Tally for a jointly held resource" (`/joint/verdict`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { VERDICT_ANSWER } from '../../wire/documents/quote.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { DecisionContext } from '../context.ts'
import { answerQuestion, closeQuestion } from './answer.ts'
import { ASKED_CHARACTERS_MAX } from './quote.ts'
import { holderAccount, verifiedRequest } from './requests.ts'

export const VERDICT_ENDPOINT: Endpoint<DecisionContext> = endpoint({
  method: 'post',
  path: AUTHORITY_PATH.jointVerdict,
  rows: ['joint-verdict'],
  summary: 'Her signed answer for one request under a mandate that she agreed to, or pending',
  body: { schema: z.strictObject({ request: z.string().min(1).max(ASKED_CHARACTERS_MAX) }) },
  answers: {
    200: {
      says: 'Her verdict; or that it is pending, `ready` if she would allow it when asked finally.',
      schema: VERDICT_ANSWER,
    },
  },
  refuses: {
    401: ['invalid_token'],
    403: ['request_denied'],
    404: ['not_found'],
    409: ['conflict'],
    429: ['temporarily_unavailable'],
  },
  handle: async (authority: DecisionContext, { body, answer }) => {
    const request = await verifiedRequest(authority, body.request)
    if (!('negotiation' in request)) refuse('invalid_request', 'Name the negotiation that it is about.')
    // Also where she left meanwhile, or the account is another's by now: nobody is asked any more.
    if (request.closed === true) return answer(200, await closeQuestion(authority, request))
    const joint = await holderAccount(authority, request)
    if (joint === undefined)
      refuse('request_denied', 'She holds no such account with others.', { extra: { reason: 'not_agreed' } })
    return answer(200, await answerQuestion(authority, request, joint))
  },
})
