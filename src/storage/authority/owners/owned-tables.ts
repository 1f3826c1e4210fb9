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

/**
 * All tables but those named, unless they are another's, who lets us write nothing there. Asked of the
 * catalog itself, because its views in information_schema judge every column of every table first.
 */
export async function ownedTables(client: Client, but: readonly string[]): Promise<OwnedTable[]> {
  const { rows } = await client.query<OwnedTable>(
    `SELECT quote_ident(c.relname) AS name,
       ARRAY(SELECT quote_ident(a.attname) FROM unnest(p.conkey) WITH ORDINALITY AS k(attnum, place)
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.place) AS key
     FROM pg_class c
     JOIN pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
     JOIN pg_attribute o ON o.attrelid = c.oid AND o.attname = 'owner' AND NOT o.attisdropped
     WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relkind IN ('r', 'p')
       AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE') AND c.relname <> ALL($1)
     ORDER BY c.relname`,
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
