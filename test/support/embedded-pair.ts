/** Owns whether this machine has a Postgres of which a test can start a server and its standby. */
import {
  PostgresAbsent,
  startEmbeddedPair,
  type PostgresPair,
} from '../../src/dev/stack/embedded-postgres.ts'
import type { Requirement } from './requirement.ts'

/** A primary and a standby that runs, or the line that says how to get a Postgres. */
export async function embeddedPair(): Promise<Requirement<PostgresPair>> {
  try {
    return { found: await startEmbeddedPair() }
  } catch (error) {
    if (!(error instanceof PostgresAbsent)) throw error
    return { missing: error.message }
  }
}
