/** Owns what a tally asks of a holder's server, signed as a test wants it. */
import { signAgreement } from '../../src/wire/agreement.ts'
import { decodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { asFamily } from '../../src/wire/identifiers.ts'
import type { PrivateKey } from '../../src/wire/keys.ts'
import type { TermsTemplate } from '../../src/wire/terms.ts'
import { signTallyRequest, type QuoteRequest, type VerdictRequest } from '../../src/wire/verdict.ts'
import type { Reply } from './authority.ts'
import { ACCOUNT, SAVINGS, type JointStand } from './joint-holder.ts'

/** Claims of a request of the stand's tally about bea's part in the savings, some exchanged. */
export function askedOf(stand: JointStand, changes: object = {}): QuoteRequest {
  const iat = Math.floor(Date.now() / 1_000)
  return {
    iss: stand.tally,
    aud: stand.authority.issuer,
    owner: stand.bea.owner,
    account: ACCOUNT as QuoteRequest['account'],
    resource_id: SAVINGS,
    iat,
    exp: iat + 60,
    ...changes,
  }
}

/** Sends it, signed with the tally's key if no other is given. */
export function ask(
  stand: JointStand,
  to: 'quote' | 'verdict',
  claims: QuoteRequest | VerdictRequest,
  key: PrivateKey = stand.tallyKey,
): Promise<Reply> {
  return stand.authority.request('POST', `/joint/${to}`, {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: signTallyRequest(claims, key) }),
  })
}

let count = 0

/**
 * A question of the tally about an agreement of an agent, in a negotiation of its own, some of it exchanged.
 */
export function questionOf(
  stand: JointStand,
  agent: PrivateKey,
  terms: object = {},
  changes: object = {},
): VerdictRequest {
  const negotiation = asFamily(`fam_t${++count}`)
  const template = {
    template_id: `${ACCOUNT}/joint/v1`,
    terms_uri: `${stand.tally}/terms/${ACCOUNT}/joint/v1`,
    proffered_by: stand.tally,
    purpose: 'keeping the books',
    scope: ['read'],
    expires_in: 300,
    prohibited: ['passing it on'],
    resource_id: SAVINGS,
    family: negotiation,
    nonce: 'n1',
    ...terms,
  } as TermsTemplate
  const operation = { tool: 'pay', params: { to: 'dora' } }
  const iat = Math.floor(Date.now() / 1_000)
  const signed = decodeBase64url(
    signAgreement({ template, aud: stand.tally, iat, operation, ...terms }, agent),
  ).toString()
  return {
    ...askedOf(stand),
    negotiation,
    contract: s256(signed),
    agreement: signed,
    ...changes,
  }
}
