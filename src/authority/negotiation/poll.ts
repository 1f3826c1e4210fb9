/**
 * Polls of a request that waits for the owner: each rotates the ticket, one that comes early is held until
 * the interval has passed or she decides, and an approval is collected once.
 * Contract: "Permission ticket" (awaiting-owner).
 */
import { collectionFault } from '../../rules/pending.ts'
import { readConnection } from '../../storage/authority/connections.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { insertGrant } from '../../storage/authority/grants.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import { isAnyBlocked } from '../../storage/authority/operators.ts'
import { collectFamily } from '../../storage/authority/pending.ts'
import { readResource, readResourceServer } from '../../storage/authority/resources.ts'
import { tierOfResource } from '../../storage/authority/tiers.ts'
import { endFamily, readFamily, type FamilyRow } from '../../storage/authority/tickets.ts'
import { requestSubmitted } from '../../wire/negotiation.ts'
import { denied, type Answer } from './answers.ts'
import { pollInterval, type Authority } from '../context.ts'
import { signGrant, type GrantBasis } from './grant.ts'

/** Polls held at once in this process; beyond, an early poll is answered at once instead. */
const HELD_POLLS_MAX = 1_000
let heldPolls = 0

/** Answers a poll. `next` is the rotated ticket, already valid. */
export async function collectOrWait(authority: Authority, family: FamilyRow, next: string): Promise<Answer> {
  const decided = family.decision === null ? await decisionAfterInterval(authority, family) : family
  if (decided.decision === 'approved') return collect(authority, decided)
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
      if (left <= 0 || seen.decision !== null) return seen
      await authority.announcements.next(owner, left)
      seen = (await readFamily(authority.database.db, owner, family.family)) ?? family
    }
  } finally {
    heldPolls -= 1
  }
}

/** Issues what the owner approved, after reading again that nothing was withdrawn since. */
async function collect(authority: Authority, family: FamilyRow): Promise<Answer> {
  const { db } = authority.database
  const basis = family.held as GrantBasis
  const fault = await withdrawnSince(authority, family, basis)
  if (fault !== undefined) {
    await endFamily(db, family.owner, family.family, 'denied')
    return denied(fault)
  }
  const signed = signGrant(authority, basis)
  const generation = family.generation!
  const outcome = await inTransaction(db, async tx => {
    if (!(await collectFamily(tx, family.owner, family.family))) return 'gone'
    // The family stays granted: its connection was ended, and the approval with it.
    return (await insertGrant(tx, { ...signed.row, generation })) ? 'granted' : 'revoked'
  })
  if (outcome === 'granted') return signed.answer
  return denied(
    outcome === 'revoked'
      ? 'The owner has since revoked this connection; a new request starts from first contact.'
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
  const [blocked, connection, server, resource, tier] = await Promise.all([
    isAnyBlocked(db, owner, { handle: basis.handle, operator: family.operator }),
    readConnection(db, owner, basis.handle),
    readResourceServer(db, owner, basis.client_id),
    readResource(db, owner, basis.resource_id),
    tierOfResource(db, owner, basis.resource_id),
  ])
  return collectionFault({
    operatorBlocked: blocked,
    connection: connection?.status ?? 'none',
    sameGeneration: connection?.generation === family.generation,
    tierGoverns: tier?.tier_id === basis.tier_id && tier.epoch === basis.tier_epoch,
    resourceServerActive: server?.status === 'active',
    resourceRegistered: resource?.client_id === basis.client_id,
  })
}
