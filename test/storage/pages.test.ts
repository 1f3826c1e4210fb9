/**
 * What a page of a long list reads of an owner who has much, and a batch of the sweep, whatever Postgres
 * expects her to have. Contract: "Owner API". Rows are counted, not milliseconds: they are the same on every
 * machine.
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { listConnections, listOperators } from '../../src/storage/authority/connections/connections.ts'
import { readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { readReceipts } from '../../src/storage/authority/ledger/receipts.ts'
import { readTrail, TRAIL_LISTS, type TrailList } from '../../src/storage/authority/ledger/security-trail.ts'
import { readArchive } from '../../src/storage/authority/owners/archive.ts'
import { listGovernedResources } from '../../src/storage/authority/registry/resources.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { asFamily, type Family, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { multiply, rowsReadBy, TEXT, type CopiedKeys } from '../support/rows-read.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

/** Rows of a page, of a batch, and of what she has. */
const LIMIT = 10
const MANY = 1_000
const OTHERS = 1_000
/** Each row that is shown, what is joined to it, and what tells whether an entry has no position yet. */
const PAGE_ROWS_MAX = 5 * LIMIT
/** Of two tables; each row is judged, kept in part, and deleted. */
const SWEPT_ROWS_MAX = 10 * LIMIT
const YEAR_SECONDS = 365 * 86_400

interface Whose {
  owner: Owner
  /** That of one entry in a hundred. */
  handle: Handle
  family: Family
}

describe.each([
  // The indexes that begin with the owner seem as good as that of a key.
  { each: 1 },
  // So does the sorting of all that she has, which are fewer rows than a page.
  { each: 5 },
])('Of an owner who has much, where each other one has $each,', ({ each }) => {
  const database = coreStand({ poolMax: 1 })

  const page = { after: 0, limit: LIMIT }
  const trail = (list: TrailList) => (owner: Owner) =>
    readTrail(database.db, owner, list, {
      ...page,
      since: new Date(0),
      until: new Date(4e12),
      without: ['promised'],
    })
  const archive = (part: string) => async (owner: Owner) =>
    (await readArchive(database.db, owner, {
      after: encodeBase64url(JSON.stringify([part, ['1']])),
      limit: LIMIT,
    }))!.lines
  const ledger = (of: object) => (owner: Owner) => readLedger(database.db, owner, { ...page, ...of })
  const PAGES: Record<string, (owner: Owner, whose: Whose) => Promise<readonly unknown[]>> = {
    'the ledger': ledger({}),
    'the ledger from its end': ledger({ first: 'newest' }),
    'entries of a kind': ledger({ kind: ['denied', 'refused'] }),
    'entries about an agent': (owner, { handle }) => ledger({ handle })(owner),
    receipts: owner => readReceipts(database.db, owner, page),
    'receipts of a negotiation': (owner, { family }) => readReceipts(database.db, owner, { ...page, family }),
    agents: owner => listConnections(database.db, owner, { limit: LIMIT }),
    operators: owner => listOperators(database.db, owner, { limit: LIMIT }),
    resources: owner => listGovernedResources(database.db, owner, { limit: LIMIT }),
    'her export of the ledger': archive('ledger'),
    'her export of receipts': archive('receipts'),
    ...Object.fromEntries(TRAIL_LISTS.map(list => [`the trail of ${list}`, trail(list)])),
  }

  async function ownerWithOne(): Promise<Whose> {
    const { db } = database
    const owner = await seed.seedOwner(db)
    const handle = seed.name('jkt:')
    await seed.seedConnection(db, owner, handle)
    const family = asFamily(seed.name('fam_'))
    const at = sql`now() - interval '2 years'`
    for (const row of [
      sql`ledger (owner, kind, handle, family, data, seq, ts)
        VALUES (${owner}, 'denied', ${handle}, ${family}, '{}', 1, ${at})`,
      sql`events (owner, event, data, seq, at) VALUES (${owner}, 'resource_server_pending', '{}', 1, ${at})`,
      sql`receipt_positions (owner, jti, seq) VALUES (${owner}, 'one', 1)`,
      sql`receipts (owner, jti, family, handle, receipt, issued_at)
        VALUES (${owner}, 'one', ${family}, ${handle}, 'a receipt', ${at})`,
      sql`operators (owner, origin) VALUES (${owner}, 'https://one.example')`,
      sql`connection_tiers (owner, handle, tier_id, granted_at) VALUES (${owner}, ${handle}, ${seed.TIER}, now())`,
      sql`connection_operators (owner, handle, origin) VALUES (${owner}, ${handle}, 'https://one.example')`,
    ])
      await sql`INSERT INTO ${row}`.execute(db)
    return { owner, handle, family }
  }

  const copied = ({ handle }: Whose, from: number): CopiedKeys => {
    const numbered = { seq: 'n + 1', id: `n + ${from}` }
    const whose = `CASE n % 100 WHEN 0 THEN '${handle}' ELSE 'jkt:other' END`
    return {
      ledger: { ...numbered, handle: whose },
      events: numbered,
      receipt_positions: { ...numbered, jti: TEXT },
      receipts: { jti: TEXT, family: TEXT },
      connections: { handle: TEXT, jkt: TEXT },
      operators: { origin: TEXT },
      connection_operators: { handle: TEXT, origin: TEXT },
      resources: { resource_id: TEXT },
      tier_resources: { resource_id: TEXT },
      connection_tiers: { handle: TEXT },
    }
  }

  /** She has much since Postgres looked at the tables. */
  async function ownerWithMuch(): Promise<Whose> {
    const { db } = database
    const whose = await ownerWithOne()
    const others = `'${whose.owner}-' || n / ${each}`
    await multiply(db, whose.owner, copied(whose, 0), { count: OTHERS, whose: others })
    await sql`ANALYZE`.execute(db)
    await multiply(db, whose.owner, copied(whose, OTHERS), { count: MANY, whose: 'one.owner' })
    return whose
  }

  const rowsOf = async (act: () => Promise<void>) => {
    const read = await rowsReadBy(database.db, act)
    return { read, all: Object.values(read).reduce((sum, rows) => sum + rows, 0) }
  }

  it('a page reads about as many rows as it shows', async () => {
    const whose = await ownerWithMuch()
    const dear: Record<string, unknown> = {}
    for (const since of ['', ', analyzed since']) {
      if (since !== '') await sql`ANALYZE`.execute(database.db)
      for (const [name, list] of Object.entries(PAGES)) {
        const { read, all } = await rowsOf(async () => {
          expect((await list(whose.owner, whose)).length, name).toBeGreaterThan(0)
        })
        expect(all, name).toBeGreaterThan(0)
        if (all > PAGE_ROWS_MAX) dear[name + since] = read
      }
    }
    expect(dear).toEqual({})
  })

  it('a batch of what is old goes without a look at the rest', async () => {
    const { owner } = await ownerWithMuch()
    for (const since of ['', 'analyzed since']) {
      if (since !== '') await sql`ANALYZE`.execute(database.db)
      const { read, all } = await rowsOf(async () => {
        const { rows } = await sweepOwner(database.db, owner, LIMIT, YEAR_SECONDS)
        // Of the ledger and of events.
        expect(rows).toBe(2 * LIMIT)
      })
      expect(all, since + JSON.stringify(read)).toBeLessThanOrEqual(SWEPT_ROWS_MAX)
    }
  })
})
