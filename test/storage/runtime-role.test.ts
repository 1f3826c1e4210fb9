/**
 * The role that requests are served as: one for each database, because roles are the cluster's
 * (docs/operating.md, "The role in Postgres"; docs/field-faults.md, row 2).
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { AUTHORITY_DATABASE, openDatabase } from '../../src/storage/authority/database.ts'
import { awaitDatabase } from '../../src/storage/core/database-wait.ts'
import { lookAt } from '../../src/storage/migrate.ts'
import { ORGANIZATION_DATABASE } from '../../src/storage/organization/database.ts'
import { connected, onServer } from '../support/postgres.ts'
import { ROOT } from '../support/repository.ts'

const PASSWORD = 'of-a-test'
const made: string[] = []
afterAll(() =>
  onServer(async client => {
    for (const statement of made.toReversed()) await client.query(statement)
  }),
)

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
const fresh = (what: string): string => `${what}_${randomBytes(4).toString('hex')}`

/** A log-in with these attributes. */
async function logIn(attributes = ''): Promise<string> {
  const name = fresh('login')
  await onServer(client => client.query(`CREATE ROLE ${name} LOGIN PASSWORD '${PASSWORD}' ${attributes}`))
  made.push(`DROP ROLE ${name}`)
  return name
}

interface Place {
  name: string
  /** The role that is to serve it. */
  role: string
  as: (login: string) => string
}

/** An empty database that belongs to `login`. */
async function databaseOf(login: string, name = fresh('Role test')): Promise<Place> {
  let server = ''
  await onServer(async client => {
    await client.query(`CREATE DATABASE ${quoted(name)} OWNER ${login}`)
    server = `${client.host}:${client.port}`
  })
  const role = `usher_runtime_${name}`
  made.push(`DROP ROLE IF EXISTS ${quoted(role)}`, `DROP DATABASE IF EXISTS ${quoted(name)} WITH (FORCE)`)
  const as = (who: string): string => `postgres://${who}:${PASSWORD}@${server}/${encodeURIComponent(name)}`
  return { name, role, as }
}

/** Runs it in the database as who administers the server. */
async function asAdministrator(place: Place, ...statements: string[]): Promise<void> {
  const url = new URL(inject('postgresUrl'))
  url.pathname = `/${encodeURIComponent(place.name)}`
  await connected(url.href, async admin => {
    for (const statement of statements) await admin.query(statement)
  })
}

/** The role that a pool of ours works as there. */
async function servedAs(url: string): Promise<string> {
  const database = openDatabase({ url, poolMax: 2 })
  try {
    const { rows } = await database.pool.query<{ role: string; owners: number }>(
      'SELECT current_user::text AS role, (SELECT count(*)::int FROM owners) AS owners',
    )
    expect(rows[0]!.owners).toBe(0)
    return rows[0]!.role
  } finally {
    await database.close()
  }
}

/** How many tables of ours are there, besides the one that whoever migrates holds for a lock. */
const tablesAt = (url: string): Promise<number> =>
  connected(url, async client => {
    const { rowCount } = await client.query(
      `SELECT FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'locks'`,
    )
    return rowCount!
  })

describe('Two databases of one cluster', () => {
  it('are migrated by two log-ins that may make roles, and neither opens, reads or changes the other’s', async () => {
    const [a, b] = [await logIn('CREATEROLE'), await logIn('CREATEROLE')]
    const [one, other] = [await databaseOf(a), await databaseOf(b)]
    expect((await AUTHORITY_DATABASE.migrate(one.as(a))).length).toBeGreaterThan(0)
    expect((await AUTHORITY_DATABASE.migrate(other.as(b))).length).toBeGreaterThan(0)
    expect(await AUTHORITY_DATABASE.migrate(other.as(b))).toEqual([])
    expect(await servedAs(one.as(a))).toBe(one.role)
    expect(await servedAs(other.as(b))).toBe(other.role)

    await expect(connected(one.as(b), async () => undefined)).rejects.toMatchObject({ code: '42501' })
    await expect(awaitDatabase({ url: one.as(b), seconds: 5, tell: () => undefined })).rejects.toThrow(
      /permission denied for database .*GRANT it the role that serves the database/s,
    )
    // Even where somebody lets it in.
    await asAdministrator(one, `GRANT CONNECT ON DATABASE ${quoted(one.name)} TO ${b}`)
    const version = await connected(one.as(a), async client => {
      const { rows } = await client.query<{ version: number }>(
        `SELECT current_setting('server_version_num')::int AS version`,
      )
      return rows[0]!.version
    })
    for (const statement of [
      'SELECT * FROM owners',
      `UPDATE owners SET owner = 'another'`,
      'DELETE FROM owners',
      `SET ROLE ${quoted(one.role)}`,
      // Before, whoever may make roles may take any.
      ...(version < 160_000 ? [] : [`GRANT ${quoted(one.role)} TO ${b}`]),
    ])
      await expect(connected(one.as(b), client => client.query(statement))).rejects.toMatchObject({
        code: '42501',
      })
  })

  it('of an authority and of its organization have a role each, also under one log-in', async () => {
    const login = await logIn('CREATEROLE')
    const [one, other] = [await databaseOf(login), await databaseOf(login)]
    await AUTHORITY_DATABASE.migrate(one.as(login))
    await ORGANIZATION_DATABASE.migrate(other.as(login))
    await expect(
      connected(one.as(login), async client => {
        await client.query(`SET ROLE ${quoted(other.role)}`)
        await client.query('SELECT * FROM owners')
      }),
    ).rejects.toMatchObject({ code: '42501' })
  })

  it.each([
    ['differ in their last character alone', 'x'.repeat(62)],
    ['are written in letters of several bytes', 'ü"'.repeat(20)],
  ])('whose names are as long as Postgres allows, and %s, have a role each', async (_, stem) => {
    const login = await logIn('CREATEROLE')
    const random = randomBytes(4).toString('hex')
    const places = await Promise.all(
      ['1', '2'].map(last => databaseOf(login, `${stem.slice(0, -9)}${random}${last}`)),
    )
    const roles: string[] = []
    for (const place of places) {
      await AUTHORITY_DATABASE.migrate(place.as(login))
      const role = await servedAs(place.as(login))
      made.push(
        `DROP ROLE IF EXISTS ${quoted(role)}`,
        `DROP DATABASE IF EXISTS ${quoted(place.name)} WITH (FORCE)`,
      )
      expect(Buffer.byteLength(role)).toBeLessThanOrEqual(63)
      roles.push(role)
    }
    expect(new Set(roles).size).toBe(2)
  })
})

describe('A log-in that may not make roles', () => {
  it('changes nothing and says what an administrator is to run, which then suffices', async () => {
    const login = await logIn()
    const place = await databaseOf(login)
    await expect(AUTHORITY_DATABASE.migrate(place.as(login))).rejects.toThrow(
      `have an administrator run CREATE ROLE ${quoted(place.role)} NOLOGIN; GRANT ${quoted(place.role)} TO ${login};`,
    )
    expect(await tablesAt(place.as(login))).toBe(0)
    await asAdministrator(place, `CREATE ROLE ${quoted(place.role)} NOLOGIN`)
    await expect(AUTHORITY_DATABASE.migrate(place.as(login))).rejects.toThrow(
      `was made by another log-in than this one: have an administrator run GRANT ${quoted(place.role)} TO ${login};`,
    )
    expect(await tablesAt(place.as(login))).toBe(0)
    await asAdministrator(place, `GRANT ${quoted(place.role)} TO ${login}`)
    await AUTHORITY_DATABASE.migrate(place.as(login))
    expect(await servedAs(place.as(login))).toBe(place.role)
  })

  it('serves what another one migrated once the role is granted to it, and cannot connect before', async () => {
    const [ddl, serving] = [await logIn('CREATEROLE'), await logIn()]
    const place = await databaseOf(ddl)
    await AUTHORITY_DATABASE.migrate(place.as(ddl))
    await expect(servedAs(place.as(serving))).rejects.toMatchObject({ code: '42501' })
    await connected(place.as(ddl), client => client.query(`GRANT ${quoted(place.role)} TO ${serving}`))
    expect(await servedAs(place.as(serving))).toBe(place.role)
  })

  it('does not take the role that databases once shared for a new database', async () => {
    const login = await logIn()
    const place = await databaseOf(login)
    await asAdministrator(place, SHARED, `GRANT usher_runtime TO ${login}`)
    await expect(AUTHORITY_DATABASE.migrate(place.as(login))).rejects.toThrow(
      /CREATE ROLE "usher_runtime_Role/,
    )
    expect(await tablesAt(place.as(login))).toBe(0)
  })
})

describe('A log-in that may not make or change the tables', () => {
  it.each([
    ['owning the database', 0],
    ['a grant on its schema', 1],
  ])('is told what an administrator is to run, and %s then suffices', async (_, which) => {
    const [stranger, login] = [await logIn(), await logIn('CREATEROLE')]
    const place = await databaseOf(stranger)
    // Before version 15 of Postgres everybody may make tables there.
    await asAdministrator(place, 'REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    const remedies = [
      `ALTER DATABASE ${quoted(place.name)} OWNER TO ${login};`,
      `GRANT USAGE, CREATE ON SCHEMA public TO ${login};`,
    ]
    await expect(AUTHORITY_DATABASE.migrate(place.as(login))).rejects.toThrow(
      `permission denied for schema public. The log-in may make no tables here: have an administrator run ${remedies.join(' or, in that database, ')}`,
    )
    expect(await tablesAt(place.as(login))).toBe(0)
    await asAdministrator(place, remedies[which]!)
    expect((await AUTHORITY_DATABASE.migrate(place.as(login))).length).toBeGreaterThan(0)
  })

  it('is told to whom they belong, as after a restore by another log-in', async () => {
    const [owner, login] = [await logIn('CREATEROLE'), await logIn('CREATEROLE')]
    const place = await databaseOf(owner)
    await AUTHORITY_DATABASE.migrate(place.as(owner))
    await asAdministrator(
      place,
      `GRANT CONNECT ON DATABASE ${quoted(place.name)} TO ${login}`,
      `GRANT USAGE, CREATE ON SCHEMA public TO ${login}`,
    )
    await expect(AUTHORITY_DATABASE.migrate(place.as(login))).rejects.toThrow(
      `permission denied for table locks. The tables of this database belong to ${owner}, and only that log-in may migrate them: name it in DATABASE_URL.`,
    )
  })
})

it('a new database gives the shared role nothing, whatever everybody may read there', async () => {
  const login = await logIn('CREATEROLE')
  const place = await databaseOf(login)
  await asAdministrator(
    place,
    SHARED,
    `ALTER DEFAULT PRIVILEGES FOR ROLE ${login} IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC`,
  )
  await AUTHORITY_DATABASE.migrate(place.as(login))
  const { rows } = await connected(place.as(login), client =>
    client.query<{ writes: boolean }>(
      `SELECT has_table_privilege('usher_runtime', 'owners', 'UPDATE, DELETE') AS writes`,
    ),
  )
  expect(rows).toEqual([{ writes: false }])
})

/** As an earlier version, or an administrator for it, made it. */
const SHARED = `DO $$ BEGIN CREATE ROLE usher_runtime NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`

describe('A database that was migrated when all shared one role', () => {
  /** As an earlier version left it, under a log-in that may not make roles. */
  async function fromEarlier(): Promise<{ login: string; place: Place }> {
    const login = await logIn()
    const place = await databaseOf(login)
    const role = quoted(place.role)
    await asAdministrator(
      place,
      SHARED,
      `CREATE ROLE ${role} NOLOGIN`,
      `GRANT ${role}, usher_runtime TO ${login}`,
    )
    await AUTHORITY_DATABASE.migrate(place.as(login))
    await asAdministrator(
      place,
      'GRANT USAGE ON SCHEMA public TO usher_runtime',
      'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO usher_runtime',
      'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO usher_runtime',
      'REVOKE UPDATE, DELETE ON receipts, terms_versions FROM usher_runtime',
      `GRANT CONNECT ON DATABASE ${quoted(place.name)} TO PUBLIC`,
      `DROP OWNED BY ${role}`,
      `DROP ROLE ${role}`,
    )
    return { login, place }
  }

  it('is served with it as before, is told of, and leaves it once its own role is made and the other’s rights are taken', async () => {
    const { login, place } = await fromEarlier()
    const said: string[] = []
    const start = () => AUTHORITY_DATABASE.migrate(place.as(login), line => said.push(line))
    expect(await start()).toEqual([])
    expect(said).toEqual([
      expect.stringMatching(
        /^The role usher_runtime, which other databases of this cluster may share, has rights .*CREATE ROLE "usher_runtime_Role/,
      ),
    ])
    expect(await servedAs(place.as(login))).toBe('usher_runtime')
    expect(await lookAt(place.as(login), 'authority')).toMatchObject({ sharedRole: true, missing: [] })

    await asAdministrator(
      place,
      `CREATE ROLE ${quoted(place.role)} NOLOGIN`,
      `GRANT ${quoted(place.role)} TO ${login}`,
    )
    // Nothing is taken from the replicas that serve until the next migrate.
    expect(await servedAs(place.as(login))).toBe('usher_runtime')
    expect(await start()).toEqual([])
    expect(await servedAs(place.as(login))).toBe(place.role)
    // An older replica works on.
    await connected(place.as(login), client => client.query('SET ROLE usher_runtime; SELECT * FROM owners'))

    await connected(place.as(login), async client => {
      await client.query('REVOKE ALL ON ALL TABLES IN SCHEMA public FROM usher_runtime')
      await client.query('REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM usher_runtime')
    })
    said.length = 0
    expect(await start()).toEqual([])
    expect(said).toEqual([])
    expect(await servedAs(place.as(login))).toBe(place.role)
    expect(await lookAt(place.as(login), 'authority')).toMatchObject({ sharedRole: false })
    await expect(
      connected(place.as(login), client => client.query('SET ROLE usher_runtime; SELECT * FROM owners')),
    ).rejects.toMatchObject({ code: '42501' })
  })

  it('is left to members of its own role by what docs/operating.md says', async () => {
    const { login, place } = await fromEarlier()
    const serving = await logIn()
    const role = quoted(place.role)
    await asAdministrator(place, `CREATE ROLE ${role} NOLOGIN`, `GRANT ${role} TO ${login}, ${serving}`)
    await AUTHORITY_DATABASE.migrate(place.as(login))
    const page = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8')
    const [, block] = /### Databases from 0\.2\.0[\s\S]*?```sql\n([\s\S]*?)```/.exec(page)!
    const statements = block!
      .replaceAll('usher_runtime_usher', role)
      .replaceAll('DATABASE usher', `DATABASE ${quoted(place.name)}`)
    await connected(place.as(login), client => client.query(statements))
    expect(await servedAs(place.as(serving))).toBe(place.role)
    const stranger = await logIn()
    await expect(connected(place.as(stranger), async () => undefined)).rejects.toMatchObject({
      code: '42501',
    })
    expect(await lookAt(place.as(login), 'authority')).toMatchObject({ sharedRole: false })
  })

  it('gives both roles what a new migration makes, and neither a right over receipts', async () => {
    const { login, place } = await fromEarlier()
    await asAdministrator(
      place,
      `CREATE ROLE ${quoted(place.role)} NOLOGIN`,
      `GRANT ${quoted(place.role)} TO ${login}`,
    )
    await asAdministrator(place, 'REVOKE ALL ON owners, receipts FROM usher_runtime')
    await AUTHORITY_DATABASE.migrate(place.as(login))
    for (const role of ['usher_runtime', quoted(place.role)]) {
      await connected(place.as(login), client =>
        client.query(`SET ROLE ${role}; SELECT * FROM owners, receipts`),
      )
      for (const statement of ['DELETE FROM receipts', 'DELETE FROM schema_migrations'])
        await expect(
          connected(place.as(login), client => client.query(`SET ROLE ${role}; ${statement}`)),
        ).rejects.toMatchObject({ code: '42501' })
    }
  })

  it('stays open to who may connect today, because its log-ins may be members of no role of its own', async () => {
    const { login, place } = await fromEarlier()
    const monitor = await logIn()
    await asAdministrator(
      place,
      `CREATE ROLE ${quoted(place.role)} NOLOGIN`,
      `GRANT ${quoted(place.role)} TO ${login}`,
    )
    await AUTHORITY_DATABASE.migrate(place.as(login))
    expect(await connected(place.as(monitor), async client => (await client.query('SELECT')).rowCount)).toBe(
      1,
    )
  })
})

it('a database that was restored without privileges is closed and served like a new one', async () => {
  const login = await logIn('CREATEROLE')
  const place = await databaseOf(login)
  await AUTHORITY_DATABASE.migrate(place.as(login))
  const role = quoted(place.role)
  const name = quoted(place.name)
  await asAdministrator(
    place,
    `DROP OWNED BY ${role}`,
    `DROP ROLE ${role}`,
    `GRANT CONNECT ON DATABASE ${name} TO PUBLIC`,
  )
  expect(await AUTHORITY_DATABASE.migrate(place.as(login))).toEqual([])
  expect(await servedAs(place.as(login))).toBe(place.role)
  const stranger = await logIn()
  await expect(connected(place.as(stranger), async () => undefined)).rejects.toMatchObject({ code: '42501' })
})

it('a log-in to which the database does not belong migrates it, and leaves open who may connect', async () => {
  const [owner, login] = [await logIn(), await logIn('CREATEROLE')]
  const place = await databaseOf(owner)
  await asAdministrator(place, `GRANT ALL ON SCHEMA public TO ${login}`)
  await AUTHORITY_DATABASE.migrate(place.as(login))
  expect(await servedAs(place.as(login))).toBe(place.role)
  const monitor = await logIn()
  expect(await connected(place.as(monitor), async client => (await client.query('SELECT')).rowCount)).toBe(1)
})
