/**
 * Whether a process can read what it serves from. Contract: "Health": requests should not come to a replica
 * whose every read fails for a reason of its own, such as a setting of the database or a privilege.
 */
import type { Pool } from 'pg'
import { waitAtMost } from '../../limits/patience.ts'
import { Unusable } from './session.ts'

/**
 * A read as the product makes them: by the pool and the role that serve, of a table of ours, with a time in
 * it. `withheld` are tables of ours that the role may not read (the lock of migrations is the owner's alone),
 * `guarded` those of which a policy keeps rows from it.
 */
const READ = `SELECT m.applied_at, (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class c
    WHERE c.relnamespace = ours.relnamespace AND c.relowner = ours.relowner AND relkind IN ('r', 'p')
      AND relname <> 'locks' AND NOT has_table_privilege(c.oid, 'SELECT')) AS withheld, (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class c
    WHERE c.relnamespace = ours.relnamespace AND c.relowner = ours.relowner AND relkind IN ('r', 'p')
      AND row_security_active(c.oid)) AS guarded
  FROM schema_migrations m, pg_class ours WHERE ours.oid = 'schema_migrations'::regclass
  ORDER BY m.number DESC LIMIT 1`

/** How the driver hands out a time, by `types` of the pool. */
const TIME = /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/
const ANSWER_MS_MAX = 1_000
/** Several probers ask each listener. */
const ANSWER_AGE_MS = 1_000

/**
 * Answers with why the product's reads fail, as a sentence without details; undefined if they do not, or if
 * the database is merely away (`isOutage`), which ends by itself and is every replica's. Never rejects.
 * @param onFault is told the whole error, once for each turn to the bad.
 */
export function watchReads(
  pool: Pool,
  { isOutage, onFault }: { isOutage: (error: unknown) => boolean; onFault: (error: Error) => void },
): () => Promise<string | undefined> {
  let last: { at: number; fault: Promise<string | undefined> } | undefined
  let wasFaulty = false
  const read = async (): Promise<string | undefined> => {
    const error = await faultOfRead(pool)
    const isFault = error !== undefined && (error instanceof Unusable || !isOutage(error))
    if (isFault && !wasFaulty) onFault(error)
    wasFaulty = isFault
    if (!isFault) return undefined
    return error instanceof Unusable
      ? error.message
      : 'reads from the database fail, for a reason that its log tells'
  }
  return () => {
    if (last === undefined || performance.now() - last.at > ANSWER_AGE_MS)
      last = { at: performance.now(), fault: read() }
    // An answer that takes longer is an outage, if any.
    return waitAtMost(ANSWER_MS_MAX, last.fault).then(fault =>
      typeof fault === 'string' ? fault : undefined,
    )
  }
}

async function faultOfRead(pool: Pool): Promise<Error | undefined> {
  try {
    const { rows } = await pool.query<{
      applied_at: unknown
      withheld: string | null
      guarded: string | null
    }>(READ)
    const [row] = rows
    if (row === undefined) return new Error('no migration is recorded')
    if (row.withheld !== null) return new Error(`permission denied for ${row.withheld}`)
    if (row.guarded !== null)
      return new Unusable(
        `row-level security keeps rows of ${row.guarded} from usher: ALTER TABLE … DISABLE ROW LEVEL SECURITY`,
      )
    if (!TIME.test(String(row.applied_at))) return new Error(`a time came as ${String(row.applied_at)}`)
    return undefined
  } catch (error) {
    return error as Error
  }
}
