/**
 * Owns the count of the rows that statements read of an owner who has much, although Postgres planned them
 * for owners who have little. Rows are counted, not milliseconds: they are the same on every machine.
 */
import { sql } from 'kysely'
import type { Db, Tx } from '../../src/storage/authority/database.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'

/** What makes the n-th copy of a row another one, as SQL of `n`, by the columns of keys. */
export type CopiedKeys = Record<string, Record<string, string>>
export const TEXT = `'other-' || n`
export const DIGEST = `'\\x' || encode(sha256(n::text::bytea), 'hex')`

/** Copies one of her rows of each table. `whose`: SQL for the owner of the n-th copy. */
export async function multiply(
  db: Db,
  owner: Owner,
  tables: CopiedKeys,
  { count, whose }: { count: number; whose: string },
): Promise<void> {
  for (const [table, keys] of Object.entries(tables)) {
    const members = Object.entries({ ...keys, owner: whose }).map(([name, value]) => `'${name}', ${value}`)
    const copy = sql`
      INSERT INTO ${sql.table(table)}
      SELECT (jsonb_populate_record(NULL::${sql.table(table)},
        to_jsonb(one) || jsonb_build_object(${sql.raw(members.join(', '))}))).*
      FROM (SELECT * FROM ${sql.table(table)} WHERE owner = ${owner} LIMIT 1) one, generate_series(1, ${count}::int) n`
    await inTransaction(db, async tx => {
      // No caller waits for it, and a busy machine may take longer than one would.
      await sql`SET LOCAL statement_timeout = 0`.execute(tx)
      await copy.execute(tx)
    })
  }
}

/** Rows of each table that this connection has read and not yet told to the statistics of all. */
async function counts(tx: Tx): Promise<Map<string, number>> {
  const { rows } = await sql<{ table: string; read: number }>`
    SELECT relname AS table, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS read
    FROM pg_stat_xact_user_tables`.execute(tx)
  return new Map(rows.map(({ table, read }) => [table, read]))
}

const back = new Error('taken back')

/**
 * The rows that an act reads, by table; what it writes is taken back. Each statement keeps the plan of its
 * first use if the database has one connection.
 */
export async function rowsRead(db: Db, act: (tx: Tx) => Promise<void>): Promise<Record<string, number>> {
  const read: Record<string, number> = {}
  await inTransaction(db, async tx => {
    await sql`SET LOCAL plan_cache_mode = force_generic_plan`.execute(tx)
    const before = await counts(tx)
    await act(tx)
    for (const [table, rows] of await counts(tx)) {
      const more = rows - (before.get(table) ?? 0)
      if (more > 0) read[table] = more
    }
    throw back
  }).catch((error: unknown) => {
    if (error !== back) throw error
  })
  return read
}

/**
 * The rows that an act reads, by table, of a database with one connection and no other reader: its statements
 * are sent as the product sends them, each as a transaction by itself if it is one there.
 */
export async function rowsReadBy(db: Db, act: () => Promise<void>): Promise<Record<string, number>> {
  const told = async (): Promise<Map<string, number>> => {
    await sql`SELECT pg_stat_force_next_flush()`.execute(db)
    const { rows } = await sql<{ table: string; read: number }>`
      SELECT relname AS table, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS read
      FROM pg_stat_user_tables`.execute(db)
    return new Map(rows.map(({ table, read }) => [table, read]))
  }
  const before = await told()
  await act()
  const read = [...(await told())].map(([table, rows]): [string, number] => [
    table,
    rows - (before.get(table) ?? 0),
  ])
  return Object.fromEntries(read.filter(([, rows]) => rows > 0))
}
