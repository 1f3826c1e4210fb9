/**
 * The longest text that is taken from others fits wherever it is remembered: Postgres refuses a row of which
 * an index would have to hold more than 2,704 bytes, and does so when she approves, not when it was read.
 * Contract: "Resources and their fields".
 */
import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { expect, it } from 'vitest'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { ORGANIZATION_DATABASE } from '../../src/storage/organization/database.ts'
import { TALLY_DATABASE } from '../../src/storage/tally/database.ts'
import { connected, withEmptyDatabase } from '../support/postgres.ts'

/** ASCII that cannot be compressed. */
const ascii = (length: number) => randomBytes(length).toString('base64url').slice(0, length)
/** Three bytes for each character. */
const wide = (length: number) =>
  Array.from({ length }, () => String.fromCodePoint(0x4e00 + (randomBytes(2).readUInt16BE() % 20_000))).join(
    '',
  )

const NAME = () => ascii(64)
/** By `idMember`: `jti`, `negotiation`, `membership` of others. */
const ID = () => wide(255)
const ISSUER = () => `https://${ascii(504)}`
/** A subject and its issuer. */
const HANDLE = () => `${ascii(255)}@${ascii(512)}`
const ORIGIN = () => `https://${ascii(253)}:65535`

/** By column of an index, whatever the table: the longest that any reader takes for it. */
const LONGEST: Record<string, () => string> = {
  owner: NAME,
  account: NAME,
  holder: NAME,
  namespace: NAME,
  tier_id: NAME,
  join_id: ID,
  membership: ID,
  jti: ID,
  negotiation: ID,
  family: ID,
  once_key: ID,
  allowance: () => ascii(32),
  // Of a window: the handle of the lineage, the name of an amount, a span.
  whose: HANDLE,
  of: () => ascii(32),
  per: () => ascii(5),
  item: () => JSON.stringify([ascii(300), ascii(255)]),
  issuer: ISSUER,
  tally: ISSUER,
  as_uri: () => wide(512),
  handle: HANDLE,
  introduced_by: HANDLE,
  authorised_by: ORIGIN,
  origin: ORIGIN,
  operator: ORIGIN,
  resource_id: () => ascii(400),
  client_id: () => ascii(512),
  // A passkey's id has 1,023 bytes; a login is its issuer and its subject.
  key: () => ascii(1_364),
  id: () => ascii(1_364),
  kid: () => ascii(200),
  jkt: () => ascii(43),
  witness: () => ascii(43),
  params_key: () => ascii(64),
  endpoint: () => `https://${ascii(2_040)}`,
  instance: () => wide(100),
  reason: () => ascii(100),
  kind: () => ascii(30),
  effect: () => ascii(5),
  state: () => ascii(20),
  status: () => ascii(20),
  subscription: () => ascii(43),
  tag: () => ascii(43),
  cell: NAME,
  name: () => wide(100),
  s256: () => ascii(43),
  code_id: () => ascii(43),
  line: () => ascii(100),
  role: () => wide(100),
  // No key of an index: one holds the rows that have none.
  jwt: () => ascii(100_000),
}

interface Column {
  table: string
  column: string
  type: string
  indexed: boolean
}

const COLUMNS = `SELECT c.relname::text AS "table", a.attname::text AS column, format_type(a.atttypid, NULL) AS type,
    EXISTS (SELECT FROM pg_index i JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
      AND d.refobjid = c.oid AND d.refobjsubid = a.attnum WHERE i.indrelid = c.oid)
    OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY(i.indkey)) AS indexed
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attgenerated = ''
    AND c.relname NOT IN ('schema_migrations', 'locks') ORDER BY 1, a.attnum`

/** Something of the type, for a column that no text of others decides. */
function any(type: string): unknown {
  if (type === 'text') return ascii(20)
  if (type === 'bytea') return randomBytes(32)
  if (type === 'boolean') return true
  if (type.startsWith('timestamp')) return new Date()
  if (type.startsWith('json')) return '{}'
  return type.endsWith('[]') ? [] : 1
}

async function withTables(
  migrate: (url: string) => Promise<unknown>,
  work: (client: Client) => Promise<void>,
) {
  await withEmptyDatabase(async url => {
    await migrate(url)
    await connected(url, work)
  })
}

it.each([
  ['authority', AUTHORITY_DATABASE],
  ['organization', ORGANIZATION_DATABASE],
  ['tally', TALLY_DATABASE],
])('every index of the %s holds the longest text of each of its columns', async (_party, database) => {
  await withTables(
    url => database.migrate(url),
    async client => {
      const { rows } = await client.query<Column>(COLUMNS)
      const tables = Map.groupBy(rows, ({ table }) => table)
      expect(tables.size).toBeGreaterThan(5)
      const unbounded: string[] = []
      for (const [table, columns] of tables) {
        // The indexes without the foreign keys and the words that a column is limited to.
        await client.query(`CREATE TEMP TABLE copy (LIKE ${table} INCLUDING INDEXES)`)
        const values = columns.map(({ column, type, indexed }) => {
          if (type !== 'text' || !indexed) return any(type)
          if (LONGEST[column] === undefined) unbounded.push(`${table}.${column}`)
          return (LONGEST[column] ?? NAME)()
        })
        await client.query(
          `INSERT INTO copy (${columns.map(({ column }) => `"${column}"`).join()}) VALUES (${values.map((_, at) => `$${at + 1}`).join()})`,
          values,
        )
        await client.query('DROP TABLE copy')
      }
      // A column that an index gains says here how long its text may be.
      expect(unbounded).toEqual([])
    },
  )
})
