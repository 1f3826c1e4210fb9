/**
 * Polls of a request that waits for the owner: each rotates the ticket, one that comes early is held until
 * the interval has passed or she decides, and an approval is collected once.
 * Contract: "Permission ticket" (awaiting-owner).
 */
import { collectionFault } from '../../rules/pending.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { readGovernedResource } from '../../storage/authority/governed.ts'
import { recordGrant } from '../../storage/authority/grants.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import { collectFamily } from '../../storage/authority/pending.ts'
import { readStanding } from '../../storage/authority/standing.ts'
import { endFamily, readFamily, type FamilyRow } from '../../storage/authority/tickets.ts'
import { requestSubmitted } from '../../wire/negotiation.ts'
import { denied, type Answer } from './answers.ts'
import { pollInterval, type Authority } from '../context.ts'
import { trajectoryCountTo, refusesNow } from './evaluation.ts'
import { signGrant, type GrantBasis } from './grant.ts'
import { tellWithdrawn } from './withdrawals.ts'

const ATTEMPTS_MAX = 3

/** Polls held at once in this process; beyond, an early poll is answered at once instead. */
const HELD_POLLS_MAX = 1_000
let heldPolls = 0

/** Answers a poll. `next` is the rotated ticket, already valid. */
export async function collectOrWait(authority: Authority, family: FamilyRow, next: string): Promise<Answer> {
  const decided = family.decision === null ? await decisionAfterInterval(authority, family) : family
  if (decided.decision === 'approved') return collect(authority, decided, next)
  if (decided.decision === 'denied') {
    await endFamily(authority.database.db, family.owner, family.family, 'denied')
    return denied(denialSentence(decided.decided_by))
  }
  const interval = pollInterval(authority)
  return { status: 403, body: requestSubmitted(family.kind!, next, interval) }
}

/** The agent takes its waiting request back. */
export async function declineWaiting(
  authority: Authority,
  family: FamilyRow,
  sentence: string,
): Promise<Answer> {
  const { owner } = family
  await inTransaction(authority.database.db, async tx => {
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
  return denied(sentence)
}

function denialSentence(by: string | null): string {
  if (by === 'revocation') return 'The owner revoked this connection while the request waited.'
  if (by === 'block') return 'The owner blocked the operator of this agent while the request waited.'
  return 'The owner denied this request.'
}

async function decisionAfterInterval(authority: Authority, family: FamilyRow): Promise<FamilyRow> {
  const { owner } = family
  const since =
    Date.parse(family.ticket_issued_at) - Date.parse(family.ticket_previous_at ?? family.ticket_issued_at)
  const deadline = performance.now() + authority.limits.pollSeconds * 1_000 - since
  if (heldPolls >= HELD_POLLS_MAX) return family
  heldPolls += 1
  try {
    let seen = family
    for (;;) {
      const left = deadline - performance.now()
      if (left <= 0 || seen.decision !== null || seen.state !== 'awaiting_owner') return seen
      await authority.announcements.next(owner, left)
      seen = (await readFamily(authority.database.db, owner, family.family)) ?? family
    }
  } finally {
    heldPolls -= 1
  }
}

type Collected = 'granted' | 'gone' | 'moved'

class FactsMoved extends Error {}

/** Issues what the owner approved, after reading again that nothing was withdrawn since. */
async function collect(authority: Authority, family: FamilyRow, next: string): Promise<Answer> {
  const { db } = authority.database
  const basis = family.held as GrantBasis
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const fault = await withdrawnSince(authority, family, basis)
    if (fault !== undefined) {
      const ended = await endFamily(db, family.owner, family.family, 'denied', ['awaiting_owner'])
      return ended ? denied(fault) : answerGone(authority, family, next)
    }
    const signed = signGrant(authority, basis)
    const row = { ...signed.row, generation: family.generation! }
    const outcome = await inTransaction(db, async (tx): Promise<Collected> => {
      if (!(await collectFamily(tx, family.owner, family.family))) return 'gone'
      // What it rests on has changed since: the approval stays uncollected until it was looked at again.
      if (!(await recordGrant(tx, row, []))) throw new FactsMoved()
      return 'granted'
    }).catch((error: unknown): Collected => {
      if (error instanceof FactsMoved) return 'moved'
      throw error
    })
    if (outcome === 'granted') return signed.answer
    if (outcome === 'gone') return answerGone(authority, family, next)
  }
  return denied('What the owner approved kept changing while it was collected; make the call again.')
}

/** Somebody else ended or moved on what was to be collected: after an edit of the tier the next poll gets the new terms. */
async function answerGone(authority: Authority, family: FamilyRow, next: string): Promise<Answer> {
  const seen = await readFamily(authority.database.db, family.owner, family.family)
  if (seen?.state === 'need_info')
    return { status: 403, body: requestSubmitted(family.kind!, next, pollInterval(authority)) }
  return denied(
    seen?.decision === 'denied'
      ? denialSentence(seen.decided_by)
      : 'The approval was collected by another poll or withdrawn.',
  )
}

async function withdrawnSince(
  authority: Authority,
  family: FamilyRow,
  basis: GrantBasis,
): Promise<string | undefined> {
  const { db } = authority.database
  const { owner } = family
  const { server, resource, tier } = await readGovernedResource(db, basis)
  const standing = await readStanding(db, owner, {
    handle: basis.handle,
    tier_id: basis.tier_id,
    windowSeconds: authority.limits.trajectoryWindowSeconds,
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
      resource?.consequence === basis.consequence &&
      basis.resource_scopes.every(scope => resource.resource_scopes.includes(scope)),
    clearanceMet: Object.keys(tier?.clearance ?? {}).length === 0,
    refusedByRule:
      tier !== undefined &&
      resource !== undefined &&
      refusesNow({ tier, resource }, standing, { ...basis.facts, jkt: basis.jkt }),
  })
}
