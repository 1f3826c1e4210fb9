/**
 * Tiers, the resources each governs, and the immutable versions of their terms.
 * Contract: "Policy vocabulary and tiers", "Terms document".
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { stillAllows, type AllowedRequest } from '../../../rules/joint/joint.ts'
import type { Reach } from '../../../rules/organization/membership.ts'
import type { KeyPage } from '../../core/columns.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { listStanding, takeBack, type StandingAllowance } from '../joint/joint-withdrawals.ts'
import { lockQueue } from '../owners/owners.ts'
import { withdrawItemsUnder } from '../negotiations/pending.ts'
import type { StoredRule, TermsVersionsTable, TiersTable } from '../tables.ts'
import type { ClientId, Family, Handle, Owner } from '../../../wire/identifiers.ts'
import { parseJws } from '../../../wire/signatures/jws.ts'

export type TermsRow = Selectable<TermsVersionsTable>

export interface TierRow extends Omit<Selectable<TiersTable>, 'deleted_at'> {
  resources: string[]
  terms: TermsRow
}

export interface NewTier {
  owner: Owner
  tier_id: string
  name: string
  ask_me: boolean
  rules: StoredRule[]
  clearance: Record<string, string[]>
  resources: string[]
  terms: Pick<TermsRow, 'purpose' | 'scope' | 'expires_in' | 'prohibited' | 'per_operation'>
}

/**
 * The tiers of an owner that are not deleted, each with its resources and its current terms: all of them, one
 * by id, or the one that governs a resource.
 */
async function selectTiers(
  db: Db,
  owner: Owner,
  where: { tier_id?: string; resource_id?: string; after?: string | undefined; limit: number },
): Promise<TierRow[]> {
  const { rows } = await sql<Omit<TierRow, 'terms'> & { terms: Omit<TermsRow, 'owner' | 'tier_id'> }>`
    SELECT t.owner, t.tier_id, t.name, t.ask_me, t.rules, t.clearance, t.version, t.epoch,
      ARRAY(SELECT tr.resource_id FROM tier_resources tr
            WHERE tr.owner = t.owner AND tr.tier_id = t.tier_id ORDER BY tr.resource_id) AS resources,
      json_build_object('version', v.version, 'name', v.name, 'purpose', v.purpose, 'scope', v.scope,
        'expires_in', v.expires_in, 'prohibited', v.prohibited, 'per_operation', v.per_operation,
        'published_at', v.published_at) AS terms
    FROM tiers t
    JOIN terms_versions v ON v.owner = t.owner AND v.tier_id = t.tier_id AND v.version = t.version
    WHERE t.owner = ${owner} AND t.deleted_at IS NULL
      AND ${where.tier_id === undefined ? sql`true` : sql`t.tier_id = ${where.tier_id}`}
      AND ${
        where.resource_id === undefined
          ? sql`true`
          : sql`t.tier_id = (SELECT tier_id FROM tier_resources WHERE owner = ${owner} AND resource_id = ${where.resource_id})`
      }
      AND ${where.after === undefined ? sql`true` : sql`t.tier_id > ${where.after}`}
    ORDER BY t.tier_id LIMIT ${where.limit}`.execute(db)
  return rows.map(row => ({
    ...row,
    terms: {
      ...row.terms,
      owner: row.owner,
      tier_id: row.tier_id,
      published_at: new Date(row.terms.published_at).toISOString(),
    },
  }))
}

/** The owner's tiers that are not deleted, after the given id, by id. */
export function listTiers(db: Db, owner: Owner, page: KeyPage): Promise<TierRow[]> {
  return selectTiers(db, owner, page)
}

/** One tier that is not deleted, or undefined. */
export async function readTier(db: Db, owner: Owner, tierId: string): Promise<TierRow | undefined> {
  return (await selectTiers(db, owner, { tier_id: tierId, limit: 1 }))[0]
}

/** What decides whom a tier lets through unasked. */
export type PassingTier = Pick<TierRow, 'tier_id' | 'ask_me' | 'rules'>

/**
 * The tiers that govern something, or only that of `tierId` if it does. Of the resources one is looked for,
 * because a tier may govern thousands.
 */
export async function listPassingTiers(db: Db, owner: Owner, tierId?: string): Promise<PassingTier[]> {
  const { rows } = await sql<PassingTier>`
    SELECT t.tier_id, t.ask_me, t.rules FROM tiers t
    WHERE t.owner = ${owner} AND t.deleted_at IS NULL
      AND ${tierId === undefined ? sql`true` : sql`t.tier_id = ${tierId}`}
      -- In the order of an index, so that no other row is read, whatever the planner expects.
      AND t.tier_id = (SELECT tr.tier_id FROM tier_resources tr
        WHERE tr.owner = t.owner AND tr.tier_id >= t.tier_id ORDER BY tr.tier_id LIMIT 1)
    ORDER BY t.tier_id`.execute(db)
  return rows
}

/** The tier that governs a resource; undefined means ungoverned, hence denied. */
export async function tierOfResource(db: Db, owner: Owner, resourceId: string): Promise<TierRow | undefined> {
  return (await selectTiers(db, owner, { resource_id: resourceId, limit: 1 }))[0]
}

/** Those of the named resources that are registered, each with the tier that governs it now. */
export async function listGovernable(
  db: Db,
  owner: Owner,
  resourceIds: string[],
): Promise<
  {
    resource_id: string
    client_id: ClientId
    resource_scopes: string[]
    consequence: string | null
    approval: 'signed' | null
    tier: string | null
  }[]
> {
  return db
    .selectFrom('resources as r')
    .leftJoin('tier_resources as tr', join =>
      join.onRef('tr.owner', '=', 'r.owner').onRef('tr.resource_id', '=', 'r.resource_id'),
    )
    .select([
      'r.resource_id',
      'r.client_id',
      'r.resource_scopes',
      'r.consequence',
      'r.approval',
      'tr.tier_id as tier',
    ])
    .where('r.owner', '=', owner)
    .where('r.resource_id', 'in', resourceIds.length === 0 ? [''] : resourceIds)
    .execute()
}

/** Any version of a tier's terms ever published, also of a deleted tier; undefined if there was none. */
export function readTerms(
  db: Db,
  owner: Owner,
  tierId: string,
  version: number,
): Promise<TermsRow | undefined> {
  return db
    .selectFrom('terms_versions')
    .selectAll()
    .where('owner', '=', owner)
    .where('tier_id', '=', tierId)
    .where('version', '=', version)
    .executeTakeFirst()
}

/**
 * Adds a tier, at version 1 or, if one of this id was deleted, at the next version of its numbering.
 * Takes the owner's queue lock, so that tier edits of one owner are serial.
 * @returns 'exists' if a standing tier has the id, 'governed' if a resource already has a tier.
 */
export async function insertTier(tx: Tx, tier: NewTier): Promise<'added' | 'exists' | 'governed'> {
  await lockQueue(tx, tier.owner)
  const before = await tx
    .selectFrom('tiers')
    .select(['version', 'deleted_at'])
    .where('owner', '=', tier.owner)
    .where('tier_id', '=', tier.tier_id)
    .executeTakeFirst()
  if (before !== undefined && before.deleted_at === null) return 'exists'
  const version = (before?.version ?? 0) + 1
  const row = { name: tier.name, ask_me: tier.ask_me, version, ...encoded(tier) }
  await tx
    .insertInto('tiers')
    .values({ owner: tier.owner, tier_id: tier.tier_id, ...row })
    .onConflict(conflict => conflict.columns(['owner', 'tier_id']).doUpdateSet({ ...row, deleted_at: null }))
    .execute()
  await publishTerms(tx, tier, version)
  return (await governResources(tx, tier)) ? 'added' : 'governed'
}

/** Items that the change took back, oldest first. */
type Withdrawn = { family: Family; handle: Handle }[]

/**
 * Replaces a standing tier's content; the terms get a new version whatever was changed, and what waits under
 * the old one is taken back.
 * @param expectedVersion the version the owner edited, if she said (`If-Match`).
 */
export async function updateTier(
  tx: Tx,
  tier: NewTier,
  expectedVersion: number | undefined,
): Promise<
  | { outcome: 'updated'; version: number; withdrawn: Withdrawn }
  | { outcome: 'unknown' | 'stale' | 'governed' }
> {
  await lockQueue(tx, tier.owner)
  endsLeases(tx, tier.owner)
  const before = await tx
    .selectFrom('tiers')
    .select('version')
    .where('owner', '=', tier.owner)
    .where('tier_id', '=', tier.tier_id)
    .where('deleted_at', 'is', null)
    .forUpdate()
    .executeTakeFirst()
  if (before === undefined) return { outcome: 'unknown' }
  if (expectedVersion !== undefined && expectedVersion !== before.version) return { outcome: 'stale' }
  const standing = await listStanding(tx, tier.owner, tier.tier_id)
  const was = standing.length === 0 ? undefined : await readTier(tx, tier.owner, tier.tier_id)
  const version = before.version + 1
  await tx
    .updateTable('tiers')
    .set({ name: tier.name, ask_me: tier.ask_me, version, ...encoded(tier) })
    .where('owner', '=', tier.owner)
    .where('tier_id', '=', tier.tier_id)
    .execute()
  await publishTerms(tx, tier, version)
  await takeOut(tx, tier.owner, { tier_id: tier.tier_id, except: tier.resources })
  if (!(await governResources(tx, tier))) return { outcome: 'governed' }
  if (was !== undefined) await takeBackBeyond(tx, standing, was, tier)
  return { outcome: 'updated', version, withdrawn: await withdrawItemsUnder(tx, tier.owner, tier.tier_id) }
}

/** Takes back what she allowed under a tier and would not by what it is now. */
// oxlint-disable-next-line eslint/max-params -- what stands, and the tier before and after
async function takeBackBeyond(
  tx: Tx,
  standing: readonly StandingAllowance[],
  before: TierRow,
  after: NewTier,
): Promise<void> {
  const beyond = standing.filter(one => {
    const allowed = allowedBy(one)
    return allowed === undefined || !stillAllows(before, after, allowed)
  })
  if (beyond.length === 0) return
  const { owner, tier_id } = after
  await takeBack(tx, owner, { tier_id, negotiations: beyond.map(({ negotiation }) => negotiation) })
}

/** The terms as they were signed; undefined if the answer is a refusal by now. */
function allowedBy({ resource_id, effect, verdict }: StandingAllowance): AllowedRequest | undefined {
  if (effect !== 'allow' || verdict === null) return undefined
  const { scope, expires_in, operation } = parseJws(verdict).payload as unknown as AllowedRequest
  return { resource_id, scope, expires_in, operation }
}

/**
 * Deletes a tier: its resources become ungoverned, every grant under it ends (their epoch is past), what
 * waits under it is taken back, its published terms stay.
 * @returns the resources no tier governs any more, or undefined if no such tier stands.
 */
export async function deleteTier(
  tx: Tx,
  owner: Owner,
  tierId: string,
  expectedVersion: number | undefined,
): Promise<
  { outcome: 'deleted'; ungoverned: string[]; withdrawn: Withdrawn } | { outcome: 'unknown' | 'stale' }
> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  await sql`SELECT FROM tiers WHERE owner = ${owner} AND tier_id = ${tierId} FOR UPDATE`.execute(tx)
  const before = await readTier(tx, owner, tierId)
  if (before === undefined) return { outcome: 'unknown' }
  if (expectedVersion !== undefined && expectedVersion !== before.version) return { outcome: 'stale' }
  await tx
    .updateTable('tiers')
    .set({ deleted_at: sql<string>`now()`, epoch: sql<number>`epoch + 1` })
    .where('owner', '=', owner)
    .where('tier_id', '=', tierId)
    .execute()
  await takeOut(tx, owner, { tier_id: tierId, except: [] })
  const standing = await listStanding(tx, owner, tierId)
  if (standing.length > 0)
    await takeBack(tx, owner, {
      tier_id: tierId,
      negotiations: standing.map(({ negotiation }) => negotiation),
    })
  const withdrawn = await withdrawItemsUnder(tx, owner, tierId)
  return { outcome: 'deleted', ungoverned: before.resources, withdrawn }
}

/**
 * Everything that a tier governs except some; or the named resources, whichever tier governs each.
 */
type TierRemoval = { tier_id: string; except: readonly string[] } | { resource_ids: readonly string[] }

/**
 * Takes resources out of their tiers: nothing governs them then, and grants on them are dead. The rows are
 * locked as a consume locks them, the tier before its resources and these in order. Rows that stay governed
 * are not touched: a consume under way would see a row that was written again as gone. The caller holds the
 * owner's queue lock.
 */
export async function takeOut(tx: Tx, owner: Owner, which: TierRemoval): Promise<void> {
  endsLeases(tx, owner)
  const condition =
    'tier_id' in which
      ? sql`tier_id = ${which.tier_id} AND resource_id <> ALL(${which.except}::text[])`
      : sql`resource_id = ANY(${which.resource_ids}::text[])`
  await sql`
    WITH locked AS MATERIALIZED (
      SELECT resource_id FROM tier_resources WHERE owner = ${owner} AND ${condition} ORDER BY resource_id FOR UPDATE)
    DELETE FROM tier_resources tr USING locked
    WHERE tr.owner = ${owner} AND tr.resource_id = locked.resource_id`.execute(tx)
}

function encoded(tier: NewTier): { rules: string; clearance: string } {
  return { rules: JSON.stringify(tier.rules), clearance: JSON.stringify(tier.clearance) }
}

async function publishTerms(tx: Tx, tier: NewTier, version: number): Promise<void> {
  const { owner, tier_id, name, terms } = tier
  await tx
    .insertInto('terms_versions')
    .values({ owner, tier_id, version, name, ...terms })
    .execute()
}

/** How the resource stands under a membership, as the resource itself says. */
function orgOf(owner: Owner, resource_id: string): RawBuilder<Reach | null> {
  return sql<Reach | null>`(SELECT org FROM resources WHERE owner = ${owner} AND resource_id = ${resource_id})`
}

/**
 * A hold that no grant was made under yet: the microsecond, because a count would begin anew with a row that
 * is written anew.
 */
export const ANOTHER_HOLD: RawBuilder<string> = sql<string>`(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

/** @returns whether the tier governs exactly the resources it names. */
async function governResources(tx: Tx, tier: NewTier): Promise<boolean> {
  const { owner, tier_id, resources } = tier
  if (resources.length > 0)
    await tx
      .insertInto('tier_resources')
      .values(
        resources.map(resource_id => ({
          owner,
          resource_id,
          tier_id,
          org: orgOf(owner, resource_id),
          hold: ANOTHER_HOLD,
        })),
      )
      .onConflict(conflict => conflict.columns(['owner', 'resource_id']).doNothing())
      .execute()
  const { n } = await tx
    .selectFrom('tier_resources')
    .select(sql<number>`count(*)::int`.as('n'))
    .where('owner', '=', owner)
    .where('tier_id', '=', tier_id)
    .executeTakeFirstOrThrow()
  return n === resources.length
}
