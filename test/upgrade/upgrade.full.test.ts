/**
 * An upgrade from the last release, as it was packed: its own program on its own schema, and next to it this
 * one with an added expand and an added contract migration. Contract: "What the service does", which an
 * upgrade must not interrupt; docs/upgrading.md.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { connected, emptyDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/requirement.ts'
import { authorityStand } from '../support/stands.ts'
import { PARTIES, released, type Party } from './released.ts'
import { dumpSchema } from './schema-dump.ts'
import { BROUGHT, nextVersion, replicaIn, underLoad } from './two-versions.ts'

const run = promisify(execFile)
const closing: (() => Promise<void> | void)[] = []
afterAll(async () => {
  for (const close of closing.splice(0)) await close()
})

async function database(sql?: string): Promise<string> {
  const { url, close } = await emptyDatabase()
  closing.push(close)
  if (sql !== undefined) await connected(url, client => client.query(sql))
  return url
}

const dumped = (url: string): Promise<string> => connected(url, dumpSchema)
const migrations = (url: string): Promise<string[]> =>
  connected(url, async client => {
    const { rows } = await client.query<{ name: string }>(
      'SELECT name FROM schema_migrations ORDER BY number',
    )
    return rows.map(({ name }) => name)
  })

describeWith(released(), 'An upgrade from the last release', found => {
  let program: string[]
  beforeAll(() => {
    const unpacked = found.unpack()
    program = unpacked.program
    closing.push(unpacked.remove)
  })

  describe('The schema dump', () => {
    it.each(Object.keys(PARTIES) as Party[])(
      'of the %s is what the program makes of an empty database',
      async party => {
        const url = await database()
        const environment = { PATH: process.env['PATH'], DATABASE_URL: url }
        await run(process.execPath, [...program, ...PARTIES[party]], { env: environment })
        const made = await dumped(url)
        const [head, ...statements] = found.schemaOf(party).split('\n')
        expect(head).toContain(`usher ${found.version}`)
        expect(statements.join('\n')).toBe(made)
        expect(await dumped(await database(found.schemaOf(party)))).toBe(made)
      },
    )
  })

  describe('The release and the next version over one database', () => {
    const world = authorityStand()

    it('answer alike from the dump on, while it is brought up to date, and after a roll-back', async () => {
      const url = await database(found.schemaOf('authority'))
      const before = await migrations(url)
      const start = async (command: string[], UMA_AS_MIGRATE: 'true' | 'false') => {
        const environment = { DATABASE_URL: url, UMA_AS_MIGRATE }
        const replica = await startAuthorityProcess(world, { program: command, environment })
        closing.unshift(() => replica.close())
        return replicaIn(world, replica)
      }
      const old = await start(program, 'true')
      expect(await migrations(url)).toEqual(before)
      const load = underLoad(old, old)
      try {
        await load.roundsMore()
        const nextOne = nextVersion()
        closing.push(nextOne.remove)
        const next = await start(nextOne.program, 'true')
        const after = await migrations(url)
        expect(after.slice(0, before.length)).toEqual(before)
        expect(after.slice(-3)).toEqual(Object.keys(BROUGHT))
        load.now(old, next)
        await load.roundsMore()
        // The release again, over a database that is newer than it: as a roll-back starts it.
        for (const migrates of ['false', 'true'] as const) {
          load.now(await start(program, migrates), next)
          await load.roundsMore()
        }
      } finally {
        await load.end()
      }
    }, 240_000)
  })
})
