/**
 * What an organization says about one request: its answer if it governs the resource, and what it attests
 * about the owner if her tier or its ceiling asks for that. Contract: "The organization's authority"
 * (`/decision`, `/member/clearance`), "Policy vocabulary and tiers" (clearance).
 */
import { isDeepStrictEqual } from 'node:util'
import { unmetFact } from '../../rules/organization/clearance.ts'
import type { DecisionQuestion, Ruling } from '../../rules/organization/ruling.ts'
import type { RequestFacts } from '../../rules/conditions.ts'
import type { StandingReading } from '../../storage/authority/negotiations/standing.ts'
import { unavailable } from '../../wire/refusal.ts'
import type { RptOperation } from '../../wire/negotiation/tokens.ts'
import type { Documents } from '../context.ts'
import { stateOf, type Attested } from '../organization/clearances.ts'
import { askDecision } from '../organization/ruling.ts'
import { isNothing, requirementOf, type Governed } from './governance.ts'

/** The question and the answer, and the state of the membership at the time. */
export interface OrganizationAnswer {
  state: string
  question: DecisionQuestion | undefined
  /** Present if the organization governs the resource. */
  ruling: Ruling | undefined
  /** Present if a clearance is asked for and met: what was checked. */
  attested: Attested | undefined
  /** A clearance is asked for, and is not met. */
  unmet: boolean
}

/** What an organization gets to know of a request. */
export interface OrganizationQuestion {
  resource_id: string
  scopes: readonly string[]
  expires_in: number
  facts: Pick<RequestFacts, 'assurance' | 'request'>
  standing: Pick<StandingReading, 'status' | 'introduced_by'>
  /** The agent, by the key that signed the agreement. */
  firstParty: boolean
  operation: RptOperation | null
}

const NOBODY: OrganizationAnswer = {
  state: '',
  question: undefined,
  ruling: undefined,
  attested: undefined,
  unmet: false,
}

/**
 * Asks at most once. With `before`, the earlier answer still counts, or this refuses 503 if the membership or
 * the question has changed since. Nobody is asked, and no earlier answer counts, if no organization governs
 * the resource and no clearance is asked for.
 */
export async function askOrganization(
  authority: Documents,
  { organization, attesting, tier }: Pick<Governed, 'organization' | 'attesting' | 'tier'>,
  asking: OrganizationQuestion,
  { before, deadline }: { before: OrganizationAnswer | undefined; deadline: number },
): Promise<OrganizationAnswer> {
  const membership = organization ?? attesting
  // Also of a resource that was governed when this was weighed first: the statement that writes the grant
  // proves again that it is hers alone.
  if (membership === undefined) return NOBODY
  const question = organization && questionOf(asking)
  const state = stateOf(membership)
  if (before !== undefined) return unchanged(before, { state, question })
  const answer = question && (await askDecision(authority, membership, question, deadline))
  const ruling = answer && { effect: answer.effect, because: answer.because }
  const required = requirementOf({ organization, tier })
  if (isNothing(required)) return { state, question, ruling, attested: undefined, unmet: false }
  const { clearances } = authority
  const attested =
    answer === undefined
      ? await clearances.of(membership, deadline)
      : await clearances.take(membership, answer.clearance)
  const unmet = attested === undefined || unmetFact(required, attested.clearance) !== undefined
  return { state, question, ruling, attested: unmet ? undefined : attested, unmet }
}

/** Whether everything that the tier and the ceiling ask for is attested, if nothing else is asked. */
export async function isCleared(
  { clearances }: Documents,
  { organization, attesting, tier }: Pick<Governed, 'organization' | 'attesting' | 'tier'>,
  deadline: number,
): Promise<boolean> {
  if (attesting === undefined) return true
  const attested = await clearances.of(attesting, deadline)
  return (
    attested !== undefined &&
    unmetFact(requirementOf({ organization, tier }), attested.clearance) === undefined
  )
}

/** An answer to another question, or from before the organization acted, does not count. */
function unchanged(
  before: OrganizationAnswer,
  now: Pick<OrganizationAnswer, 'state' | 'question'>,
): OrganizationAnswer {
  if (before.state === now.state && isDeepStrictEqual(before.question, now.question)) return before
  throw unavailable(
    'Present the same again with this ticket: the answer of the owner’s organization is out of date.',
    1,
  )
}

/** Unknown facts are sent as the lowest value, or left out. */
function questionOf({
  facts,
  standing,
  operation,
  firstParty,
  ...context
}: OrganizationQuestion): DecisionQuestion {
  const { binding = 0, provenance = 0, accountability = 0 } = facts.assurance
  return {
    resource_id: context.resource_id,
    scopes: context.scopes,
    expires_in: context.expires_in,
    reason_absent: facts.request.reasonAbsent ?? true,
    mission_absent: facts.request.missionAbsent ?? true,
    ...(operation === null ? {} : { operation }),
    assurance: { binding, provenance, accountability },
    standing: {
      connected: standing.status === 'active',
      first_party: firstParty,
      introduced: standing.introduced_by !== null,
    },
    tier: null,
    purpose: null,
  }
}
