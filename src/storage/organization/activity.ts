/**
 * The acts of administrators and members, in order; and signatures that are accepted once. Contract: "The
 * organization's authority" (`/admin/...`), "Authentication" (a change is accepted once).
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import { onceCommitted } from '../core/after-commit.ts'
import type { Db, Tx } from './database.ts'
import type { ActivityTable } from './tables.ts'

export type ActivityRow = Selectable<ActivityTable>

export interface NewActivity {
  kind:
    | 'charter_published'
    | 'role_changed'
    | 'role_deleted'
    | 'default_role_changed'
    | 'member_moved'
    | 'member_removed'
    | 'clearance_attested'
    | 'invited'
    | 'invitation_withdrawn'
    | 'join_code_rotated'
    | 'joined'
    | 'left'
    | 'declined'
    | 'break_glass_opened'
    | 'break_glass_closed'
    | 'break_glass_redeemed'
    | 'break_glass_voided'
    | 'break_glass_used'
    | 'agreed'
    | 'member_acted_on'
    | 'member_answered'
  /** The administrator who did it; left out if a member did. */
  admin?: string
  owner?: Owner
  data: Record<string, unknown>
}

/** An entry that was committed, with its number. */
export interface AppendedActivity extends NewActivity {
  seq: number
}

type ActivityListener = (entry: AppendedActivity) => void

const listeners = new WeakMap<object, ActivityListener>()

/**
 * Calls `listener` with each entry that is appended through `db`, after the commit, so each is reported once
 * across all replicas, or not at all if a process dies in between. One listener per database.
 */
export function onActivity(db: Db, listener: ActivityListener): void {
  listeners.set(db, listener)
}

/** Appends an entry, under the lock of the head, which gives it its number. */
export async function appendActivity(tx: Tx, entry: NewActivity): Promise<void> {
  const { kind, admin, owner, data } = entry
  const { activity: seq } = await tx
    .updateTable('head')
    .set({ activity: sql<number>`activity + 1` })
    .returning('activity')
    .executeTakeFirstOrThrow()
  const row = { seq, kind, admin: admin ?? null, owner: owner ?? null, data: JSON.stringify(data) }
  await tx.insertInto('activity').values(row).execute()
  onceCommitted(tx, db => listeners.get(db)?.({ seq, ...entry }))
}

/** Entries after a number, oldest first. */
export function listActivity(
  db: Db,
  { after, limit }: { after: number; limit: number },
): Promise<ActivityRow[]> {
  return db.selectFrom('activity').selectAll().where('seq', '>', after).orderBy('seq').limit(limit).execute()
}

/**
 * Remembers the digest of a signature that is about to change something, in that change's transaction.
 * @returns false if it was presented before: the request must be refused and nothing changed.
 */
export async function spendSignature(tx: Tx, digest: Buffer, retentionSeconds: number): Promise<boolean> {
  const inserted = await sql`
    INSERT INTO spent_signatures (digest, expires_at) VALUES (${digest}, now() + ${retentionSeconds} * interval '1 second')
    ON CONFLICT DO NOTHING`.execute(tx)
  return inserted.numAffectedRows === 1n
}
