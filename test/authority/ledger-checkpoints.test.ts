/** Checkpoints as they are signed and kept: docs/choices.md, "Checkpoints of the ledger". */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { signTree } from '../../src/authority/ledger/checkpoints.ts'
import { deletedLeaf } from '../../src/rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  hashesIn,
  planConsistency,
  planRoot,
  proofOf,
  provesConsistency,
  rootOf,
} from '../../src/rules/ledger/merkle.ts'
import { keepCheckpoint, readCheckpoint } from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import { readTiles } from '../../src/storage/authority/ledger/ledger-tiles.ts'
import { completeTree } from '../../src/storage/authority/ledger/ledger-tree.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { originBase, verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { BASE, ledgerStand, RETENTION_SECONDS } from '../support/ledger-stand.ts'
import { connected } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'

const { database, replica, key, append, sign, present, rested, headOf } = ledgerStand()

/** All leaves, as tiles and entries have them. */
const leavesOf = async (owner: Owner, size: number) => {
  const places = Array.from({ length: Math.ceil(size / 256) }, (_, index) => ({ level: 0, index }))
  const read = await readTiles(database.db, owner, places)
  const all = places.flatMap(place => hashesIn(read({ ...place, hashes: 256 })))
  return all.slice(0, size).map(hash => Buffer.from(hash))
}

describe('The head of a tree', () => {
  it('is signed over size and root as they are stored, with the key and the origin of its owner', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    expect(await sign(owner)).toBe('signed')
    const { size, root, tag } = await headOf(owner)
    const checkpoint = (await present(owner))!
    expect(checkpoint).toMatchObject({ origin: `as.example/ledger/${tag}`, size: 300, root, kid: key.kid })
    expect(verifyCheckpoint(checkpoint.note, { origin: checkpoint.origin, keys: [key] })).toEqual({
      origin: checkpoint.origin,
      size,
      root,
    })
  })

  it('is signed again only where something is new, and not within a second', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 1)
    expect(await sign(owner)).toBe('signed')
    const first = (await present(owner))!
    await rested(owner)
    expect(await sign(owner)).toBe('unchanged')
    await sql`UPDATE ledger_checkpoints SET signed_at = clock_timestamp() WHERE owner = ${owner}`.execute(
      database.db,
    )
    await append(owner, 1)
    expect(await sign(owner)).toBe('resting')
    expect(await present(owner)).toEqual(first)
    await rested(owner)
    expect(await sign(owner)).toBe('signed')
    expect((await present(owner))!.size).toBe(2)
  })

  it('of an owner without entries is not signed, and neither is one of nobody', async () => {
    const owner = await seed.seedOwner(database.db)
    expect(await sign(owner)).toBe('unchanged')
    expect(await sign(seed.name('nobody-'))).toBe('unchanged')
    expect(await present(owner)).toBeUndefined()
  })

  it('has another origin at another issuer, and begins anew there', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    expect(await sign(owner)).toBe('signed')
    const other = { issuer: 'https://other.example', key }
    expect(await signTree(database.db, owner, other)).toBe('signed')
    expect((await present(owner))!.size).toBe(3)
    const there = await readCheckpoint(database.db, owner, originBase(other.issuer))
    expect(there!.origin).toMatch(/^other\.example\/ledger\//)
  })

  it('is signed once where older entries have their leaves, not before', async () => {
    const owner = await seed.seedOwner(database.db)
    // As a program from before the tree numbered them.
    await sql`INSERT INTO heads (owner, ledger) VALUES (${owner}, 300)`.execute(database.db)
    await sql`INSERT INTO ledger (owner, kind, data, salt, seq)
      SELECT ${owner}, 'touched', '{}', NULL, n FROM generate_series(1, 300) n`.execute(database.db)
    expect(await sign(owner)).toBe('incomplete')
    await append(owner, 1)
    expect(await sign(owner)).toBe('incomplete')
    while (await completeTree(database.db, owner));
    expect(await sign(owner)).toBe('signed')
    expect((await present(owner))!.size).toBe(301)
  })
})

describe('Two replicas that sign at once', () => {
  it('keep one checkpoint a second, and its size never falls', { timeout: 120_000 }, async () => {
    const owner = await seed.seedOwner(database.db)
    await connected(database.url, client =>
      client.query(`CREATE TABLE kept_heads (id bigint GENERATED ALWAYS AS IDENTITY, owner text, size bigint, root bytea);
        CREATE FUNCTION note_head() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN
          INSERT INTO kept_heads (owner, size, root) VALUES (NEW.owner, NEW.size, NEW.root); RETURN NULL; END$$;
        CREATE TRIGGER note_insert AFTER INSERT ON ledger_checkpoints FOR EACH ROW EXECUTE FUNCTION note_head();
        CREATE TRIGGER note_update AFTER UPDATE ON ledger_checkpoints FOR EACH ROW
          WHEN (OLD.note IS DISTINCT FROM NEW.note) EXECUTE FUNCTION note_head()`),
    )
    const rounds = 12
    for (let round = 0; round < rounds; round++) {
      await append(owner, 7)
      const signing = Array.from({ length: 6 }, (_, n) => sign(owner, n % 2 === 0 ? database : replica))
      const writing = append(owner, 5)
      const outcomes = await Promise.all(signing)
      await writing
      // The first of all is not kept where the tree grew meanwhile. Later ones go on from what was signed.
      expect(outcomes.filter(one => one === 'signed')).toHaveLength(
        round === 0 && !outcomes.includes('signed') ? 0 : 1,
      )
      expect(outcomes.filter(one => !['signed', 'resting', 'unchanged'].includes(one))).toEqual([])
      await rested(owner)
    }
    const rows = await connected(database.url, async client => {
      const all = await client.query<{ size: string; root: Buffer }>(
        'SELECT size, root FROM kept_heads WHERE owner = $1 ORDER BY id',
        [owner],
      )
      return all.rows.map(({ size, root }) => ({ size: Number(size), root }))
    })
    expect(rows.length).toBeGreaterThanOrEqual(rounds - 1)
    const leaves = await leavesOf(owner, (await headOf(owner)).size)
    for (const [n, head] of rows.entries()) {
      expect(head.root).toEqual(
        rootOf(appendLeaves({ size: 0, hashes: [] }, leaves.slice(0, head.size)).frontier),
      )
      const before = rows[n - 1]
      if (before === undefined) continue
      expect(head.size).toBeGreaterThan(before.size)
      const plan = planConsistency(before.size, head.size)
      const read = await readTiles(database.db, owner, plan.tiles)
      expect(provesConsistency(before, head, proofOf(plan, read))).toBe(true)
    }
  })

  it('lose to the one that was quicker, however long ago they read the tree', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 4)
    await sign(owner)
    const [first, { size, root }] = [(await present(owner))!, await headOf(owner)]
    await append(owner, 4)
    await rested(owner)
    await sign(owner)
    const second = (await present(owner))!
    await rested(owner)
    const late = { ...second, size: 6, note: 'late' }
    expect(await keepCheckpoint(replica.db, owner, late, { before: { size, root }, origin_at: null })).toBe(
      false,
    )
    expect(await keepCheckpoint(replica.db, owner, late, { before: second, origin_at: null })).toBe(false)
    expect(await keepCheckpoint(replica.db, owner, first, { origin_at: null })).toBe(false)
    expect(await present(owner)).toEqual(second)
  })
})

describe('A tree that is not what was signed of it is not signed', () => {
  const change = (owner: Owner, text: string) =>
    connected(database.url, client => client.query(text, [owner]))

  it.each<[string, string]>([
    [
      'with an entry changed in a tile that was open then',
      'UPDATE ledger SET leaf = sha256(leaf) WHERE owner = $1 AND seq = 290',
    ],
    [
      'with a hash of a level above changed',
      `UPDATE ledger_tiles SET hashes = overlay(hashes PLACING sha256('x') FROM 1) WHERE owner = $1 AND level = 1`,
    ],
    ['with a tile taken out', 'DELETE FROM ledger_tiles WHERE owner = $1 AND level = 1'],
    ['with an entry taken out', 'DELETE FROM ledger WHERE owner = $1 AND seq = 280'],
    [
      'with an older head in place of its own',
      `UPDATE heads SET tree_size = 200, ledger = 200, tree_root = sha256('x') WHERE owner = $1`,
    ],
    [
      'with another root at the same size',
      `UPDATE heads SET tree_size = 300, ledger = 300, tree_root = sha256('x') WHERE owner = $1`,
    ],
    ['with a root that its tiles do not make', `UPDATE heads SET tree_root = sha256('x') WHERE owner = $1`],
    [
      'with no head at all',
      `UPDATE heads SET tree_size = 0, ledger = 0, tree_root = NULL, frontier = '' WHERE owner = $1`,
    ],
  ])('%s', async (_what, text) => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    expect(await sign(owner)).toBe('signed')
    const before = await present(owner)
    await append(owner, 3)
    await rested(owner)
    await change(owner, text)
    expect(await sign(owner)).toBe('contradicted')
    expect(await present(owner)).toEqual(before)
  })
})

describe('A thief who makes the whole tree anew over a changed entry', () => {
  it('gets no signature, because the root that was signed before is not found in it', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    expect(await sign(owner)).toBe('signed')
    await append(owner, 3)
    await rested(owner)
    const leaves = await leavesOf(owner, 303)
    leaves[289] = Buffer.alloc(32, 7)
    const { frontier } = appendLeaves({ size: 0, hashes: [] }, leaves)
    await sql`UPDATE ledger SET leaf = ${leaves[289]} WHERE owner = ${owner} AND seq = 290`.execute(
      database.db,
    )
    await sql`UPDATE heads SET tree_root = ${rootOf(frontier)}, frontier = ${Buffer.concat(frontier.hashes)}
      WHERE owner = ${owner}`.execute(database.db)
    expect(await sign(owner)).toBe('contradicted')
    expect((await present(owner))!.size).toBe(300)
  })
})

describe('Leaves that the sweep of an older program lost', () => {
  /** As a program from before the tree sweeps. */
  const sweepAsBefore = (owner: Owner, upTo: number) =>
    sql`DELETE FROM ledger WHERE owner = ${owner} AND seq <= ${upTo}`.execute(database.db)
  const sweep = async (owner: Owner, upTo: number) => {
    await sql`UPDATE ledger SET ts = now() - interval '41 days' WHERE owner = ${owner} AND seq <= ${upTo}`.execute(
      database.db,
    )
    const { faults } = await sweepOwner(database.db, owner, 1_000, RETENTION_SECONDS)
    expect(faults).toEqual([])
  }

  /** The tree is whole, and has these entries as they are; `gone` are positions. */
  async function expectMended(owner: Owner, gone: readonly number[]) {
    const { size, root, frontier } = await headOf(owner)
    const leaves = await leavesOf(owner, size)
    const made = appendLeaves({ size: 0, hashes: [] }, leaves).frontier
    expect(root).toEqual(rootOf(made))
    expect(hashesIn(frontier).map(hash => Buffer.from(hash))).toEqual(made.hashes)
    const plan = planRoot(size)
    expect(proofOf(plan, await readTiles(database.db, owner, plan.tiles))[0]).toEqual(root)
    for (const position of gone) expect(leaves[position - 1]).toEqual(deletedLeaf(owner, position))
    const { rows } = await sql<{ seq: number; leaf: Buffer }>`
      SELECT seq, leaf FROM ledger WHERE owner = ${owner} ORDER BY seq`.execute(database.db)
    for (const { seq, leaf } of rows) expect(leaves[seq - 1]).toEqual(leaf)
    expect(rows.length).toBeGreaterThan(0)
  }

  it.each<[string, number, (owner: Owner) => Promise<unknown>, number[]]>([
    [
      'from a tile that was full before the first checkpoint',
      300,
      async owner => {
        await sweepAsBefore(owner, 270)
        await append(owner, 400)
      },
      [257, 270],
    ],
    ['from the open tile', 300, owner => sweepAsBefore(owner, 270), [257, 258, 270]],
    [
      'between leaves that a newer program kept',
      100,
      async owner => {
        await sweepAsBefore(owner, 10)
        await sweep(owner, 30)
        await append(owner, 300)
      },
      [1, 10, 11, 30],
    ],
    [
      'from the open tile, with some that a newer program kept',
      100,
      async owner => {
        await sweep(owner, 10)
        await sweepAsBefore(owner, 30)
      },
      [1, 30],
    ],
  ])(
    '%s, are made anew as those of deleted entries, and then the tree is signed',
    async (_what, count, lose, gone) => {
      const owner = await seed.seedOwner(database.db)
      await append(owner, count)
      await lose(owner)
      expect(await sign(owner)).toBe('mended')
      await expectMended(owner, gone)
      expect(await sign(owner)).toBe('signed')
      await append(owner, 300)
      await rested(owner)
      expect(await sign(owner)).toBe('signed')
      await expectMended(owner, gone)
    },
  )

  it('and where none is missing, nothing is made anew: the retention keeps what the tree needs', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    const leaves = await leavesOf(owner, 300)
    await sweep(owner, 290)
    expect(await sign(owner)).toBe('signed')
    expect(await leavesOf(owner, 300)).toEqual(leaves)
  })

  it('are not made anew once something was signed', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    expect(await sign(owner)).toBe('signed')
    await sweepAsBefore(owner, 270)
    await append(owner, 10)
    await rested(owner)
    expect(await sign(owner)).toBe('contradicted')
  })

  it('are made anew by one of two replicas, and a signature over the older tree is not kept', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 300)
    await sweepAsBefore(owner, 270)
    const { size, root } = await headOf(owner)
    const outcomes = await Promise.all([sign(owner), sign(owner, replica), sign(owner), sign(owner, replica)])
    expect(outcomes.filter(one => one === 'mended')).toHaveLength(1)
    const { tag } = await headOf(owner)
    const stale = { origin: BASE + tag, size, root, kid: key.kid, note: 'stale' }
    if ((await present(owner)) === undefined)
      expect(await keepCheckpoint(replica.db, owner, stale, { origin_at: null })).toBe(false)
    await sign(owner)
    expect((await present(owner))!.root).toEqual((await headOf(owner)).root)
    await expectMended(owner, [257, 270])
  })
})
