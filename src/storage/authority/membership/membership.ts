/**
 * The membership of an owner: what she agreed to, the organization's present word, and which of her resources
 * it reaches. Whatever changes it holds her queue's lock and then this row's. Contract: "Organization
 * membership, on the member's authorization server".
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { Cut } from '../../../rules/organization/tier-ceiling.ts'
import type { MemberView } from '../../../rules/organization/member-view.ts'
import type { Reach } from '../../../rules/organization/membership.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import { endsLeases } from '../../core/after-commit.ts'
import { ANOTHER_HOLD } from '../policies/tiers.ts'
import type { Db, Tx } from '../database.ts'
import type { MembershipsTable, ResourcesTable } from '../tables.ts'

type MembershipRow = Selectable<MembershipsTable>

/** A membership that is in force. */
export type Membership = { [M in keyof MembershipRow]: NonNullable<MembershipRow[M]> } & {
  /** Seconds since the organization last said that `view` is hers. */
  read_ago: number
}

/** The membership that is in force, or undefined. */
export async function readMembership(db: Db, owner: Owner): Promise<Membership | undefined> {
  const { rows } = await sql<Membership>`
    SELECT *, extract(epoch FROM clock_timestamp() - read_at)::float8 AS read_ago
    FROM memberships WHERE owner = ${owner} AND issuer IS NOT NULL`.execute(db)
  return rows[0]
}

/** Those of these organizations that have a member here. */
export async function joinedOrganizations(db: Db, issuers: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ issuer: string }>`
    SELECT issuer FROM unnest(${[...issuers]}::text[]) AS listed (issuer)
    WHERE EXISTS (SELECT FROM memberships m WHERE m.issuer = listed.issuer)`.execute(db)
  return rows.map(({ issuer }) => issuer)
}

/**
 * Locks it against whatever rests on it, if there is one. A landing calls this right after the queue's lock
 * and before all others, because a consume locks the membership first: in another order each could wait for
 * the other.
 */
export async function lockMembership(tx: Tx, owner: Owner): Promise<void> {
  await sql`SELECT FROM memberships WHERE owner = ${owner} FOR NO KEY UPDATE`.execute(tx)
}

/** What joining writes. */
export interface NewMembership {
  issuer: string
  join_id: string
  token: string
  view: MemberView
  administrators_may: readonly string[]
}

/**
 * Makes her a member, of none before, at an epoch that no grant was issued under. The caller holds the
 * queue's lock.
 */
export async function insertMembership(tx: Tx, owner: Owner, membership: NewMembership): Promise<void> {
  endsLeases(tx, owner)
  const view = JSON.stringify(membership.view)
  await sql`
    INSERT INTO memberships AS m (owner, org_epoch, issuer, join_id, token, joined_at, agreed, view, read_at, administrators_may)
    VALUES (${owner}, 1, ${membership.issuer}, ${membership.join_id}, ${membership.token}, now(), ${view}, ${view}, clock_timestamp(),
      ${membership.administrators_may}::text[])
    ON CONFLICT (owner) DO UPDATE SET org_epoch = m.org_epoch + 1, issuer = excluded.issuer, join_id = excluded.join_id,
      token = excluded.token, joined_at = excluded.joined_at, agreed = excluded.agreed, view = excluded.view,
      read_at = excluded.read_at, administrators_may = excluded.administrators_may, clamped_fields = '{}'
    WHERE m.issuer IS NULL`.execute(tx)
}

/** Ends it, and with its epoch every grant on what it governed. The caller holds the queue's lock. */
export async function endMembership(tx: Tx, owner: Owner): Promise<void> {
  endsLeases(tx, owner)
  await sql`
    UPDATE memberships SET org_epoch = org_epoch + 1, issuer = NULL, join_id = NULL, token = NULL, joined_at = NULL,
      agreed = NULL, view = NULL, read_at = NULL, administrators_may = NULL
    WHERE owner = ${owner} AND issuer IS NOT NULL`.execute(tx)
}

/** The changes to a membership; `loses`: no earlier grant may live on. */
export interface MembershipChange {
  agreed?: MemberView
  /** Said by the organization now. */
  view?: MemberView
  administrators_may?: readonly string[]
  /** `cleared`: only if one of them that could still be used was made because of what she is attested. */
  loses?: boolean | 'cleared'
}

/** Writes a change; the caller holds the queue's lock. */
export async function updateMembership(tx: Tx, owner: Owner, change: MembershipChange): Promise<void> {
  const { agreed, view, administrators_may, loses = false } = change
  if (loses) endsLeases(tx, owner)
  const set = [
    sql`org_epoch = org_epoch + ${loses === 'cleared' ? clearedGrants(owner) : loses ? 1 : 0}`,
    ...(agreed === undefined ? [] : [sql`agreed = ${JSON.stringify(agreed)}`]),
    ...(view === undefined ? [] : [sql`view = ${JSON.stringify(view)}, read_at = clock_timestamp()`]),
    ...(administrators_may === undefined ? [] : [sql`administrators_may = ${administrators_may}::text[]`]),
  ]
  await sql`UPDATE memberships SET ${sql.join(set)} WHERE owner = ${owner} AND issuer IS NOT NULL`.execute(tx)
}

/**
 * 1 if a live grant carries the digest of a clearance, else 0. In the text of JSON a member is found by
 * its name alone: within a string of it, such as the name of a tool, the quotation marks are written
 * otherwise.
 */
function clearedGrants(owner: Owner): RawBuilder<number> {
  return sql`(SELECT EXISTS (SELECT FROM grants g WHERE g.owner = ${owner} AND g.expires_at > clock_timestamp()
    AND g.claims::text LIKE '%"clearance":"%'))::int`
}

/** Whether a grant lives that the present membership had made on one of these, while it was shared. */
export async function hasSharedGrant(
  tx: Tx,
  owner: Owner,
  resource_ids: readonly string[],
): Promise<boolean> {
  if (resource_ids.length === 0) return false
  const { rows } = await sql`
    SELECT 1 FROM grants g JOIN memberships m ON m.owner = g.owner AND m.org_epoch = g.org_epoch
    WHERE g.owner = ${owner} AND g.expires_at > clock_timestamp() AND g.org_handle_epoch IS NOT NULL
      AND g.resource_id = ANY(${[...resource_ids]}::text[]) LIMIT 1`.execute(tx)
  return rows.length === 1
}

/** Adds to the fields that its ceiling has cut. The caller holds the queue's lock. */
export async function addClampedFields(tx: Tx, owner: Owner, fields: readonly Cut['field'][]): Promise<void> {
  const added = sql`${[...fields]}::text[]`
  await sql`
    UPDATE memberships SET clamped_fields = ARRAY(SELECT DISTINCT unnest(clamped_fields || ${added}) ORDER BY 1)
    WHERE owner = ${owner} AND issuer IS NOT NULL AND NOT clamped_fields @> ${added}`.execute(tx)
}

/** The organization has said that what is known of this membership is so still. */
export async function confirmView(db: Db, owner: Owner, join_id: string): Promise<void> {
  await sql`
    UPDATE memberships SET read_at = clock_timestamp() WHERE owner = ${owner} AND join_id = ${join_id}`.execute(
    db,
  )
}

export interface ActedUpon {
  handle: number
  operator: number
}

/** How often an organization has acted on an agent and on an operator; never: 0. */
export async function readOrganizationEpochs(
  db: Db,
  owner: Owner,
  of: { handle: Handle; operator: string | null },
): Promise<ActedUpon> {
  const { rows } = await sql<ActedUpon>`
    SELECT coalesce((SELECT org_epoch FROM connections WHERE owner = ${owner} AND handle = ${of.handle}), 0) AS handle,
      coalesce((SELECT org_epoch FROM operators WHERE owner = ${owner} AND origin = ${of.operator}), 0) AS operator`.execute(
    db,
  )
  return rows[0]!
}

/** A resource of hers, and how it stands. */
export type ReachedResource = Pick<Selectable<ResourcesTable>, 'resource_id' | 'org'> & { source: string }

/** All that she has registered, by id. */
export async function listReached(db: Db, owner: Owner): Promise<ReachedResource[]> {
  return db
    .selectFrom('resources')
    .select(['resource_id', 'org', 'source'])
    .where('owner', '=', owner)
    .orderBy('resource_id')
    .execute()
}

/**
 * Writes how resources stand from now on, and with them their tiers' hold, which a consume locks: a grant
 * that was made while one was hers alone is spent before this commits, or not at all, and never after: what
 * is governed from now on has another hold. The caller has written the tiers already, as their rows are
 * locked first.
 */
export async function writeReached(
  tx: Tx,
  owner: Owner,
  changed: readonly { resource_id: string; org: Reach | null }[],
): Promise<void> {
  if (changed.length === 0) return
  endsLeases(tx, owner)
  const named = sql`unnest(${changed.map(one => one.resource_id)}::text[], ${changed.map(one => one.org)}::text[])
    AS n (resource_id, org)`
  await sql`
    UPDATE resources r SET org = n.org FROM ${named} WHERE r.owner = ${owner} AND r.resource_id = n.resource_id`.execute(
    tx,
  )
  await sql`
    WITH locked AS MATERIALIZED (
      SELECT resource_id FROM tier_resources WHERE owner = ${owner}
        AND resource_id = ANY(${changed.map(one => one.resource_id)}::text[]) ORDER BY resource_id FOR UPDATE)
    UPDATE tier_resources tr SET org = n.org,
      hold = CASE WHEN tr.org IS NULL AND n.org IS NOT NULL THEN ${ANOTHER_HOLD} ELSE tr.hold END
    FROM ${named}, locked
    WHERE tr.owner = ${owner} AND tr.resource_id = n.resource_id AND locked.resource_id = n.resource_id`.execute(
    tx,
  )
}
