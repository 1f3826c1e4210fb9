/**
 * Tells organizations that their ceiling was applied to a member, and which fields it cut: after a join,
 * after each cut, and once a day. A report is retried until it is recorded. It says how things are when it is
 * sent, so of several that wait only the latest is sent. Contract: "The organization's authority"
 * (`/member/compliance`: never her terms), "Events" (compliance report).
 */
import type { Repetition } from '../../limits/repetition.ts'
import { complianceReport, type ComplianceReport } from '../../rules/organization/compliance.ts'
import type { Db } from '../../storage/authority/database.ts'
import { dueAgainIn, dueNoMore, type DueClaim } from '../../storage/authority/due.ts'
import { readMembership, type Membership } from '../../storage/authority/membership/membership.ts'
import type { RoundContext } from '../context.ts'
import { startDueRounds } from '../due-rounds.ts'
import { OrganizationOutage, OrganizationRefusal } from './client.ts'
import { previewCuts, tiersOf } from './membership-effect.ts'

/** How long one replica has a member to itself: longer than reporting takes. */
const CLAIM_SECONDS = 30
const RETRY_SECONDS = 60
const DAY_SECONDS = 86_400

/** Starts reporting, if there is an organization that may be told. */
export function startCompliance(authority: RoundContext): Repetition | undefined {
  if (authority.organizations.issuers.length === 0) return undefined
  const lines = {
    round: 'reporting compliance was broken off',
    one: 'compliance of a member was not reported',
  }
  return startDueRounds(authority, { kind: 'compliance', claimSeconds: CLAIM_SECONDS, lines }, claim =>
    reportOne(authority, claim),
  )
}

/**
 * A failure for one member stops no others; she becomes due again by herself. A cut that happens meanwhile
 * makes her due again, and the time set here does not undo that.
 */
async function reportOne(authority: RoundContext, claim: DueClaim): Promise<void> {
  const { owner } = claim
  const db = authority.database.ofNobody
  const membership = await readMembership(db, owner)
  if (membership === undefined) return await dueNoMore(db, claim)
  const isRecorded = await tell(authority, membership)
  // The time is random, so that owners do not become due together, and never later than a day.
  await dueAgainIn(db, claim, (isRecorded ? DAY_SECONDS : RETRY_SECONDS) * (0.75 + Math.random() / 4))
}

/** @returns whether nothing is left to tell for now. */
async function tell(
  { organizations, database, log }: RoundContext,
  membership: Membership,
): Promise<boolean> {
  const { owner, issuer, token } = membership
  try {
    await organizations.compliance(issuer, { token, report: await reportOf(database.ofNobody, membership) })
    return true
  } catch (error) {
    if (!(error instanceof OrganizationRefusal || error instanceof OrganizationOutage)) throw error
    log.warn({ err: error, owner, issuer }, 'an organization did not take a report of compliance')
    return false
  }
}

async function reportOf(db: Db, membership: Membership): Promise<ComplianceReport> {
  const { owner, clamped_fields } = membership
  const { governed_resources } = await previewCuts(db, owner, membership)
  const tiers = await tiersOf(db, owner)
  return complianceReport({ bound: membership, governed_resources, tiers, clamped_fields })
}
