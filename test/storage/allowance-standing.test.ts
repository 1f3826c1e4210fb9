/**
 * An allowance as it is read with an agent's standing, on a real Postgres: contract, "Policy vocabulary and
 * tiers"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { readAllowanceUse } from '../../src/storage/authority/policies/allowance-windows.ts'
import { asHandle, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { ALLOWANCE, knownAgent, ownerWith, saveAllowance, take } from '../support/allowance-grants.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { statementsSent } from '../support/statements-sent.ts'

const database = coreStand()
const ALL = { of: 'calls', per: 'all', max: '9' }
const DAY = { of: 'calls', per: 'day', max: '9' }
const AT_TIER = { tier_id: seed.TIER, windowSeconds: 60 }

/** An agent that asks, and which one brings it in. */
interface Asking {
  handle: Handle
  introducedBy?: Handle
}

/** As `readRecord` reads it. */
const standingOf = (owner: Owner, asking: Asking, more: { id?: string; countTo?: number } = {}) =>
  readStanding(database.db, owner, {
    ...AT_TIER,
    ...asking,
    countTo: more.countTo,
    allowance: { id: more.id ?? ALLOWANCE, resource_id: seed.resourceId(owner) },
  })

/** What the agent would have of the allowance. */
const useAt = async (owner: Owner, asking: Asking = { handle: asHandle('jkt:nobody') }) =>
  (await standingOf(owner, asking)).allowanceUse

const sentWhile = async (owner: Owner, work: () => Promise<unknown>): Promise<string[]> =>
  (await statementsSent(owner, work)).sent

/** Agents of one owner, of two lineages and of none, some of which she does not know yet. */
async function lineages(owner: Owner) {
  const { db } = database
  const [parent, other] = [await knownAgent(db, owner), await knownAgent(db, owner)]
  const child = await knownAgent(db, owner, { introduced_by: parent.handle })
  const before = await knownAgent(db, owner, { introduced_by: other.handle })
  await sql`UPDATE connections SET lineage = NULL WHERE owner = ${owner} AND handle = ${before.handle}`.execute(
    db,
  )
  for (const agent of [parent, other, other]) expect((await take(db, owner, agent)).outcome).toBe('recorded')
  const [stranger, unknown] = [seed.name('jkt:'), seed.name('jkt:')]
  const [byChild, byOther, byUnknown] = [seed.name('jkt:'), seed.name('jkt:'), seed.name('jkt:')]
  /** Who asks, of whom its windows are, what was used of them, and how many unspent grants it has itself. */
  const expected: [Asking, whose: Handle, used: number, unspent: number][] = [
    [{ handle: parent.handle }, parent.handle, 1, 1],
    [{ handle: child.handle }, parent.handle, 1, 0],
    [{ handle: other.handle }, other.handle, 2, 2],
    [{ handle: before.handle }, other.handle, 2, 0],
    // An agent with a connection stays what it was, whoever says that it brings it in.
    [{ handle: child.handle, introducedBy: other.handle }, parent.handle, 1, 0],
    [{ handle: stranger }, stranger, 0, 0],
    [{ handle: byChild, introducedBy: child.handle }, parent.handle, 1, 0],
    [{ handle: byOther, introducedBy: other.handle }, other.handle, 2, 0],
    [{ handle: byUnknown, introducedBy: unknown }, unknown, 0, 0],
  ]
  return expected
}

describe('An allowance and an agent’s standing', () => {
  it('are read in one statement, for each of many agents that ask at once its own windows', async () => {
    const owner = await ownerWith(database.db, { among: 'lineage', windows: [ALL] })
    const expected = await lineages(owner)
    let read: unknown[] = []
    const sent = await sentWhile(owner, async () => {
      const standings = await Promise.all(expected.map(([asking]) => standingOf(owner, asking)))
      read = standings.map(({ allowanceUse: use }) => [
        use?.whose,
        Number(use?.windows[0]?.used),
        use?.unspent,
      ])
    })
    expect(read).toEqual(expected.map(([, ...rest]) => rest))
    expect(sent).toEqual(['read-standings-and-allowances'])
  })

  it('are apart where the tier names none: that statement reads no allowance', async () => {
    const owner = await ownerWith(database.db, { windows: [ALL] })
    const { handle } = await knownAgent(database.db, owner)
    let read: unknown[] = []
    const sent = await sentWhile(owner, async () => {
      const standings = await Promise.all([
        standingOf(owner, { handle }),
        readStanding(database.db, owner, { ...AT_TIER, handle, countTo: undefined }),
        standingOf(owner, { handle }, { countTo: 3 }),
        readStanding(database.db, owner, { ...AT_TIER, handle, countTo: 3 }),
      ])
      read = standings.map(({ status, countedTo, allowanceUse: use }) => [status, countedTo, use?.whose])
    })
    expect(read).toEqual([
      ['active', null, ''],
      ['active', null, undefined],
      ['active', 3, ''],
      ['active', 3, undefined],
    ])
    expect(sent.toSorted()).toEqual([
      'read-standings',
      'read-standings-and-allowances',
      'read-standings-and-trajectories',
      'read-standings-trajectories-and-allowances',
    ])
  })

  const EACH_SPAN = ['hour', 'day', 'week', 'month', 'all'].map(per => ({ ...ALL, per }))
  it.each([
    ['for all', { among: 'all', windows: EACH_SPAN }],
    ['for each lineage', { among: 'lineage', windows: EACH_SPAN }],
    ['in a zone', { among: 'lineage', zone: 'Asia/Kolkata', windows: EACH_SPAN }],
    ['with an end', { until: '2100-03-08T22:00:00.500Z', windows: [DAY] }],
    ['of which nobody took', { windows: [{ ...DAY, of: 'price' }] }],
    ['without windows', { among: 'lineage', windows: [] }],
  ])('are read as each alone, of an allowance %s', async (_what, members) => {
    const owner = await ownerWith(database.db, members)
    const { db } = database
    const resource_id = seed.resourceId(owner)
    for (const [asking] of await lineages(owner)) {
      const standing = await standingOf(owner, asking)
      const use = standing.allowanceUse
      const at = new Date(use!.now * 1_000).toISOString()
      const used = await readAllowanceUse(db, owner, { id: ALLOWANCE, ...asking, resource_id, at })
      expect({ ...use, now: Date.parse(at) / 1_000 }).toEqual(used)
      expect(use!.windows).toHaveLength(members.windows.length)
      const stands = await readStanding(db, owner, { ...AT_TIER, ...asking, countTo: undefined })
      const { ageSeconds } = stands
      expect({ ...standing, ageSeconds, allowanceUse: undefined }).toEqual(stands)
    }
  })

  it('are read for the resource that is asked for, which may take only what she signs', async () => {
    const owner = await ownerWith(database.db, { windows: [ALL] })
    const signedOnly = async () => (await useAt(owner))?.signedOnly
    expect(await signedOnly()).toBe(false)
    await sql`UPDATE resources SET approval = 'signed' WHERE owner = ${owner}`.execute(database.db)
    expect(await signedOnly()).toBe(true)
  })
})

describe('An allowance that Postgres cannot read', () => {
  it.each([
    ['its zone is not known', sql`zone = 'Former/Zone'`],
    ['there is NUL in it', sql.raw(String.raw`content = '{"windows": [], "a": "\u0000"}'`)],
  ])('leaves the standing, and what others ask at once, as they are: %s', async (_why, change) => {
    const { db } = database
    const owner = await ownerWith(db, { windows: [DAY] })
    await saveAllowance(db, owner, { id: 'former', windows: [DAY] })
    await sql`UPDATE allowances SET ${change} WHERE owner = ${owner} AND id = 'former'`.execute(db)
    const agents = [await knownAgent(db, owner), await knownAgent(db, owner), await knownAgent(db, owner)]
    const [first, second, third] = await Promise.all(
      agents.map((agent, n) => standingOf(owner, agent, { id: n === 1 ? 'former' : ALLOWANCE })),
    )
    expect(second).toMatchObject({ status: 'active', generation: agents[1]!.generation })
    expect(second!.allowanceUse).toBeUndefined()
    for (const read of [first, third])
      expect(read).toMatchObject({ status: 'active', allowanceUse: { windows: [{ per: 'day', used: '0' }] } })
  })
})

describe('What an allowance says', () => {
  it('is what is stored when it is read, whichever member of it is another one', async () => {
    const { db } = database
    const owner = await ownerWith(db, { windows: [ALL] })
    const before = await useAt(owner)
    const changes = {
      version: 7,
      zone: 'Europe/Zurich',
      among: 'lineage',
      until: '2100-01-01T00:00:00.000Z',
      hold_s: 60,
    }
    for (const [name, value] of Object.entries(changes)) {
      await sql`UPDATE allowances SET ${sql.ref(name)} = ${sql.val(value)} WHERE owner = ${owner}`.execute(db)
      expect((await useAt(owner))?.allowance, name).toHaveProperty(name, value)
    }
    await saveAllowance(db, owner, { version: 8, windows: [{ ...ALL, max: '4' }] })
    expect((await useAt(owner))?.allowance.windows).toEqual([{ ...ALL, max: '4' }])
    expect(before?.allowance).toMatchObject({ version: 1, windows: [ALL] })
  })

  it('is nothing as long as it is no allowance', async () => {
    const { db } = database
    const owner = await ownerWith(db, { windows: [ALL] })
    const held = (seconds: number) =>
      sql`UPDATE allowances SET hold_s = ${seconds} WHERE owner = ${owner}`.execute(db)
    for (const [seconds, isRead] of [
      [300, true],
      [1, false],
      [1, false],
      [300, true],
    ] as const) {
      await held(seconds)
      expect((await useAt(owner)) !== undefined).toBe(isRead)
    }
  })

  it.each([
    ['short', 1],
    ['too long to be remembered', 100],
  ])('is shared by all who read it, so nobody changes it: a text that is %s', async (_what, values) => {
    const one_of = Array.from({ length: values }, (_, n) => ({ payee: `${n}`.padEnd(200) }))
    const tiers = { [seed.TIER]: { tools: ['pay'], only: [{ pointer: '/payee', one_of }] } }
    const owner = await ownerWith(database.db, { windows: [ALL], tiers })
    for (const _ of ['first', 'then']) {
      const { allowance } = (await useAt(owner))!
      expect(allowance).toMatchObject({ windows: [ALL], tiers })
      const [only] = allowance.tiers[seed.TIER]!.only
      for (const part of [allowance, allowance.windows[0], only, only!.one_of[0]])
        expect(Object.isFrozen(part)).toBe(true)
    }
  })
})
