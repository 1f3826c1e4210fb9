/**
 * Allowances stored by two replicas at once, on a real Postgres: contract, "Policy vocabulary and tiers"; an
 * addition (docs/details/owner-api.md).
 */
import { describe, expect, it } from 'vitest'
import { ALLOWANCES_MAX } from '../../src/rules/allowance/allowance.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import {
  isZoneName,
  listAllowances,
  storeAllowance,
} from '../../src/storage/authority/policies/allowances.ts'
import type { OwnerAllowance } from '../../src/wire/documents/allowance.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { allowance } from '../support/allowance.ts'
import { raceRounds } from '../support/layer.ts'
import * as seed from '../support/seed.ts'
import { replicatedStand } from '../support/stands.ts'

const CALLERS = 16
const { database, replica } = replicatedStand()

/** Stores it, through one of the two replicas. */
const store = (owner: Owner, stored: OwnerAllowance, nth: number) =>
  inTransaction((nth % 2 === 0 ? database : replica).db, tx => storeAllowance(tx, owner, stored))
const all = (owner: Owner) => listAllowances(database.db, owner, { limit: 1_000 })
const count = (outcomes: string[], outcome: string) => outcomes.filter(one => one === outcome).length

describe('An allowance that many store at once', () => {
  it('is made once, and each version of it is written once', async () => {
    await seed.inRounds(raceRounds(20), 2, async () => {
      const owner = await seed.seedOwner(database.db)
      for (const version of [1, 2, 3]) {
        const outcomes = await seed.callers(CALLERS, n =>
          store(owner, allowance({ version, hold_s: 60 + n }), n),
        )
        expect([count(outcomes, 'stored'), count(outcomes, 'moved')]).toEqual([1, CALLERS - 1])
        const [kept, ...others] = await all(owner)
        expect(others).toEqual([])
        expect(kept).toEqual(allowance({ version, hold_s: 60 + outcomes.indexOf('stored') }))
      }
    })
  })

  it('has no version before the one that is stored', async () => {
    const owner = await seed.seedOwner(database.db)
    expect(await store(owner, allowance({ version: 2 }), 0)).toBe('moved')
    expect(await all(owner)).toEqual([])
  })

  it('is none beyond the number that an owner may have', async () => {
    const owner = await seed.seedOwner(database.db)
    const outcomes = await seed.callers(ALLOWANCES_MAX + CALLERS, n =>
      store(owner, allowance({ id: `a-${n}` }), n),
    )
    expect([count(outcomes, 'stored'), count(outcomes, 'full')]).toEqual([ALLOWANCES_MAX, CALLERS])
    expect(await all(owner)).toHaveLength(ALLOWANCES_MAX)
  })
})

it.each([
  ['Europe/Zurich', true],
  ['UTC', true],
  ['PDT', false],
  ['+01:00', false],
  ['europe/zurich', false],
  ['Mars/Olympus', false],
])('the zone %s is one that Postgres can cut days by: %s', async (name, is) => {
  expect(await isZoneName(database.db, name)).toBe(is)
})
