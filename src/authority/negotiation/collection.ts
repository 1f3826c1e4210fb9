/**
 * What becomes of a request that waited for the owner: her approval is collected once, after looking again at
 * all that it rests on; a denial says why; the agent may take it back. Contract: "Permission ticket"
 * (awaiting-owner).
 */
import type { Reach } from '../../rules/membership.ts'
import { collectionFault } from '../../rules/pending.ts'
import { readGovernedResource } from '../../storage/authority/governance.ts'
import type { GrantBasis } from '../../storage/authority/grant-basis.ts'
import { recordGrant } from '../../storage/authority/grant-issuance.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import { readOrganizationEpochs } from '../../storage/authority/membership.ts'
import { collectFamily } from '../../storage/authority/pending.ts'
import { readStanding } from '../../storage/authority/standing.ts'
import { endFamily, readFamily, type FamilyRow } from '../../storage/authority/tickets.ts'
import type { Db } from '../../storage/authority/database.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Collected } from '../../surface/token/negotiation.ts'
import { refusesNow, trajectoryCountTo, type Weighing } from './evaluation.ts'
import { freshMembership, isDeclaredAlike } from './governance.ts'
import { FactsMoved, signOnBasis } from './grant.ts'
import { tellWithdrawn } from './withdrawals.ts'

const ATTEMPTS_MAX = 3

/** Ends what was denied. @returns the sentence that says by what. */
export async function denyWaiting(db: Db, family: FamilyRow): Promise<string> {
  await endFamily(db, family.owner, family.family, 'denied')
  return denialSentence(family.decided_by)
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
      data: { reason: 'declined', resource_id: family.resource_id },
    })
    if (family.handle !== null)
      await tellWithdrawn(tx, owner, [{ family: family.family, handle: family.handle }], 'declined')
  })
}

function denialSentence(by: string | null): string {
  if (by === 'revocation') return 'The owner revoked this connection while the request waited.'
  if (by === 'block') return 'The owner blocked the operator of this agent while the request waited.'
  return 'The owner denied this request.'
}

type Outcome = 'granted' | 'gone' | 'moved'

/** Issues what the owner approved, after reading again that nothing was withdrawn since. */
export async function collect(authority: Signer & Weighing, family: FamilyRow): Promise<Collected> {
  const { db } = authority.database
  const basis = family.held!
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const fault = await withdrawnSince(authority, family, basis)
    if (fault !== undefined) {
      const ended = await endFamily(db, family.owner, family.family, 'denied', ['awaiting_owner'])
      return ended ? { kind: 'refused', sentence: fault } : answerGone(db, family)
    }
    const { body, ...signed } = signOnBasis(authority, basis)
    const row = { ...signed.row, generation: family.generation! }
    const outcome = await inTransaction(db, async (tx): Promise<Outcome> => {
      if (!(await collectFamily(tx, family.owner, family.family))) return 'gone'
      // What it rests on has changed since: the approval stays uncollected until it was looked at again.
      if (!(await recordGrant(tx, row, []))) throw new FactsMoved()
      return 'granted'
    }).catch((error: unknown): Outcome => {
      if (error instanceof FactsMoved) return 'moved'
      throw error
    })
    if (outcome === 'granted') return { kind: 'granted', body }
    if (outcome === 'gone') return answerGone(db, family)
  }
  return {
    kind: 'refused',
    sentence: 'What the owner approved kept changing while it was collected; make the call again.',
  }
}

/**
 * Somebody else ended or moved on what was to be collected: after an edit of the tier the next poll gets the
 * new terms.
 */
async function answerGone(db: Db, family: FamilyRow): Promise<Collected> {
  const seen = await readFamily(db, family.owner, family.family)
  if (seen?.state === 'need_info') return { kind: 'terms-changed' }
  const sentence =
    seen?.decision === 'denied'
      ? denialSentence(seen.decided_by)
      : 'The approval was collected by another poll or withdrawn.'
  return { kind: 'refused', sentence }
}

/** Whether what an organization governs is as it was agreed to. Refuses 503 where it cannot be known. */
async function organizationStands(db: Db, org: Reach | null, basis: GrantBasis): Promise<boolean> {
  const { organization: then, owner, handle, operator } = basis
  if (org === null || then === undefined) return org === null && then === undefined
  const { org_epoch } = await freshMembership(db, owner)
  const now = await readOrganizationEpochs(db, owner, { handle, operator })
  return (
    org === 'shared' &&
    org_epoch === then.membership &&
    now.handle === then.handle &&
    now.operator === then.operator
  )
}

async function withdrawnSince(
  { database: { db }, limits }: Weighing,
  family: FamilyRow,
  basis: GrantBasis,
): Promise<string | undefined> {
  const { owner } = family
  const { server, resource, tier } = await readGovernedResource(db, basis)
  const standing = await readStanding(db, owner, {
    handle: basis.handle,
    tier_id: basis.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: tier === undefined ? undefined : trajectoryCountTo(tier.rules),
    operator: family.operator ?? undefined,
  })
  return collectionFault({
    operatorBlocked: standing.operatorBlocked,
    connection: standing.status,
    sameGeneration: standing.generation === family.generation,
    tierGoverns: tier?.tier_id === basis.tier_id && tier.epoch === basis.tier_epoch,
    resourceServerActive: server?.status === 'active',
    resourceRegistered: resource?.client_id === basis.client_id,
    unchanged:
      tier?.version === basis.tier_version &&
      server?.generation === basis.server_generation &&
      resource !== undefined &&
      isDeclaredAlike(resource, basis.declared ?? basis) &&
      basis.resource_scopes.every(scope => resource.resource_scopes.includes(scope)),
    organizationStands: await organizationStands(db, resource?.org ?? null, basis),
    clearanceMet: Object.keys(tier?.clearance ?? {}).length === 0,
    refusedByRule:
      tier !== undefined &&
      resource !== undefined &&
      refusesNow({ tier, resource }, standing, {
        ...basis.facts,
        jkt: basis.jkt,
        operation: basis.operation,
      }),
  })
}
