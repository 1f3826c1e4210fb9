/** Owns making what waits in the queue of due work due at once, as the time that passes would. */
import type { Pool } from 'pg'
import { DUE_CHANNEL, type DueKind } from '../../src/storage/authority/due.ts'

interface Queried {
  pool: Pick<Pool, 'query'>
}

/** Whatever of that kind waits, for any owner, is due now, and whoever does it is woken. */
export async function dueAtOnce({ pool }: Queried, kind: DueKind): Promise<void> {
  if (kind === 'view') await lastAnsweredEarlier({ pool })
  await pool.query('UPDATE due SET at = now() WHERE kind = $1', [kind])
  await pool.query('SELECT pg_notify($1, $2)', [DUE_CHANNEL, kind])
}

/**
 * Every organization answered more than 5 s ago, so that a notice has it asked at once. One that has just
 * answered is left alone for so long.
 */
export async function lastAnsweredEarlier({ pool }: Queried): Promise<void> {
  await pool.query(
    "UPDATE memberships SET read_at = least(read_at, clock_timestamp() - interval '5 seconds')",
  )
}
