/**
 * Asks organizations for the views of their members, each about once a minute, and after a notice as soon as
 * 5 s have passed since the last answer. What narrows access takes effect with the answer; what enlarges it
 * waits for her. Contract: "Organization membership, on the member's authorization server", "Events" (the
 * envelope is polled).
 */
import { isDeepStrictEqual } from 'node:util'
import type { Repetition } from '../../limits/repetition.ts'
import { saysTheSame, takesAccess } from '../../rules/organization/membership.ts'
import type { MemberView } from '../../rules/organization/member-view.ts'
import { dueAgainIn, dueNoMore, dueNow, type DueClaim } from '../../storage/authority/due.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import {
  confirmView,
  readMembership,
  updateMembership,
  type Membership,
} from '../../storage/authority/membership/membership.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { RoundContext } from '../context.ts'
import { startDueRounds } from '../due-rounds.ts'
import { OrganizationOutage, OrganizationRefusal } from './client.ts'
import { named, VIEW_SECONDS, waitingFor } from './membership.ts'
import { warmReach, applyMembership } from './membership-effect.ts'
import { agreedUnder } from './view-document.ts'

/** How long one replica has a member to itself: longer than asking takes. */
const CLAIM_SECONDS = 30
const RETRY_SECONDS = 10
/**
 * How long nobody asks about a member after the last answer, however many notices come: each makes her due at
 * once, and an organization may send as many as it likes.
 */
const PAUSE_SECONDS = 5

/** Starts asking, if there is an organization that may be asked. */
export function startViews(authority: RoundContext): Repetition | undefined {
  if (authority.organizations.issuers.length === 0) return undefined
  const lines = {
    round: 'asking organizations was broken off',
    one: 'an organization was not asked about its member',
  }
  const failed: Failed = new Map()
  return startDueRounds(authority, { kind: 'view', claimSeconds: CLAIM_SECONDS, lines }, claim =>
    askOne(authority, claim, failed),
  )
}

/**
 * When this replica last asked in vain, by owner, in ms. To all replicas the membership itself says when the
 * organization last answered.
 */
type Failed = Map<Owner, number>

/** A failure for one member stops no others; she becomes due again by herself. */
async function askOne(authority: RoundContext, claim: DueClaim, failed: Failed): Promise<void> {
  const { owner } = claim
  const db = authority.database.ofNobody
  const membership = await readMembership(db, owner)
  const failedAgo = (performance.now() - (failed.get(owner) ?? -Infinity)) / 1_000
  if (membership === undefined || failedAgo >= PAUSE_SECONDS) failed.delete(owner)
  if (membership === undefined) return await dueNoMore(db, claim)
  const ago = Math.min(membership.read_ago, failedAgo)
  if (ago < PAUSE_SECONDS) return await dueAgainIn(db, claim, PAUSE_SECONDS - ago)
  const isRead = await ask(authority, membership)
  if (!isRead) failed.set(owner, performance.now())
  await dueAgainIn(db, claim, isRead ? VIEW_SECONDS * (0.75 + Math.random() / 2) : RETRY_SECONDS)
}

/** @returns whether the organization answered with her view. */
async function ask({ organizations, database, log }: RoundContext, membership: Membership): Promise<boolean> {
  const { owner, issuer, join_id, token, view, agreed } = membership
  try {
    const now = await organizations.envelope(issuer, { token, known: view.view })
    if (now === undefined) {
      await confirmView(database.ofNobody, owner, join_id)
      return true
    }
    await warmReach(database.ofNobody, owner, { agreed, view: now })
    // The comparisons of patterns are kept, so that they are not made while her queue is locked.
    waitingFor({ ...membership, agreed: agreedUnder(membership, now), view: now })
    return await takeView(database.ofNobody, owner, { join_id, view: now })
  } catch (error) {
    if (!(error instanceof OrganizationRefusal || error instanceof OrganizationOutage)) throw error
    log.warn({ err: error, owner, issuer }, 'an organization did not answer about its member')
    return false
  }
}

/**
 * Puts a later view into effect. A view that is older than the known one, or that differs under the same
 * number, is dropped, and confirms nothing: after ten minutes of that, the organization is not relied on.
 * @returns whether it was taken.
 *
 * @internal for the tests, which race answers that overtake each other on a real Postgres.
 */
export function takeView(
  db: Db,
  owner: Owner,
  { join_id, view }: { join_id: string; view: MemberView },
): Promise<boolean> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    const before = await readMembership(tx, owner)
    if (before?.join_id !== join_id || view.view < before.view.view) return false
    if (view.view === before.view.view) {
      if (!isDeepStrictEqual(view, before.view)) return false
      await confirmView(tx, owner, join_id)
      return true
    }
    // A view does not show what is attested about her, so each later view may mean that it changed.
    const loses = takesAccess(before.view, view) || 'cleared'
    await updateMembership(tx, owner, { agreed: agreedUnder(before, view), view, loses })
    await applyMembership(tx, owner, { by: 'organization' })
    await dueNow(tx, owner, 'compliance')
    const after = (await readMembership(tx, owner))!
    // Views that differ in their number alone are not recorded, or a hostile organization could flood her
    // ledger. What ended grants is always recorded.
    if (!saysTheSame(before.view, view) || before.org_epoch !== after.org_epoch) await tell(tx, before, after)
    return true
  })
}

async function tell(tx: Tx, before: Membership, after: Membership): Promise<void> {
  const { owner, view } = after
  const { role, role_name, charter_version } = view
  const waiting = waitingFor(after)
  const change = { ...named(view), charter_version, role, role_name, waiting, by: 'organization' }
  const kind = before.view.role === role ? ('org_acted' as const) : ('org_role' as const)
  const what = kind === 'org_role' ? 'role_changed' : 'charter_changed'
  await appendLedger(tx, owner, { kind, data: { what, ...change } })
  await appendEvent(tx, owner, 'organization', { what, ...change })
}
