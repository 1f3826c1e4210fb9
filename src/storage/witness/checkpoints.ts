/**
 * The last checkpoint of each log that a witness cosigned. It is replaced by one that continues it, and by
 * nothing else: two that contradict each other are never both cosigned, whoever asks at once, at whichever
 * replica. docs/details/witness.md. Contract: "Events" (row 5).
 */
import type { TreeHead } from '../../rules/ledger/merkle.ts'
import type { Checkpoint } from '../../wire/ledger/checkpoint.ts'
import { inTransaction, prepared } from '../core/database.ts'
import type { Db } from './database.ts'

/** The last one of this origin; undefined if none was cosigned. */
export async function readCosigned(db: Db, origin: string): Promise<TreeHead | undefined> {
  return (await READ_COSIGNED(db, [origin])).rows[0]
}

const READ_COSIGNED = prepared<{ size: number; root: Buffer }>(
  'read-cosigned',
  'SELECT size, root FROM checkpoints WHERE origin = $1',
)

/** When a checkpoint was cosigned, in seconds by the clock of the database; or that another came first. */
export type Cosigning = { kind: 'cosigned'; time: number } | { kind: 'overtaken' }

/**
 * Puts a checkpoint in place of the one that it was found to continue, which may be the same. One statement
 * compares and writes, so that of several that continue the same one the first alone is cosigned. The time is
 * read when the row is locked: no other checkpoint of this origin is newer then.
 */
export async function cosignNext(
  db: Db,
  { origin, size, root }: Checkpoint,
  before: TreeHead,
): Promise<Cosigning> {
  const [row] = (await COSIGN_NEXT(db, [origin, size, root, before.size, before.root])).rows
  return row === undefined ? { kind: 'overtaken' } : { kind: 'cosigned', time: row.time }
}

const SECONDS = 'floor(extract(epoch FROM cosigned_at))::bigint'

const COSIGN_NEXT = prepared<{ time: number }>(
  'cosign-next',
  `UPDATE checkpoints SET size = $2, root = $3, cosigned_at = greatest(cosigned_at, clock_timestamp())
    WHERE origin = $1 AND size = $4 AND root = $5 AND size <= $2 RETURNING ${SECONDS} AS time`,
)

/**
 * Keeps the first checkpoint of an origin, which is believed. `full`: there are as many logs of this issuer
 * as may be, and this one is not among them.
 */
export async function cosignFirst(
  db: Db,
  { origin, size, root }: Checkpoint,
  { issuer, originsMax }: { issuer: string; originsMax: number },
): Promise<Cosigning | { kind: 'full' }> {
  return inTransaction(db, async tx => {
    await ADD_ISSUER(tx, [issuer])
    // Whoever adds another log of this issuer waits here, so that the count is exact.
    const [counted] = (await LOCK_ISSUER(tx, [issuer])).rows
    const [row] =
      counted!.logs < originsMax ? (await COSIGN_FIRST(tx, [origin, issuer, size, root])).rows : []
    if (row !== undefined) {
      await COUNT_LOG(tx, [issuer])
      return { kind: 'cosigned', time: row.time }
    }
    const isThere = (await READ_COSIGNED(tx, [origin])).rows.length > 0
    return { kind: isThere ? 'overtaken' : 'full' }
  })
}

const ADD_ISSUER = prepared(
  'add-witnessed-issuer',
  'INSERT INTO issuers (issuer, logs) VALUES ($1, 0) ON CONFLICT (issuer) DO NOTHING',
)
const LOCK_ISSUER = prepared<{ logs: number }>(
  'lock-witnessed-issuer',
  'SELECT logs FROM issuers WHERE issuer = $1 FOR UPDATE',
)
const COSIGN_FIRST = prepared<{ time: number }>(
  'cosign-first',
  `INSERT INTO checkpoints (origin, issuer, size, root) VALUES ($1, $2, $3, $4)
    ON CONFLICT (origin) DO NOTHING RETURNING ${SECONDS} AS time`,
)
const COUNT_LOG = prepared('count-witnessed-log', 'UPDATE issuers SET logs = logs + 1 WHERE issuer = $1')
