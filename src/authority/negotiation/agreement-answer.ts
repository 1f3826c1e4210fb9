/**
 * An authority's decision on an agreement: the tier weighs it, and the answer is a grant, a request that
 * waits for the owner, or a refusal. Contract: "Agreement (claim_token, beat 3)", "Policy vocabulary and
 * tiers".
 */
import type { FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import type { Signed } from '../../surface/agents/identity.ts'
import type { Agreed, Decision, Refused } from '../../surface/token/negotiation.ts'
import { s256Json } from '../../wire/encoding.ts'
import { Refusal } from '../../wire/refusal.ts'
import { namedIntroducer } from '../agents/introductions.ts'
import { withOperator } from '../agents/operators.ts'
import type { DecisionContext, RequestContext } from '../context.ts'
import { presumedUse, rememberUse } from './allowance-presumption.ts'
import { readRecord, weigh } from './evaluation.ts'
import { isSameTier, readGoverned, type Governed } from './governance.ts'
import { grantNow, grantPresumed } from './grant.ts'
import { vouchedFault } from './identity.ts'
import { askOrganization, type OrganizationQuestion, type OrganizationAnswer } from './organization.ts'
import { holdForOwner } from './pending-request.ts'
import {
  newOperator,
  refuseAgreement,
  type TicketPresentation,
  type RecordedPresentation,
} from './presentation.ts'
import type { Owner } from '../../wire/identifiers.ts'

const ATTEMPTS_MAX = 3

/**
 * Decides on an agreement. 'terms-changed' if the owner edited the tier while documents of others were read,
 * or while the answer was committed: nothing was written, and the terms must be offered again.
 */
export async function answerAgreement(
  authority: DecisionContext,
  { deadline, ...agreed }: Agreed<FamilyRow, Governed>,
): Promise<Decision> {
  const { family, agent } = agreed
  // Everything that others publish is read before the transaction that commits an answer.
  const findings = await learn(authority, family.owner, agreed, deadline)
  if ('refused' in findings) return refuseAgreement(authority, family, agent, findings.refused)
  return weighAndAnswer(authority, { ...agreed, ...findings }, deadline)
}

/** Everything that others say about the agent: who introduces it, and what its operator publishes. */
async function learn(
  authority: RequestContext,
  owner: Owner,
  signed: Signed,
  deadline: number,
): Promise<Pick<TicketPresentation, 'agent' | 'named'> | { refused: Refused }> {
  try {
    const named = await namedIntroducer(authority, owner, signed, deadline)
    const otherKeys = named?.jkt === undefined ? [] : [named.jkt]
    const of = { otherKeys, deadline, agreed: signed.agreement.claims }
    return { named, agent: await withOperator(authority, owner, signed.agent, of) }
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 'temporarily_unavailable') throw error
    const why = error.detail ?? 'it could not be verified.'
    return { refused: { code: 'introduction_unverified', sentence: `introduction: ${why}` } }
  }
}

/**
 * Weighs, and weighs again if a fact changed between being read and committing the answer that rests on it.
 * An organization is asked only the first time. What was beyond an allowance when it was to be issued stays
 * beyond it, so that nobody waits for others to give back. What is presumed of an allowance is tried once,
 * and counts for no attempt.
 */
async function weighAndAnswer(
  authority: DecisionContext,
  first: TicketPresentation,
  deadline: number,
): Promise<Decision> {
  let presented = first
  let before: OrganizationAnswer | undefined
  let wasBeyond = false
  let presumed = presumedUse(authority, presented)
  let attemptsMax = presumed === undefined ? ATTEMPTS_MAX : ATTEMPTS_MAX + 1
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const unvouched = vouchedFault(presented)
    if (unvouched !== undefined)
      return refuseAgreement(authority, presented.family, presented.agent, unvouched)
    const isPresumed = presumed !== undefined
    const recorded = await readRecord(authority, presented, { wasBeyond, presumed })
    presumed = undefined
    if (!isPresumed) rememberUse(authority.database, recorded)
    before = await askOrganization(authority, presented.governed, askingOf(recorded), { before, deadline })
    const assessment = weigh(recorded, before)
    if (isPresumed && !isProvedByGrant(assessment)) continue
    if ('refused' in assessment)
      return refuseAgreement(authority, presented.family, presented.agent, assessment.refused)
    const answer =
      assessment.answer.kind === 'grant'
        ? await (isPresumed ? grantPresumed : grantNow)(authority, assessment)
        : await holdForOwner(authority, assessment)
    if (answer !== 'facts-moved' && answer !== 'beyond') return answer
    if (answer === 'beyond' && !wasBeyond) attemptsMax++
    wasBeyond ||= answer === 'beyond'
    // Other facts may have changed while the terms stayed the same.
    const { family } = presented
    const governed = await readGoverned(authority.database.of(family.owner), family)
    if (governed.fault !== undefined || !isSameTier(governed, presented.governed))
      return { kind: 'terms-changed' }
    presented = { ...presented, governed }
  }
  return refuseAgreement(authority, presented.family, presented.agent, {
    code: 'facts_moved',
    sentence: 'The connection kept changing while this was decided; start again.',
  })
}

/**
 * Nothing but a grant may rest on what is presumed of an allowance, because nothing else proves it. A new
 * operator is put on the agent's record before its grant is written.
 */
function isProvedByGrant(assessment: ReturnType<typeof weigh>): boolean {
  if ('refused' in assessment || assessment.answer.kind !== 'grant') return false
  return newOperator(assessment.agent, assessment.standing) === undefined
}

function askingOf(recorded: RecordedPresentation): OrganizationQuestion {
  const { family, scopes, expiresIn, facts, standing, operation } = recorded
  const named = operation && { tool: operation.tool, params_s256: s256Json(operation.params) }
  return {
    resource_id: family.resource_id,
    scopes,
    expires_in: expiresIn,
    facts,
    standing,
    firstParty: facts.standing.firstParty === true,
    operation: named ?? null,
  }
}
