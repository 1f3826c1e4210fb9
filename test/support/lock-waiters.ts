/** Owns the count of who waits for a lock, which tests of races wait for. */
import type { Database } from '../../src/storage/core/database.ts'

/** Sessions of this database that wait for a lock. */
export async function lockWaiters({ pool }: Pick<Database<unknown>, 'pool'>): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  )
  return rows[0]!.n
}
