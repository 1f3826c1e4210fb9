/**
 * What members' authorization servers are still to be told, in lines: in each one notice after another. Contract: "Events" (organization
 * notice), "Organization membership, on the member's authorization server" (`/org/notice`).
 */
import { sql } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Notice } from '../../wire/notice.ts'
import type { Db, Tx } from './database.ts'
import type { MemberRow } from './members.ts'

/** For whom a notice is. */
export type Addressee = Pick<MemberRow, 'owner' | 'as_uri' | 'join_id'>

const NEW_JTI = sql`'ntc_' || replace(gen_random_uuid()::text, '-', '')`

/** Adds a notice to the line of a membership, under the lock of the head. */
export async function insertNotice(tx: Tx, to: Addressee, notice: Notice): Promise<void> {
  const { owner, as_uri, join_id } = to
  await sql`
    INSERT INTO notices (jti, owner, membership, line, notice)
    VALUES (${NEW_JTI}, ${owner}, ${join_id}, '', ${JSON.stringify(notice)})`.execute(tx)
  await sql`
    INSERT INTO notice_lines AS l (owner, membership, line, as_uri) VALUES (${owner}, ${join_id}, '', ${as_uri})
    ${STANDS}`.execute(tx)
}

/** The same for every member. */
export async function insertNoticeToAll(tx: Tx, notice: Notice): Promise<void> {
  await sql`
    INSERT INTO notices (jti, owner, membership, line, notice)
    SELECT ${NEW_JTI}, owner, join_id, '', ${JSON.stringify(notice)} FROM members ORDER BY owner`.execute(tx)
  await sql`
    INSERT INTO notice_lines AS l (owner, membership, line, as_uri)
    SELECT owner, join_id, '', as_uri FROM members ORDER BY owner ${STANDS}`.execute(tx)
}

/** A line that stands is locked until the notice is in it, so that it does not end as an empty one meanwhile; when it is due stays. */
const STANDS = sql`ON CONFLICT (owner, membership, line) DO UPDATE SET as_uri = l.as_uri`

/** How many notices of each of these members' present memberships wait; left out where none does. */
export async function waitingNotices(db: Db, owners: readonly Owner[]): Promise<Map<Owner, number>> {
  const { rows } = await sql<{ owner: Owner; waiting: number }>`
    SELECT n.owner, count(*)::int AS waiting
    FROM notices n JOIN members m ON m.owner = n.owner AND m.join_id = n.membership
    WHERE n.owner = ANY(${owners}) AND n.stopped_at IS NULL GROUP BY n.owner`.execute(db)
  return new Map(rows.map(({ owner, waiting }) => [owner, waiting]))
}
