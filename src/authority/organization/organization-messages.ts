/**
 * Sends organizations what they must know of an owner: that she left, that she declined, that she takes back
 * a join whose outcome is unknown. Each is sent until it is acknowledged. Contract: "Organization membership,
 * on the member's authorization server".
 */
import type { Repetition } from '../../limits/repetition.ts'
import { dueAgainIn, dueNoMore, type DueClaim } from '../../storage/authority/due.ts'
import {
  countAttempt,
  endCall,
  listCalls,
  takeBackJoins,
  type OrganizationCall,
} from '../../storage/authority/membership/organization-calls.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { RoundContext } from '../context.ts'
import { startDueRounds } from '../due-rounds.ts'
import { OrganizationOutage, OrganizationRefusal } from './client.ts'

/** How long one replica has an owner's calls to itself: longer than sending them takes. */
const CLAIM_SECONDS = 60
/** The pause between two attempts, which gets longer each time. */
const RETRY_SECONDS = { first: 2, max: 300 }

/** Starts telling, if there is an organization that may be asked. */
export function startCalls(authority: RoundContext): Repetition | undefined {
  if (authority.organizations.issuers.length === 0) return undefined
  const lines = { round: 'telling organizations was broken off', one: 'an organization was not told' }
  return startDueRounds(authority, { kind: 'tell', claimSeconds: CLAIM_SECONDS, lines }, claim =>
    tellOne(authority, claim),
  )
}

/** A failure for one owner stops no others; she becomes due again by herself. */
async function tellOne(authority: RoundContext, claim: DueClaim): Promise<void> {
  const { owner } = claim
  const db = authority.database.ofNobody
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await takeBackJoins(tx, owner)
  })
  for (const call of await listCalls(db, owner)) {
    if (call.kind === 'join') continue
    if (await tellCall(authority, owner, call)) await endCall(db, owner, call.id)
    else await countAttempt(db, owner, call.id)
  }
  const left = await listCalls(db, owner)
  const attempts = Math.max(0, ...left.map(one => one.attempts))
  const pause = Math.min(RETRY_SECONDS.first * 2 ** Math.min(attempts, 20), RETRY_SECONDS.max)
  if (left.length === 0) await dueNoMore(db, claim)
  else await dueAgainIn(db, claim, pause)
}

/**
 * @returns whether nothing is left to tell: the organization acknowledged, or said for certain that it will
 * not.
 */
async function tellCall(
  { organizations, log }: RoundContext,
  owner: Owner,
  { id, kind, issuer }: OrganizationCall,
): Promise<boolean> {
  try {
    if (kind === 'leave') await organizations.leave(issuer, { owner, join_id: id })
    else await organizations.decline(issuer, { owner })
    return true
  } catch (error) {
    const isRefused = error instanceof OrganizationRefusal
    if (!isRefused && !(error instanceof OrganizationOutage)) throw error
    log.warn({ err: error, owner, issuer, kind }, 'an organization did not accept a message')
    // That she declined is on record here, whatever the organization records; that she left must arrive.
    return isRefused && kind === 'decline' && error.status !== 429
  }
}
