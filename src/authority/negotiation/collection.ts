/**
 * Handles requests that waited for the owner: her approval is collected once, after checking again everything
 * that it rests on; a denial says why; the agent may withdraw. Contract: "Permission ticket"
 * (awaiting-owner).
 */
import { ORGANIZATION_REVOKED, standsOn, type GrantBasis } from '../../rules/grant.ts'
import { mayDelegateTo } from '../../rules/organization/membership.ts'
import { ORGANIZATION_REFUSED, refusalWords } from '../../rules/organization/ruling.ts'
import { GrantsFull, recordGrant } from '../../storage/authority/grants/issue.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { collectFamily } from '../../storage/authority/negotiations/pending.ts'
import { readStanding, type StandingReading } from '../../storage/authority/negotiations/standing.ts'
import { endFamily, readFamily, type FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import type { Db } from '../../storage/authority/database.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import type { Signer } from '../../surface/issuer.ts'
import { signGrant } from '../../surface/token/grant.ts'
import type { Collected, Denial } from '../../surface/token/negotiation.ts'
import { isFirstParty, ORGANIZATION_REFUSES, ownEpochs, refusesNow, trajectoryCountTo } from './evaluation.ts'
import { CLEARANCE_UNMET, type Governed } from './governance.ts'
import { clearanceOf, FactsMoved } from './grant.ts'
import { readGrounds } from './grant-facts.ts'
import { askOrganization, type OrganizationQuestion, type OrganizationAnswer } from './organization.ts'
import type { Documents, LedgerLog, Limits, Store } from '../context.ts'
import { tellWithdrawn } from './withdrawals.ts'

const ATTEMPTS_MAX = 3

/** Ends a denied request. @returns the sentence that says why, and the owner's own if she gave one. */
export async function denyWaiting(db: Db, family: FamilyRow): Promise<Denial> {
  await endFamily(db, family.owner, family.family, 'denied')
  return { ...denialOf(family.decided_by), ownerReason: family.denial_reason ?? undefined }
}

/** The agent takes its waiting request back. */
export async function withdrawWaiting(db: Db, family: FamilyRow): Promise<void> {
  const { owner } = family
  await inTransaction(db, async tx => {
    if (!(await endFamily(tx, owner, family.family, 'ended'))) return
    await appendLedger(tx, owner, {
      kind: 'refused',
      family: family.family,
      ...(family.handle === null ? {} : { handle: family.handle }),
      about: family.resource_id,
      data: { reason: 'declined', resource_id: family.resource_id },
    })
    if (family.handle !== null)
      await tellWithdrawn(tx, owner, [{ family: family.family, handle: family.handle }], 'declined')
  })
}

/** How a denial is told; only that of an organization, or of its administrator, has a word besides. */
function denialOf(by: string | null): { sentence: string; reason?: string } {
  if (by === 'revocation') return { sentence: 'The owner revoked this connection while the request waited.' }
  if (by === 'block')
    return { sentence: 'The owner blocked this agent or its operator while the request waited.' }
  if (by === 'administrator')
    return {
      sentence: 'An administrator of the organization that governs this resource denied this request.',
      reason: ORGANIZATION_REFUSED,
    }
  if (by === 'organization')
    return {
      sentence: 'The organization that governed this resource has since ended the membership of its owner.',
      reason: ORGANIZATION_REVOKED,
    }
  return { sentence: 'The owner denied this request.' }
}

type CollectionOutcome = 'granted' | 'gone' | 'moved' | 'full'

/**
 * Issues what the owner approved, after checking that nothing was withdrawn since, and after asking the
 * organization that has a say. Refuses 503 if that says nothing that can be used: the approval stays.
 */
export async function collect(
  authority: Signer & Store & Documents & Limits & Pick<LedgerLog, 'checkpoints'>,
  family: FamilyRow,
): Promise<Collected> {
  const db = authority.database.of(family.owner)
  const basis = family.held!
  const deadline = Date.now() + REMOTE_MS_MAX
  let before: OrganizationAnswer | undefined
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const standing = await readAgain(authority, family, basis)
    if ('withdrawn' in standing) return refuseCollection(db, family, standing.withdrawn)
    before = await askOrganization(authority, standing, askingOf(basis, standing), { before, deadline })
    const refused = refusedSince(before)
    if (refused !== undefined) return refuseCollection(db, family, refused)
    const { attesting } = standing
    const checked: GrantBasis = {
      ...basis,
      ...(standing.organization === undefined && { organization: attesting && ownEpochs(attesting) }),
      ...clearanceOf(before),
      ...(family.owner_decision !== null && { ownerDecision: family.owner_decision }),
    }
    const { signed, body } = signGrant(authority, checked)
    const grant = { ...checked, ...signed, generation: family.generation! }
    const grounds = checkedOf(before, family)
    const outcome = await inTransaction(db, async (tx): Promise<CollectionOutcome> => {
      if (!(await collectFamily(tx, family.owner, family.family))) return 'gone'
      // A fact has changed since, so the approval is not collected until it has been checked again.
      if (!(await recordGrant(tx, grant, grounds, authority.limits.grantsPerOwner))) throw new FactsMoved()
      return 'granted'
    }).catch((error: unknown): CollectionOutcome => {
      if (error instanceof FactsMoved) return 'moved'
      if (error instanceof GrantsFull) return 'full'
      throw error
    })
    if (outcome === 'granted') return { kind: 'granted', body }
    // Her approval stays, and a later poll collects it.
    if (outcome === 'full') {
      authority.quotas.reached('grants')
      return { kind: 'terms-changed' }
    }
    if (outcome === 'gone') return answerAfterChange(db, family)
  }
  // The facts kept changing. Her approval stays, too.
  return { kind: 'terms-changed' }
}

/** Ends it, unless somebody else has ended it meanwhile. */
async function refuseCollection(
  db: Db,
  family: FamilyRow,
  refused: { sentence: string; reason?: string | undefined },
): Promise<Collected> {
  const ended = await endFamily(db, family.owner, family.family, 'denied', ['awaiting_owner'])
  return ended ? { kind: 'refused', ...refused } : answerAfterChange(db, family)
}

/**
 * Only a refusal of the organization counts now. If the organization would ask her, her approval has answered
 * that.
 */
function refusedSince({
  unmet,
  ruling,
}: OrganizationAnswer): { sentence: string; reason: string } | undefined {
  if (unmet) return { sentence: CLEARANCE_UNMET.fault, reason: CLEARANCE_UNMET.reason }
  if (ruling?.effect !== 'refuse') return undefined
  return { sentence: ORGANIZATION_REFUSES, reason: refusalWords(ruling).reason }
}

/** For the ledger: the attestation that was checked. The grant carries its digest. */
function checkedOf(
  { attested }: OrganizationAnswer,
  { resource_id }: FamilyRow,
): Parameters<typeof recordGrant>[2] {
  if (attested === undefined) return []
  return [
    { kind: 'org_acted', data: { what: 'clearance_checked', resource_id, clearance: attested.compact } },
  ]
}

function askingOf(basis: GrantBasis, { standing }: CollectionFacts): OrganizationQuestion {
  const { resource_id, scopes, expires_in, facts, operation } = basis
  const firstParty = isFirstParty(standing, basis.jkt)
  return { resource_id, scopes, expires_in, facts, standing, firstParty, operation }
}

/**
 * Somebody else ended or moved the request: after an edit of the tier the next poll gets the new terms. Only
 * what was denied is told as a denial.
 */
async function answerAfterChange(db: Db, family: FamilyRow): Promise<Collected> {
  const current = await readFamily(db, family.owner, family.family)
  if (current?.state === 'need_info') return { kind: 'terms-changed' }
  return current?.decision === 'denied'
    ? { kind: 'refused', ...denialOf(current.decided_by) }
    : { kind: 'gone' }
}

/** The conditions under which an approval is collected. */
interface CollectionFacts extends Pick<Governed, 'tier' | 'organization' | 'attesting'> {
  standing: StandingReading
}

/**
 * Reads again all that an approval rests on. Refuses 503 if nobody can know what the organization has taken
 * away.
 */
async function readAgain(
  { database, limits }: Store & Limits,
  family: FamilyRow,
  basis: GrantBasis,
): Promise<CollectionFacts | { withdrawn: { sentence: string; reason?: string | undefined } }> {
  const { owner } = family
  const db = database.of(owner)
  const grounds = await readGrounds(db, basis, family.identity)
  const { resource, tier, membership: organization, asksClearance, attesting } = grounds
  const standing = await readStanding(db, owner, {
    handle: basis.handle,
    tier_id: basis.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: tier === undefined ? undefined : trajectoryCountTo(tier.rules),
    operator: family.operator ?? undefined,
    membership: organization?.join_id,
  })
  const { jkt, operation } = basis
  const approved = { ...basis, connection: { status: 'active', generation: family.generation } as const }
  const withdrawn = standsOn(approved, {
    ...grounds,
    operatorBlocked: standing.operatorBlocked,
    connection: standing,
    judged: {
      delegated:
        organization === undefined ||
        mayDelegateTo(organization, { first_party: isFirstParty(standing, jkt) }),
      clearanceMet: !asksClearance || attesting !== undefined,
      refusedByRule:
        tier !== undefined &&
        resource !== undefined &&
        refusesNow({ tier, resource }, standing, { ...basis.facts, jkt, operation, approved: true }),
    },
  })
  if (withdrawn === undefined)
    return { tier: tier!, standing, ...(organization && { organization }), ...(attesting && { attesting }) }
  return { withdrawn }
}
