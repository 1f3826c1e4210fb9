/**
 * Owns fresh databases for tests: each call clones a party's migrated template of the run
 * (test/support/postgres-server.ts).
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { inject } from 'vitest'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import type { DatabaseOptions } from '../../src/storage/core/database.ts'
import type { Party } from './postgres-server.ts'

/** SQLSTATE of `CREATE DATABASE` while another session is copying or reading the template. */
const TEMPLATE_IN_USE = '55006'
const CLONE_DEADLINE_MS = 30_000

export type FreshDatabaseOptions = Partial<Omit<DatabaseOptions, 'url'>>

/**
 * For races that show who wins, not how soon: on a loaded machine, 32 callers wait longer for one row, or for
 * a connection, than the product allows. `shares.test.ts` and `outage.test.ts` test what happens then.
 */
export const PATIENT = { lockTimeoutMs: 60_000, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }

/**
 * A migrated, empty database of its own; `close` ends its pool and drops it.
 * `poolMax` bounds the connections of its pool: 40 by default, enough for a race of 32 callers.
 */
export async function freshDatabase(options: FreshDatabaseOptions = {}): Promise<Database> {
  return openedDatabase('authority', url => openDatabase({ poolMax: 40, ...options, url }))
}

/** A migrated, empty database of that party, as `open` opens it; `close` ends that and drops it. */
export async function openedDatabase<Opened extends { close: () => Promise<void> }>(
  party: Party,
  open: (url: string) => Opened,
): Promise<Opened> {
  const cloned = await migratedDatabase(party)
  const database = open(cloned.url)
  return {
    ...database,
    close: async () => {
      await database.close()
      await cloned.close()
    },
  }
}

/** A migrated, empty database of that party; `close` drops it. */
export async function migratedDatabase(party: Party): Promise<{ url: string; close: () => Promise<void> }> {
  const name = `usher_${randomBytes(6).toString('hex')}`
  const template = inject('postgresTemplates')[party]
  // By the log of writes, as it is done otherwise, a copy takes four times the work of a server.
  const clone = `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`
  await asAdministrator(async client => {
    await cloneWithin(client, clone, Date.now() + CLONE_DEADLINE_MS)
    // The privileges in a clone are those of the template's role.
    await client.query(`CREATE ROLE ${roleOf(name)} NOLOGIN IN ROLE ${roleOf(template)}`)
  })
  const url = new URL(inject('postgresUrl'))
  url.pathname = `/${name}`
  return { url: url.href, close: () => drop(name) }
}

/** Runs `work` with the URL of a database that holds nothing at all yet, and drops it. */
export async function withEmptyDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const { url, close } = await emptyDatabase()
  try {
    await work(url)
  } finally {
    await close()
  }
}

async function cloneWithin(client: Client, statement: string, deadline: number): Promise<void> {
  for (;;) {
    try {
      await client.query(statement)
      return
    } catch (error) {
      if ((error as { code?: string }).code !== TEMPLATE_IN_USE || Date.now() > deadline) throw error
    }
  }
}

/** A database that holds nothing at all yet; `close` drops it. */
export async function emptyDatabase(): Promise<{ url: string; close: () => Promise<void> }> {
  const name = `usher_empty_${randomBytes(6).toString('hex')}`
  await onServer(client => client.query(`CREATE DATABASE ${name}`))
  const url = new URL(inject('postgresUrl'))
  url.pathname = `/${name}`
  return { url: url.href, close: () => drop(name) }
}

/**
 * The roles whose privileges requests have in an authority's database of a test, as they stand in GRANT and
 * REVOKE.
 */
export function runtimeRoles(url: string): string {
  return [new URL(url).pathname.slice(1), inject('postgresTemplates').authority].map(roleOf).join(', ')
}

/** The role that serves a database of a test, whose names need no quotes. */
export function runtimeRole(url: string): string {
  return roleOf(new URL(url).pathname.slice(1))
}

const roleOf = (database: string): string => `usher_runtime_${database}`

let administrator: Promise<Client> | undefined

/**
 * Runs `work` on a connection that the worker keeps, because a file makes and drops a database for most of
 * its tests, and a quarter of what that costs the server was its connections. `work` leaves no state in the
 * session.
 */
async function asAdministrator(work: (client: Client) => Promise<unknown>): Promise<void> {
  administrator ??= connect()
  await work(await administrator)
}

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: inject('postgresUrl') })
  // A connection that broke is made anew by whoever needs it next.
  const forget = (): void => void (administrator = undefined)
  client.on('error', forget).on('end', forget)
  try {
    await client.connect()
  } catch (error) {
    forget()
    throw error
  }
  // The types do not name it.
  ;(client as Client & { unref: () => void }).unref()
  return client
}

function drop(name: string): Promise<void> {
  return asAdministrator(async client => {
    await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await client.query(`DROP ROLE IF EXISTS ${roleOf(name)}`)
  })
}

/** Runs `work` as who administers the server. */
export async function onServer(work: (client: Client) => Promise<unknown>): Promise<void> {
  await connected(inject('postgresUrl'), work)
}

/** Runs `work` on a connection of its own, as the role of the URL: a pool of ours takes on another. */
export async function connected<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
