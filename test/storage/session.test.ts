/**
 * What a database, or its log-in, may be set to: every read and write of ours means the same, or the start
 * names the setting. Contract: "What the service does".
 */
import { sql } from 'kysely'
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { AUTHORITY_DATABASE, openDatabase } from '../../src/storage/authority/database.ts'
import { awaitDatabase } from '../../src/storage/core/database-wait.ts'
import { isOutage } from '../../src/storage/core/database.ts'
import { connected, emptyDatabase, freshDatabase, onServer, runtimeRole } from '../support/postgres.ts'

const nameOf = (url: string) => new URL(url).pathname.slice(1)

/** A migrated database with this setting for every session that begins. */
async function databaseWith(settings: Record<string, string>) {
  const database = await freshDatabase()
  for (const [name, value] of Object.entries(settings))
    await onServer(client => client.query(`ALTER DATABASE ${nameOf(database.url)} SET ${name} = ${value}`))
  return database
}

/** What a plain session of that database has, to show that the setting was in force. */
function plainly(url: string, name: string): Promise<string> {
  return connected(url, async client => {
    const { rows } = await client.query<{ value: string }>('SELECT current_setting($1) AS value', [name])
    return rows[0]!.value
  })
}

const SETTINGS: [string, string, string][] = [
  ['datestyle', "'German'", 'ISO, MDY'],
  ['datestyle', "'SQL, DMY'", 'ISO, MDY'],
  ['datestyle', "'Postgres, DMY'", 'ISO, MDY'],
  ['timezone', "'America/St_Johns'", 'UTC'],
  ['intervalstyle', "'iso_8601'", 'postgres'],
  ['bytea_output', "'escape'", 'hex'],
  ['extra_float_digits', '-15', '1'],
  ['standard_conforming_strings', 'off', 'on'],
  ['array_nulls', 'off', 'on'],
  ['transform_null_equals', 'on', 'off'],
  ['quote_all_identifiers', 'on', 'off'],
  ['exit_on_error', 'on', 'off'],
  ['row_security', 'on', 'off'],
  ['default_transaction_isolation', "'serializable'", 'read committed'],
  ['default_transaction_isolation', "'repeatable read'", 'read committed'],
  ['default_transaction_deferrable', 'on', 'off'],
  ['client_min_messages', "'error'", 'notice'],
  ['idle_session_timeout', "'1h'", '0'],
  ['statement_timeout', "'1h'", '10s'],
  ['lock_timeout', "'1ms'", '1200ms'],
  ['idle_in_transaction_session_timeout', "'1h'", '15s'],
  ['client_encoding', "'LATIN1'", 'UTF8'],
]

describe('A setting of the database', () => {
  it.each(SETTINGS)('%s = %s is not what a session of ours has', async (name, value, ours) => {
    const database = await databaseWith({ [name]: value })
    try {
      // The driver itself asks for an encoding, so a plain session has that one.
      if (name !== 'client_encoding') expect(await plainly(database.url, name)).not.toBe(ours)
      const { rows } = await sql<{ value: string; at: string; took: object; held: boolean; bytes: Buffer }>`
        SELECT current_setting(${name}) AS value, '2026-03-04T05:06:07.089Z'::timestamptz AS at,
          NULL = 1 IS NULL AS held, '\\x00ff'::bytea AS bytes`.execute(database.db)
      expect(rows).toEqual([
        { value: ours, at: '2026-03-04T05:06:07.089Z', held: true, bytes: Buffer.from([0, 255]) },
      ])
    } finally {
      await database.close()
    }
  })

  it.each([
    ["''", 'public'],
    ["'nowhere'", 'public'],
    ["'pg_catalog'", 'public'],
    ['"$user", public', 'public'],
  ])('search_path = %s leads to our tables all the same, also under another role', async (path, schema) => {
    const database = await databaseWith({ search_path: path })
    try {
      const { rows } = await sql<{ path: string; role: string; found: boolean }>`
        SELECT current_setting('search_path') AS path, current_user::text AS role,
          EXISTS (SELECT FROM owners) AS found`.execute(database.db)
      expect(rows).toEqual([{ path: `"${schema}"`, role: runtimeRole(database.url), found: false }])
    } finally {
      await database.close()
    }
  })

  it('search_path may lead to a schema of our own, in which everything is then made and found', async () => {
    const { url, close } = await emptyDatabase()
    try {
      await onServer(client =>
        client.query(`ALTER DATABASE ${nameOf(url)} SET search_path = "Ours, too", public`),
      )
      const plain = new Client({ connectionString: url })
      await plain.connect()
      await plain.query('CREATE SCHEMA "Ours, too"; CREATE TABLE schema_migrations_of_others (id int)')
      await plain.end()
      await AUTHORITY_DATABASE.migrate(url)
      await AUTHORITY_DATABASE.refuseEarlier(url)
      const database = openDatabase({ url, poolMax: 1 })
      expect((await sql`SELECT owner FROM owners`.execute(database.db)).rows).toEqual([])
      await database.close()
    } finally {
      await close()
    }
  })

  it.each([
    [
      'search_path',
      'other',
      /search_path \(other\) leads to the schema other, and usher's tables are in public/,
    ],
    ['session_replication_role', 'replica', /session_replication_role is replica/],
  ])('%s = %s is refused by name, at the start and at once', async (name, value, refusal) => {
    const database = await databaseWith({ [name]: value })
    try {
      const plain = new Client({ connectionString: database.url })
      await plain.connect()
      await plain.query('CREATE SCHEMA other')
      await plain.end()
      const waiting = awaitDatabase({ url: database.url, seconds: 20, tell: () => undefined })
      await expect(waiting).rejects.toThrow(refusal)
      const fault: unknown = await sql`SELECT 1`.execute(database.db).catch((error: unknown) => error)
      expect(fault).toMatchObject({ message: expect.stringMatching(refusal) as string })
      expect(isOutage(fault)).toBe(true)
    } finally {
      await database.close()
    }
  })

  it.each(['LATIN1', 'SQL_ASCII'])('the encoding %s is refused by name', async encoding => {
    const name = `usher_encoding_${encoding.toLowerCase()}_${process.pid}`
    await onServer(client =>
      client.query(`CREATE DATABASE ${name} ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`),
    )
    const { url, close } = await emptyDatabase()
    try {
      const other = new URL(url)
      other.pathname = `/${name}`
      const waiting = awaitDatabase({ url: other.href, seconds: 20, tell: () => undefined })
      await expect(waiting).rejects.toThrow(
        new RegExp(`encoding of the database is ${encoding}.*ENCODING 'UTF8'`),
      )
    } finally {
      await close()
      await onServer(client => client.query(`DROP DATABASE ${name} WITH (FORCE)`))
    }
  })

  it('that no writes are taken stays as it is: a retired primary is made so', async () => {
    const database = await databaseWith({ default_transaction_read_only: 'on' })
    try {
      const fault: unknown = await sql`SELECT 1`.execute(database.db).catch((error: unknown) => error)
      expect(fault).toMatchObject({ message: expect.stringMatching(/takes no writes/) as string })
    } finally {
      await database.close()
    }
  })

  it('migrations and reads go well if every one of them is set otherwise', async () => {
    const { url, close } = await emptyDatabase()
    try {
      for (const [name, value] of SETTINGS.filter(([name]) => name !== 'client_encoding'))
        await onServer(client => client.query(`ALTER DATABASE ${nameOf(url)} SET ${name} = ${value}`))
      await AUTHORITY_DATABASE.migrate(url)
      const database = openDatabase({ url, poolMax: 1 })
      const { rows } = await sql<{ at: string }>`SELECT applied_at AS at FROM schema_migrations`.execute(
        database.db,
      )
      await database.close()
      expect(rows.map(({ at }) => new Date(at).toISOString())).toEqual(rows.map(({ at }) => at))
    } finally {
      await close()
    }
  })
})
