/**
 * Owns the count of acts that ended something of an owner's (`queues.ends`). Whoever judges a grant says how
 * many there were, so that a call can be held against a signed revocation. Contract: "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Tx } from '../../core/database.ts'
import type { AuthorityTables } from '../tables.ts'

/** What a transaction has raised already: one act counts once, whatever it ends. */
const raised = new WeakMap<object, Map<Owner, number>>()

/**
 * Counts the act of this transaction, once for each owner. Its caller holds the owner's queue lock, so acts
 * of one owner are counted in the order in which they commit. `toPresent`: the count becomes the present
 * time in seconds since the epoch, if it is less.
 * @returns the count with this act; 0 if she is not served here.
 */
export async function raiseEnds(
  tx: Tx<AuthorityTables>,
  owner: Owner,
  { toPresent = false } = {},
): Promise<number> {
  const ofThis = raised.get(tx) ?? new Map<Owner, number>()
  raised.set(tx, ofThis)
  const known = ofThis.get(owner)
  if (known !== undefined) return known
  const { rows } = await sql<{ ends: number }>`
    UPDATE queues SET ends = greatest(ends + 1,
      CASE WHEN ${toPresent} THEN floor(extract(epoch FROM clock_timestamp()))::bigint END)
    WHERE owner = ${owner}
    RETURNING ends`.execute(tx)
  const ends = rows[0]?.ends ?? 0
  ofThis.set(owner, ends)
  return ends
}
