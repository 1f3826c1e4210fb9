/**
 * Upgrades of a schema that is in use: expanded first, contracted once nobody needs what goes.
 * Contract: "What the service does", which an upgrade must not interrupt.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { migrate, refuseEarlier } from '../../src/storage/migrate.ts'
import { connected, withEmptyDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const AUTHORITY = {
  party: 'authority',
  appendOnly: ['receipts'],
  permanent: [],
  sequences: [],
}
const BY = { setting: 'UMA_AS_MIGRATE', command: 'usher migrate' }
const MIGRATIONS = new URL('../../migrations/authority/', import.meta.url)
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** The migrations of a later program: ours and these, by name. */
function later(files: Record<string, string>): URL {
  const folder = mkdtempSync(join(tmpdir(), 'usher-migrations-'))
  folders.push(folder)
  cpSync(MIGRATIONS, folder, { recursive: true })
  for (const [name, sql] of Object.entries(files)) writeFileSync(join(folder, name), sql)
  return pathToFileURL(`${folder}/`)
}

const upgrade = (url: string, files: Record<string, string>) =>
  migrate(url, AUTHORITY, undefined, later(files))

const EXPAND = '-- expand\nALTER TABLE owners ADD COLUMN later text;\n'
const INDEX = '-- expand, alone\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS once ON things (name);\n'

describe('A schema that is newer than a program', () => {
  it('is taken if it was expanded alone, whether the start migrates or not', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      expect(await upgrade(url, { '9001_later.sql': EXPAND })).toEqual(['9001_later.sql'])
      expect(await AUTHORITY_DATABASE.migrate(url)).toEqual([])
      await AUTHORITY_DATABASE.refuseEarlier(url)
    })
  })

  it('is taken if what was contracted is not needed by this program, and refused if it is', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await upgrade(url, { '9002_gone.sql': '-- contract: needs 0003\nSELECT 1;\n' })
      expect(await AUTHORITY_DATABASE.migrate(url)).toEqual([])
      const expanded = { '9001_later.sql': EXPAND }
      const contracted = { '9003_gone.sql': '-- contract: needs 9001\nSELECT 1;\n' }
      await upgrade(url, { ...expanded, ...contracted })
      const refused = /9003_gone.sql, unknown to this program, which does not work with it: run a newer usher/
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(refused)
      await expect(AUTHORITY_DATABASE.refuseEarlier(url)).rejects.toThrow(refused)
      // The one between works with it, though it knows nothing of the last.
      expect(await upgrade(url, expanded)).toEqual([])
      await refuseEarlier(url, AUTHORITY, BY, later(expanded))
    })
  })

  it('is refused if its migration does not say who works with it', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await upgrade(url, { '9001_later.sql': 'SELECT 1;\n' })
      await expect(AUTHORITY_DATABASE.migrate(url)).rejects.toThrow(/9001_later.sql, unknown to this program/)
    })
  })
})

describe('A migration of a database that is in use', () => {
  it('waits for a table a second at a time, so that others use it meanwhile, and is done once it is free', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await connected(url, async holder => {
        await holder.query('BEGIN')
        await holder.query('SELECT * FROM owners')
        let done = false
        const upgraded = upgrade(url, { '9001_later.sql': EXPAND }).finally(() => (done = true))
        await connected(url, async other => {
          await other.query(`SET statement_timeout = '10s'`)
          const waits = () =>
            other.query(
              `SELECT FROM pg_locks WHERE NOT granted AND relation = 'owners'::regclass AND mode = 'AccessExclusiveLock'`,
            )
          for (let round = 0; round < 2; round++) {
            await until(async () => (await waits()).rowCount === 1)
            // Behind the migration in the queue, and yet answered while the holder goes on.
            await other.query('SELECT FROM owners')
          }
        })
        expect(done).toBe(false)
        await holder.query('COMMIT')
        expect(await upgraded).toEqual(['9001_later.sql'])
      })
    })
  })

  it('makes an index in no transaction, and anew if an earlier attempt was broken off', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      await connected(url, async client => {
        await client.query(`CREATE TABLE things (name text); INSERT INTO things VALUES ('a'), ('a')`)
        const valid = async (): Promise<unknown> => {
          const { rows } = await client.query<{ indisvalid: boolean }>(
            `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('once')`,
          )
          return rows[0]?.indisvalid
        }
        await expect(upgrade(url, { '9001_once.sql': INDEX })).rejects.toThrow(/9001_once.sql failed/)
        expect(await valid()).toBe(false)
        await client.query('DELETE FROM things WHERE ctid = (SELECT min(ctid) FROM things)')
        expect(await upgrade(url, { '9001_once.sql': INDEX })).toEqual(['9001_once.sql'])
        expect(await valid()).toBe(true)
      })
    })
  })

  it('is applied again where Postgres took it back, an index too', async () => {
    await withEmptyDatabase(async url => {
      await AUTHORITY_DATABASE.migrate(url)
      // What was counted is not taken back.
      await connected(url, client =>
        client.query(`CREATE TABLE things (name text); INSERT INTO things VALUES ('a');
          CREATE SEQUENCE tries;
          CREATE FUNCTION taken_back(code text, times int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
            IF nextval('public.tries') <= times THEN RAISE EXCEPTION 'as if' USING ERRCODE = code; END IF; RETURN 1; END $$`),
      )
      const files = {
        '9001_whole.sql': `-- expand\nALTER TABLE owners ADD COLUMN later text;\nSELECT taken_back('40001', 1);\n`,
        '9002_alone.sql': `-- expand, alone\nCREATE INDEX CONCURRENTLY IF NOT EXISTS once ON things (taken_back('40P01', length(name) + 2));\n`,
      }
      expect(await upgrade(url, files)).toEqual(Object.keys(files))
      await connected(url, async client => {
        const { rows } = await client.query(
          `SELECT indisvalid, (SELECT last_value FROM tries)::int AS tries FROM pg_index WHERE indexrelid = to_regclass('once')`,
        )
        expect(rows).toEqual([{ indisvalid: true, tries: 4 }])
      })
    })
  })

  it('does nothing alone that cannot be done again', async () => {
    await withEmptyDatabase(async url => {
      const files = { '9001_twice.sql': '-- expand, alone\nINSERT INTO owners DEFAULT VALUES;\n' }
      await expect(upgrade(url, files)).rejects.toThrow(
        /9001_twice.sql is to run alone: make it one CREATE INDEX/,
      )
    })
  })
})
