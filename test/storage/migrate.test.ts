/** Migrations: ordered, forward only, safe under concurrent start. */
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { withEmptyDatabase } from '../support/postgres.ts'

const query = async (url: string, sql: string) => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

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
})
