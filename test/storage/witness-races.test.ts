/**
 * What a witness cosigns on a real Postgres, when several ask at once, and that it forgets none of it:
 * docs/details/witness.md. Contract: "Events" (row 5).
 */
import { describe, expect, test } from 'vitest'
import { cosignFirst, cosignNext, readCosigned } from '../../src/storage/witness/checkpoints.ts'
import { WITNESS_DATABASE } from '../../src/storage/witness/database.ts'
import { raceRounds } from '../support/layer.ts'
import { connected, openedDatabase, PATIENT, runtimeRole } from '../support/postgres.ts'
import { startedOnce } from '../support/started.ts'

const ROUNDS = raceRounds(40)
const CALLERS = 16
const ISSUER = { issuer: 'https://as.example', originsMax: 1_000_000 }
const database = startedOnce(() =>
  openedDatabase('witness', url => WITNESS_DATABASE.open({ url, poolMax: 40, ...PATIENT })),
)
const headOf = (size: number, byte: number) => ({ size, root: Buffer.alloc(32, byte) })
const kindsOf = (all: readonly { kind: string }[]) => all.map(({ kind }) => kind).toSorted()
const oneOf = (count: number, other = 'overtaken') => ['cosigned', ...Array<string>(count - 1).fill(other)]

describe('Several that ask at once', () => {
  test('for a first checkpoint of one log: one is cosigned, and it is the one that is kept', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const origin = `as.example/ledger/first-${round}`
      const heads = Array.from({ length: CALLERS }, (_, n) => headOf(5, n))
      const all = await Promise.all(
        heads.map(head => cosignFirst(database.ofNobody, { origin, ...head }, ISSUER)),
      )
      expect(kindsOf(all)).toEqual(oneOf(CALLERS))
      const winner = heads[all.findIndex(({ kind }) => kind === 'cosigned')]
      expect(await readCosigned(database.ofNobody, origin)).toEqual(winner)
    }
  })

  test('for trees that continue the same one: one is cosigned, never two roots of one size', async () => {
    const origin = 'as.example/ledger/next'
    await cosignFirst(database.ofNobody, { origin, ...headOf(1, 1) }, ISSUER)
    for (let round = 0; round < ROUNDS; round++) {
      const before = (await readCosigned(database.ofNobody, origin))!
      const heads = Array.from({ length: CALLERS }, (_, n) => headOf(before.size + 1 + (n % 3), n))
      const all = await Promise.all(
        heads.map(head => cosignNext(database.ofNobody, { origin, ...head }, before)),
      )
      expect(kindsOf(all)).toEqual(oneOf(CALLERS))
      const winner = heads[all.findIndex(({ kind }) => kind === 'cosigned')]
      expect(await readCosigned(database.ofNobody, origin)).toEqual(winner)
    }
  })

  test('for the same tree again are all cosigned, beside one that continues it, after which none is', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const origin = `as.example/ledger/again-${round}`
      const before = headOf(4, 1)
      await cosignFirst(database.ofNobody, { origin, ...before }, ISSUER)
      const again = () => cosignNext(database.ofNobody, { origin, ...before }, before)
      const [next, ...others] = await Promise.all([
        cosignNext(database.ofNobody, { origin, ...headOf(9, 2) }, before),
        ...Array.from({ length: CALLERS }, again),
      ])
      expect(next.kind).toBe('cosigned')
      const later = next.kind === 'cosigned' ? next.time : Number.NaN
      for (const one of others) if (one.kind === 'cosigned') expect(one.time).toBeLessThanOrEqual(later)
      expect(await again()).toEqual({ kind: 'overtaken' })
      expect(await readCosigned(database.ofNobody, origin)).toEqual(headOf(9, 2))
    }
  })

  test('for the last places of an issuer: no more are taken than there are', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const bounded = { issuer: `https://bounded-${round}.example`, originsMax: 3 }
      const all = await Promise.all(
        Array.from({ length: CALLERS }, (_, n) =>
          cosignFirst(
            database.ofNobody,
            { origin: `bounded-${round}.example/ledger/${n}`, ...headOf(2, n) },
            bounded,
          ),
        ),
      )
      expect(kindsOf(all)).toEqual([
        ...Array<string>(3).fill('cosigned'),
        ...Array<string>(CALLERS - 3).fill('full'),
      ])
    }
  })
})

test('A smaller tree takes no place of a larger one, whatever it is said to continue', async () => {
  const origin = 'as.example/ledger/smaller'
  await cosignFirst(database.ofNobody, { origin, ...headOf(9, 1) }, ISSUER)
  const smaller = await cosignNext(database.ofNobody, { origin, ...headOf(8, 2) }, headOf(9, 1))
  expect(smaller).toEqual({ kind: 'overtaken' })
  expect(await cosignNext(database.ofNobody, { origin, ...headOf(10, 2) }, headOf(9, 3))).toEqual({
    kind: 'overtaken',
  })
  expect(await readCosigned(database.ofNobody, origin)).toEqual(headOf(9, 1))
})

test('The time of a cosignature never falls, though the clock of the database is set back', async () => {
  const origin = 'as.example/ledger/clock'
  await cosignFirst(database.ofNobody, { origin, ...headOf(1, 1) }, ISSUER)
  await database.pool.query(`UPDATE checkpoints SET cosigned_at = '2100-01-01T00:00:00Z' WHERE origin = $1`, [
    origin,
  ])
  expect(await cosignNext(database.ofNobody, { origin, ...headOf(2, 1) }, headOf(1, 1))).toEqual({
    kind: 'cosigned',
    time: Date.parse('2100-01-01T00:00:00Z') / 1_000,
  })
})

describe('A witness that serves requests may remove nothing of what it cosigned', () => {
  const refused = { code: '42501' }

  test.each(['issuers', 'checkpoints'])('from %s, by the privileges of its role', async table => {
    for (const statement of [`DELETE FROM ${table}`, `TRUNCATE ${table}`])
      await expect(database.pool.query(statement)).rejects.toMatchObject(refused)
  })

  test('from the next migrate on, where an earlier version had given it the right', async () => {
    const head = { origin: 'as.example/ledger/kept', ...headOf(3, 1) }
    await cosignFirst(database.ofNobody, head, ISSUER)
    const role = runtimeRole(database.url)
    await connected(database.url, admin =>
      admin.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON issuers, checkpoints TO ${role}`),
    )
    expect(await WITNESS_DATABASE.migrate(database.url)).toEqual([])
    for (const table of ['issuers', 'checkpoints'])
      await expect(database.pool.query(`DELETE FROM ${table}`)).rejects.toMatchObject(refused)
    expect(await readCosigned(database.ofNobody, head.origin)).toEqual(headOf(3, 1))
    expect(await cosignNext(database.ofNobody, { ...head, ...headOf(4, 2) }, headOf(3, 1))).toMatchObject({
      kind: 'cosigned',
    })
  })
})
