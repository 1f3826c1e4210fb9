/**
 * Receipts: they are written with the grant, in the same statement, and no process that serves requests
 * changes or removes them. Contract: "Grant answer (beat 4)".
 */
import { sql, type Selectable } from 'kysely'
import type { Db } from '../database.ts'
import { number } from './positions.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'
import type { ReceiptsTable } from '../tables.ts'

/** `seq` is its position: from 1, without gaps. */
export type ReceiptRow = { seq: number } & Omit<Selectable<ReceiptsTable>, 'owner'>

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
  const ofFamily = page.family === undefined ? sql`true` : sql`r.family = ${page.family}`
  const { rows } = await sql<ReceiptRow>`
    SELECT p.seq, r.family, r.jti, r.handle, r.issued_at, r.receipt
    FROM receipt_positions p JOIN receipts r ON r.owner = p.owner AND r.jti = p.jti
    WHERE p.owner = ${owner} AND p.seq > ${page.after} AND ${ofFamily}
    ORDER BY p.seq LIMIT ${page.limit}`.execute(db)
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
