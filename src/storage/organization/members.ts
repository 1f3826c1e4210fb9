/**
 * Members: each owner is one once, from one authority, in one group or none. Contract: "The organization's
 * authority".
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'
import type { MembersTable } from './tables.ts'
import type { KeyPage } from '../core/columns.ts'

export type MemberRow = Selectable<MembersTable>

/** The member; undefined if the owner is not a member. */
export function readMember(db: Db, owner: Owner): Promise<MemberRow | undefined> {
  return db.selectFrom('members').selectAll().where('owner', '=', owner).executeTakeFirst()
}

/** Owners by their group, each group's by name: of these groups, and at most `limit` of each. */
export async function membersByRole(
  db: Db,
  { roles, limit }: { roles: readonly string[]; limit: number },
): Promise<Record<string, Owner[]>> {
  const { rows } = await sql<{ role: string; owners: Owner[] }>`
    SELECT asked.role, array_agg(one.owner ORDER BY one.owner) AS owners
    FROM unnest(${roles}::text[]) AS asked(role)
    CROSS JOIN LATERAL (SELECT owner FROM members m WHERE m.role = asked.role ORDER BY owner LIMIT ${limit}) one
    GROUP BY asked.role`.execute(db)
  return Object.fromEntries(rows.map(({ role, owners }) => [role, owners]))
}

/** A group with members that is none of these; undefined if there is none. */
export async function otherRoleWithMembers(tx: Tx, roles: readonly string[]): Promise<string | undefined> {
  const { rows } = await sql<{ role: string }>`
    SELECT role FROM members WHERE role <> ALL(${roles}::text[]) ORDER BY role LIMIT 1`.execute(tx)
  return rows[0]?.role
}

/** Whether anybody is in the group. */
export async function roleHasMembers(tx: Tx, role: string): Promise<boolean> {
  const row = await tx
    .selectFrom('members')
    .select('owner')
    .where('role', '=', role)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Ends a membership. @returns the deleted row; undefined if there is none. */
export function deleteMember(tx: Tx, owner: Owner): Promise<MemberRow | undefined> {
  return tx.deleteFrom('members').where('owner', '=', owner).returningAll().executeTakeFirst()
}

/** Makes a member, under the lock of the head; the owner must not be one yet. */
export function insertMember(
  tx: Tx,
  member: Pick<MemberRow, 'owner' | 'as_uri' | 'join_id' | 'role' | 'agreed_version' | 'view_version'>,
): Promise<MemberRow> {
  return tx.insertInto('members').values(member).returningAll().executeTakeFirstOrThrow()
}

/** Members after an owner, by name. */
export function listMembers(db: Db, { after, limit }: KeyPage): Promise<MemberRow[]> {
  return db
    .selectFrom('members')
    .selectAll()
    .where('owner', '>', (after ?? '') as Owner)
    .orderBy('owner')
    .limit(limit)
    .execute()
}

/** Puts a member into a group, or into none, under the lock of the head. */
export async function moveMember(tx: Tx, owner: Owner, role: string | null): Promise<void> {
  await tx.updateTable('members').set({ role }).where('owner', '=', owner).execute()
}

/** Replaces what is attested about a member, under the lock of the head; an empty object attests nothing. */
export async function attestClearance(
  tx: Tx,
  owner: Owner,
  clearance: Record<string, string>,
): Promise<void> {
  await tx
    .updateTable('members')
    .set({ clearance: JSON.stringify(clearance) })
    .where('owner', '=', owner)
    .execute()
}

/** Stores what a member's authorization server reports, in place of its earlier report. */
export async function reportCompliance(tx: Tx, owner: Owner, report: object): Promise<void> {
  await tx
    .updateTable('members')
    .set({ compliance: JSON.stringify(report), compliance_at: sql<string>`now()` })
    .where('owner', '=', owner)
    .execute()
}

/**
 * Records that she agreed to a later version, under the lock of the head: what it newly claims becomes
 * governed, so her view changes.
 */
export async function agreeAgain(tx: Tx, owner: Owner, agreed_version: number): Promise<void> {
  await tx
    .updateTable('members')
    .set({ agreed_version, view: sql<number>`view + 1` })
    .where('owner', '=', owner)
    .execute()
}
