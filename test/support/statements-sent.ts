/** Owns which statements go out for an owner, for tests of how many there are and what they read. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'

/** What the work finds, and the names of the prepared statements that went out for her, in their order. */
export async function statementsSent<T>(
  owner: Owner,
  work: () => Promise<T>,
): Promise<{ outcome: T; sent: string[] }> {
  const sent: string[] = []
  const note = (statement: unknown): void => {
    const { text, values } = statement as SentStatement
    const name = /prepared as ([a-z-]+) \*\/$/.exec(text)?.[1]
    if (name !== undefined && values[0] === owner) sent.push(name)
  }
  subscribe(STATEMENTS_CHANNEL, note)
  try {
    return { outcome: await work(), sent }
  } finally {
    unsubscribe(STATEMENTS_CHANNEL, note)
  }
}
