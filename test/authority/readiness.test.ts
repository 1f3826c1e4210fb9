/**
 * Readiness is a read as the product makes it: a replica whose every read fails says so, and an outage of the
 * database is no fault of a replica. Contract: "Health".
 */
import { afterEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/storage/authority/database.ts'
import { coreStand, authorityStand } from '../support/stands.ts'
import { onServer, runtimeRole, runtimeRoles } from '../support/postgres.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'

const authority = authorityStand()
const other = coreStand()

const nameOf = (url: string) => new URL(url).pathname.slice(1)
const undone: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of undone.splice(0)) await undo()
})

/** Does it, ends every session of the database, so that the next ones begin with it, and undoes it later. */
async function change(statement: string, undo: string): Promise<void> {
  const { url } = authority.database
  const name = nameOf(url)
  const run = (text: string) => async () => {
    await onServer(client => client.query(text.replaceAll('DB', name)))
    await onServer(client =>
      client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]),
    )
  }
  undone.push(run(undo))
  await run(statement)()
}

const ready = async () => {
  const answer = await fetch(`${authority.publicUrl}/ready`)
  return { status: answer.status, because: ((await answer.json()) as { because?: string }).because }
}
const reads = async () =>
  (await authority.call(authority.alice, { method: 'GET', target: '/owner/policies' })).status

async function asAdministrator(text: string): Promise<void> {
  const client = await authority.database.pool.connect()
  try {
    await client.query('RESET ROLE')
    await client.query(text)
  } finally {
    client.release(true)
  }
}

describe('A replica', () => {
  it.each(['German', 'SQL, DMY', 'Postgres'])(
    'reads, and is ready, though the database writes dates as %s',
    async style => {
      await change(`ALTER DATABASE DB SET datestyle = '${style}'`, 'ALTER DATABASE DB RESET datestyle')
      await until(async () => (await reads()) === 200)
      expect(await ready()).toEqual({ status: 200, because: undefined })
      expect(await reads()).toBe(200)
    },
  )

  it.each([
    ['session_replication_role', 'replica', /session_replication_role is replica/],
    ['search_path', 'information_schema', /search_path \(information_schema\) leads to/],
  ])(
    'that is set so (%s) that nothing can be read is not ready, says why, and lives on',
    async (name, value, because) => {
      await change(`ALTER DATABASE DB SET ${name} = ${value}`, `ALTER DATABASE DB RESET ${name}`)
      await until(async () => (await ready()).status === 503)
      expect((await ready()).because).toMatch(because)
      expect((await fetch(`${authority.publicUrl}/health`)).status).toBe(200)
      await undone.pop()!()
      await until(async () => (await ready()).status === 200)
      expect(await reads()).toBe(200)
    },
  )

  it('from whose role a table was taken is not ready, and is again once it is given back', async () => {
    await asAdministrator(`REVOKE SELECT ON grants FROM ${runtimeRoles(authority.database.url)}`)
    try {
      await until(async () => (await ready()).status === 503)
      expect((await ready()).because).toBe('reads from the database fail, for a reason that its log tells')
    } finally {
      await asAdministrator(`GRANT SELECT ON grants TO ${runtimeRole(authority.database.url)}`)
    }
    await until(async () => (await ready()).status === 200)
    expect(await reads()).toBe(200)
  })

  it('that a policy keeps rows from is not ready, and takes none for rows that are not there', async () => {
    await asAdministrator('ALTER TABLE tiers ENABLE ROW LEVEL SECURITY')
    try {
      expect(await reads()).toBe(500)
      await until(async () => (await ready()).status === 503)
      expect((await ready()).because).toMatch(
        /^row-level security keeps rows of tiers from usher: ALTER TABLE/,
      )
    } finally {
      await asAdministrator('ALTER TABLE tiers DISABLE ROW LEVEL SECURITY')
    }
    await until(async () => (await ready()).status === 200)
    expect(await reads()).toBe(200)
  })
})

it('an outage of the database is no fault of one replica, and its log is told of none', async () => {
  const link = await severableLink(other.url)
  const faults: string[] = []
  const database = openDatabase({
    url: link.url,
    poolMax: 1,
    onReadFault: ({ message }) => faults.push(message),
  })
  try {
    expect(await database.readFault()).toBeUndefined()
    link.cut()
    expect(await database.readFault()).toBeUndefined()
    link.mend()
    expect(faults).toEqual([])
  } finally {
    await database.close()
    await link.close()
  }
})
