/**
 * Members: an owner once, from one authority, in one group or none. Contract: "The organization's authority".
 */
import { sql } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'

/** Owners by their group, each group's by name. */
export async function membersByRole(db: Db): Promise<Record<string, Owner[]>> {
  const rows = await db
    .selectFrom('members')
    .select(['role', sql<Owner[]>`array_agg(owner ORDER BY owner)`.as('owners')])
    .where('role', 'is not', null)
    .groupBy('role')
    .execute()
  return Object.fromEntries(rows.map(({ role, owners }) => [role!, owners]))
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
