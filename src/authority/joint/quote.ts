/**
 * POST /joint/quote: her terms over one resource of an account, to the tally that she agreed to. Contract:
 * "Tally for a jointly held resource" (`/joint/quote`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { jointServer } from '../../rules/joint/joint.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { QUOTE, type Quote, type Withheld } from '../../wire/documents/quote.ts'
import type { QuoteRequest } from '../../wire/joint/verdict.ts'
import { readGoverned } from '../negotiation/governance.ts'
import type { RequestContext } from '../context.ts'
import { holderAccount, verifiedRequest } from './requests.ts'

/** The most bytes that a signed request with the agreement in it may have. */
export const ASKED_CHARACTERS_MAX = 49_152

export const QUOTE_ENDPOINT: Endpoint<RequestContext> = endpoint({
  method: 'post',
  path: AUTHORITY_PATH.jointQuote,
  rows: ['joint-quote'],
  summary: 'Her terms over one jointly held resource, to the tally of a mandate that she agreed to',
  body: { schema: z.strictObject({ request: z.string().min(1).max(ASKED_CHARACTERS_MAX) }) },
  answers: { 200: { says: 'Her terms over that resource alone, or why there are none.', schema: QUOTE } },
  refuses: { 401: ['invalid_token'], 403: ['request_denied'], 404: ['not_found'] },
  handle: async (authority: RequestContext, { body, answer }) => {
    const request = await verifiedRequest(authority, body.request)
    return answer(200, await quote(authority, request))
  },
})

async function quote(authority: RequestContext, request: QuoteRequest): Promise<Quote> {
  const { owner, account, resource_id } = request
  const none = (because: Withheld): Quote => ({ owner, tier: null, because })
  const joint = await holderAccount(authority, request)
  if (joint === undefined) return none('not_agreed')
  if (!joint.isUnchanged) return none('mandate_changed')
  const of = { owner, client_id: jointServer(account), resource_id, resource_scopes: [] }
  const governed = await readGoverned(authority.database.of(owner), of)
  if (governed.fault !== undefined) return none(governed.code === 'clearance_unmet' ? 'clearance' : 'no_tier')
  const { tier_id, name, ask_me, terms } = governed.tier
  const { expires_in, scope, prohibited, per_operation } = terms
  return {
    owner,
    tier_id,
    tier: {
      name,
      resources: [resource_id],
      ask_me,
      terms: { expires_in, scope: [...scope], prohibited: [...prohibited], per_operation },
    },
  }
}
