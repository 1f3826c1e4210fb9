/**
 * An agreement that was weighed, and how one that fails is refused: what granting and holding share.
 * Contract: "Agreement (claim_token, beat 3)", "Errors" (agreement verification failures).
 */
import { missionOf, type Operation } from '../../rules/agreement.ts'
import type { RequestFacts } from '../../rules/conditions.ts'
import type { RequestAnswer } from '../../rules/connection.ts'
import type { OrganizationEpochs } from '../../rules/organization/membership.ts'
import type { TierAnswer } from '../../rules/tier.ts'
import type { AllowanceShare } from '../../storage/authority/grants/issue-allowance.ts'
import { readConnection } from '../../storage/authority/connections/connections.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import type { StandingReading } from '../../storage/authority/negotiations/standing.ts'
import { endFamily, type FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import type { Agreement } from '../../wire/negotiation/agreement.ts'
import type { Verified } from '../../wire/signatures/jws.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import type { Identified } from '../../surface/agents/identity.ts'
import type { Decision, Refused, Standing } from '../../surface/token/negotiation.ts'
import type { Limits, Store } from '../context.ts'
import type { Governed } from './governance.ts'
import type { OrganizationAnswer } from './organization.ts'
import type { Handle } from '../../wire/identifiers.ts'

/** The claimed introducer of an agent, as far as signatures show. */
export interface NamedIntroducer {
  namedBy: 'introduction' | 'parent_agent'
  handle: Handle
  /** Thumbprint of its key: the one it signed with, or the one last approved on its connection. */
  jkt: string | undefined
  /** Its own issuer says that it has a parent, and an agent with a parent introduces nobody. */
  isChild: boolean
}

/** A verified agreement with everything that others answered about it. */
export interface TicketPresentation {
  family: FamilyRow
  governed: Standing<Governed>
  /** The offer that it agrees to. */
  template: TermsTemplate
  /** SHA-256 of the ticket to poll with, if it must wait. */
  nextHash: Buffer
  agreement: Verified<Agreement>
  agent: Identified
  /** The claimed introducer of the agent. */
  named: NamedIntroducer | undefined
}

/** What a grant takes of the allowance that it is within. */
export interface WithinAllowance {
  share: AllowanceShare
  /** Of each amount, as decimal text. */
  amounts: Readonly<Record<string, string>>
  /** When the grant ends at the latest, in seconds since the epoch. */
  latest: number
}

/** A presented agreement with the owner's own records about it. */
export interface RecordedPresentation extends TicketPresentation {
  /** What the owner is shown of the checks that ran, and of an introduction. */
  notes: string[]
  /**
   * The introducer that lets the agent skip first contact; `standing` is read as if it had brought it in.
   */
  introducer: NamedIntroducer | undefined
  standing: StandingReading
  /**
   * The facts that the tier's rules were given; kept in the ledger, so that a changed tier can be tried on
   * it.
   */
  facts: RequestFacts
  scopes: string[]
  /** Seconds the grant will live, unless an allowance ends it sooner. */
  expiresIn: number
  /** What a grant takes of the allowance that the tier names, if it is within that. */
  within: WithinAllowance | undefined
  operation: Operation | undefined
  /**
   * If an organization governs the resource, or attested something that was asked for: its state when this
   * was weighed.
   */
  organizationEpochs: OrganizationEpochs | undefined
}

/** A presented agreement with everything that weighing it found: what granting or holding needs. */
export interface Assessment extends RecordedPresentation {
  /** The result by her tier and by what an organization makes stricter. */
  tierAnswer: TierAnswer
  answer: RequestAnswer
  /** What the organization said, and attested. */
  consulted: OrganizationAnswer
}

/**
 * The operator that must be on the record of the agent's connection before it is granted anything: its
 * directory lists the key, and it is not on the record yet. Undefined if there is none, or if there is no
 * connection to record it on, because an admission records its own.
 */
export function newOperator(agent: Identified, standing: StandingReading): string | undefined {
  const isNew = agent.attested && standing.generation !== null && !standing.operatorStands
  return isNew && standing.status === 'active' ? agent.operator : undefined
}

/**
 * Ends the negotiation. An agent the owner knows gets its own ledger entry. Strangers, whose keys are free,
 * are counted, one row per reason and minute. The same holds for agents that claim to be one she knows and
 * cannot prove it.
 */
export async function refuseAgreement(
  { database, refusals }: Store & Limits,
  family: FamilyRow,
  agent: Identified | undefined,
  refused: Refused,
): Promise<Decision> {
  const { owner } = family
  const db = database.of(owner)
  await endFamily(db, owner, family.family, 'denied')
  const handle = agent?.handle ?? refused.unverified?.handle
  const known = handle !== undefined && (await readConnection(db, owner, handle)) !== undefined
  if (refused.unverified !== undefined)
    await refusals.count(owner, family.family, {
      kind: 'identity_refused',
      reason: refused.code,
      handle: known ? handle : undefined,
    })
  else if (!known || agent === undefined)
    await refusals.count(owner, family.family, { kind: refused.kind, reason: refused.code })
  else
    await appendLedger(db, owner, {
      kind: refused.kind ?? 'refused',
      family: family.family,
      handle: agent.handle,
      about: family.resource_id,
      data: { reason: refused.code, resource_id: family.resource_id, ...refused.data },
    })
  return { kind: 'refused', sentence: refused.sentence, reason: refused.reason }
}

/** The mission as the owner is shown it, if the agreement names one. */
export function shownMission(agreement: Verified<Agreement>): { approver: string; s256: string } | null {
  return missionOf(agreement.claims) ?? null
}
