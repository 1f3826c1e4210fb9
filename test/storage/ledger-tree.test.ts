/**
 * The Merkle tree of an owner's ledger, as it is stored: docs/choices.md, "The tree of the ledger". Contract:
 * "Events" (row 5).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { deletedLeaf, ledgerLeaf } from '../../src/rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  hashesIn,
  planConsistency,
  planInclusion,
  proofOf,
  provesConsistency,
  provesInclusion,
  rootOf,
  TILE_HASHES,
  type ProofPlan,
} from '../../src/rules/ledger/merkle.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { appendLedger, readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { readTiles } from '../../src/storage/authority/ledger/ledger-tiles.ts'
import { completeTree } from '../../src/storage/authority/ledger/ledger-tree.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asHandle, type Owner } from '../../src/wire/identifiers.ts'
import { ledgerStand, RETENTION_SECONDS } from '../support/ledger-stand.ts'
import { connected } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'

const { database, replica, append: appendEntries } = ledgerStand()

const HANDLES = ['jkt:one', 'jkt:two', 'jkt:three'].map(asHandle)

/** Appends entries, of which every fourth has no handle, and numbers them. */
const append = (owner: Owner, count: number) =>
  appendEntries(owner, count, n => ({
    ...(n % 4 === 3 ? {} : { handle: HANDLES[n % 4]! }),
    data: { n, text: 'é "quoted" 😀' },
  }))

async function completed(owner: Owner): Promise<void> {
  while (await completeTree(database.db, owner));
}

/** As a program from before the tree numbers entries. */
const numberWithoutTree = (owner: Owner) =>
  sql`WITH numbered AS (
      UPDATE ledger SET seq = head.ledger + nth FROM (SELECT ledger FROM heads WHERE owner = ${owner}) head,
        (SELECT id, row_number() OVER (ORDER BY id) AS nth FROM ledger WHERE owner = ${owner} AND seq IS NULL) waiting
      WHERE ledger.owner = ${owner} AND ledger.id = waiting.id RETURNING 1)
    UPDATE heads SET ledger = ledger + (SELECT count(*) FROM numbered) WHERE owner = ${owner}`.execute(
    database.db,
  )

/** Her first entries, as a program from before the tree left them: no salt, no leaf. */
async function withoutTree(owner: Owner, count: number): Promise<void> {
  await sql`INSERT INTO heads (owner) VALUES (${owner}) ON CONFLICT DO NOTHING`.execute(database.db)
  await sql`INSERT INTO ledger (owner, kind, handle, data, salt)
    SELECT ${owner}, 'touched', CASE WHEN n % 2 = 0 THEN 'jkt:one' END, json_build_object('n', n), NULL
    FROM generate_series(1, ${count}::int) n`.execute(database.db)
  await numberWithoutTree(owner)
}

const age = (owner: Owner, upTo: number) =>
  sql`UPDATE ledger SET ts = now() - interval '41 days' WHERE owner = ${owner} AND seq <= ${upTo}`.execute(
    database.db,
  )

/** @returns how many entries went. */
async function sweep(owner: Owner, limit: number): Promise<number> {
  const { rows: gone, faults } = await sweepOwner(database.db, owner, limit, RETENTION_SECONDS)
  expect(faults).toEqual([])
  return gone
}

interface Stored {
  seq: number
  ts: string
  kind: string
  salt: Buffer
  family: string | null
  handle: string | null
  count: number
  data: string
  prev: number | null
  leaf: Buffer
}

/** All that is stored of her tree, read by itself. */
async function stored(owner: Owner) {
  const { rows: entries } = await sql<Stored>`
    SELECT seq, ts, kind, salt, family, handle, count, data::text AS data, prev, leaf FROM ledger
    WHERE owner = ${owner} AND seq IS NOT NULL ORDER BY seq`.execute(database.db)
  const { rows: tiles } = await sql<{ level: number; index: number; hashes: Buffer }>`
    SELECT level, index, hashes FROM ledger_tiles WHERE owner = ${owner} ORDER BY level, index`.execute(
    database.db,
  )
  const { rows: heads } = await sql<{ ledger: number; size: number; root: Buffer; frontier: Buffer }>`
    SELECT ledger, tree_size AS size, tree_root AS root, frontier FROM heads WHERE owner = ${owner}`.execute(
    database.db,
  )
  return { entries, tiles, head: heads[0]! }
}

/** The leaves that the rows themselves have, computed anew, and what the tree says of them. */
async function expectWholeTree(owner: Owner, before: readonly Uint8Array[] = []) {
  const { entries, tiles, head } = await stored(owner)
  const last = new Map<string, number>()
  const leaves = [...before]
  for (const { leaf, prev, ...entry } of entries) {
    expect(entry.salt).toHaveLength(16)
    expect(leaf).toEqual(ledgerLeaf({ ...entry, owner, prev: prev ?? 0 }))
    if (entry.handle === null) expect(prev).toBeNull()
    else {
      if (before.length === 0) expect(prev).toBe(last.get(entry.handle) ?? 0)
      last.set(entry.handle, entry.seq)
    }
    leaves.push(leaf)
  }
  const { frontier, above } = appendLeaves({ size: 0, hashes: [] }, leaves)
  expect(head.ledger).toBe(leaves.length)
  expect({ size: head.size, hashes: hashesIn(head.frontier).map(one => Buffer.from(one)) }).toEqual(frontier)
  expect(head.root).toEqual(rootOf(frontier))
  for (const { level, index, hash } of above) {
    const tile = tiles.find(one => one.level === level && one.index === Math.floor(index / TILE_HASHES))
    expect(hashesIn(tile!.hashes)[index % TILE_HASHES]).toEqual(hash)
  }
  const full = tiles.filter(one => one.level === 0 && one.hashes.length === TILE_HASHES * 32)
  expect(full.map(({ index }) => index)).toEqual(
    Array.from({ length: Math.floor(leaves.length / TILE_HASHES) }, (_, n) => n),
  )
  expect(Buffer.concat(full.map(({ hashes }) => hashes))).toEqual(
    Buffer.concat(leaves.slice(0, full.length * TILE_HASHES)),
  )
  return { leaves, tiles, head: { size: head.size, root: head.root } }
}

describe('Each entry gets its leaf with its position', () => {
  it('so that the head covers all entries that have one, whatever the steps', async () => {
    const owner = await seed.seedOwner(database.db)
    for (const count of [1, 2, 252, 1, 1, 300, 500]) {
      await append(owner, count)
      await expectWholeTree(owner)
    }
    expect(new Set((await stored(owner)).entries.map(({ salt }) => salt.toString('hex'))).size).toBe(1_057)
  })

  it('and each proof of inclusion and of consistency can be made from tiles and leaves that are stored', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    const older = (await expectWholeTree(owner)).head
    await append(owner, 270)
    const { leaves, tiles, head } = await expectWholeTree(owner)
    const open = Buffer.concat(leaves.slice(512))
    const prove = (plan: ProofPlan) =>
      proofOf(plan, ({ level, index }) => {
        const tile = tiles.find(one => one.level === level && one.index === index)
        return tile?.hashes ?? (level === 0 && index === 2 ? open : Buffer.alloc(0))
      })
    for (const index of [0, 255, 256, 299, 511, 512, 569])
      expect(provesInclusion({ index, leaf: leaves[index]! }, head, prove(planInclusion(index, 570)))).toBe(
        true,
      )
    expect(provesConsistency(older, head, prove(planConsistency(300, 570)))).toBe(true)
  })

  it('and writers and readers on two replicas at once make one tree', { timeout: 120_000 }, async () => {
    const owner = await seed.seedOwner(database.db)
    const write = async (writer: number) => {
      for (let n = 0; n < 40; n++) {
        const { db } = (writer + n) % 2 === 0 ? database : replica
        await inTransaction(db, async tx => {
          for (let m = 0; m < 1 + ((writer + n) % 3); m++)
            await appendLedger(tx, owner, {
              kind: 'touched',
              handle: HANDLES[writer % 3]!,
              data: { writer, n },
            })
        })
        await number(db, owner)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer)))
    const { leaves } = await expectWholeTree(owner)
    expect(leaves.length).toBeGreaterThan(320)
  })

  it('and a numbering that is broken off before its commit leaves nothing, and loses nothing', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 250)
    const before = await stored(owner)
    const administer = (statement: string) => connected(database.url, client => client.query(statement))
    await administer(`CREATE FUNCTION refuse_tile() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'the disk is full'; END$$;
      CREATE TRIGGER refuse_tile BEFORE INSERT ON ledger_tiles FOR EACH ROW EXECUTE FUNCTION refuse_tile()`)
    await expect(append(owner, 10)).rejects.toThrow('the disk is full')
    expect(await stored(owner)).toEqual(before)
    await administer('DROP TRIGGER refuse_tile ON ledger_tiles')
    await number(database.db, owner)
    expect((await expectWholeTree(owner)).leaves).toHaveLength(260)
  })
})

describe('A leaf that somebody took out of the database, or cut', () => {
  it('is zero bytes in its tile, in which all others stay where they were', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 200)
    const { leaves } = await expectWholeTree(owner)
    await sql`UPDATE ledger SET leaf = CASE WHEN seq = 120 THEN substring(leaf FROM 2) END
      WHERE owner = ${owner} AND seq IN (110, 120)`.execute(database.db)
    const expected = Buffer.concat(leaves)
      .fill(0, 109 * 32, 110 * 32)
      .fill(0, 119 * 32, 120 * 32)
    const read = async () => {
      const tile = await readTiles(database.db, owner, [{ level: 0, index: 0 }])
      return Buffer.from(tile({ level: 0, index: 0, hashes: 200 }).subarray(0, 200 * 32))
    }
    expect(await read()).toEqual(expected)
    await age(owner, 100)
    expect(await sweep(owner, 100)).toBe(100)
    expect(await read()).toEqual(expected)
    await append(owner, 60)
    expect(await read()).toEqual(expected)
    const { tiles, entries } = await stored(owner)
    const last = entries.filter(({ seq }) => seq > 200 && seq <= TILE_HASHES).map(({ leaf }) => leaf)
    expect(tiles[0]!.hashes).toEqual(Buffer.concat([expected, ...last]))
  })
})

describe('Entries that were numbered without the tree', () => {
  it('get salt and leaf later, and new ones among them too, in the order of their positions', async () => {
    const owner = await seed.seedOwner(database.db)
    await withoutTree(owner, 600)
    // These are read at once: nobody waits for the older ones.
    await append(owner, 5)
    expect((await readLedger(database.db, owner, { after: 600, limit: 10 })).map(({ seq }) => seq)).toEqual([
      601, 602, 603, 604, 605,
    ])
    expect((await stored(owner)).head).toMatchObject({ ledger: 605, size: 0 })
    await completed(owner)
    expect((await expectWholeTree(owner)).leaves).toHaveLength(605)
    await append(owner, 5)
    await expectWholeTree(owner)
  })

  it('and those that waited for a position when salts came, get a salt with it', async () => {
    const owner = await seed.seedOwner(database.db)
    await sql`INSERT INTO ledger (owner, kind, data, salt) VALUES (${owner}, 'touched', '{}', NULL)`.execute(
      database.db,
    )
    await append(owner, 2)
    expect((await expectWholeTree(owner)).leaves).toHaveLength(3)
  })

  it('by an older program in between, are found and covered', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    await appendLedger(database.db, owner, { kind: 'denied', handle: HANDLES[0]! })
    await numberWithoutTree(owner)
    expect(await completeTree(database.db, owner)).toBe(false)
    expect((await expectWholeTree(owner)).leaves).toHaveLength(4)
  })

  it('are covered once where two replicas do it at the same time, and others are numbered meanwhile', async () => {
    const owner = await seed.seedOwner(database.db)
    await withoutTree(owner, 1_000)
    const complete = async ({ db }: Database) => {
      while (await completeTree(db, owner));
    }
    const write = async () => {
      for (let n = 0; n < 20; n++) await append(owner, 3)
    }
    await Promise.all([complete(database), complete(replica), write()])
    await completed(owner)
    expect((await expectWholeTree(owner)).leaves).toHaveLength(1_060)
  })

  it('and deleted before it came leave the leaf that says so', async () => {
    const owner = await seed.seedOwner(database.db)
    await withoutTree(owner, 300)
    await age(owner, 290)
    expect(await sweep(owner, 1_000)).toBe(290)
    await completed(owner)
    const gone = Array.from({ length: 290 }, (_, n) => deletedLeaf(owner, n + 1))
    await expectWholeTree(owner, gone)
    await append(owner, 300)
    const { entries } = await stored(owner)
    expect(entries.find(({ handle }) => handle === 'jkt:one')?.prev).toBe(290)
    expect((await expectWholeTree(owner, gone)).leaves).toHaveLength(600)
  })
})

describe('The retention deletes entries, and the tree stays what it was', () => {
  it('with the leaves of tiles that are not full, and the place of the last entry of each agent', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 200)
    const { leaves, head } = await expectWholeTree(owner)
    await age(owner, 200)
    for (const gone of [70, 70, 60]) expect(await sweep(owner, 70)).toBe(gone)
    expect((await stored(owner)).entries).toEqual([])
    await append(owner, 100)
    const { tiles, entries } = await stored(owner)
    const whole = await expectWholeTree(owner, leaves)
    expect(entries.slice(0, 3).map(({ handle, prev }) => [handle, prev])).toEqual([
      ['jkt:one', 197],
      ['jkt:two', 198],
      ['jkt:three', 199],
    ])
    const open = Buffer.concat(whole.leaves.slice(256))
    const plan = planConsistency(200, 300)
    const proof = proofOf(plan, ({ level, index }) =>
      level === 0 && index === 1
        ? open
        : tiles.find(one => one.level === level && one.index === index)!.hashes,
    )
    expect(provesConsistency(head, whole.head, proof)).toBe(true)
  })

  it('also while entries are numbered and older ones get their leaves', { timeout: 120_000 }, async () => {
    const owner = await seed.seedOwner(database.db)
    await withoutTree(owner, 700)
    await age(owner, 700)
    const sweepAll = async () => {
      for (let n = 0; n < 30; n++) expect(await sweep(owner, 20)).toBe(20)
    }
    const write = async () => {
      for (let n = 0; n < 30; n++) await append(owner, 9)
    }
    const complete = async () => {
      for (let n = 0; n < 10; n++) await completeTree(replica.db, owner)
    }
    await Promise.all([sweepAll(), write(), complete()])
    await completed(owner)
    await append(owner, 256)
    const { entries, tiles, head } = await stored(owner)
    expect(entries[0]!.seq).toBe(601)
    // The tiles have what the frontier has, so that no leaf was lost or moved between the two.
    const kept = hashesIn(Buffer.concat(tiles.flatMap(one => (one.level === 0 ? [one.hashes] : []))))
    const leaves = [...kept, ...entries.flatMap(({ seq, leaf }) => (seq > kept.length ? [leaf] : []))]
    expect(leaves).toHaveLength(head.ledger)
    expect(head.root).toEqual(rootOf(appendLeaves({ size: 0, hashes: [] }, leaves).frontier))
    for (const { seq, leaf } of entries) expect(leaves[seq - 1]).toEqual(leaf)
  })
})
