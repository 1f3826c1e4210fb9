/**
 * Owns an administrator's decision on a request that waits with a member, if it touches what the organization
 * governs. The first of her and its administrators decides; what he may decide is the rule of
 * rules/organization/may-decide.ts, for which this file reads the facts. Contract: "Organization membership,
 * on the member's authorization server" (`/org/admin/{owner}/...`), "Policy vocabulary and tiers" (never the
 * owner's personal approval).
 */
import { mayDecide, type Obstacle } from '../../rules/organization/may-decide.ts'
import { reachOf } from '../../rules/organization/membership.ts'
import { isEndedByOwner } from '../../storage/authority/connections/connections.ts'
import { isGovernedItem } from '../../storage/authority/membership/administered.ts'
import { readGovernedResource } from '../../storage/authority/negotiations/governance.ts'
import {
  readUndecided,
  type FormerItem,
  type UndecidedItem,
} from '../../storage/authority/negotiations/pending.ts'
import { readStanding } from '../../storage/authority/negotiations/standing.ts'
import type { Family } from '../../wire/identifiers.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { refusesNow, trajectoryCountTo } from '../negotiation/evaluation.ts'
import { decideItem, isAnyBlockedNow, refuseUnsigned } from '../owner/pending/decision.ts'
import { shownActor } from './administered.ts'
import { requirePower, type Acting, type Administered } from './administrator.ts'

/** Of a family that waits with nobody, or is none of his business. */
export const NO_SUCH_ITEM = 'Nothing that you may decide waits under this family.'

/**
 * Decides one item. If she decided first, her decision is final. Refuses `not_found` for what he may not see,
 * `request_denied` for what only she can approve, and `conflict` for what no longer waits.
 */
export async function decideAsAdministrator(
  api: Administered,
  acting: Acting,
  { family, decision }: { family: Family; decision: 'approved' | 'denied' },
): ReturnType<typeof decideItem> {
  const { tx, owner, by } = acting
  const read = await readUndecided(tx, owner, family)
  if (!(await isGovernedItem(tx, owner, family))) refuseNotHis(acting, read)
  if (decision === 'approved') requirePower(acting, 'approve')
  if (read === 'unknown') refuse('not_found', NO_SUCH_ITEM)
  if ('gone' in read) throw noLongerWaits(read.gone)
  const obstacle = decision === 'approved' && (await obstacleTo(api, acting, read.item))
  if (!mayDecide('administrator', decision, obstacle))
    refuse('request_denied', 'Ask her: only she can approve this request.', {
      extra: { reason: 'owner_only' },
    })
  if (decision === 'approved') await refuseUnsigned(tx, read.item)
  return decideItem({ tx, owner, by, noLongerWaits }, read.item, decision, {
    reach: 'organization',
    isListed: false,
  })
}

/**
 * Refuses 404 as if the item did not exist. Only for a resource that the charter claims in a version to which
 * she has not agreed yet, the refusal is 403 `not_agreed`.
 */
function refuseNotHis({ membership }: Acting, read: Awaited<ReturnType<typeof readUndecided>>): never {
  const { view } = membership
  const resource_id = read === 'unknown' || 'gone' in read ? undefined : read.item.resource_id
  if (resource_id !== undefined && reachOf(resource_id, membership) === null)
    if (reachOf(resource_id, { agreed: view, view }) !== null)
      refuse(
        'request_denied',
        'Wait until she has agreed: a later charter claims this, and not yet of her.',
        {
          extra: { reason: 'not_agreed' },
        },
      )
  return refuse('not_found', NO_SUCH_ITEM)
}

/** What stands against an approval by an administrator, the first that is found; false if nothing does. */
async function obstacleTo(
  { limits }: Pick<Administered, 'limits'>,
  { tx, owner, membership }: Acting,
  item: UndecidedItem,
): Promise<Obstacle | false> {
  const { handle, operator, held } = item
  if ((await isAnyBlockedNow(tx, owner, item)) !== false) return 'blocked'
  if (await isEndedByOwner(tx, owner, { handle, jkt: held.jkt })) return 'ended'
  const { resource, tier } = await readGovernedResource(tx, held)
  if (resource === undefined || tier === undefined) return 'refused'
  const standing = await readStanding(tx, owner, {
    handle,
    tier_id: tier.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: trajectoryCountTo(tier.rules),
    operator: operator ?? undefined,
    membership: membership.join_id,
  })
  if (standing.endedByOrganization) return 'ended'
  const { jkt, operation, facts } = held
  const agreed = { ...facts, jkt, operation, approved: false }
  return refusesNow({ tier, resource }, standing, agreed) && 'refused'
}

/** 409, saying who came first, but not with which of her credentials. */
function noLongerWaits(outcome?: FormerItem): Refusal {
  const { decision = null, decided_by: by = null, decided_actor = null } = outcome ?? {}
  if (decision === null || by === null)
    return new Refusal('conflict', 'This no longer waits: it was decided, withdrawn or has expired.')
  const actor = shownActor(decided_actor)
  const who = actor.kind === 'owner' ? 'her' : `${actor.admin}, an administrator of ${actor.name}`
  return new Refusal('conflict', `This was ${decision} already, by ${who}.`, {
    extra: { decision, by, actor },
  })
}
