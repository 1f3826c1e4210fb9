/**
 * What an authority decides on an agreement: weighed by the tier, it is answered by a grant, by holding it
 * for the owner, or by a refusal. Contract: "Agreement (claim_token, beat 3)", "Policy vocabulary and tiers".
 */
import type { FamilyRow } from '../../storage/authority/tickets.ts'
import type { Signed } from '../../surface/agents/identity.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Agreed, Decision, Refused } from '../../surface/token/negotiation.ts'
import { Refusal } from '../../wire/refusal.ts'
import { namedIntroducer } from '../agents/introductions.ts'
import { withOperator } from '../agents/operators.ts'
import type { Authority } from '../context.ts'
import { weigh, type Weighing } from './evaluation.ts'
import { isSameTier, readGoverned, type Governed } from './governance.ts'
import { grantNow } from './grant.ts'
import { holdForOwner, type Holding } from './pending-request.ts'
import { refuseAgreement, type Presented } from './presentation.ts'
import type { Owner } from '../../wire/identifiers.ts'

const ATTEMPTS_MAX = 3

/** What learning of an agent asks. */
type Learning = Pick<Authority, 'database' | 'operators' | 'issuers' | 'issuer' | 'aliases' | 'now'>

/** What deciding takes: keys to sign with, and where the records are. */
export type Deciding = Signer & Learning & Weighing & Holding

/**
 * Decides on an agreement. 'terms-changed' where the owner edited the tier while documents of others were
 * read, or while the answer was committed: nothing was written, and the terms are to be offered anew.
 */
export async function decide(
  authority: Deciding,
  { deadline, ...agreed }: Agreed<FamilyRow, Governed>,
): Promise<Decision> {
  const { family, agent } = agreed
  // Everything of others is read before the transaction that commits an answer.
  const learnt = await learn(authority, family.owner, agreed, deadline)
  if ('refused' in learnt) return refuseAgreement(authority, family, agent, learnt.refused)
  return weighAndAnswer(authority, { ...agreed, ...learnt })
}

/** Everything that others have to say of the agent: who introduces it, and what its operator publishes. */
async function learn(
  authority: Learning,
  owner: Owner,
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

/**
 * Weighs, and does so again where a fact moved between being read and committing the answer that rests on it.
 */
async function weighAndAnswer(authority: Deciding, first: Presented): Promise<Decision> {
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
    // The rest may have moved within the same terms.
    const governed = await readGoverned(authority.database.db, presented.family)
    if (governed.fault !== undefined || !isSameTier(governed, presented.governed))
      return { kind: 'terms-changed' }
    presented = { ...presented, governed }
  }
  return refuseAgreement(authority, presented.family, presented.agent, {
    code: 'facts_moved',
    sentence: 'The connection kept changing while this was decided; start anew.',
  })
}
