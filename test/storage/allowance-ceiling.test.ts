/**
 * The issue of a grant within an allowance at a resource that an organization governs: contract, "Grant
 * answer (beat 4)", "Organization membership, on the member's authorization server".
 */
import { describe, expect, it } from 'vitest'
import type { MemberView } from '../../src/rules/organization/member-view.ts'
import { recordWithin, type WithinOutcome } from '../../src/storage/authority/grants/issue-allowance.ts'
import {
  insertMembership,
  updateMembership,
  writeReached,
} from '../../src/storage/authority/membership/membership.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import type { AllowanceCeiling } from '../../src/wire/organization/charter.ts'
import { knownAgent, ownerWith, rowsOf, usedOf, withinOf } from '../support/allowance-grants.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()
const CEILING: AllowanceCeiling[] = [{ unit: 'EUR', per: 'all', max: '10' }]
const LOWER: AllowanceCeiling[] = [{ unit: 'EUR', per: 'all', max: '5' }]

function viewWith(max_allowance: AllowanceCeiling[] | undefined): MemberView {
  return { org: 'acme', ...(max_allowance && { max_allowance }) } as MemberView
}

/** An owner whose one resource an organization shares with her, and whose allowances it bounds so. */
async function member(ceilings: AllowanceCeiling[] | undefined, isGoverned = true): Promise<Owner> {
  const owner = await ownerWith(database.db, { windows: [{ of: 'price', per: 'all', max: '10' }] })
  await inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    const of = { issuer: 'https://org.example', join_id: seed.name('join_'), token: 'token' }
    await insertMembership(tx, owner, { ...of, view: viewWith(ceilings), administrators_may: [] })
    if (isGoverned) await writeReached(tx, owner, [{ resource_id: seed.resourceId(owner), org: 'shared' }])
  })
  return owner
}

const says = (owner: Owner, ceilings: AllowanceCeiling[] | undefined) =>
  inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    await updateMembership(tx, owner, { view: viewWith(ceilings) })
  })

/** Records a grant of 2 that was judged by these. */
async function record(
  owner: Owner,
  ceilings: AllowanceCeiling[] | undefined,
  isGoverned = true,
): Promise<WithinOutcome> {
  const agent = await knownAgent(database.db, owner)
  const { rpt: _rpt, grant, share, ...more } = await withinOf(database.db, owner, agent, { amount: '2' })
  const organization = { membership: 1, handle: 0, operator: 0 }
  return recordWithin(database.db, {
    ...more,
    grant: { ...grant, ...(isGoverned && { organization }) },
    share: { ...share, ...(ceilings && { ceilings }) },
  })
}

describe('A grant within an allowance, at what an organization governs', () => {
  it.each<[string, AllowanceCeiling[] | undefined]>([
    ['that bounds allowances', CEILING],
    ['that bounds none', undefined],
    ['that lets nothing through', []],
  ])('is recorded if it was judged by what the organization says now, %s', async (_what, ceilings) => {
    const owner = await member(ceilings)
    expect(await record(owner, ceilings)).toBe('recorded')
    expect(await usedOf(database.db, owner)).toEqual([['price', 'all', '2']])
  })

  it.each<[string, AllowanceCeiling[] | undefined, AllowanceCeiling[] | undefined]>([
    ['lowered its bound', CEILING, LOWER],
    ['bounds allowances for the first time', undefined, CEILING],
    ['lets nothing through any more', CEILING, []],
    ['bounds none any more', CEILING, undefined],
  ])('is weighed again, and nothing is written, if the organization %s', async (_what, before, now) => {
    const owner = await member(before)
    await says(owner, now)
    expect(await record(owner, before)).toBe('facts-moved')
    expect(await usedOf(database.db, owner)).toEqual([])
    expect(await rowsOf(database.db, owner)).toEqual({ grants: 0, places: 0, due: 0, ledger: 0 })
    expect(await record(owner, now)).toBe('recorded')
  })

  it('is looked at for no resource that is hers alone', async () => {
    const owner = await member(CEILING, false)
    expect(await record(owner, undefined, false)).toBe('recorded')
  })
})
