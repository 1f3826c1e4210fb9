/**
 * Asks the organization that governs a resource about one request of an agent: once for each presented
 * agreement and once when an approval is collected, outside any transaction. Contract: "The organization's
 * authority" (`/decision`), "Errors" (an outage is no denial).
 */
import type { DecisionQuestion, Ruling } from '../../rules/organization/ruling.ts'
import type { Membership } from '../../storage/authority/membership/membership.ts'
import { unavailable } from '../../wire/refusal.ts'
import { OrganizationOutage, OrganizationRefusal, type OrganizationClient } from './client.ts'

/** The answer, and the attestation that came with it: a compact JWT, not verified. */
export interface OrganizationRuling extends Ruling {
  clearance: string | null
}

/**
 * What it answers. Refuses 503 if the answer cannot be used, or if the organization denies that it governs a
 * resource that it governs here, because then nobody knows what it would say.
 */
export async function askDecision(
  { organizations }: { organizations: Pick<OrganizationClient, 'decision'> },
  { issuer, token }: Membership,
  question: DecisionQuestion,
  deadline: number,
): Promise<OrganizationRuling> {
  const answer = await organizations.decision(issuer, { token, question, deadline }).catch(refuseAsOutage)
  if (!answer.governed)
    refuseAsOutage(new OrganizationOutage('it says that it does not govern what it claims'))
  return answer
}

/** Refuses 503. The negotiation stays as it was, and the agent presents the same again. */
export function refuseAsOutage(cause: unknown): never {
  if (!(cause instanceof OrganizationOutage || cause instanceof OrganizationRefusal)) throw cause
  throw unavailable(
    'Present the same again with this ticket: the organization of the owner gives no usable answer now.',
    5,
    cause,
  )
}
