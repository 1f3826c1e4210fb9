/** docs/limits.md, "What is kept": old entries of the ledger go from its beginning; receipts stay. */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { appendLedgerAll, readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const DAY_SECONDS = 86_400
const KEPT = 40 * DAY_SECONDS

const database = coreStand()

/** Her ledger: one entry for each age in days, in this order. */
async function withEntries(...days: number[]): Promise<Owner> {
  const { db } = database
  const owner = await seed.seedOwner(db)
  await appendLedgerAll(
    db,
    owner,
    days.map(() => ({ kind: 'approved' as const })),
  )
  await number(db, owner)
  for (const [at, age] of days.entries())
    await sql`UPDATE ledger SET ts = now() - ${age} * interval '1 day' WHERE owner = ${owner} AND seq = ${at + 1}`.execute(
      db,
    )
  return owner
}
const left = async (owner: Owner) =>
  (await readLedger(database.db, owner, { after: 0, limit: 100 })).map(({ seq }) => seq)

describe('The ledger', () => {
  it('is kept for ever if nothing else is set', async () => {
    const owner = await withEntries(4_000, 41)
    await sweepOwner(database.db, owner, 100)
    expect(await left(owner)).toEqual([1, 2])
  })

  it('loses what is older than the retention, in batches, from its beginning and never out of the middle', async () => {
    const owner = await withEntries(50, 45, 41, 39, 60, 1)
    const sweep = (limit: number) => sweepOwner(database.db, owner, limit, KEPT)
    expect(await sweep(2)).toEqual({ rows: 2, more: true, faults: [] })
    expect(await left(owner)).toEqual([3, 4, 5, 6])
    expect(await sweep(2)).toEqual({ rows: 1, more: false, faults: [] })
    expect(await sweep(2)).toEqual({ rows: 0, more: false, faults: [] })
    expect(await left(owner)).toEqual([4, 5, 6])
  })

  it('goes on numbering where it was, though all before is gone', async () => {
    const owner = await withEntries(50)
    await sweepOwner(database.db, owner, 100, KEPT)
    await appendLedgerAll(database.db, owner, [{ kind: 'denied' }])
    await number(database.db, owner)
    expect(await left(owner)).toEqual([2])
  })

  it('of one owner is no other’s', async () => {
    const [one, other] = [await withEntries(50), await withEntries(50)]
    await sweepOwner(database.db, one, 100, KEPT)
    expect([await left(one), await left(other)]).toEqual([[], [1]])
  })
})
