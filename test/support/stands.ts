/**
 * Owns what all tests of a file share: it is started before the first of them and closed after the last.
 */
import { afterAll, beforeAll } from 'vitest'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { startTestAuthority, type TestAuthority, type TestAuthorityOptions } from './authority.ts'
import { freshDatabase, PATIENT, type FreshDatabaseOptions } from './postgres.ts'

/** How long a busy machine may take. */
const START_MS_MAX = 120_000

/**
 * An authority, reached as `startTestAuthority` answers it. Has nothing until the first test or a later
 * `beforeAll`.
 */
export function authorityStand(options?: TestAuthorityOptions): TestAuthority {
  return standing(() => startTestAuthority(options))
}

/** The authority's database alone: migrated, and empty. */
export function coreStand(options?: FreshDatabaseOptions): Database {
  return standing(() => freshDatabase(options))
}

/** A database, and the same one as another replica has it: over connections of its own. */
export function replicatedStand(): { database: Database; replica: Database } {
  const database = coreStand(PATIENT)
  const replica = standing(async () => openDatabase({ url: database.url, poolMax: 10, ...PATIENT }))
  return { database, replica }
}

function standing<Stand extends { close(): Promise<void> }>(start: () => Promise<Stand>): Stand {
  const stand = {} as Stand
  let close: (() => Promise<void>) | undefined
  beforeAll(async () => {
    const started = await start()
    close = () => started.close()
    Object.defineProperties(stand, Object.getOwnPropertyDescriptors(started))
  }, START_MS_MAX)
  afterAll(() => close?.())
  return stand
}
