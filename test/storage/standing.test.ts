/**
 * What counting an agent's recent acts costs: contract, "Policy vocabulary and tiers" (`standing.*_above`).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import * as seed from '../support/seed.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'

const ROWS = 20_000
const COUNT_TO = 4

const database = coreStand()

/** An agent that did the same again and again, one hour apart, until now. */
async function busy(kind: string): Promise<{ owner: Owner; handle: Handle }> {
  const owner = await seed.seedOwner(database.db)
  const handle = seed.name('jkt:')
  await seed.seedConnection(database.db, owner, handle)
  await sql`INSERT INTO ledger (owner, id, seq, ts, kind, handle, data)
    SELECT ${owner}, n, n, now() - n * interval '1 hour', ${kind}, ${handle}, '{}'
    FROM generate_series(1, ${ROWS}::int) n`.execute(database.db)
  // As autovacuum would have, by now.
  await sql`ANALYZE ledger`.execute(database.db)
  return { owner, handle }
}

/** Entries of the ledger that this connection has read and not yet told to the statistics of all. */
async function entriesRead(tx: Tx): Promise<number> {
  const { rows } = await sql<{ read: string }>`SELECT seq_tup_read + idx_tup_fetch AS read
    FROM pg_stat_xact_user_tables WHERE relname = 'ledger'`.execute(tx)
  return Number(rows[0]!.read)
}

const WEEK = { tier_id: seed.TIER, windowSeconds: 7 * 86_400 }

describe('Counts of what an agent did lately', () => {
  it.each(['denied', 'refused', 'touched'])(
    'of %s read no more entries than the number that a rule compares them with, and one',
    async kind => {
      const { owner, handle } = await busy(kind)
      const { standing, read } = await inTransaction(database.db, async tx => {
        const before = await entriesRead(tx)
        const standing = await readStanding(tx, owner, { ...WEEK, handle, countTo: COUNT_TO })
        return { standing, read: (await entriesRead(tx)) - before }
      })
      const counts = { countedTo: COUNT_TO, denials: 0, calls: 0 }
      expect(standing).toMatchObject(
        kind === 'touched' ? { ...counts, calls: COUNT_TO } : { ...counts, denials: COUNT_TO },
      )
      expect(read).toBeLessThanOrEqual(COUNT_TO)
    },
  )

  it('leave out what is older than the window, and are not read if no rule asks', async () => {
    const { owner, handle } = await busy('denied')
    const of = { handle, tier_id: seed.TIER, windowSeconds: 9.5 * 3_600 }
    expect(await readStanding(database.db, owner, { ...of, countTo: ROWS })).toMatchObject({
      denials: 9,
      calls: 0,
    })
    expect(await readStanding(database.db, owner, { ...of, countTo: undefined })).toMatchObject({
      denials: null,
      tiers: null,
      calls: null,
      countedTo: null,
    })
  })
})
