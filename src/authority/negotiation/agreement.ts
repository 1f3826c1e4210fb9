/**
 * Beat 3: the agreement is verified, compared with the stored offer, weighed by the tier, and answered by a
 * grant, by holding it for the owner, or by a refusal. Contract: "Agreement (claim_token, beat 3)".
 */
import { agreementFault } from '../../rules/agreement.ts'
import type { FamilyRow } from '../../storage/authority/tickets.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { TermsTemplate } from '../../wire/terms.ts'
import type { Answer, Refused } from './answers.ts'
import type { Authority } from '../context.ts'
import { isSameTier, readGoverned, type Governed } from './governed.ts'
import { grantNow } from './grant.ts'
import { identify, REMOTE_MS_MAX, withOperator, type Signed } from '../agents/identity.ts'
import { namedIntroducer } from '../agents/introductions.ts'
import { holdForOwner } from './pending-request.ts'
import { refuseAgreement, type Presented } from './presentation.ts'
import { weigh } from './evaluation.ts'

export const CLAIM_TOKEN_BYTES_MAX = 32 * 1024

const ATTEMPTS_MAX = 3

/**
 * Answers a presented agreement. A fault of it ends the negotiation: 403 `request_denied` with a sentence. 'terms-changed'
 * where the owner edited the tier while documents of others were read, or while the answer was committed: nothing was
 * written, and the terms are to be offered anew.
 */
export async function presentAgreement(
  authority: Authority,
  family: FamilyRow,
  governed: Governed,
  claimToken: string,
): Promise<Answer | 'terms-changed'> {
  if (governed.fault !== undefined) throw new Error('only a governed resource has terms to agree to')
  if (Buffer.byteLength(claimToken) > CLAIM_TOKEN_BYTES_MAX)
    return refuseAgreement(authority, family, undefined, {
      code: 'oversized',
      sentence: `claim_token: keep it within ${CLAIM_TOKEN_BYTES_MAX} bytes.`,
    })
  const deadline = Date.now() + REMOTE_MS_MAX
  const signed = await identify(authority, claimToken, deadline)
  if ('fault' in signed) return refuseAgreement(authority, family, undefined, signed.fault)
  const fault = agreementFault(signed.agreement.claims, family.template as TermsTemplate, {
    issuer: authority.issuer,
    now: authority.now(),
    maxReasonBytes: authority.limits.reasonBytesMax,
  })
  if (fault !== undefined)
    return refuseAgreement(authority, family, signed.agent, { code: 'agreement_weakened', sentence: fault })
  const learnt = await learn(authority, family.owner, signed, deadline)
  if ('refused' in learnt) return refuseAgreement(authority, family, signed.agent, learnt.refused)
  return weighAndAnswer(authority, { family, governed, agreement: signed.agreement, ...learnt })
}

/** Everything that others have to say of the agent: who introduces it, and what its operator publishes. */
async function learn(
  authority: Authority,
  owner: string,
  signed: Signed,
  deadline: number,
): Promise<Pick<Presented, 'agent' | 'named'> | { refused: Refused }> {
  try {
    const named = await namedIntroducer(authority, owner, signed, deadline)
    const introducerJkt = named !== undefined && 'jkt' in named ? named.jkt : undefined
    const otherKeys = introducerJkt === undefined ? [] : [introducerJkt]
    return { named, agent: await withOperator(authority, owner, signed.agent, { otherKeys, deadline }) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const why = error.detail ?? 'it could not be verified.'
    return { refused: { code: 'introduction_unverified', sentence: `introduction: ${why}` } }
  }
}

/** Weighs, and does so again where a fact moved between being read and committing the answer that rests on it. */
async function weighAndAnswer(authority: Authority, first: Presented): Promise<Answer | 'terms-changed'> {
  let presented = first
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const weighed = await weigh(authority, presented)
    if ('refused' in weighed)
      return refuseAgreement(authority, presented.family, presented.agent, weighed.refused)
    const answer =
      weighed.answer.kind === 'grant'
        ? await grantNow(authority, weighed)
        : await holdForOwner(authority, weighed)
    if (answer !== 'facts-moved') return answer
    const governed = await readGoverned(authority.database.db, presented.family)
    if (governed.fault !== undefined || !isSameTier(governed, presented.governed)) return 'terms-changed'
    presented = { ...presented, governed }
  }
  return refuseAgreement(authority, presented.family, presented.agent, {
    code: 'facts_moved',
    sentence: 'The connection kept changing while this was decided; start anew.',
  })
}
