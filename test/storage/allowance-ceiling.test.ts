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
  type MembershipChange,
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

type Bounds = AllowanceCeiling[] | undefined

function viewWith(max_allowance: Bounds): MemberView {
  return { org: 'acme', ...(max_allowance && { max_allowance }) } as MemberView
}

/** An owner whose one resource an organization shares with her, and whose allowances it bounds so. */
async function member(bounds: Bounds, isGoverned = true): Promise<Owner> {
  const owner = await ownerWith(database.db, { windows: [{ of: 'price', per: 'all', max: '10' }] })
  await inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    const of = { issuer: 'https://org.example', join_id: seed.name('join_'), token: 'token' }
    await insertMembership(tx, owner, { ...of, view: viewWith(bounds), administrators_may: [] })
    if (isGoverned) await writeReached(tx, owner, [{ resource_id: seed.resourceId(owner), org: 'shared' }])
  })
  return owner
}

/** Its present view is another, or the one that she agreed to is. */
const change = (owner: Owner, changes: Pick<MembershipChange, 'agreed' | 'view'>) =>
  inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    await updateMembership(tx, owner, changes)
  })

/**
 * Records a grant of 2 that was judged by these: those that she agreed to, and the present ones. Without them
 * the resource is hers alone.
 */
async function record(owner: Owner, bounds?: [agreed: Bounds, present: Bounds]): Promise<WithinOutcome> {
  const agent = await knownAgent(database.db, owner)
  const { rpt: _rpt, grant, share, ...more } = await withinOf(database.db, owner, agent, { amount: '2' })
  const organization = { membership: 1, handle: 0, operator: 0 }
  return recordWithin(database.db, {
    ...more,
    grant: { ...grant, ...(bounds && { organization }) },
    share: { ...share, ...(bounds && { bounds }) },
  })
}

describe('A grant within an allowance, at what an organization governs', () => {
  it.each<[string, Bounds]>([
    ['that bounds allowances', CEILING],
    ['that bounds none', undefined],
    ['that lets nothing through', []],
  ])('is recorded if it was judged by what the organization says now, %s', async (_what, bounds) => {
    const owner = await member(bounds)
    expect(await record(owner, [bounds, bounds])).toBe('recorded')
    expect(await usedOf(database.db, owner)).toEqual([['price', 'all', '2']])
  })

  it.each<[string, Bounds, Bounds]>([
    ['lowered its bound', CEILING, LOWER],
    ['bounds allowances for the first time', undefined, CEILING],
    ['lets nothing through any more', CEILING, []],
    ['bounds none any more', CEILING, undefined],
  ])('is weighed again, and nothing is written, if the organization %s', async (_what, before, now) => {
    const owner = await member(before)
    await change(owner, { view: viewWith(now) })
    expect(await record(owner, [before, before])).toBe('facts-moved')
    expect(await usedOf(database.db, owner)).toEqual([])
    expect(await rowsOf(database.db, owner)).toEqual({ grants: 0, places: 0, ledger: 0 })
    expect(await record(owner, [before, now])).toBe('recorded')
  })

  it('is weighed again if she has agreed to other bounds since', async () => {
    const owner = await member(CEILING)
    await change(owner, { agreed: viewWith(LOWER) })
    expect(await record(owner, [CEILING, CEILING])).toBe('facts-moved')
    expect(await record(owner, [LOWER, CEILING])).toBe('recorded')
  })

  it('is looked at for no resource that is hers alone', async () => {
    const owner = await member(CEILING, false)
    expect(await record(owner)).toBe('recorded')
  })
})
