/**
 * Introductions: an agent that the owner knows names a sibling, or an issuer names an agent's parent, and the
 * newcomer skips first contact if her record bears it out. If anything is missing, the agent falls back to
 * first contact, and the reason is kept for her. Contract: "Owner API" (introduction of a sibling agent),
 * "Connection" (introduced).
 */
import { introductionAnswer, type IntroductionAnswer } from '../../rules/connection.ts'
import { isAgentBlocked } from '../../storage/authority/connections/blocked-agents.ts'
import {
  admitConnection,
  lockOperator,
  readConnection,
} from '../../storage/authority/connections/connections.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { lockIntroducer, readIntroduction } from '../../storage/authority/negotiations/introductions.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { nameOperator } from '../../storage/authority/connections/operators.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { handleOf, signingKeyOf, subjectHandle } from '../../wire/agents/agent-identity.ts'
import { ALIAS, aliasIn } from '../../wire/names.ts'
import { introducerOf, verifyIntroduction } from '../../wire/agents/introduction.ts'
import { verifyIdentity, type Identified, type Signed } from '../../surface/agents/identity.ts'
import type { RequestContext } from '../context.ts'
import type { NamedIntroducer, Assessment } from '../negotiation/presentation.ts'
import type { Owner } from '../../wire/identifiers.ts'

/**
 * The introducer that an agreement names, if any: by the introduction it carries, else by its agent token's
 * `parent_agent`. A malformed, misdirected or expired introduction throws `invalid_request` and denies the
 * request; if the keys of the introducer's issuer cannot be had, it is `temporarily_unavailable`.
 */
export async function namedIntroducer(
  authority: RequestContext,
  owner: Owner,
  { agreement, agent }: Signed,
  deadline: number,
): Promise<NamedIntroducer | undefined> {
  if (agreement.claims['introduction'] !== undefined) return introducerOfClaim(authority, agreement, deadline)
  const { identity } = agreement
  if (identity.kind !== 'agent_token' || identity.agent.parent_agent === undefined) return undefined
  const db = authority.database.of(owner)
  // If the agent has a connection already, its parent is not considered.
  if ((await readConnection(db, owner, agent.handle))?.status === 'active') return undefined
  const handle = subjectHandle(identity.agent.parent_agent, identity.agent.iss)
  const parent = await readConnection(db, owner, handle)
  return { namedBy: 'parent_agent', handle, jkt: parent?.jkt ?? undefined, isChild: false }
}

async function introducerOfClaim(
  authority: Omit<RequestContext, 'database'>,
  agreement: Signed['agreement'],
  deadline: number,
): Promise<NamedIntroducer> {
  const introduction = agreement.claims['introduction']
  const claimed = introducerOf(introduction)
  const identity = await verifyIdentity(authority.issuers, claimed, deadline)
  const { introducer } = verifyIntroduction(introduction as string, identity, {
    newcomer: agreement.key,
    aud: authority.issuer,
    now: authority.now(),
    typAlias: aliasIn(authority.aliases, ALIAS.introductionTyp),
  })
  return {
    namedBy: 'introduction',
    handle: handleOf(introducer),
    jkt: signingKeyOf(introducer).thumbprint,
    isChild: introducer.kind === 'agent_token' && introducer.agent.parent_agent !== undefined,
  }
}

/** Whether the owner's present record lets the named introducer bring this agent in. */
export async function weighIntroduction(
  db: Db,
  owner: Owner,
  agent: Identified,
  named: NamedIntroducer,
): Promise<IntroductionAnswer> {
  const of = {
    introducer: named.handle,
    newcomer: agent.handle,
    newcomerJkt: agent.jkt,
    operator: agent.operator ?? null,
  }
  const record = await readIntroduction(db, owner, of)
  // A parent has signed nothing here: its key is the one on record now, not the one that was there a moment
  // ago.
  const introducerJkt = named.namedBy === 'parent_agent' ? record.jkt : named.jkt
  return introductionAnswer({
    namedBy: named.namedBy,
    newcomer: record.newcomer,
    introducer: record.introducer,
    introducerApprovedInPerson: record.approvedInPerson,
    introducerWasIntroduced: record.wasIntroduced || named.isChild,
    // This needs an operator on record, not only a directory that lists both: anybody can list anybody's
    // public key.
    oneOperatorPublishedBoth:
      agent.attested &&
      record.operatorStands &&
      typeof introducerJkt === 'string' &&
      agent.published.has(introducerJkt),
    liveIntroduced: record.liveIntroduced,
  })
}

/**
 * Locks the rows that an introduction rests on (queue, operator, introducer, in this order) and reads again
 * whether they still allow it. @returns false if they do not: the request must be weighed again.
 */
export async function introductionStands(tx: Tx, assessment: Assessment): Promise<boolean> {
  const { agent, introducer } = assessment
  const { owner } = assessment.family
  if (introducer === undefined || agent.operator === undefined) return false
  await lockQueue(tx, owner)
  if ((await lockOperator(tx, owner, agent.operator)).blocked) return false
  if (await isAgentBlocked(tx, owner, agent)) return false
  await lockIntroducer(tx, owner, introducer.handle)
  return (await weighIntroduction(tx, owner, agent, introducer)).ok
}

/**
 * Writes the connection of an introduced agent; the caller has checked `introductionStands` in this
 * transaction, and that nothing else refuses the request. @returns the generation of the new connection.
 */
export async function admitIntroduced(tx: Tx, assessment: Assessment): Promise<number> {
  const { agent, introducer, family, governed } = assessment
  const { owner } = family
  const { handle, identity, jkt, operatorName: name, attested } = agent
  const operator = agent.operator ?? null
  const introduced_by = introducer!.handle
  const admission = { owner, handle, identity, label: null, operator, introduced_by, jkt } as const
  const generation = await admitConnection(tx, admission)
  if (operator !== null) await nameOperator(tx, owner, operator, { name, attested })
  await appendLedger(tx, owner, {
    kind: 'connected',
    family: family.family,
    handle,
    data: { tier: governed.tier.tier_id, by: introducer!.namedBy, introduced_by },
  })
  return generation
}
