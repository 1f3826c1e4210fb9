/**
 * Every table with rows of owners, according to the database itself. The tables that are removed or moved
 * with an owner are found, not listed here, so that a new table is not forgotten. Contract: "Limits".
 */
import type { Client } from 'pg'
import type { Owner } from '../../../wire/identifiers.ts'

/** How many rows one statement handles, so that it ends long before Postgres would cancel it. */
const ROWS_PER_BATCH = 2_000

export interface OwnedTable {
  name: string
  /** Columns of its primary key. */
  key: string[]
}

/** All columns but those named. */
export async function ownedTables(client: Client, but: readonly string[]): Promise<OwnedTable[]> {
  const { rows } = await client.query<OwnedTable>(
    `SELECT quote_ident(c.table_name) AS name, array_agg(quote_ident(k.column_name)::text) AS key
     FROM information_schema.columns c
     JOIN information_schema.table_constraints p ON p.constraint_type = 'PRIMARY KEY'
       AND p.table_schema = c.table_schema AND p.table_name = c.table_name
     JOIN information_schema.key_column_usage k ON k.constraint_schema = p.constraint_schema
       AND k.constraint_name = p.constraint_name AND k.table_name = c.table_name
     WHERE c.table_schema = current_schema() AND c.column_name = 'owner' AND c.table_name <> ALL($1)
     GROUP BY c.table_name ORDER BY c.table_name`,
    [[...but]],
  )
  return rows
}

/**
 * Deletes her rows of one table, in batches, each run by `batch` if one is given. @returns how many were
 * deleted.
 */
export async function deleteOf(
  client: Client,
  { name, key }: OwnedTable,
  owner: Owner,
  batch: <T>(run: () => Promise<T>) => Promise<T> = run => run(),
): Promise<number> {
  for (let all = 0; ;) {
    const columns = key.join(', ')
    const { rowCount } = await batch(() =>
      client.query(
        `DELETE FROM ${name} WHERE owner = $1
         AND (${columns}) IN (SELECT ${columns} FROM ${name} WHERE owner = $1 LIMIT $2)`,
        [owner, ROWS_PER_BATCH],
      ),
    )
    all += rowCount ?? 0
    if ((rowCount ?? 0) < ROWS_PER_BATCH) return all
  }
}
