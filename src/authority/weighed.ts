/**
 * An agreement once it was weighed, and how one that fails is refused: what granting and holding share.
 * Contract: "Agreement (claim_token, beat 3)", "Errors" (agreement verification failures).
 */
import { missionOf, type Operation } from '../rules/agreement.ts'
import type { RequestFacts } from '../rules/conditions.ts'
import type { RequestAnswer } from '../rules/connection.ts'
import type { TierAnswer } from '../rules/tier.ts'
import { readConnection } from '../storage/connections.ts'
import { appendLedger, countRefusal } from '../storage/ledger.ts'
import type { StandingFacts } from '../storage/standing.ts'
import { endFamily, type FamilyRow } from '../storage/tickets.ts'
import type { Agreement } from '../wire/agreement.ts'
import type { Verified } from '../wire/jws.ts'
import { denied, type Answer } from './answers.ts'
import type { Authority } from './context.ts'
import type { Governed } from './governed.ts'
import type { Identified } from './identity.ts'

/** A verified agreement with everything that weighing it found: what granting or holding needs. */
export interface Weighed {
  family: FamilyRow
  governed: Governed & { fault?: undefined }
  agreement: Verified<Agreement>
  agent: Identified
  standing: StandingFacts
  /** What the tier's rules were given; kept in the ledger, so that a changed tier can be tried on it. */
  facts: RequestFacts
  tierAnswer: TierAnswer
  answer: RequestAnswer
  scopes: string[]
  /** Seconds the grant will live. */
  expiresIn: number
  operation: Operation | undefined
}

/** Why an agreement is refused. */
export interface Refused {
  code: string
  sentence: string
  /** Kept in the ledger beside the reason. */
  data?: Record<string, unknown>
}

/**
 * Ends the negotiation. An agent the owner knows gets its own ledger entry; strangers with free keys are
 * counted, one row per reason and minute.
 */
export async function refuseAgreement(
  authority: Authority,
  family: FamilyRow,
  agent: Identified | undefined,
  refused: Refused,
): Promise<Answer> {
  const { db } = authority.database
  const { owner } = family
  await endFamily(db, owner, family.family, 'denied')
  const known = agent !== undefined && (await readConnection(db, owner, agent.handle)) !== undefined
  if (!known) await countRefusal(db, owner, refused.code)
  else
    await appendLedger(db, owner, {
      kind: 'refused',
      family: family.family,
      handle: agent.handle,
      data: { reason: refused.code, resource_id: family.resource_id, ...refused.data },
    })
  return denied(refused.sentence)
}

/** The mission as the owner is shown it, if the agreement names one. */
export function shownMission(agreement: Verified<Agreement>): { approver: string; s256: string } | null {
  return missionOf(agreement.claims) ?? null
}
