/**
 * What members' authorization servers must still be told, in queues: each queue sends one notice after
 * another. Contract: "Events" (organization notice), "Organization membership, on the member's authorization
 * server" (`/org/notice`).
 */
import { sql } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Notice } from '../../wire/organization/notice.ts'
import { takeOldest } from '../core/batch.ts'
import { inTransaction, prepared } from '../core/database.ts'
import { notify } from '../core/notify.ts'
import type { Db, Tx } from './database.ts'
import type { MemberRow } from './members.ts'

/** The recipient of a notice. */
export type Addressee = Pick<MemberRow, 'owner' | 'as_uri' | 'join_id'>

/** Wakes whoever tells notices, on every replica. */
export const NOTICES_CHANNEL = 'usher_notices'

const STOPPED_SHOWN = 20
const TOLD_FOR = sql`interval '7 days'`
const NEW_JTI = sql`'ntc_' || replace(gen_random_uuid()::text, '-', '')`

/**
 * Adds a notice to the queue of a membership, under the lock of the head. A notice that must not wait for
 * others has its own queue (`alone`), and needs no lock.
 */
export async function insertNotice(
  tx: Tx,
  to: Addressee,
  notice: Notice,
  { alone = false } = {},
): Promise<void> {
  const { owner, as_uri, join_id } = to
  await sql`
    WITH added AS (SELECT ${NEW_JTI} AS jti), line AS (SELECT CASE WHEN ${alone} THEN jti ELSE '' END AS line FROM added),
      placed AS (
        INSERT INTO notice_lines AS l (owner, membership, line, as_uri)
        SELECT ${owner}, ${join_id}, line, ${as_uri} FROM line ${STANDS})
    INSERT INTO notices (jti, owner, membership, line, notice)
    SELECT jti, ${owner}, ${join_id}, line, ${JSON.stringify(notice)} FROM added, line`.execute(tx)
  await notify(tx, NOTICES_CHANNEL, '')
}

/**
 * For notices about emergencies: her authority takes only so many in an hour, and none of them must hold up
 * what ends her access.
 */
export const ALONE = { alone: true } as const

/** The same for every member. */
export async function insertNoticeToAll(tx: Tx, notice: Notice): Promise<void> {
  await sql`
    INSERT INTO notices (jti, owner, membership, line, notice)
    SELECT ${NEW_JTI}, owner, join_id, '', ${JSON.stringify(notice)} FROM members ORDER BY owner`.execute(tx)
  await sql`
    INSERT INTO notice_lines AS l (owner, membership, line, as_uri)
    SELECT owner, join_id, '', as_uri FROM members ORDER BY owner ${STANDS}`.execute(tx)
  await notify(tx, NOTICES_CHANNEL, '')
}

/**
 * An existing queue is locked until the notice is in it, so that it is not removed as empty meanwhile; its
 * due time stays.
 */
const STANDS = sql`ON CONFLICT (owner, membership, line) DO UPDATE SET as_uri = l.as_uri`

/** Whether she has yet to be told that an emergency window was opened. */
export async function isOpeningUntold(
  db: Db,
  { owner, join_id }: Omit<Addressee, 'as_uri'>,
): Promise<boolean> {
  const { rows } = await sql`
    SELECT FROM notices WHERE owner = ${owner} AND membership = ${join_id} AND stopped_at IS NULL
      AND notice->>'kind' = 'break_glass_opened' LIMIT 1`.execute(db)
  return rows.length === 1
}

/** The state of the notices of one membership. */
export interface NoticeState {
  waiting: number
  /** Notices that were given up, the newest first; `status` is null if there never was an answer. */
  stopped: { kind: Notice['kind']; status: number | null; at: string }[]
}

/** The notices of these members' present memberships; left out if there are none. */
export async function noticeStates(db: Db, owners: readonly Owner[]): Promise<Map<Owner, NoticeState>> {
  const { rows } = await sql<{ owner: Owner; waiting: number | null } & NoticeState['stopped'][number]>`
    WITH theirs AS (SELECT owner, join_id FROM members WHERE owner = ANY(${owners}))
    SELECT n.owner, count(*)::int AS waiting, NULL AS kind, NULL::int AS status, NULL::timestamptz AS at
    FROM theirs m JOIN notices n ON n.owner = m.owner AND n.membership = m.join_id
    WHERE n.stopped_at IS NULL GROUP BY n.owner
    UNION ALL
    SELECT m.owner, NULL, n.notice->>'kind', n.status, n.stopped_at
    FROM theirs m CROSS JOIN LATERAL (
      SELECT notice, status, stopped_at FROM notices n
      WHERE n.owner = m.owner AND n.membership = m.join_id AND n.stopped_at IS NOT NULL
      ORDER BY place DESC LIMIT ${STOPPED_SHOWN}) n
    ORDER BY 1, 5 DESC`.execute(db)
  const states = new Map<Owner, NoticeState>()
  for (const { owner, waiting, kind, status, at } of rows) {
    const state = states.get(owner) ?? { waiting: 0, stopped: [] }
    states.set(owner, state)
    if (waiting === null) state.stopped.push({ kind, status, at })
    else state.waiting = waiting
  }
  return states
}

/** A queue, and until when (as Postgres writes it) the taker has it alone. */
export interface NoticeQueueClaim {
  owner: Owner
  membership: string
  line: string
  as_uri: string
  attempts: number
  until: string
}

/**
 * Takes the queues that have been due for longest; only one replica gets each. A queue that is not settled is
 * due again after `seconds`.
 */
export async function takeLines(
  db: Db,
  { limit, seconds }: { limit: number; seconds: number },
): Promise<NoticeQueueClaim[]> {
  const { rows } = await TAKE(db, [limit, seconds])
  return rows
}

const TAKE = prepared<NoticeQueueClaim>(
  'take-notice-lines',
  takeOldest({
    table: 'notice_lines',
    key: ['owner', 'membership', 'line'],
    more: ['as_uri', 'attempts'],
    due: 'due_at',
    limit: '$1',
    seconds: '$2',
  }),
)

/** `late`: the notice has reached the age at which sending stops. */
export interface FirstNotice {
  jti: string
  notice: Notice
  late: boolean
}

/** The next notice of a queue to send. */
export function firstNotice(db: Db, line: NoticeQueueClaim): Promise<FirstNotice | undefined> {
  return db
    .selectFrom('notices')
    .select(['jti', 'notice', sql<boolean>`made_at < now() - ${TOLD_FOR}`.as('late')])
    .where('owner', '=', line.owner)
    .where('membership', '=', line.membership)
    .where('line', '=', line.line)
    .where('stopped_at', 'is', null)
    .orderBy('place')
    .limit(1)
    .executeTakeFirst()
}

/** The notice has a final answer; the next of the queue is due. */
export function endNotice(db: Db, line: NoticeQueueClaim, jti: string): Promise<void> {
  return inTransaction(db, async tx => {
    await tx.deleteFrom('notices').where('jti', '=', jti).execute()
    await dueAgain(tx, line, { attempts: 0, seconds: 0 })
  })
}

/** The notice is not sent any more, but kept to be shown; the next of the queue is due. */
export function stopNotice(
  db: Db,
  line: NoticeQueueClaim,
  { jti, status = null }: { jti: string; status: number | null | undefined },
): Promise<void> {
  return inTransaction(db, async tx => {
    const stopped = { status, stopped_at: sql<string>`now()` }
    await tx.updateTable('notices').set(stopped).where('jti', '=', jti).execute()
    await dueAgain(tx, line, { attempts: 0, seconds: 0 })
  })
}

/** Sending failed: the queue is due again after `seconds`. */
export function tellNoticeAgain(
  db: Db,
  line: NoticeQueueClaim,
  { jti, status, seconds }: { jti: string; status: number | undefined; seconds: number },
): Promise<void> {
  return inTransaction(db, async tx => {
    if (status !== undefined) await tx.updateTable('notices').set({ status }).where('jti', '=', jti).execute()
    await dueAgain(tx, line, { attempts: line.attempts + 1, seconds })
  })
}

/**
 * Removes an empty queue. It is locked first and checked then, so that no notice is added to it meanwhile.
 */
export function closeEmptyLine(db: Db, line: NoticeQueueClaim): Promise<void> {
  return inTransaction(db, async tx => {
    const mine = tx.selectFrom('notice_lines').select('owner').where(whereClaim(line)).forUpdate()
    if ((await mine.executeTakeFirst()) === undefined) return
    if ((await firstNotice(tx, line)) === undefined)
      await tx.deleteFrom('notice_lines').where(whereClaim(line)).execute()
    else await dueAgain(tx, line, { attempts: 0, seconds: 0 })
  })
}

/** Sets when a queue is due again, unless another replica has taken it since. */
async function dueAgain(
  tx: Tx,
  line: NoticeQueueClaim,
  { attempts, seconds }: { attempts: number; seconds: number },
): Promise<void> {
  const due_at = sql<string>`clock_timestamp() + ${seconds} * interval '1 second'`
  await tx.updateTable('notice_lines').set({ attempts, due_at }).where(whereClaim(line)).execute()
}

function whereClaim({ owner, membership, line, until }: NoticeQueueClaim) {
  return sql<boolean>`
    owner = ${owner} AND membership = ${membership} AND line = ${line} AND due_at = ${until}::timestamptz`
}
