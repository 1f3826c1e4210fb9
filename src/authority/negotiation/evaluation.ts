/**
 * Weighs a verified agreement: the owner's record of the agent and of its introducer, the tier's rules on
 * those facts, and the result. Only reads; what others publish was fetched before. Contract: "Agreement
 * (claim_token, beat 3)", "Policy vocabulary and tiers".
 */
import { absencesOf, operationOf, type Operation } from '../../rules/agreement.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import { consequenceFact, parseCondition, type RequestFacts } from '../../rules/conditions.ts'
import { answerFor, OPERATORS_PER_CONNECTION_MAX } from '../../rules/connection.ts'
import { underApproval } from '../../rules/organization/tier-ceiling.ts'
import { mayDelegateTo, type OrganizationEpochs } from '../../rules/organization/membership.ts'
import { NOT_DELEGATED, POLICY_REFUSES } from '../../rules/grant.ts'
import { jointAccountOf } from '../../rules/joint/joint.ts'
import { grantScope, operationConsequence } from '../../rules/permission.ts'
import { ORGANIZATION_WORD, refusalWords, underRuling } from '../../rules/organization/ruling.ts'
import { evaluateTier, type Rule, type TierRules } from '../../rules/tier.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { GovernedReading } from '../../storage/authority/negotiations/governance.ts'
import { readOrganizationEpochs, type Membership } from '../../storage/authority/membership/membership.ts'
import { readStanding, type StandingReading } from '../../storage/authority/negotiations/standing.ts'
import type { AllowanceUse } from '../../storage/authority/policies/allowance-windows.ts'
import type { Identified } from '../../surface/agents/identity.ts'
import type { Refused } from '../../surface/token/negotiation.ts'
import { weighIntroduction } from '../agents/introductions.ts'
import type { Limits, Store } from '../context.ts'
import { findAllowance, operationToWeigh } from './allowance.ts'
import { CLEARANCE_UNMET, SCOPE_ABOVE_CEILING, type Governed } from './governance.ts'
import type { OrganizationAnswer } from './organization.ts'
import {
  newOperator,
  type NamedIntroducer,
  type TicketPresentation,
  type RecordedPresentation,
  type Assessment,
} from './presentation.ts'

/** The agent also gets the code for it. */
export const ORGANIZATION_REFUSES = 'The organization that governs this resource refuses this request.'

/**
 * What her records say about an agreement now. `wasBeyond`: an allowance had no room any more when a grant
 * within it was to be issued. `presumed`: the allowance is not read, but presumed to be used so.
 */
export async function readRecord(
  { database, limits }: Store & Limits,
  presented: TicketPresentation,
  { wasBeyond = false, presumed }: { wasBeyond?: boolean; presumed?: AllowanceUse | undefined } = {},
): Promise<RecordedPresentation> {
  const { family, governed, agreement, agent } = presented
  const { tier, resource, organization } = governed
  const db = database.of(family.owner)
  const { introducer, notes } = await acceptIntroducer(db, presented)
  // Read before the organization's revocations, so that a later revocation changes an epoch that was read.
  const organizationEpochs = await epochsOf(db, presented)
  const toWeigh = operationToWeigh(presented)
  const standing = await readStanding(db, family.owner, {
    handle: agent.handle,
    jkt: agent.jkt,
    tier_id: tier.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: trajectoryCountTo(tier.rules),
    introducedBy: introducer?.handle,
    operator: agent.operator,
    membership: organization?.join_id,
    joint: jointAccountOf(family.client_id),
    allowance:
      presumed === undefined ? toWeigh && { id: toWeigh.id, resource_id: resource.resource_id } : undefined,
  })
  const use = presumed ?? standing.allowanceUse
  const { operation, within } = findAllowance(presented, toWeigh, { use, wasBeyond })
  const expiresIn = Math.min(tier.terms.expires_in, agreement.claims['expires_in'] as number)
  return {
    ...presented,
    organizationEpochs,
    notes,
    introducer,
    standing,
    facts: { ...factsOf(presented, standing, expiresIn), ...(operation && { operation }) },
    within,
    scopes: grantScope(family.resource_scopes, tier.terms.scope, agreement.claims['scope'] as string[]),
    expiresIn,
    operation: operationOf(agreement.claims),
  }
}

/** The answer to the request, by that and by the organization's answer; or why it is refused. */
export function weigh(
  recorded: RecordedPresentation,
  consulted: OrganizationAnswer,
): Assessment | { refused: Refused } {
  const { governed, agent, standing, facts, scopes } = recorded
  const { tier } = governed
  const refused = refusedForOperator(agent, standing) ?? refusedByOrganization(recorded, consulted)
  if (refused !== undefined) return { refused }
  const ownAnswer = evaluateTier(rulesFor(underMembership(tier, governed), standing), facts)
  const tierAnswer = consulted.ruling === undefined ? ownAnswer : underRuling(ownAnswer, consulted.ruling)
  const answer = answerFor(standing.status, tier, tierAnswer)
  if (answer.kind === 'deny')
    return {
      refused: {
        code: 'policy',
        // The same whichever rule it was: what is beyond an allowance looks like anything else she refuses.
        reason: POLICY_REFUSES,
        sentence: "The owner's policy refuses this request.",
        data: {
          tier: tier.tier_id,
          because: tierAnswer.because,
          facts,
          ...(consulted.ruling && { organization: consulted.ruling }),
        },
      },
    }
  if (answer.kind === 'grant' && recorded.within === undefined && allowancesIn(tier.rules).length > 0)
    throw new Error('A tier that names an allowance lets through only what is within it.')
  if (scopes.length === 0)
    return {
      refused: {
        code: 'no_scope',
        reason: isAboveCeiling(recorded) ? SCOPE_ABOVE_CEILING : undefined,
        sentence: 'scope: nothing that the call needs is both offered and agreed.',
      },
    }
  return { ...recorded, tierAnswer, answer, consulted }
}

/** Whether the organization allows none of the scopes that the call needs, whatever her terms offer. */
function isAboveCeiling({ family, governed: { organization } }: RecordedPresentation): boolean {
  const allowed = organization?.view.allowed_scopes ?? null
  return allowed !== null && !family.resource_scopes.some(scope => allowed.includes(scope))
}

/** What a grant on a resource of her own depends on, if a clearance was checked for it. */
export function ownEpochs({ org_epoch }: Membership): OrganizationEpochs {
  return { membership: org_epoch, handle: null, operator: null }
}

/** The organization's refusals, and what it does not attest, beside the answer of her own tier. */
function refusedByOrganization(
  { governed: { organization, tier }, facts }: RecordedPresentation,
  { ruling, unmet }: OrganizationAnswer,
): Refused | undefined {
  if (
    organization !== undefined &&
    !mayDelegateTo(organization, { first_party: facts.standing.firstParty === true })
  )
    return { code: 'not_delegated', ...NOT_DELEGATED }
  if (unmet) {
    const { code, fault: sentence, reason } = CLEARANCE_UNMET
    return { code, sentence, reason }
  }
  if (ruling?.effect !== 'refuse') return undefined
  const because = ruling.because.map(word => ORGANIZATION_WORD + word)
  const data = { tier: tier.tier_id, because, facts, organization: ruling }
  return { ...refusalWords(ruling), sentence: ORGANIZATION_REFUSES, data }
}

/** The rules of the tier that count at the resource. */
function underMembership(tier: TierRules, { organization, resource }: Governed): TierRules {
  return organization === undefined ? tier : underApproval(tier, resource.resource_id, organization)
}

/**
 * If an organization governs the resource, what it did about the agent and the operator. If a clearance is
 * asked for on a resource of her own, what a grant depends on.
 */
async function epochsOf(
  db: Db,
  { family, governed: { organization, attesting }, agent }: TicketPresentation,
): Promise<OrganizationEpochs | undefined> {
  if (organization === undefined) return attesting && ownEpochs(attesting)
  const of = { handle: agent.handle, operator: agent.operator ?? null }
  return {
    membership: organization.org_epoch,
    ...(await readOrganizationEpochs(db, family.owner, of)),
  }
}

/**
 * The tier for this agent. If somebody other than the owner let it in, no rule relaxes anything, because
 * relaxing needs her own approval. If she let it in for one tier alone, it asks before the first grant at any
 * other.
 */
export function rulesFor(
  tier: TierRules,
  { narrow, forOneTier }: Pick<StandingReading, 'narrow' | 'forOneTier'>,
): TierRules {
  const rules = narrow ? tier.rules.filter(({ then }) => then !== 'auto') : tier.rules
  return { ...tier, rules: forOneTier ? [...rules, FIRST_AT_TIER_ASKS] : rules }
}

const FIRST_AT_TIER_ASKS: TierRules['rules'][number] = { when: ['standing.first_at_tier'], then: 'ask' }

/** How a request is refused whose agent or operator the owner blocked. */
export const BLOCKED = {
  agent: { code: 'agent_blocked', sentence: 'The owner has blocked this agent.' },
  operator: { code: 'operator_blocked', sentence: 'The owner has blocked the operator of this agent.' },
} as const

/** The operator on record counts too, so that an agent cannot evade a block by leaving out its client_id. */
function refusedForOperator(agent: Identified, standing: StandingReading): Refused | undefined {
  if (standing.agentBlocked) return BLOCKED.agent
  if (standing.operatorBlocked) return BLOCKED.operator
  if (standing.endedByOrganization)
    return {
      code: 'ended_by_organization',
      reason: 'ended_by_organization',
      sentence: 'The organization that governs this resource has ended the reach of this agent.',
    }
  if (newOperator(agent, standing) !== undefined && standing.operators >= OPERATORS_PER_CONNECTION_MAX)
    return {
      code: 'too_many_operators',
      sentence: `client_id: ${OPERATORS_PER_CONNECTION_MAX} operators attest this agent already; name one of them.`,
    }
  return undefined
}

/** The introducer, if the owner's record confirms it; and in any case what she is shown about it. */
async function acceptIntroducer(
  db: Db,
  { family, agent, named }: TicketPresentation,
): Promise<{ introducer: NamedIntroducer | undefined; notes: string[] }> {
  if (named === undefined) return { introducer: undefined, notes: agent.notes }
  const answer = await weighIntroduction(db, family.owner, agent, named)
  return {
    introducer: answer.ok ? named : undefined,
    notes: [...agent.notes, `${named.namedBy}: ${answer.ok ? 'accepted' : answer.because}`],
  }
}

/** The facts that the tier's rules may see. */
function factsOf(
  presented: TicketPresentation,
  standing: StandingReading,
  expiresInSeconds: number,
): RequestFacts {
  const { governed, agreement, agent } = presented
  return {
    connection: standing.status,
    standing: conditionFacts(standing, agent.jkt),
    assurance: agent.assurance,
    request: {
      expiresInSeconds,
      ...absencesOf(agreement.claims),
      consequence: consequenceFact(operationConsequence(governed.resource, boundOperation(presented))),
    },
  }
}

/**
 * The operation that a grant would be bound to: only a tier that asks per operation binds one, whatever an
 * agreement names.
 */
function boundOperation({ governed: { tier }, agreement }: TicketPresentation): Operation | undefined {
  return tier.ask_me ? operationOf(agreement.claims) : undefined
}

/**
 * Whether she marked the agent as her own. Her act was about one key: it does not extend to another key that
 * its issuer vouches for later.
 */
export function isFirstParty({ first_party, jkt: known }: StandingReading, jkt: string): boolean {
  return first_party && known === jkt
}

function conditionFacts(standing: StandingReading, jkt: string): RequestFacts['standing'] {
  return {
    approvedAtTier: standing.approvedAtTier,
    neverRevoked: standing.revocations === 0,
    firstParty: isFirstParty(standing, jkt),
    ageSeconds: standing.ageSeconds ?? undefined,
    firstAtTier: !standing.grantedAtTier,
    revokedBefore: standing.revocations > 0,
    introduced: standing.introduced_by !== null,
    lineageNewAtTier: !standing.lineageGrantedAtTier,
    countedTo: standing.countedTo ?? undefined,
    denials: standing.denials ?? undefined,
    tiers: standing.tiers ?? undefined,
    calls: standing.calls ?? undefined,
  }
}

/**
 * Whether a rule of the tier now refuses the request that was agreed then. `approved`: somebody has let the
 * operation through already, so no allowance bounds it any more.
 */
export function refusesNow(
  { tier, resource }: Pick<Required<GovernedReading>, 'tier' | 'resource'>,
  standing: StandingReading,
  agreed: Pick<RequestFacts, 'assurance' | 'request'> & {
    jkt: string
    operation: { tool: string } | null
    approved: boolean
  },
): boolean {
  const facts = {
    connection: standing.status,
    standing: conditionFacts(standing, agreed.jkt),
    assurance: agreed.assurance,
    request: {
      ...agreed.request,
      consequence: consequenceFact(operationConsequence(resource, agreed.operation)),
    },
    operation: agreed.approved ? ('approved' as const) : undefined,
  }
  return evaluateTier(tier, facts).effect === 'refuse'
}

/**
 * How far the counts within the trajectory window have to go for these rules: one more than the highest
 * number that any of them compares them with. undefined if no rule reads them, which costs less.
 */
export function trajectoryCountTo(rules: readonly Rule[]): number | undefined {
  const numbers = rules
    .flatMap(({ when }) => when.map(parseCondition))
    .flatMap(read => ('fault' in read || !TRAJECTORY.has(read.word.condition) ? [] : [read.value]))
  return numbers.length === 0 ? undefined : Math.max(...numbers) + 1
}

const TRAJECTORY = new Set(['standing.denials_above', 'standing.tiers_above', 'standing.calls_above'])
