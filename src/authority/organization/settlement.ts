/**
 * Puts a membership into effect on an owner's records: which of her resources it reaches, and what its
 * ceiling leaves of her tiers. Contract: "Organization membership, on the member's authorization server"
 * (what the ceiling does to each tier).
 */
import { clampTier, cutsBetween, type Cut } from '../../rules/envelope.ts'
import { reachOf, type Bound } from '../../rules/membership.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { dueNow } from '../../storage/authority/due.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import {
  addClampedFields,
  listReached,
  readMembership,
  updateMembership,
  writeReached,
  type ReachedResource,
} from '../../storage/authority/membership.ts'
import { listTiers, readTier, updateTier, type NewTier, type TierRow } from '../../storage/authority/tiers.ts'
import type { DecidedBy } from '../../wire/actor.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { templateId } from '../../wire/terms.ts'
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

/** Whose doing a change is, in the ledger: hers, or her organization's. */
export type DoneBy = DecidedBy | { by: 'organization' }

/** An owner has at most so many tiers that are worth listing. */
const TIERS_MAX = 100_000

/** What the ceiling would do to her tiers, and which resources it would govern. */
export async function foresee(
  db: Db,
  owner: Owner,
  bound: Bound,
): Promise<{ changes: TierChange[]; governed_resources: string[]; conflicts: string[] }> {
  const resources = await listReached(db, owner)
  const claimed = resources.filter(({ resource_id }) => reachOf(resource_id, bound) !== null)
  const tiers = await tiersOf(db, owner)
  return {
    changes: tiers.flatMap(tier => changesOf(tier, bound)),
    governed_resources: claimed.filter(one => !isJoint(one)).map(({ resource_id }) => resource_id),
    conflicts: claimed.filter(isJoint).map(({ resource_id }) => resource_id),
  }
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
export function changesOf(tier: TierRow, bound: Bound): TierChange[] {
  const own_resources = tier.resources.filter(id => reachOf(id, bound) === null)
  return cutsBetween(tier, clamped(tier, bound)).map(cut => ({
    tier: tier.tier_id,
    tier_name: tier.name,
    ...cut,
    own_resources,
  }))
}

/** The tier as the ceiling leaves it. */
function clamped<Tier extends NewTier | TierRow>(tier: Tier, bound: Bound): Tier {
  return clampTier(tier, bound.view, id => reachOf(id, bound) !== null)
}

/**
 * A tier that is about to be stored, under whatever ceiling there is; undefined cuts where she is no member.
 */
export async function underCeiling(
  tx: Tx,
  tier: NewTier,
): Promise<{ tier: NewTier; clamped: Cut[] | undefined }> {
  const membership = await readMembership(tx, tier.owner)
  if (membership === undefined) return { tier, clamped: undefined }
  const left = clamped(tier, membership)
  const cuts = cutsBetween(tier, left)
  await noteCuts(tx, tier.owner, cuts)
  return { tier: left, clamped: cuts }
}

/**
 * Has the organization told that its ceiling cut, and which fields. Before the tiers are written, for the
 * membership is locked before them.
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
 * Writes which resources are reached, cuts the tiers that are, and ends what was granted on a resource that
 * is shared no more. In the transaction that changed the membership or the resources, under the lock of the
 * owner's queue.
 */
export async function settle(tx: Tx, owner: Owner, done: DoneBy): Promise<TierChange[]> {
  const membership = await readMembership(tx, owner)
  const resources = await listReached(tx, owner)
  const wanted = resources.map(one => ({
    ...one,
    now: membership === undefined || isJoint(one) ? null : reachOf(one.resource_id, membership),
  }))
  if (wanted.some(({ org, now }) => org === 'shared' && now === 'governed'))
    await updateMembership(tx, owner, { loses: true })
  const changes = membership === undefined ? [] : await cutTiers(tx, owner, membership, done)
  const moved = wanted.filter(({ org, now }) => org !== now)
  await writeReached(
    tx,
    owner,
    moved.map(({ resource_id, now }) => ({ resource_id, org: now })),
  )
  // What it governs from now on, the organization is told in numbers.
  if (membership !== undefined && moved.length > 0) await dueNow(tx, owner, 'compliance')
  return changes
}

async function cutTiers(tx: Tx, owner: Owner, bound: Bound, done: DoneBy): Promise<TierChange[]> {
  const cut = (await tiersOf(tx, owner))
    .map(tier => ({ tier, cuts: changesOf(tier, bound) }))
    .filter(({ cuts }) => cuts.length > 0)
  const changes = cut.flatMap(({ cuts }) => cuts)
  await noteCuts(tx, owner, changes)
  for (const { tier } of cut) {
    const edited = await updateTier(tx, clamped(contentOf(tier), bound), undefined)
    if (edited.outcome !== 'updated') throw new Error(`a tier that was just read is ${edited.outcome}`)
    await tellWithdrawn(tx, owner, edited.withdrawn, 'terms_changed')
    await tellClamped(tx, { before: tier, after: (await readTier(tx, owner, tier.tier_id))! }, bound, done)
  }
  return changes
}

/** What of a stored tier is stored anew, as the next version. */
function contentOf({ owner, tier_id, name, ask_me, rules, clearance, resources, terms }: TierRow): NewTier {
  const { purpose, scope, expires_in, prohibited, per_operation } = terms
  const kept = { purpose, scope, expires_in, prohibited, per_operation }
  return { owner, tier_id, name, ask_me, rules, clearance, resources, terms: kept }
}

/** How the tier is from now on, whole, as after an edit of hers; and what was cut. */
async function tellClamped(
  tx: Tx,
  { before, after }: { before: TierRow; after: TierRow },
  { view }: Bound,
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
