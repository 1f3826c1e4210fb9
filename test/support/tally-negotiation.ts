/**
 * Owns negotiating with a tally step by step, as an agent and the resource server that it calls would, so
 * that a test can do something in between. Through real sockets; each step at whichever replica a test names.
 */
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { GRANT_TYPE_UMA_TICKET } from '../../src/wire/names.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import type { Reply } from './authority.ts'
import type { TestTally } from './tally.ts'
import { AGREEMENT_FORMAT } from './test-agent.ts'
import { until } from './until.ts'

export interface Offer {
  ticket: string
  template: TermsTemplate
}

/** A replica, as it is reached. */
type Reached = Pick<TestTally, 'request' | 'pat'>

export interface Negotiating {
  ticket(resource_id?: string, scope?: string): Promise<string>
  present(ticket: string, form?: Record<string, string>, at?: Reached): Promise<Reply>
  offer(resource_id?: string): Promise<Offer>
  agree(offer: Offer, claims?: object, at?: Reached): Promise<Reply>
  /** Polls until something other than waiting is answered. */
  settled(reply: Reply, at?: Reached): Promise<Reply>
  /** Ticket, offer, agreement and polls. */
  ask(resource_id?: string, claims?: object): Promise<Reply>
  /** A protection API call with the PAT of the tools. */
  protection(path: string, body: object, at?: Reached): Promise<Reply>
}

/** An agent at a tally; unless another replica is named, requests go to this one. */
export function negotiating(tally: TestTally, agent: PrivateKey): Negotiating {
  const steps: Negotiating = {
    protection: async (path, sent, at = tally) =>
      at.request(path, {
        method: 'POST',
        headers: { authorization: `Bearer ${await at.pat()}`, 'content-type': 'application/json' },
        body: JSON.stringify(sent),
      }),
    ticket: async (resource_id = 'family-1/savings', scope = 'read') => {
      const reply = await steps.protection('/perm', { resource_id, resource_scopes: [scope] })
      if (reply.status !== 201) throw new Error(`/perm answered ${reply.status} ${reply.text}`)
      return reply.body.ticket as string
    },
    present: (ticket, form = {}, at = tally) =>
      at.request('/token', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ grant_type: GRANT_TYPE_UMA_TICKET, ticket, ...form }).toString(),
      }),
    offer: async resource_id => {
      const reply = await steps.present(await steps.ticket(resource_id))
      if (reply.body.error !== 'need_info') throw new Error(`beat 2 answered ${reply.status} ${reply.text}`)
      return { ticket: reply.body.ticket, template: reply.body.required_claims[0].terms_template }
    },
    agree: ({ ticket, template }, claims = {}, at) => {
      const aud = tally.environment['UMA_TALLY_ISSUER']!
      const signed = {
        claim_token: claimToken(agent, aud, { ...template, ...claims }),
        claim_token_format: AGREEMENT_FORMAT,
      }
      return steps.present(ticket, signed, at)
    },
    settled: async (first, at) => {
      let reply = first
      await until(async () => {
        if (reply.body.error === 'request_submitted') reply = await steps.present(reply.body.ticket, {}, at)
        return reply.body.error !== 'request_submitted'
      })
      return reply
    },
    ask: async (resource_id, claims) =>
      steps.settled(await steps.agree(await steps.offer(resource_id), claims)),
  }
  return steps
}

function claimToken(key: PrivateKey, aud: string, claims: object): string {
  const iat = Math.floor(Date.now() / 1000)
  const payload = { iss: `agent:${key.thumbprint}`, aud, iat, ...claims }
  const header = { jwk: key.jwk }
  return encodeBase64url(signJws({ typ: 'myterms-agreement-v1+jws', kid: false, header, payload }, key))
}
