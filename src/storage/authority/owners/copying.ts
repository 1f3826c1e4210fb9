/**
 * Copies all rows of an owner from one database to another, as they were at one moment and exactly: each
 * value is copied as the text that Postgres writes and reads. Contract: "Single-use grant", "Grant (RPT)
 * liveness": what was spent or ended stays spent or ended.
 */
import { escapeLiteral, type Client } from 'pg'
import type { Owner } from '../../../wire/identifiers.ts'
import { ownedTables } from './owned-tables.ts'

/** Receipts and terms may be large. */
const ROWS_PER_BATCH = 500

/** Not hers: how she is found, where she is, and who may use answers of this cell again for a moment. */
export const NOT_COPIED = ['directory', 'moves', 'lease_holders']

export interface Copying {
  source: Client
  target: Client
  owner: Owner
  /**
   * Whether the rows by which she is found are copied, too. They are not copied into the directory of all
   * cells, which has them already.
   */
  credentials: boolean
  /** Runs one write at the target. */
  batch: <T>(run: () => Promise<T>) => Promise<T>
}

/** A device key, a passkey, a login, a tag or a name of hers. */
export interface CredentialKey {
  kind: string
  key: string
}

/**
 * Copies, and counts again at the target. @returns how many rows were copied, and by what she is found at the
 * source. @throws Error if the tables of the two differ, or if the target lacks something that was copied.
 */
export async function copyOwner(copying: Copying): Promise<{ rows: number; credentials: CredentialKey[] }> {
  const { source, target, owner, credentials: withCredentials, batch } = copying
  await source.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  try {
    let all = 0
    for (const { name } of await ownedTables(source, NOT_COPIED)) {
      const copied = await copyTable(copying, name)
      const { rows } = await target.query<{ count: string }>(
        `SELECT count(*) FROM ${name} WHERE owner = $1`,
        [owner],
      )
      if (Number(rows[0]!.count) !== copied)
        throw new Error(`${name} has ${rows[0]!.count} rows of ${owner} and should have ${copied}.`)
      all += copied
    }
    const { rows: credentials } = await source.query<CredentialKey>(
      'SELECT kind, key FROM directory WHERE owner = $1',
      [owner],
    )
    if (withCredentials)
      await batch(() =>
        target.query(
          'INSERT INTO directory (kind, key, owner) SELECT kind, key, $3 FROM unnest($1::text[], $2::text[]) AS r(kind, key)',
          [credentials.map(({ kind }) => kind), credentials.map(({ key }) => key), owner],
        ),
      )
    return { rows: all, credentials }
  } finally {
    await source.query('ROLLBACK')
  }
}

async function copyTable({ source, target, owner, batch }: Copying, table: string): Promise<number> {
  const columns = await columnsOf(source, table)
  const there = await columnsOf(target, table)
  if (JSON.stringify(columns) !== JSON.stringify(there))
    throw new Error(`The table ${table} differs between the two cells: run \`usher migrate\` first.`)
  const names = columns.map(({ name }) => name)
  await source.query(
    `DECLARE hers NO SCROLL CURSOR FOR SELECT ${names.map(name => `${name}::text`).join(', ')}
      FROM ${table} WHERE owner = ${escapeLiteral(owner)}`,
  )
  const insert = `INSERT INTO ${table} (${names.join(', ')})
    SELECT ${columns.map(({ type }, at) => `c${at}::${type}`).join(', ')}
    FROM unnest(${names.map((_, at) => `$${at + 1}::text[]`).join(', ')}) AS r(${names.map((_, at) => `c${at}`).join(', ')})`
  let all = 0
  for (;;) {
    const { rows } = await source.query<(string | null)[]>({
      text: `FETCH ${ROWS_PER_BATCH} FROM hers`,
      rowMode: 'array',
    })
    if (rows.length > 0)
      await batch(() =>
        target.query(
          insert,
          names.map((_, at) => rows.map(row => row[at])),
        ),
      )
    all += rows.length
    if (rows.length < ROWS_PER_BATCH) break
  }
  await source.query('CLOSE hers')
  return all
}

/** The columns that are written, by name. */
async function columnsOf(client: Client, table: string): Promise<{ name: string; type: string }[]> {
  const { rows } = await client.query<{ name: string; type: string }>(
    `SELECT quote_ident(attname) AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
      WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attname`,
    [table],
  )
  return rows
}
