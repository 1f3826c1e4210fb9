/**
 * Owns the Postgres of a test run (a vitest globalSetup): DATABASE_URL if it is set, otherwise the embedded
 * server, otherwise a container. It makes a migrated template database for each party, of which
 * test/support/postgres.ts makes clones.
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import {
  PostgresAbsent,
  startEmbeddedPostgres,
  type PostgresServer,
} from '../../src/dev/stack/embedded-postgres.ts'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { ORGANIZATION_DATABASE } from '../../src/storage/organization/database.ts'
import { TALLY_DATABASE } from '../../src/storage/tally/database.ts'
import { WITNESS_DATABASE } from '../../src/storage/witness/database.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A superuser's URL of the server's maintenance database. */
    postgresUrl: string
    /** The migrated databases that fresh ones are cloned from. */
    postgresTemplates: Templates
  }
}

/** SQLSTATE of `DROP ROLE` while something has privileges of the role. */
const DEPENDED_ON = '2BP01'

const PARTIES = {
  authority: AUTHORITY_DATABASE,
  organization: ORGANIZATION_DATABASE,
  tally: TALLY_DATABASE,
  witness: WITNESS_DATABASE,
}

export type Party = keyof typeof PARTIES
type Templates = Record<Party, string>

interface RunServer {
  url: string
  templates: Templates
  users: number
  stop(): Promise<void>
}

// Each project loads this module anew, and they share one server.
const shared = globalThis as { usherTestPostgres?: Promise<RunServer> | undefined }

/** Starts (or joins) the run's server; the function returned ends it with its last user. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.usherTestPostgres ??= start()
  const server = await shared.usherTestPostgres
  server.users++
  project.provide('postgresUrl', server.url)
  project.provide('postgresTemplates', server.templates)
  return async () => {
    if (--server.users > 0) return
    shared.usherTestPostgres = undefined
    await server.stop()
  }
}

async function start(): Promise<RunServer> {
  const server = await obtainServer()
  const ours = randomBytes(4).toString('hex')
  const nameOf = (party: Party): string => `usher_template_${party}_${ours}`
  const parties = Object.keys(PARTIES) as Party[]
  try {
    for (const party of parties) await makeTemplate(server.url, party, nameOf(party))
  } catch (error) {
    await server.stop()
    throw error
  }
  const stop = async (): Promise<void> => {
    try {
      for (const template of parties.map(nameOf)) {
        await execute(server.url, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`)
        await execute(server.url, `DROP ROLE IF EXISTS usher_runtime_${template}`)
      }
    } catch (error) {
      // A database of a test that was cut off is still there, and has privileges of that role.
      if ((error as { code?: string }).code !== DEPENDED_ON) throw error
    } finally {
      await server.stop()
    }
  }
  const templates = Object.fromEntries(parties.map(party => [party, nameOf(party)])) as Templates
  return { url: server.url, templates, users: 0, stop }
}

async function makeTemplate(serverUrl: string, party: Party, template: string): Promise<void> {
  await execute(serverUrl, `CREATE DATABASE ${template}`)
  const url = new URL(serverUrl)
  url.pathname = `/${template}`
  await PARTIES[party].migrate(url.href)
  // Tests watch which session waits for which, and run ANALYZE on rows that they made.
  await execute(serverUrl, `GRANT pg_read_all_stats, pg_maintain TO usher_runtime_${template}`)
}

async function obtainServer(): Promise<PostgresServer> {
  const given = process.env['DATABASE_URL']
  if (given !== undefined && given !== '') return { url: given, stop: async () => {} }
  try {
    return await startEmbeddedPostgres({ maxConnections: 600, inMemory: true })
  } catch (error) {
    if (!(error instanceof PostgresAbsent)) throw error
    return await startContainer(error)
  }
}

async function startContainer(absent: PostgresAbsent): Promise<PostgresServer> {
  const { GenericContainer, Wait } = await import('testcontainers')
  try {
    const container = await new GenericContainer('postgres:18-alpine')
      .withEnvironment({ POSTGRES_PASSWORD: 'usher', POSTGRES_USER: 'usher', POSTGRES_DB: 'postgres' })
      .withCommand(['-c', 'fsync=off', '-c', 'max_connections=450'])
      .withExposedPorts(5432)
      .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
      .start()
    const address = `${container.getHost()}:${container.getMappedPort(5432)}`
    return {
      url: `postgres://usher:usher@${address}/postgres`,
      stop: async () => {
        await container.stop()
      },
    }
  } catch (error) {
    throw new Error(`${absent.message} (A container could not be had either: ${(error as Error).message})`, {
      cause: error,
    })
  }
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
