/**
 * Calls that are reported to a tally are each stored once, however many come in one request: contract,
 * "Protection API" (/audit/access), "Tally for a jointly held resource".
 */
import { sql } from 'kysely'
import { beforeAll, describe, expect, it } from 'vitest'
import { listAccesses, recordAccesses, type TallyAccess } from '../../src/storage/tally/accesses.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asFamily, type Family } from '../../src/wire/identifiers.ts'
import { startedOnce } from '../support/started.ts'
import { ACCOUNT, approved, granted, TOOLS, tallyDatabase } from '../support/tally-database.ts'

const database = startedOnce(tallyDatabase)
let family: Family
beforeAll(async () => {
  family = await approved(database)
  await granted(database, family)
})
const call = (key: string, changes: Partial<TallyAccess> = {}): TallyAccess => ({
  key,
  family,
  jti: undefined,
  tool: 'read_balance',
  summary: undefined,
  at: 1_790_000_000,
  ...changes,
})
const record = (calls: TallyAccess[]) =>
  inTransaction(database.db, async tx => {
    // As a tally has it: tests wait longer, and what takes that long would be recorded by nobody.
    await sql`SET LOCAL statement_timeout = '5s'`.execute(tx)
    return recordAccesses(tx, { account: ACCOUNT, client_id: TOOLS }, calls)
  })

/** As many as /audit/access takes in one request. */
const ENTRIES_MAX = 500

describe('Reports of calls to a tally', () => {
  it('are stored as many at once as one request may have, and are known when they come again', async () => {
    const all = Array.from({ length: ENTRIES_MAX }, (_, n) => call(`many ${n}`))
    expect(new Set(await record(all))).toEqual(new Set(['recorded']))
    expect(new Set(await record(all))).toEqual(new Set(['known']))
  })

  it('tell of the first of one call alone, and of none that names no grant', async () => {
    const foreign = { family: asFamily('fam_of_nobody') }
    const reports = [
      call('a', foreign),
      call('a', { tool: 'first' }),
      call('b'),
      call('a', { tool: 'second' }),
    ]
    expect(await record(reports)).toEqual(['unknown', 'recorded', 'recorded', 'known'])
    const [, stored] = await listAccesses(database.db, ACCOUNT, { before: 0, limit: 2 })
    expect(stored?.tool).toBe('first')
  })
})
