/**
 * What is signed of a ledger after a restore: docs/choices.md, "Origins after a restore". Each replica has
 * connections of its own to a real Postgres.
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { endAfterRestore } from '../../src/authority/administration/after-restore.ts'
import { proveConsistency } from '../../src/authority/ledger/consistency.ts'
import type { Database, Tx } from '../../src/storage/authority/database.ts'
import {
  keepCheckpoint,
  readHourCheckpoint,
  replaceOrigin,
  type SignedCheckpoint,
} from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import { number, skipEventPositions } from '../../src/storage/authority/ledger/positions.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { BASE, ledgerStand } from '../support/ledger-stand.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'

const { database, replica, key, append, sign, present, rested, headOf } = ledgerStand()

const RESTORED_TO = new Date('2026-11-01T00:00:00Z')

const restore = () => endAfterRestore(database.db, RESTORED_TO)
const originsOf = async (owner: Owner) => {
  const { rows } = await sql<SignedCheckpoint & { ended: boolean }>`
    SELECT origin, size, root, kid, note, ended_at IS NOT NULL AS ended FROM ledger_checkpoints
    WHERE owner = ${owner} ORDER BY signed_at`.execute(database.db)
  return rows
}
const restoredEntries = async (owner: Owner) => {
  const { rows } = await sql<{ seq: number | null; data: Record<string, unknown> }>`
    SELECT seq, data FROM ledger WHERE owner = ${owner} AND kind = 'restored' ORDER BY id`.execute(
    database.db,
  )
  return rows
}
const named = ({ origin, size, root }: SignedCheckpoint) => ({
  origin,
  size,
  root: root.toString('base64url'),
})
/** A checkpoint of her tree as it is, at the origin that she has. */
async function nextOf(owner: Owner) {
  const { size, root, tag } = await headOf(owner)
  return { origin: BASE + tag, size, root, kid: key.kid, note: 'of the old origin' }
}
/** What the command does with her ledger. */
async function replaceAs(tx: Tx, owner: Owner): Promise<void> {
  await skipEventPositions(tx, owner)
  await replaceOrigin(tx, owner)
}
/** Runs `work` while another transaction, whose end it waits for, has done `first`. */
async function whileOpen<T>(first: (tx: Tx) => Promise<unknown>, work: () => Promise<T>) {
  let end: () => void = () => undefined
  const ended = new Promise<void>(resolve => (end = resolve))
  let begun: () => void = () => undefined
  const began = new Promise<void>(resolve => (begun = resolve))
  const open = inTransaction(replica.db, async tx => {
    await first(tx)
    begun()
    await ended
  })
  await began
  const working = work()
  await until(async () => (await lockWaiters(database)) > 0)
  end()
  await open
  return working
}

describe('After a restore', () => {
  it('what is signed has an origin with its time, and covers the entry that names the newest known head of the old one', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    expect(await sign(owner)).toBe('signed')
    const before = (await present(owner))!
    const since = Math.floor(Date.now() / 1_000)
    await restore()
    expect(await present(owner)).toBeUndefined()
    // Nothing is signed while the entry has no position.
    expect(await sign(owner)).toBe('incomplete')
    await number(database.db, owner)
    expect(await sign(owner)).toBe('signed')
    const { tag, origin_at } = await headOf(owner)
    expect(origin_at).toBeGreaterThanOrEqual(since - 5)
    expect(origin_at).toBeLessThanOrEqual(Math.floor(Date.now() / 1_000) + 5)
    const after = (await present(owner))!
    expect(after.origin).toBe(`${BASE}${tag}/${origin_at}`)
    expect(verifyCheckpoint(after.note, { origin: after.origin, keys: [key] }).size).toBe(after.size)
    const [entry] = await restoredEntries(owner)
    expect(entry!.data).toMatchObject(named(before))
    expect(entry!.seq).toBeLessThanOrEqual(after.size)
    expect(await originsOf(owner)).toEqual([
      { ...before, ended: true },
      { ...after, ended: false },
    ])
  })

  it('each restore has another origin, also within a second, and names what was signed at the one before it', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    await sign(owner)
    const signed = [(await present(owner))!]
    for (let n = 0; n < 2; n++) {
      await restore()
      await number(database.db, owner)
      expect(await sign(owner)).toBe('signed')
      signed.push((await present(owner))!)
    }
    expect(new Set(signed.map(({ origin }) => origin)).size).toBe(3)
    await restore()
    await restore()
    const entries = await restoredEntries(owner)
    expect(entries.map(({ data }) => data['origin'])).toEqual([
      ...signed.map(({ origin }) => origin),
      undefined,
    ])
    expect(entries[2]!.data).toMatchObject(named(signed[2]!))
  })

  it('an owner of whom nothing was signed has another origin, too: others may have heads that the backup has not', async () => {
    const owner = await seed.seedOwner(database.db)
    await restore()
    await number(database.db, owner)
    expect(await sign(owner)).toBe('signed')
    expect((await present(owner))!.origin).toMatch(/\/[1-9]\d+$/)
    expect((await restoredEntries(owner))[0]!.data).not.toHaveProperty('origin')
  })

  it('the head of the hour is none of the old origin, and proofs are up to what is signed at the new one', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    await sign(owner)
    await sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '3 hours' WHERE owner = ${owner}`.execute(
      database.db,
    )
    const hour = Math.floor(Date.now() / 3_600_000) - 1
    expect(await readHourCheckpoint(database.db, owner, { base: BASE, hour })).toBeDefined()
    const from = await headOf(owner)
    await restore()
    expect(await readHourCheckpoint(database.db, owner, { base: BASE, hour })).toBeUndefined()
    const log = { base: BASE, tag: from.tag }
    expect(await proveConsistency(database.db, log, { from, to: from })).toBeUndefined()
    await number(database.db, owner)
    await sign(owner)
    const to = await headOf(owner)
    expect(await proveConsistency(database.db, log, { from, to })).toBeDefined()
  })
})

describe('A replica that signs while a restore is noted keeps nothing at the old origin after it', () => {
  it('if it read the tree before, and the restore is over', async () => {
    const first = await seed.seedOwner(database.db)
    await append(first, 3)
    const unsigned = await nextOf(first)
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    await sign(owner)
    const before = await headOf(owner)
    await append(owner, 3)
    await rested(owner)
    const next = await nextOf(owner)
    await restore()
    expect(await keepCheckpoint(replica.db, owner, next, { before, origin_at: null })).toBe(false)
    expect(await keepCheckpoint(replica.db, first, unsigned, { origin_at: null })).toBe(false)
    expect(await originsOf(first)).toEqual([])
    expect((await originsOf(owner)).map(({ size }) => size)).toEqual([before.size])
  })

  it('if it waits for the restore: neither a first checkpoint', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    const next = await nextOf(owner)
    const isKept = await whileOpen(
      tx => replaceAs(tx, owner),
      () => keepCheckpoint(database.db, owner, next, { origin_at: null }),
    )
    expect(isKept).toBe(false)
    expect(await originsOf(owner)).toEqual([])
  })

  it('nor a later one', async () => {
    const owner = await seed.seedOwner(database.db)
    await append(owner, 3)
    await sign(owner)
    const [kept, before] = [await originsOf(owner), await headOf(owner)]
    await append(owner, 3)
    await rested(owner)
    const next = await nextOf(owner)
    const isKept = await whileOpen(
      tx => replaceAs(tx, owner),
      () => keepCheckpoint(database.db, owner, next, { before, origin_at: null }),
    )
    expect(isKept).toBe(false)
    expect(await originsOf(owner)).toEqual(kept.map(one => ({ ...one, ended: true })))
  })

  it.each(['first', 'later'])(
    'and if the restore waits for it, the entry names what it kept: a %s checkpoint',
    async which => {
      const owner = await seed.seedOwner(database.db)
      await append(owner, 3)
      if (which === 'later') await sign(owner)
      const before = which === 'later' ? await headOf(owner) : undefined
      await append(owner, 3)
      await rested(owner)
      const next = await nextOf(owner)
      await whileOpen(
        async tx => expect(await keepCheckpoint(tx, owner, next, { before, origin_at: null })).toBe(true),
        restore,
      )
      expect((await restoredEntries(owner))[0]!.data).toMatchObject(named(next))
      expect(await originsOf(owner)).toEqual([{ ...next, ended: true }])
    },
  )

  it(
    'in whatever order: two replicas sign, and what the entry names stays the last at the old origin',
    { timeout: 120_000 },
    async () => {
      for (let round = 0; round < 8; round++) {
        const owner = await seed.seedOwner(database.db)
        await append(owner, 3)
        if (round % 2 === 0) await sign(owner)
        const signing = async (of: Database) => {
          for (let n = 0; n < 4; n++) {
            await append(owner, 1)
            await rested(owner)
            await sign(owner, of)
          }
        }
        await Promise.all([signing(database), signing(replica), restore()])
        await number(database.db, owner)
        await rested(owner)
        await sign(owner)
        const [entry] = await restoredEntries(owner)
        const all = await originsOf(owner)
        const old = all.filter(({ ended }) => ended)
        expect(old.length).toBeLessThanOrEqual(1)
        if (old[0] === undefined) expect(entry!.data).not.toHaveProperty('origin')
        else expect(entry!.data).toMatchObject(named(old[0]))
        const fresh = all.filter(({ ended }) => !ended)
        expect(fresh).toHaveLength(1)
        expect(fresh[0]!.origin).toMatch(/\/[1-9]\d+$/)
        expect(entry!.seq).toBeLessThanOrEqual(fresh[0]!.size)
      }
    },
  )
})
