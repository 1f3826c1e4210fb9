/**
 * Weighs a verified agreement: the owner's record of the agent and of whoever introduces it, the tier's rules
 * on those facts, and what follows. Reads only; everything of others was fetched before. Contract: "Agreement
 * (claim_token, beat 3)", "Policy vocabulary and tiers".
 */
import { absencesOf, operationOf, type Operation } from '../../rules/agreement.ts'
import { consequenceFact, parseCondition, type RequestFacts } from '../../rules/conditions.ts'
import { answerFor, OPERATORS_PER_CONNECTION_MAX } from '../../rules/connection.ts'
import { isAlwaysAsked } from '../../rules/envelope.ts'
import { mayDelegateTo } from '../../rules/membership.ts'
import { grantScope, operationConsequence } from '../../rules/permission.ts'
import { evaluateTier, type Rule, type TierRules } from '../../rules/tier.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { GovernedReading } from '../../storage/authority/governance.ts'
import { readOrganizationEpochs } from '../../storage/authority/membership.ts'
import { readStanding, type StandingFacts } from '../../storage/authority/standing.ts'
import type { Identified } from '../../surface/agents/identity.ts'
import type { Refused } from '../../surface/token/negotiation.ts'
import { weighIntroduction } from '../agents/introductions.ts'
import type { Authority } from '../context.ts'
import type { Governed } from './governance.ts'
import { newOperator, type NamedIntroducer, type Presented, type Weighed } from './presentation.ts'

/** What weighing reads. */
export interface Weighing {
  database: Authority['database']
  limits: Pick<Authority['limits'], 'trajectoryWindowSeconds'>
}

/** What the request gets by the record as it stands now, or why it is refused. */
export async function weigh(
  { database: { db }, limits }: Weighing,
  presented: Presented,
): Promise<Weighed | { refused: Refused }> {
  const { family, governed, agreement, agent } = presented
  const { tier, organization } = governed
  const { introducer, notes } = await acceptIntroducer(db, presented)
  const standing = await readStanding(db, family.owner, {
    handle: agent.handle,
    tier_id: tier.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: trajectoryCountTo(tier.rules),
    introducedBy: introducer?.handle,
    operator: agent.operator,
  })
  const operatorRefused = refusedForOperator(agent, standing)
  if (operatorRefused !== undefined) return { refused: operatorRefused }
  const expiresIn = Math.min(tier.terms.expires_in, agreement.claims['expires_in'] as number)
  const facts = factsOf(presented, standing, expiresIn)
  if (organization !== undefined && !mayDelegateTo(organization, standing))
    return {
      refused: {
        code: 'not_delegated',
        sentence: 'The organization that governs this resource lets only the owner’s own agents use it.',
      },
    }
  const tierAnswer = evaluateTier(underMembership(tier, governed), facts)
  const answer = answerFor(standing.status, tier, tierAnswer)
  if (answer.kind === 'deny')
    return {
      refused: {
        code: 'policy',
        sentence: "The owner's policy refuses this request.",
        data: { tier: tier.tier_id, because: tierAnswer.because, facts },
      },
    }
  const scopes = grantScope(family.resource_scopes, tier.terms.scope, agreement.claims['scope'] as string[])
  if (scopes.length === 0)
    return {
      refused: {
        code: 'no_scope',
        sentence: 'scope: nothing that the call needs is both offered and agreed.',
      },
    }
  const operation = operationOf(agreement.claims)
  return {
    ...presented,
    organizationEpochs: organization && {
      membership: organization.org_epoch,
      ...(await readOrganizationEpochs(db, family.owner, {
        handle: agent.handle,
        operator: agent.operator ?? null,
      })),
    },
    notes,
    introducer,
    standing,
    facts,
    tierAnswer,
    answer,
    scopes,
    expiresIn,
    operation,
  }
}

/** Where every operation needs somebody's approval, no rule of hers lets one through. */
function underMembership(tier: TierRules, { organization, resource }: Governed): TierRules {
  if (organization === undefined || !isAlwaysAsked(resource.resource_id, organization.view)) return tier
  return { ask_me: true, rules: tier.rules.filter(rule => rule.then !== 'auto') }
}

/** Also by an operator on record: leaving out client_id must not be a way past a block. */
function refusedForOperator(agent: Identified, standing: StandingFacts): Refused | undefined {
  if (standing.operatorBlocked)
    return { code: 'operator_blocked', sentence: 'The owner has blocked the operator of this agent.' }
  if (newOperator(agent, standing) !== undefined && standing.operators >= OPERATORS_PER_CONNECTION_MAX)
    return {
      code: 'too_many_operators',
      sentence: `client_id: ${OPERATORS_PER_CONNECTION_MAX} operators stand behind this agent already; name one of them.`,
    }
  return undefined
}

/** The introducer where the owner's record bears it out; in any case what she is told of it. */
async function acceptIntroducer(
  db: Db,
  { family, agent, named }: Presented,
): Promise<{ introducer: NamedIntroducer | undefined; notes: string[] }> {
  if (named === undefined) return { introducer: undefined, notes: agent.notes }
  if ('note' in named) return { introducer: undefined, notes: [...agent.notes, named.note] }
  const answer = await weighIntroduction(db, family.owner, agent, named)
  return {
    introducer: answer.ok ? named : undefined,
    notes: [...agent.notes, `${named.namedBy}: ${answer.ok ? 'accepted' : answer.because}`],
  }
}

/** What the tier's rules may see. */
function factsOf(presented: Presented, standing: StandingFacts, expiresInSeconds: number): RequestFacts {
  const { governed, agreement, agent } = presented
  return {
    connection: standing.status,
    standing: standingSeen(standing, agent.jkt),
    assurance: agent.assurance,
    request: {
      expiresInSeconds,
      ...absencesOf(agreement.claims),
      consequence: consequenceFact(operationConsequence(governed.resource, boundOperation(presented))),
    },
  }
}

/**
 * The operation that a grant would be bound to: only a tier that asks per operation binds one, whatever else
 * an agreement names.
 */
function boundOperation({ governed: { tier }, agreement }: Presented): Operation | undefined {
  return tier.ask_me ? operationOf(agreement.claims) : undefined
}

function standingSeen(standing: StandingFacts, jkt: string): RequestFacts['standing'] {
  return {
    approvedAtTier: standing.approvedAtTier,
    neverRevoked: standing.revocations === 0,
    // The owner's act was about one key: another that its issuer vouches for later has none of it.
    firstParty: standing.first_party && standing.jkt === jkt,
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

/** Whether a rule of the tier refuses, by the record as it stands now, what was agreed then. */
export function refusesNow(
  { tier, resource }: Pick<Required<GovernedReading>, 'tier' | 'resource'>,
  standing: StandingFacts,
  agreed: Pick<RequestFacts, 'assurance' | 'request'> & {
    jkt: string
    operation: { tool: string } | null
  },
): boolean {
  const facts = {
    connection: standing.status,
    standing: standingSeen(standing, agreed.jkt),
    assurance: agreed.assurance,
    request: {
      ...agreed.request,
      consequence: consequenceFact(operationConsequence(resource, agreed.operation)),
    },
  }
  return evaluateTier(tier, facts).effect === 'refuse'
}

/**
 * How far the counts within the trajectory window have to go for these rules: one more than the highest
 * number that any of them compares them with. undefined where none reads them, which costs less.
 */
export function trajectoryCountTo(rules: readonly Rule[]): number | undefined {
  const numbers = rules
    .flatMap(({ when }) => when.map(parseCondition))
    .flatMap(read => ('fault' in read || !TRAJECTORY.has(read.word.condition) ? [] : [read.value]))
  return numbers.length === 0 ? undefined : Math.max(...numbers) + 1
}

const TRAJECTORY = new Set(['standing.denials_above', 'standing.tiers_above', 'standing.calls_above'])
