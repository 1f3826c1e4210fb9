/**
 * What a lost database means: the caller's statement fails as an outage, and the process goes on. contract,
 * "Errors" (503).
 */
import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { inTransaction, isOutage } from '../../src/storage/core/database.ts'
import { openDatabase } from '../../src/storage/authority/database.ts'
import { freshDatabase } from '../support/postgres.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'

it('a connection lost in the midst of a transaction is an outage of its caller alone', async () => {
  const database = await freshDatabase()
  const link = await severableLink(database.url)
  const lost: Error[] = []
  const away = openDatabase({ url: link.url, poolMax: 2, onConnectionError: error => lost.push(error) })
  try {
    const fault: unknown = await inTransaction(away.db, async tx => {
      await sql`SELECT 1`.execute(tx)
      link.cut()
      // Nothing is asked of the connection while it dies: nobody but a listener hears of it.
      await until(() => lost.length > 0)
      await sql`SELECT 1`.execute(tx)
    }).catch((error: unknown) => error)
    expect(isOutage(fault)).toBe(true)
    link.mend()
    expect((await sql`SELECT 1 AS one`.execute(away.db)).rows).toEqual([{ one: 1 }])
  } finally {
    await away.close()
    await link.close()
    await database.close()
  }
})

it('a server that falls silent is an outage of the waiting caller, and its connection is given up', async () => {
  const database = await freshDatabase()
  const link = await severableLink(database.url)
  const away = openDatabase({ url: link.url, poolMax: 1, statementTimeoutMs: 3_000 })
  try {
    await sql`SELECT 1`.execute(away.db)
    link.freeze()
    const fault: unknown = await inTransaction(away.db, tx => sql`SELECT 1`.execute(tx)).catch(
      (error: unknown) => error,
    )
    expect(isOutage(fault)).toBe(true)
    expect((await sql`SELECT 1 AS one`.execute(away.db)).rows).toEqual([{ one: 1 }])
  } finally {
    await away.close()
    await link.close()
    await database.close()
  }
})
