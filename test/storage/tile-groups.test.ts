/**
 * What proofs of large trees are made from: docs/details/ledger.md, "The tree of the ledger". Contract:
 * "Events" (row 5).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import {
  appendLeaves,
  GROUP_HASHES,
  hashesIn,
  planConsistency,
  planInclusion,
  provesConsistency,
  provesInclusion,
  rootOf,
  TILE_HASHES,
} from '../../src/rules/ledger/merkle.ts'
import { readProver } from '../../src/storage/authority/ledger/ledger-tiles.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { ledgerStand } from '../support/ledger-stand.ts'
import * as seed from '../support/seed.ts'

const { database, append, headOf } = ledgerStand()

/** So many entries fill a group of level 1. */
const GROUP_ENTRIES = GROUP_HASHES * TILE_HASHES

async function firstOfLevelOne(owner: Owner): Promise<{ hashes: Buffer; group_roots: Buffer | null }> {
  const { rows } = await sql<{ hashes: Buffer; group_roots: Buffer | null }>`
    SELECT hashes, group_roots FROM ledger_tiles WHERE owner = ${owner} AND level = 1 AND index = 0`.execute(
    database.db,
  )
  return rows[0]!
}

/** Whether the proof that an entry is in her tree holds, as it is made from what is stored. */
async function isProved(owner: Owner, seq: number): Promise<boolean> {
  const head = await headOf(owner)
  const { rows } = await sql<{ leaf: Buffer }>`
    SELECT leaf FROM ledger WHERE owner = ${owner} AND seq = ${seq}`.execute(database.db)
  const plan = planInclusion(seq - 1, head.size)
  const prove = await readProver(database.db, owner, [plan])
  return provesInclusion({ index: seq - 1, leaf: rows[0]!.leaf }, head, prove(plan))
}

describe('The root of each 16 hashes of a tile above the leaves', () => {
  it(
    'is stored with the tile when they are complete, and proofs are made from it',
    { timeout: 60_000 },
    async () => {
      const owner = await seed.seedOwner(database.db)
      await append(owner, 300)
      const older = await headOf(owner)
      await append(owner, GROUP_ENTRIES)
      const { hashes, group_roots } = await firstOfLevelOne(owner)
      const group = hashesIn(hashes).slice(0, GROUP_HASHES)
      expect(group_roots).toEqual(rootOf(appendLeaves({ size: 0, hashes: [] }, group).frontier))
      for (const seq of [1, 257, GROUP_ENTRIES, GROUP_ENTRIES + 1, GROUP_ENTRIES + 300])
        expect(await isProved(owner, seq)).toBe(true)
      const plan = planConsistency(older.size, GROUP_ENTRIES + 300)
      const prove = await readProver(database.db, owner, [plan])
      expect(provesConsistency(older, await headOf(owner), prove(plan))).toBe(true)
      await sql`UPDATE ledger_tiles SET group_roots = hashes WHERE owner = ${owner} AND level = 1`.execute(
        database.db,
      )
      expect(await isProved(owner, 1)).toBe(true)
      expect(await isProved(owner, GROUP_ENTRIES + 300)).toBe(false)
    },
  )

  it(
    'is left out behind one that an older program left out, and proofs hold without',
    { timeout: 60_000 },
    async () => {
      const owner = await seed.seedOwner(database.db)
      await append(owner, GROUP_ENTRIES + 1)
      await sql`UPDATE ledger_tiles SET group_roots = NULL WHERE owner = ${owner}`.execute(database.db)
      await append(owner, GROUP_ENTRIES)
      const { hashes, group_roots } = await firstOfLevelOne(owner)
      expect(hashesIn(hashes)).toHaveLength(2 * GROUP_HASHES)
      expect(group_roots).toBeNull()
      for (const seq of [1, GROUP_ENTRIES + 1, 2 * GROUP_ENTRIES + 1])
        expect(await isProved(owner, seq)).toBe(true)
    },
  )
})
