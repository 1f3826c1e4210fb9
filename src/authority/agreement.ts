/**
 * Beat 3: the agreement is verified, compared with the stored offer, weighed by the tier, and answered by a
 * grant, by holding it for the owner, or by a refusal. Contract: "Agreement (claim_token, beat 3)".
 */
import { agreementFault, absencesOf, operationOf } from '../rules/agreement.ts'
import { consequenceFact, type RequestFacts } from '../rules/conditions.ts'
import { answerFor } from '../rules/connection.ts'
import { grantScope } from '../rules/permission.ts'
import { evaluateTier, type Rule } from '../rules/tier.ts'
import { isBlocked } from '../storage/connections.ts'
import { readStanding } from '../storage/standing.ts'
import type { FamilyRow } from '../storage/tickets.ts'
import type { Agreement } from '../wire/agreement.ts'
import type { Verified } from '../wire/jws.ts'
import { Refusal } from '../wire/refusal.ts'
import type { TermsTemplate } from '../wire/terms.ts'
import type { Answer } from './answers.ts'
import type { Authority } from './context.ts'
import type { Governed } from './governed.ts'
import { grantNow } from './grant.ts'
import { identify, weighIntroduction, type Identified } from './identity.ts'
import { holdForOwner } from './holding.ts'
import { refuseAgreement, type Refused, type Weighed } from './weighed.ts'

export const CLAIM_TOKEN_BYTES_MAX = 32 * 1024

const ATTEMPTS_MAX = 3

/** Answers a presented agreement. A fault of it ends the negotiation: 403 `request_denied` with a sentence. */
export async function presentAgreement(
  authority: Authority,
  family: FamilyRow,
  governed: Governed,
  claimToken: string,
): Promise<Answer> {
  if (governed.fault !== undefined) throw new Error('only a governed resource has terms to agree to')
  if (Buffer.byteLength(claimToken) > CLAIM_TOKEN_BYTES_MAX)
    return refuseAgreement(authority, family, undefined, {
      code: 'oversized',
      sentence: `claim_token: keep it within ${CLAIM_TOKEN_BYTES_MAX} bytes.`,
    })
  let agreement: Verified<Agreement>
  let agent: Identified
  try {
    ;({ agreement, agent } = identify(claimToken))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refuseAgreement(authority, family, undefined, {
      code: 'agreement_unverified',
      sentence: error.detail ?? 'The agreement could not be verified.',
    })
  }
  const fault = agreementFault(agreement.claims, family.template as TermsTemplate, {
    issuer: authority.issuer,
    now: authority.now(),
    maxReasonBytes: authority.limits.reasonBytesMax,
  })
  if (fault !== undefined)
    return refuseAgreement(authority, family, agent, { code: 'agreement_weakened', sentence: fault })
  const { introduction } = agreement.claims
  if (introduction !== undefined) {
    const of = { owner: family.owner, agreement, agent, introduction }
    const note = await weighIntroduction(authority, authority.database.db, of).catch(asSentence)
    if (typeof note !== 'string') return refuseAgreement(authority, family, agent, note)
    agent.notes.push(note)
  }
  return weighAndAnswer(authority, { family, governed, agreement, agent })
}

function asSentence(error: unknown): Refused {
  if (!(error instanceof Refusal)) throw error
  return {
    code: 'introduction_unverified',
    sentence: `introduction: ${error.detail ?? 'it could not be verified.'}`,
  }
}

/** Weighs, and does so again where the connection moved between reading the facts and committing the answer. */
async function weighAndAnswer(
  authority: Authority,
  presented: Pick<Weighed, 'family' | 'governed' | 'agreement' | 'agent'>,
): Promise<Answer> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const weighed = await weigh(authority, presented)
    if ('refused' in weighed)
      return refuseAgreement(authority, presented.family, presented.agent, weighed.refused)
    const answer =
      weighed.answer.kind === 'grant'
        ? await grantNow(authority, weighed)
        : await holdForOwner(authority, weighed)
    if (answer !== 'facts-moved') return answer
  }
  return refuseAgreement(authority, presented.family, presented.agent, {
    code: 'facts_moved',
    sentence: 'The connection kept changing while this was decided; start anew.',
  })
}

async function weigh(
  authority: Authority,
  presented: Pick<Weighed, 'family' | 'governed' | 'agreement' | 'agent'>,
): Promise<Weighed | { refused: Refused }> {
  const { family, governed, agreement, agent } = presented
  const { db } = authority.database
  const { tier, resource } = governed
  if (agent.operator !== undefined && (await isBlocked(db, family.owner, agent.operator)))
    return {
      refused: { code: 'operator_blocked', sentence: 'The owner has blocked the operator of this agent.' },
    }
  const standing = await readStanding(db, family.owner, {
    handle: agent.handle,
    tier_id: tier.tier_id,
    windowSeconds: authority.limits.trajectoryWindowSeconds,
    trajectory: asksTrajectory(tier.rules),
  })
  const agreed = agreement.claims.expires_in as number
  const expiresIn = Math.min(tier.terms.expires_in, agreed)
  const facts: RequestFacts = {
    connection: standing.status,
    standing: {
      approvedAtTier: standing.approvedAtTier,
      neverRevoked: standing.revocations === 0,
      firstParty: standing.first_party,
      ageSeconds: standing.ageSeconds ?? undefined,
      firstAtTier: !standing.grantedAtTier,
      revokedBefore: standing.revocations > 0,
      introduced: standing.introduced_by !== null,
      lineageNewAtTier: !standing.lineageGrantedAtTier,
      denials: standing.denials ?? undefined,
      tiers: standing.tiers ?? undefined,
      calls: standing.calls ?? undefined,
    },
    assurance: agent.assurance,
    request: {
      expiresInSeconds: expiresIn,
      ...absencesOf(agreement.claims),
      consequence: consequenceFact(resource.consequence),
    },
  }
  const tierAnswer = evaluateTier(tier, facts)
  const answer = answerFor(standing.status, tier, tierAnswer)
  if (answer.kind === 'deny')
    return {
      refused: {
        code: 'policy',
        sentence: "The owner's policy refuses this request.",
        data: { tier: tier.tier_id, because: tierAnswer.because, facts },
      },
    }
  const scopes = grantScope(family.resource_scopes, tier.terms.scope, agreement.claims.scope as string[])
  if (scopes.length === 0)
    return {
      refused: {
        code: 'no_scope',
        sentence: 'scope: nothing that the call needs is both offered and agreed.',
      },
    }
  const operation = operationOf(agreement.claims)
  return { ...presented, standing, facts, tierAnswer, answer, scopes, expiresIn, operation }
}

/** Whether a rule reads counts over the trajectory window, which cost more to gather than the rest. */
function asksTrajectory(rules: readonly Rule[]): boolean {
  return rules.some(rule =>
    rule.when.some(condition => /^standing\.(denials|tiers|calls)_above:/.test(condition)),
  )
}
