/**
 * Puts a membership into effect on an owner's records: which of her resources it reaches, and what its
 * ceiling leaves of her tiers. Contract: "Organization membership, on the member's authorization server"
 * (what the ceiling does to each tier).
 */
import { setImmediate } from 'node:timers/promises'
import { cutTier, cutsBetween, type Cut } from '../../rules/organization/tier-ceiling.ts'
import { reachOf, type AgreedView } from '../../rules/organization/membership.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { dueNow } from '../../storage/authority/due.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import {
  addClampedFields,
  hasSharedGrant,
  listReached,
  readMembership,
  updateMembership,
  writeReached,
  type ReachedResource,
} from '../../storage/authority/membership/membership.ts'
import {
  listTiers,
  readTier,
  updateTier,
  type NewTier,
  type TierRow,
} from '../../storage/authority/policies/tiers.ts'
import type { DecidedBy } from '../../wire/owner/actor.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { templateId } from '../../wire/negotiation/terms.ts'
import { tellWithdrawn } from '../negotiation/withdrawals.ts'

/**
 * A cut, and the tier that it is made in; `own_resources` are those of the tier that are hers alone and cut
 * with it.
 */
export interface TierChange extends Cut {
  tier: string
  tier_name: string
  own_resources: string[]
}

/** Who made a change, in the ledger: she, or her organization. */
export type DoneBy = DecidedBy | { by: 'organization' }

/** How many of an owner's tiers are listed at most. */
const TIERS_MAX = 100_000

/** What the ceiling would do to her tiers, and which resources it would govern. */
export async function previewCuts(
  db: Db,
  owner: Owner,
  bound: AgreedView,
): Promise<{ changes: TierChange[]; governed_resources: string[]; conflicts: string[] }> {
  const resources = await warmReach(db, owner, bound)
  const claimed = resources.filter(({ resource_id }) => reachOf(resource_id, bound) !== null)
  const tiers = await tiersOf(db, owner)
  return {
    changes: tiers.flatMap(tier => changesOf(tier, bound)),
    governed_resources: claimed.filter(one => !isJoint(one)).map(({ resource_id }) => resource_id),
    conflicts: claimed.filter(isJoint).map(({ resource_id }) => resource_id),
  }
}

/**
 * Resources that are looked at before others have their turn: 200 patterns each, at the worst 5 ms in all.
 */
const RESOURCES_AT_ONCE = 20

/**
 * Lists her resources, and computes how far the charter reaches each of them. The results are kept. A hostile
 * charter can make this slow, and nobody else may wait for it: whoever is about to apply a charter calls this
 * before the transaction, so that its locks are held briefly. `brought`: ids that she is about to have.
 */
export async function warmReach(
  db: Db,
  owner: Owner,
  bound: AgreedView,
  brought: readonly string[] = [],
): Promise<ReachedResource[]> {
  const resources = await listReached(db, owner)
  const ids = [...resources.map(({ resource_id }) => resource_id), ...brought]
  for (const [at, id] of ids.entries()) {
    if (at % RESOURCES_AT_ONCE === RESOURCES_AT_ONCE - 1) await setImmediate()
    reachOf(id, bound)
  }
  return resources
}

/** Calls `warmReach` before a pull of the registry changes her resources, if she is a member. */
export async function warmReachWith(db: Db, owner: Owner, brought: readonly string[]): Promise<void> {
  const membership = await readMembership(db, owner)
  if (membership !== undefined) await warmReach(db, owner, membership, brought)
}

/** All her tiers. */
export function tiersOf(db: Db, owner: Owner): Promise<TierRow[]> {
  return listTiers(db, owner, { limit: TIERS_MAX })
}

/** A resource that several hold is never governed. */
function isJoint({ source }: ReachedResource): boolean {
  return source === 'joint'
}

/** What the ceiling cuts of one tier. */
export function changesOf(tier: TierRow, bound: AgreedView): TierChange[] {
  const own_resources = tier.resources.filter(id => reachOf(id, bound) === null)
  return cutsBetween(tier, underView(tier, bound)).map(cut => ({
    tier: tier.tier_id,
    tier_name: tier.name,
    ...cut,
    own_resources,
  }))
}

/** The tier as the ceiling leaves it. */
function underView<Tier extends NewTier | TierRow>(tier: Tier, bound: AgreedView): Tier {
  return cutTier(tier, bound.view, id => reachOf(id, bound) !== null)
}

/** A tier that is about to be stored, under the present ceiling; `cuts` is undefined if she is no member. */
export async function underCeiling(
  tx: Tx,
  tier: NewTier,
): Promise<{ tier: NewTier; cuts: Cut[] | undefined }> {
  const membership = await readMembership(tx, tier.owner)
  if (membership === undefined) return { tier, cuts: undefined }
  const left = underView(tier, membership)
  const cuts = cutsBetween(tier, left)
  await noteCuts(tx, tier.owner, cuts)
  return { tier: left, cuts }
}

/**
 * Schedules a report to the organization that its ceiling cut, and which fields. Call this before the tiers
 * are written, because the membership is locked before them.
 */
async function noteCuts(tx: Tx, owner: Owner, cuts: readonly Cut[]): Promise<void> {
  if (cuts.length === 0) return
  await addClampedFields(
    tx,
    owner,
    cuts.map(({ field }) => field),
  )
  await dueNow(tx, owner, 'compliance')
}

/**
 * Writes which resources are reached, cuts their tiers, and ends grants on a resource that is no longer
 * shared. Runs in the transaction that changed the membership or the resources, under the lock of the
 * owner's queue.
 */
export async function applyMembership(tx: Tx, owner: Owner, done: DoneBy): Promise<TierChange[]> {
  const membership = await readMembership(tx, owner)
  // Without a membership nothing of hers is governed: its end has released all of it.
  if (membership === undefined) return []
  const resources = await warmReach(tx, owner, membership)
  const targets = resources.map(one => ({
    ...one,
    now: isJoint(one) ? null : reachOf(one.resource_id, membership),
  }))
  const unshared = targets.filter(({ org, now }) => org !== 'governed' && now === 'governed')
  // It may have been shared and then hers alone for a while, so grants from the time when it was shared end,
  // too.
  const hers = unshared.filter(({ org }) => org === null).map(({ resource_id }) => resource_id)
  if (hers.length < unshared.length || (await hasSharedGrant(tx, owner, hers)))
    await updateMembership(tx, owner, { loses: true })
  const changes = await cutTiers(tx, owner, membership, done)
  const moved = targets.filter(({ org, now }) => org !== now)
  await writeReached(
    tx,
    owner,
    moved.map(({ resource_id, now }) => ({ resource_id, org: now })),
  )
  // The organization gets a report in numbers about what it governs from now on.
  if (moved.length > 0) await dueNow(tx, owner, 'compliance')
  return changes
}

/**
 * The resources that the organization reached are hers alone from now on, because her membership has ended.
 * Runs in the transaction that ends it, as `applyMembership` does in one that changes it.
 */
export async function ungovernAll(tx: Tx, owner: Owner): Promise<void> {
  const reached = (await listReached(tx, owner)).filter(({ org }) => org !== null)
  await writeReached(
    tx,
    owner,
    reached.map(({ resource_id }) => ({ resource_id, org: null })),
  )
}

async function cutTiers(tx: Tx, owner: Owner, bound: AgreedView, done: DoneBy): Promise<TierChange[]> {
  const cut = (await tiersOf(tx, owner))
    .map(tier => ({ tier, cuts: changesOf(tier, bound) }))
    .filter(({ cuts }) => cuts.length > 0)
  const changes = cut.flatMap(({ cuts }) => cuts)
  await noteCuts(tx, owner, changes)
  for (const { tier } of cut) {
    const edited = await updateTier(tx, underView(contentOf(tier), bound), undefined)
    if (edited.outcome !== 'updated') throw new Error(`a tier that was just read is ${edited.outcome}`)
    await tellWithdrawn(tx, owner, edited.withdrawn, 'terms_changed')
    await tellClamped(tx, { before: tier, after: (await readTier(tx, owner, tier.tier_id))! }, bound, done)
  }
  return changes
}

/** The members of a stored tier that are stored again, as the next version. */
function contentOf({ owner, tier_id, name, ask_me, rules, clearance, resources, terms }: TierRow): NewTier {
  const { purpose, scope, expires_in, prohibited, per_operation } = terms
  const tierTerms = { purpose, scope, expires_in, prohibited, per_operation }
  return { owner, tier_id, name, ask_me, rules, clearance, resources, terms: tierTerms }
}

/** The whole tier as it is from now on, as after an edit by her, and what was cut. */
async function tellClamped(
  tx: Tx,
  { before, after }: { before: TierRow; after: TierRow },
  { view }: AgreedView,
  done: DoneBy,
): Promise<void> {
  const { owner, tier_id, name, resources, ask_me, rules, clearance } = after
  await appendLedger(tx, owner, {
    kind: 'org_clamped',
    data: {
      tier: tier_id,
      template_id: templateId(owner, tier_id, after.version),
      was: templateId(owner, tier_id, before.version),
      tier_name: name,
      resources,
      ask_me,
      rules,
      clearance,
      cuts: cutsBetween(before, after).map(({ field, was, now }) => ({ field, was, now })),
      issuer: view.issuer,
      org: view.org,
      charter_version: view.charter_version,
      ...done,
    },
  })
}
