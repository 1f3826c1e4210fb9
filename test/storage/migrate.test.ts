/** Migrations: ordered, forward only, safe under concurrent start. */
import { describe, expect, it } from 'vitest'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { lookAt } from '../../src/storage/migrate.ts'
import { connected, withEmptyDatabase } from '../support/postgres.ts'

const query = (url: string, sql: string) =>
  connected(url, async client => (await client.query(sql)).rows as Record<string, unknown>[])

describe('migrations', () => {
  it('twenty replicas that start at once apply each migration once', async () => {
    await withEmptyDatabase(async url => {
      const applied = await Promise.all(Array.from({ length: 20 }, () => AUTHORITY_DATABASE.migrate(url)))
      const all = applied.flat()
      expect(new Set(all).size).toBe(all.length)
      expect(applied.filter(names => names.length > 0)).toHaveLength(1)
      const rows = await query(url, 'SELECT number FROM schema_migrations ORDER BY number')
      expect(rows.map(row => row['number'])).toEqual(all.map((_, index) => index + 1))
    })
  })

  it('a migration edited after it was applied stops the start', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await query(url, "UPDATE schema_migrations SET sha256 = 'other' WHERE number = 2")
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(/0002_resources.sql was edited/)
    })
  })

  it('a database newer than the program stops the start', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await query(
        url,
        "INSERT INTO schema_migrations (number, party, name, sha256) VALUES (9999, 'authority', '9999_later.sql', 'x')",
      )
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(/unknown to this program/)
    })
  })

  it("another party's database stops the start", async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await query(url, "UPDATE schema_migrations SET party = 'tally'")
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(
        /another party \(tally\): authority needs one of its own/,
      )
    })
  })

  it('a database made before the first release stops the start, migrating or not, and is left as it is', async () => {
    await withEmptyDatabase(async url => {
      await query(
        url,
        `CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL,
          applied_at timestamptz NOT NULL DEFAULT now());
        INSERT INTO schema_migrations (number, name, sha256) VALUES (1, '0001_owners.sql', 'x')`,
      )
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(
        /before its first release.*make a new, empty database/,
      )
      await expect(AUTHORITY_DATABASE.refuseEarlier(url)).rejects.toThrow(/make a new, empty database/)
      expect(await query(url, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)).toEqual([
        { tablename: 'schema_migrations' },
      ])
    })
  })

  it('a database that holds nothing yet lacks migrations, and one that this program made is neither', async () => {
    await withEmptyDatabase(async url => {
      await expect(AUTHORITY_DATABASE.refuseEarlier(url)).rejects.toThrow(
        /UMA_AS_MIGRATE is false.*run `usher migrate` first/,
      )
      await AUTHORITY_DATABASE.migrate(url)
      await AUTHORITY_DATABASE.refuseEarlier(url)
    })
  })

  /** Tables by which other programs know what they applied, and common names that ours have, too. */
  const OTHERS: [string, string][] = [
    ['Rails', 'CREATE TABLE schema_migrations (version varchar PRIMARY KEY)'],
    ['golang-migrate', 'CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)'],
    ['Ecto', 'CREATE TABLE schema_migrations (version bigint PRIMARY KEY, inserted_at timestamp(0))'],
    ['Sequel', 'CREATE TABLE schema_migrations (filename text PRIMARY KEY)'],
    [
      'one that counts and names too',
      'CREATE TABLE schema_migrations (number int, name text, at timestamptz)',
    ],
    [
      'one with more columns',
      'CREATE TABLE schema_migrations (number int, name text, sha256 text, owner text)',
    ],
    [
      'one whose migrations are a view',
      'CREATE VIEW schema_migrations AS SELECT 1 AS number, 2 AS name, 3 AS sha256',
    ],
    ['one with owners', 'CREATE TABLE owners (id bigint PRIMARY KEY)'],
    ['one with locks', 'CREATE TABLE locks (id text PRIMARY KEY, holder text)'],
    [
      'one with events and its own migrations elsewhere',
      'CREATE TABLE events (id bigint); CREATE TABLE knex_migrations (id int)',
    ],
  ]

  it.each(OTHERS)(
    'the tables of another program (%s) stop the start, which says so, and are left alone',
    async (_program, sql) => {
      const refusal = /another program's tables: give usher a database of its own/
      await withEmptyDatabase(async url => {
        await query(url, sql)
        const tables = () =>
          query(url, `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1`)
        const before = await tables()
        await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(refusal)
        await expect(AUTHORITY_DATABASE.refuseEarlier(url)).rejects.toThrow(refusal)
        await expect(lookAt(url, 'authority')).rejects.toThrow(refusal)
        expect(await tables()).toEqual(before)
      })
    },
  )

  it("tables of an extension, and of a schema beside ours, are in nobody's way", async () => {
    await withEmptyDatabase(async url => {
      await query(
        url,
        `CREATE TABLE spatial_ref_sys (srid int); CREATE SCHEMA reporting;
          CREATE TABLE reporting.schema_migrations (version bigint); CREATE TABLE reporting.owners (id int)`,
      )
      expect((await AUTHORITY_DATABASE.migrate(url)).length).toBeGreaterThan(0)
    })
  })

  it('a start that ended between the lock and the first migration is gone on with', async () => {
    await withEmptyDatabase(async url => {
      await query(url, 'CREATE TABLE locks (name text PRIMARY KEY)')
      expect((await AUTHORITY_DATABASE.migrate(url)).length).toBeGreaterThan(0)
    })
  })
})
