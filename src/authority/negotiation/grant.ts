/**
 * Makes a grant: RPT and receipt are signed first. Then one transaction records them, from the connection row
 * at the generation under which the decision was made. Contract: "Grant answer (beat 4)", "RPT claims".
 */
import type { Db, Tx } from '../../storage/authority/database.ts'
import { keepFacts, type GrantBasis } from '../../rules/grant.ts'
import { GrantsFull, recordGrant, type NewGrant } from '../../storage/authority/grants/issue.ts'
import {
  recordWithin,
  type WithinFault,
  type WithinOutcome,
} from '../../storage/authority/grants/issue-allowance.ts'
import { appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import { endFamily } from '../../storage/authority/negotiations/tickets.ts'
import { addOperator } from '../../storage/authority/connections/operators.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Signer } from '../../surface/issuer.ts'
import { grantContent, signGrant } from '../../surface/token/grant.ts'
import type { Decision } from '../../surface/token/negotiation.ts'
import { s256 } from '../../wire/encoding.ts'
import { admitIntroduced, introductionStands } from '../agents/introductions.ts'
import type { LedgerLog, Limits, Store } from '../context.ts'
import type { OrganizationAnswer } from './organization.ts'
import { newOperator, shownMission, type Assessment } from './presentation.ts'

/** What a grant from a weighed agreement rests on. */
export function basisOf(assessment: Assessment): GrantBasis {
  const { family, governed, agent, answer } = assessment
  return {
    ...grantContent({
      ...assessment,
      ...governed,
      handle: agent.handle,
      singleUse: answer.kind !== 'deny' && answer.singleUse,
    }),
    ...keepFacts({ ...governed, connection: assessment.standing }),
    tier_id: governed.tier.tier_id,
    resource_scopes: [...family.resource_scopes],
    operator: agent.operator ?? null,
    ...(assessment.organizationEpochs === undefined ? {} : { organization: assessment.organizationEpochs }),
    ...clearanceOf(assessment.consulted),
    facts: { assurance: assessment.facts.assurance, request: assessment.facts.request },
  }
}

/** The part of an attestation that a grant carries: the attestation itself stays with the owner. */
export function clearanceOf({ attested }: OrganizationAnswer): Pick<GrantBasis, 'clearance'> {
  return attested === undefined ? {} : { clearance: s256(attested.compact) }
}

/**
 * Grants at once: the connection is known, or an introduction makes it, and the tier asks nothing.
 * 'facts-moved' if the connection (or the introducer's) was revoked or admitted again since its standing was
 * read, the operator blocked, or the tier, its resource, its allowance or the resource server changed;
 * 'beyond' if the allowance has no room any more. Then no grant was made.
 */
export async function grantNow(authority: Granting, assessment: Assessment): Promise<Decision | WithinFault> {
  try {
    return await grantOf(authority, assessment)
  } catch (error) {
    if (!(error instanceof GrantsFull)) throw error
    const { owner, family } = assessment.family
    authority.quotas.reached('grants')
    await endFamily(authority.database.of(owner), owner, family, 'denied')
    // An introduced agent is not connected yet.
    const handle = assessment.introducer === undefined ? assessment.agent.handle : undefined
    await authority.refusals.count(owner, family, { reason: GRANTS_FULL, handle })
    const sentence =
      'The owner has as many live grants as one owner may have here: ask again once some have expired.'
    return { kind: 'refused', sentence, reason: GRANTS_FULL, status: 429 }
  }
}

/**
 * The same by what is presumed of an allowance: nothing is told of it unless it is a grant. 'facts-moved'
 * also if the owner has as many live grants as she may have, because that may not be what refuses it.
 */
export async function grantPresumed(
  authority: Granting,
  assessment: Assessment,
): Promise<Decision | WithinFault> {
  try {
    return await grantOf(authority, assessment)
  } catch (error) {
    if (error instanceof GrantsFull) return 'facts-moved'
    throw error
  }
}

/** What granting needs. */
export type Granting = Signer & Store & Limits & Pick<LedgerLog, 'checkpoints'>

const GRANTS_FULL = 'too_many_grants'

async function grantOf(authority: Granting, assessment: Assessment): Promise<Decision | WithinFault> {
  const most = authority.limits.grantsPerOwner
  const db = authority.database.of(assessment.family.owner)
  if (!(await operatorStands(db, assessment))) return 'facts-moved'
  const now = authority.now()
  const basis = { ...basisOf(assessment), expires_in: expiresInOf(assessment, now) }
  if (basis.expires_in < 1) return 'facts-moved'
  const { signed, body } = signGrant(authority, basis, now)
  const grant = { ...basis, ...signed }
  const generation = assessment.standing.generation ?? -1
  const outcome =
    assessment.introducer === undefined
      ? await recordOf(db, assessment, { ...grant, generation }, most)
      : await inTransaction(db, tx => grantIntroduced(tx, assessment, grant, most)).catch(notRecorded)
  return outcome === 'recorded' ? { kind: 'granted', body } : outcome
}

/** Seconds that the grant lives: an allowance may end it sooner than the agreement does. */
function expiresInOf({ expiresIn, within }: Assessment, now: number): number {
  return within === undefined ? expiresIn : Math.min(expiresIn, within.latest - now)
}

/** Records the grant, and what it takes of the allowance that its tier names. */
// oxlint-disable-next-line eslint/max-params -- in which database, on what, what, and how many there may be
async function recordOf(
  db: Db | Tx,
  assessment: Assessment,
  grant: NewGrant,
  most: number,
): Promise<WithinOutcome> {
  const { within } = assessment
  const entries = promiseOf(assessment)
  if (within !== undefined) return recordWithin(db, { grant, entries, most, share: within.share })
  return (await recordGrant(db, grant, entries, most)) ? 'recorded' : 'facts-moved'
}

/**
 * Records the operator on the agent's connection, once for each, so that a block of an operator that attests
 * the agent will find the connection.
 */
async function operatorStands(db: Db, assessment: Assessment): Promise<boolean> {
  const { agent, standing, family } = assessment
  const origin = newOperator(agent, standing)
  if (origin === undefined) return true
  const { handle, operatorName: name } = agent
  const beside = { owner: family.owner, handle, generation: standing.generation!, origin, name }
  return inTransaction(db, tx => addOperator(tx, beside))
}

/** Throws if the grant cannot be written, because then its connection must not be written either. */
// oxlint-disable-next-line eslint/max-params -- in which transaction, on what, what, and how many there may be
async function grantIntroduced(
  tx: Tx,
  assessment: Assessment,
  grant: Omit<NewGrant, 'generation'>,
  most: number,
): Promise<WithinOutcome> {
  if (!(await introductionStands(tx, assessment))) return 'facts-moved'
  const generation = await admitIntroduced(tx, assessment)
  const outcome = await recordOf(tx, assessment, { ...grant, generation }, most)
  if (outcome === 'beyond') throw new BeyondAllowance()
  if (outcome !== 'recorded') throw new FactsMoved()
  return outcome
}

/** Rolls back a transaction that found a changed fact. */
export class FactsMoved extends Error {}
/** Rolls back a transaction that found no room in an allowance. */
class BeyondAllowance extends Error {}

function notRecorded(error: unknown): WithinFault {
  if (error instanceof BeyondAllowance) return 'beyond'
  if (error instanceof FactsMoved) return 'facts-moved'
  throw error
}

/** Writes to the ledger the promise under which a request was held. */
export async function recordPromise(tx: Tx, assessment: Assessment): Promise<void> {
  const { owner, family } = assessment.family
  const { handle } = assessment.agent
  const { resource_id: about } = assessment.family
  const entries = promiseOf(assessment).map(entry => ({ ...entry, family, handle, about }))
  await appendLedgerAll(tx, owner, entries)
}

/**
 * `promised`, with what the agent gave as its reason and mission, and `relaxed` if a rule let through what
 * the tier would have asked about.
 */
function promiseOf(
  assessment: Assessment,
): { kind: 'promised' | 'relaxed'; data: Record<string, unknown> }[] {
  const { family, agreement, governed, facts, tierAnswer, answer } = assessment
  const { attested, ruling } = assessment.consulted
  const { tier_id, ask_me } = governed.tier
  const promised = {
    resource_id: family.resource_id,
    tier: tier_id,
    template_id: assessment.template.template_id,
    agreement: agreement.hash,
    effect: answer.kind,
    scopes: assessment.scopes,
    because: tierAnswer.because,
    reason: agreement.claims.reason ?? null,
    mission: shownMission(agreement),
    ...(family.identity === null ? {} : { identity_assertion: family.identity.s256 }),
    facts,
    ...(ruling === undefined ? {} : { organization: ruling }),
    ...(attested === undefined ? {} : { clearance: attested.compact }),
  }
  const { share, amounts } = assessment.within ?? {}
  const allowance = share && { id: share.allowance, version: share.version, amounts }
  const relaxed = { tier: tier_id, because: tierAnswer.because, ...(allowance && { allowance }) }
  return [
    { kind: 'promised', data: promised },
    ...(answer.kind === 'grant' && ask_me ? [{ kind: 'relaxed' as const, data: relaxed }] : []),
  ]
}
