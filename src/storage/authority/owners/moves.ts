/**
 * Whether a cell serves an owner. This is checked before and after everything that is done for her. Contract:
 * "What the service does" (revocation is immediate): so nothing of it is cached.
 */
import { gatheringOf, READS_AT_ONCE, TOGETHER_MAX } from '../../core/batch.ts'
import { sql } from 'kysely'
import { prepared, type Runner } from '../../core/database.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'
import type { MovesTable } from '../tables.ts'

/** The move that brought an owner to her cell; undefined if she was never moved. */
export type Move = Pick<MovesTable, 'move' | 'state'> | undefined

const MOVE = prepared<NonNullable<Move>>('move-of', 'SELECT move, state FROM moves WHERE owner = $1')

/** The move as this cell has it now. Concurrent callers share one statement. */
export const readMove = gatheringOf(
  async (calls: Runner, owners: Owner[]): Promise<Move[]> => {
    const { rows } = await MOVE(calls, [owners[0]!])
    return owners.map(() => rows[0])
  },
  { owner: (owner: Owner) => owner, together: TOGETHER_MAX, atOnce: READS_AT_ONCE },
)

/** Whether this cell had her, or is to get her, and does not serve her now. */
export async function isElsewhere(db: Db, owner: Owner): Promise<boolean> {
  const { rows } = await sql`SELECT FROM moves WHERE owner = ${owner} AND state <> 'here'`.execute(db)
  return rows.length === 1
}
