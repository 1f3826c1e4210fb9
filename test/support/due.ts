/** Owns making what waits in the queue of due work due at once, as the time that passes would. */
import type { Pool } from 'pg'
import { DUE_CHANNEL, type DueKind } from '../../src/storage/authority/due.ts'

/** Whatever of that kind waits, for any owner, is due now, and whoever does it is woken. */
export async function dueAtOnce({ pool }: { pool: Pick<Pool, 'query'> }, kind: DueKind): Promise<void> {
  // An organization that has just answered is not asked again at once.
  const aged = "UPDATE memberships SET read_at = least(read_at, clock_timestamp() - interval '5 seconds')"
  if (kind === 'view') await pool.query(aged)
  await pool.query('UPDATE due SET at = now() WHERE kind = $1', [kind])
  await pool.query('SELECT pg_notify($1, $2)', [DUE_CHANNEL, kind])
}
