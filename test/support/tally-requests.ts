/** Owns what a tally asks of a holder's server, signed as a test wants it. */
import { beforeEach, expect } from 'vitest'
import { signAgreement } from '../../src/wire/negotiation/agreement.ts'
import { decodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { asFamily } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { signTallyRequest, type QuoteRequest, type VerdictRequest } from '../../src/wire/joint/verdict.ts'
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

/** bea, whom the stand's tally asks about an agent. */
export interface AskedHolder {
  /** Another one in each test. */
  agent: PrivateKey
  /** From now on it is another one. */
  stranger: () => void
  /** A question of the tally about an agreement of the agent, some of either exchanged. */
  question: (terms?: object, changes?: object) => VerdictRequest
  asked: (claims: VerdictRequest) => Promise<Reply>
  /** What waits for her. */
  pending: () => Promise<Record<string, unknown>[]>
  decide: (family: unknown, decision?: 'approved' | 'denied') => Promise<Reply>
  /** The agent is let in for the account by her yes to one question. */
  known: () => Promise<void>
}

/** In each test she agrees to the mandate, and offers terms. */
export function askedHolder(stand: JointStand): AskedHolder {
  const newAgent = (): PrivateKey => importPrivateJwk(generatePrivateJwk())
  const she: AskedHolder = {
    agent: newAgent(),
    stranger: () => void (she.agent = newAgent()),
    question: (terms, changes) => questionOf(stand, she.agent, terms, changes),
    asked: claims => ask(stand, 'verdict', claims),
    pending: async () => (await stand.authority.call(stand.bea, { target: '/owner/pending' })).body,
    decide: (family, decision = 'approved') =>
      stand.authority.call(stand.bea, {
        method: 'POST',
        target: `/owner/pending/${String(family)}/decision`,
        json: { decision },
      }),
    known: async () => {
      const first = she.question()
      const { body } = await she.asked({ ...first, final: false })
      expect((await she.decide(body.family)).status).toBe(200)
      expect((await she.asked(first)).body.verdict).toBeDefined()
    },
  }
  beforeEach(async () => {
    she.stranger()
    await stand.agreed()
    await stand.tier()
  })
  return she
}
