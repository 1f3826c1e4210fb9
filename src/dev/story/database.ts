/**
 * Owns the statements that a story runs in Postgres itself, past every server: those of somebody who has the
 * database. Contract: "Parties".
 */
import { openConnection } from '../../storage/core/connection.ts'
import type { Stack } from '../stack/stack.ts'
import { present } from './scene.ts'

/** Runs a statement on a connection of its own, which Postgres shows by `name`. @returns its rows. */
export async function rowsOf<Row extends Record<string, unknown>>(
  { databaseUrl }: Pick<Stack, 'databaseUrl'>,
  { name, statement }: { name: string; statement: string },
): Promise<Row[]> {
  const url = present('The database is on this machine.', databaseUrl)
  const connection = await openConnection({ url, name })
  try {
    const { rows } = await connection.client.query<Row>(statement)
    return rows
  } finally {
    await connection.close()
  }
}
