/**
 * Reads what an operator's security system may know of an owner's ledger, receipts and registrations: kinds,
 * times and ids, and nothing that a person or an agent wrote. Contract: "Events".
 *
 * It gives no positions, because the process that gives an entry its position also writes its line of the
 * log: an entry that has none yet is left for the next reading.
 */
import { sql, type RawBuilder } from 'kysely'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import { inIndexOrder } from '../../core/batch.ts'
import type { Db } from '../database.ts'
import { RECEIPT_OF_POSITION } from './receipts.ts'

/** The lists that are read one after the other, each with positions of its own. */
export const TRAIL_LISTS = ['ledger', 'receipts', 'events'] as const
export type TrailList = (typeof TRAIL_LISTS)[number]

export interface TrailEntry {
  seq: number
  /** ISO 8601. */
  at: string
  /** The kind of a ledger entry, `granted` or `resource_server_pending`. */
  event: string
  handle: Handle | null
  family: Family | null
  jti: string | null
  /** How many equal refusals of one minute the entry stands for. */
  count: number
}

export interface TrailPage {
  since: Date
  until: Date
  /** Kinds of ledger entries that are left out. */
  without: readonly string[]
  /** Entries with a greater position. */
  after: number
  limit: number
}

/** A page of one list, by position. */
export async function readTrail(
  db: Db,
  owner: Owner,
  list: TrailList,
  page: TrailPage,
): Promise<TrailEntry[]> {
  const read = sql<TrailEntry>`${READ[list](owner, page)} ORDER BY seq LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

const READ: Record<TrailList, (owner: Owner, page: TrailPage) => RawBuilder<TrailEntry>> = {
  ledger: (owner, { since, until, without, after }) => sql`
    SELECT seq, ts AS at, kind AS event, handle, family, NULL AS jti, count FROM ledger
    WHERE owner = ${owner} AND seq > ${after} AND kind <> ALL(${[...without]}::text[])
      AND ts >= ${since} AND ts < ${until}`,
  receipts: (owner, { since, until, after }) => sql`
    SELECT p.seq, r.issued_at AS at, 'granted' AS event, r.handle, r.family, p.jti, 1 AS count
    FROM receipt_positions p ${sql.raw(RECEIPT_OF_POSITION)}
    WHERE p.owner = ${owner} AND p.seq > ${after} AND r.issued_at >= ${since} AND r.issued_at < ${until}`,
  events: (owner, { since, until, after }) => sql`
    SELECT seq, at, event, NULL AS handle, NULL AS family, NULL AS jti, 1 AS count FROM events
    WHERE owner = ${owner} AND seq > ${after} AND event = 'resource_server_pending'
      AND at >= ${since} AND at < ${until}`,
}
