/** Migrations: ordered, forward only, safe under concurrent start. */
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { migrate } from '../../src/storage/migrate.ts'
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
      const applied = await Promise.all(Array.from({ length: 20 }, () => migrate(url)))
      const all = applied.flat()
      expect(new Set(all).size).toBe(all.length)
      expect(applied.filter(names => names.length > 0)).toHaveLength(1)
      const rows = await query(url, 'SELECT number FROM schema_migrations ORDER BY number')
      expect(rows.map(row => row['number'])).toEqual(all.map((_, index) => index + 1))
    })
  })

  it('a migration edited after it was applied stops the start', async () => {
    await withEmptyDatabase(async url => {
      await migrate(url)
      await query(url, "UPDATE schema_migrations SET sha256 = 'other' WHERE number = 2")
      await expect(migrate(url)).rejects.toThrow(/0002_registry.sql was edited/)
    })
  })

  it('a database newer than the program stops the start', async () => {
    await withEmptyDatabase(async url => {
      await migrate(url)
      await query(
        url,
        "INSERT INTO schema_migrations (number, name, sha256) VALUES (9999, '9999_later.sql', 'x')",
      )
      await expect(migrate(url)).rejects.toThrow(/unknown to this program/)
    })
  })
})
