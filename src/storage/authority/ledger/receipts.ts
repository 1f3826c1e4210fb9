/**
 * Receipts: they are written with the grant, in the same statement, and no process that serves requests
 * changes or removes them. Contract: "Grant answer (beat 4)".
 */
import { sql, type Selectable } from 'kysely'
import type { Db } from '../database.ts'
import { inIndexOrder, ownedBy } from '../../core/batch.ts'
import { number } from './positions.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'
import type { ReceiptsTable } from '../tables.ts'

/** `seq` is its position: from 1, without gaps. */
export type ReceiptRow = { seq: number } & Omit<Selectable<ReceiptsTable>, 'owner'>

/** SQL: the receipt `r` of a position `p`, each looked up by its whole key. */
export const RECEIPT_OF_POSITION = `CROSS JOIN LATERAL (SELECT * FROM receipts
      WHERE ${ownedBy('owner', 'p.owner')} AND jti = p.jti OFFSET 0) r`

/**
 * The owner's receipts, oldest first, after a position: all that were committed before this call, up to the
 * limit.
 */
export async function readReceipts(
  db: Db,
  owner: Owner,
  page: { family?: Family | undefined; after: number; limit: number },
): Promise<ReceiptRow[]> {
  await number(db, owner)
  const columns = sql`p.seq, r.family, r.jti, r.handle, r.issued_at, r.receipt`
  if (page.family !== undefined) {
    const hers = sql`r.owner = ANY(ARRAY[${owner}, ${owner}]::text[])`
    const { rows } = await sql<ReceiptRow>`
      SELECT ${columns} FROM receipts r CROSS JOIN LATERAL (SELECT seq FROM receipt_positions
        WHERE ${sql.raw(ownedBy('owner', 'r.owner'))} AND jti = r.jti OFFSET 0) p
      WHERE ${hers} AND r.family = ${page.family} AND p.seq > ${page.after} ORDER BY p.seq LIMIT ${page.limit}`.execute(
      db,
    )
    return rows
  }
  const read = sql<ReceiptRow>`
    SELECT ${columns} FROM receipt_positions p ${sql.raw(RECEIPT_OF_POSITION)}
    WHERE p.owner = ${owner} AND p.seq > ${page.after} ORDER BY p.seq LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/** The receipts of these negotiations, by family; the last one if an approval was collected twice. */
export async function receiptsOfFamilies(
  db: Db,
  owner: Owner,
  families: readonly Family[],
): Promise<ReadonlyMap<Family, string>> {
  if (families.length === 0) return new Map()
  const { rows } = await sql<Pick<ReceiptRow, 'family' | 'receipt'>>`
    SELECT family, receipt FROM receipts WHERE owner = ${owner} AND family = ANY(${[...new Set(families)]})
    ORDER BY issued_at`.execute(db)
  return new Map(rows.map(({ family, receipt }) => [family, receipt]))
}
