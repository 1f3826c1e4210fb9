/**
 * Which windows of an allowance are the present ones, and whose they are, on a real Postgres: contract,
 * "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { admitConnection, revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { readAllowanceUse } from '../../src/storage/authority/policies/allowance-windows.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import {
  ALLOWANCE,
  knownAgent,
  ownerWith,
  saveAllowance,
  take,
  usedOf,
  useOf,
} from '../support/allowance-grants.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()
const NOBODY = 'jkt:nobody' as Handle

const instant = (text: string | null): string | null => {
  const written =
    text === null ? null : /^(\S+) (\d\d:\d\d:\d\d)(?:\.\d+)?([+-]\d\d)(?::?(\d\d))?$/.exec(text)
  if (written === null) return text
  const [, date, time, hours, minutes = '00'] = written
  return new Date(`${date}T${time}${hours}:${minutes}`).toISOString()
}

describe('A window of the calendar begins and ends by the clock of the allowance’s zone', () => {
  type Row = [what: string, zone: string, per: string, at: string, start: string, ends: string]
  it.each<Row>([
    ['an hour', 'UTC', 'hour', '2026-03-02T10:59:59Z', '2026-03-02T10:00:00Z', '2026-03-02T11:00:00Z'],
    [
      'its first instant',
      'UTC',
      'hour',
      '2026-03-02T11:00:00Z',
      '2026-03-02T11:00:00Z',
      '2026-03-02T12:00:00Z',
    ],
    [
      'an hour that begins at half past',
      'Asia/Kolkata',
      'hour',
      '2026-03-02T10:10:00Z',
      '2026-03-02T09:30:00Z',
      '2026-03-02T10:30:00Z',
    ],
    ['a day', 'Europe/Zurich', 'day', '2026-03-02T12:00:00Z', '2026-03-01T23:00:00Z', '2026-03-02T23:00:00Z'],
    [
      'a day of 23 hours',
      'Europe/Zurich',
      'day',
      '2026-03-29T10:00:00Z',
      '2026-03-28T23:00:00Z',
      '2026-03-29T22:00:00Z',
    ],
    [
      'a day of 25 hours',
      'Europe/Zurich',
      'day',
      '2026-10-25T12:00:00Z',
      '2026-10-24T22:00:00Z',
      '2026-10-25T23:00:00Z',
    ],
    [
      'the hour that comes twice, first',
      'Europe/Zurich',
      'hour',
      '2026-10-25T00:30:00Z',
      '2026-10-25T00:00:00Z',
      '2026-10-25T01:00:00Z',
    ],
    [
      'the hour that comes twice, then',
      'Europe/Zurich',
      'hour',
      '2026-10-25T01:30:00Z',
      '2026-10-25T01:00:00Z',
      '2026-10-25T02:00:00Z',
    ],
    [
      'a day whose midnight does not come',
      'Asia/Beirut',
      'day',
      '2026-03-29T10:00:00Z',
      '2026-03-28T22:00:00Z',
      '2026-03-29T21:00:00Z',
    ],
    [
      'the day before one whose midnight comes twice',
      'America/Havana',
      'day',
      '2026-11-01T03:30:00Z',
      '2026-10-31T04:00:00Z',
      '2026-11-01T04:00:00Z',
    ],
    [
      'a day whose midnight comes twice, after the second',
      'America/Havana',
      'day',
      '2026-11-01T05:30:00Z',
      '2026-11-01T05:00:00Z',
      '2026-11-02T05:00:00Z',
    ],
    [
      'and between the two the same',
      'America/Havana',
      'day',
      '2026-11-01T04:30:00Z',
      '2026-11-01T05:00:00Z',
      '2026-11-02T05:00:00Z',
    ],
    [
      'a week on its Sunday',
      'UTC',
      'week',
      '2026-03-01T12:00:00Z',
      '2026-02-23T00:00:00Z',
      '2026-03-02T00:00:00Z',
    ],
    [
      'a week on its Monday',
      'UTC',
      'week',
      '2026-03-02T00:00:00Z',
      '2026-03-02T00:00:00Z',
      '2026-03-09T00:00:00Z',
    ],
    [
      'a month',
      'Europe/Zurich',
      'month',
      '2026-02-10T12:00:00Z',
      '2026-01-31T23:00:00Z',
      '2026-02-28T23:00:00Z',
    ],
    [
      'a month with a change of the clock',
      'Europe/Zurich',
      'month',
      '2026-03-31T21:59:00Z',
      '2026-02-28T23:00:00Z',
      '2026-03-31T22:00:00Z',
    ],
  ])('%s', async (...[, zone, per, at, start, ends]) => {
    const owner = await ownerWith(database.db, { zone, windows: [{ of: 'calls', per, max: '3' }] })
    const { windows, now } = await useOf(database.db, owner, NOBODY, at)
    const [window] = windows
    const times = [start, ends].map(time => new Date(time).toISOString())
    expect([instant(window!.start), instant(window!.ends)]).toEqual(times)
    expect([now, window!.endsAt]).toEqual([at, ends].map(time => Date.parse(time) / 1000))
    expect(window).toMatchObject({ of: 'calls', per, max: '3', used: '0' })
  })

  it('but that of its whole life begins with the allowance and has no end, whatever is edited', async () => {
    const windows = [{ of: 'calls', per: 'all', max: '3' }]
    const owner = await ownerWith(database.db, { windows })
    const before = await useOf(database.db, owner, NOBODY)
    await saveAllowance(database.db, owner, { version: 2, windows: [{ of: 'calls', per: 'all', max: '9' }] })
    const after = await useOf(database.db, owner, NOBODY)
    expect(after.windows[0]).toEqual({ ...before.windows[0], max: '9' })
    expect([after.windows[0]!.ends, after.windows[0]!.endsAt]).toEqual([null, null])
    expect(after.windows[0]!.start).toMatch(/^2/)
  })
})

describe('An allowance is read', () => {
  it('as nothing if she has none of this id, and that of another owner is not hers', async () => {
    const owner = await seed.seedOwner(database.db)
    await ownerWith(database.db)
    await expect(useOf(database.db, owner, NOBODY)).rejects.toThrow('no such allowance')
  })

  it('with what was used, as exact text, and the number of unspent grants of the agent alone', async () => {
    const windows = [
      { of: 'calls', per: 'all', max: '9' },
      { of: 'price', per: 'all', max: '9' },
    ]
    const owner = await ownerWith(database.db, { windows })
    const [one, other] = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
    for (const amount of ['0.1', '0.2'])
      expect((await take(database.db, owner, one, { amount })).outcome).toBe('recorded')
    expect((await take(database.db, owner, other, { amount: '1' })).outcome).toBe('recorded')
    const { windows: read, unspent } = await useOf(database.db, owner, one.handle)
    expect(read.map(({ of, used }) => [of, Number(used)])).toEqual([
      ['calls', 3],
      ['price', 1.3],
    ])
    expect(read[1]!.used).toMatch(/^1\.30*$/)
    expect(unspent).toBe(2)
  })

  it('and says of a resource that it takes only what she signs', async () => {
    const owner = await ownerWith(database.db)
    expect((await useOf(database.db, owner, NOBODY)).signedOnly).toBe(false)
    await sql`UPDATE resources SET approval = 'signed' WHERE owner = ${owner}`.execute(database.db)
    expect((await useOf(database.db, owner, NOBODY)).signedOnly).toBe(true)
  })
})

describe('Whose windows an agent uses', () => {
  const whoseOf = async (owner: Owner, handle: Handle) => (await useOf(database.db, owner, handle)).whose
  const lineages = () =>
    ownerWith(database.db, { among: 'lineage', windows: [{ of: 'calls', per: 'all', max: '2' }] })
  /** Ended, and admitted again as this agent brings it in. */
  const comesBack = (owner: Owner, handle: Handle, introduced_by: Handle | null) =>
    inTransaction(database.db, async tx => {
      await lockQueue(tx, owner)
      await revokeConnection(tx, owner, handle, seed.ACTOR)
      const of = {
        owner,
        handle,
        identity: 'pseudonymous' as const,
        label: null,
        operator: null,
        introduced_by,
      }
      return admitConnection(tx, of)
    })

  it('is one set for all agents, if she says so', async () => {
    const owner = await ownerWith(database.db)
    const { handle } = await knownAgent(database.db, owner)
    expect([await whoseOf(owner, handle), await whoseOf(owner, NOBODY)]).toEqual(['', ''])
  })

  it('is that of its introducer, also before it is admitted; an agent that she admitted has its own', async () => {
    const owner = await lineages()
    const parent = await knownAgent(database.db, owner)
    const child = await knownAgent(database.db, owner, { introduced_by: parent.handle })
    expect(await whoseOf(owner, parent.handle)).toBe(parent.handle)
    expect(await whoseOf(owner, child.handle)).toBe(parent.handle)
    expect(await whoseOf(owner, NOBODY)).toBe(NOBODY)
    const newcomer = { id: ALLOWANCE, handle: NOBODY, introducedBy: child.handle, resource_id: '' }
    expect((await readAllowanceUse(database.db, owner, newcomer))?.whose).toBe(parent.handle)
  })

  it('stays that of its first admission: an agent that comes back goes on with what it had used', async () => {
    const owner = await lineages()
    const [parent, other] = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
    const child = await knownAgent(database.db, owner, { introduced_by: parent.handle })
    expect((await take(database.db, owner, child)).outcome).toBe('recorded')
    const generation = await comesBack(owner, child.handle, other.handle)
    expect(await whoseOf(owner, child.handle)).toBe(parent.handle)
    expect((await take(database.db, owner, { ...child, generation })).outcome).toBe('recorded')
    expect(await usedOf(database.db, owner)).toEqual([['calls', 'all', '2']])
    expect((await take(database.db, owner, parent)).outcome).toBe('beyond')
    expect((await take(database.db, owner, other)).outcome).toBe('recorded')
  })

  it('is proved again when a grant is made: what was weighed before the agent was brought in takes nothing', async () => {
    const owner = await lineages()
    const parent = await knownAgent(database.db, owner)
    const handle = seed.name('jkt:')
    const use = await useOf(database.db, owner, handle)
    expect(use.whose).toBe(handle)
    const generation = await seed.seedConnection(database.db, owner, handle, { introduced_by: parent.handle })
    const child = { handle, generation }
    expect((await take(database.db, owner, child, { use })).outcome).toBe('facts-moved')
    expect(await usedOf(database.db, owner)).toEqual([])
    expect((await take(database.db, owner, child)).outcome).toBe('recorded')
    expect((await useOf(database.db, owner, parent.handle)).windows).toMatchObject([{ used: '1.000000000' }])
  })

  it('is fixed when it comes back, if it was admitted before lineages were kept', async () => {
    const owner = await lineages()
    const [parent, other] = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
    const child = await knownAgent(database.db, owner, { introduced_by: parent.handle })
    await sql`UPDATE connections SET lineage = NULL WHERE owner = ${owner}`.execute(database.db)
    expect(await whoseOf(owner, child.handle)).toBe(parent.handle)
    await comesBack(owner, child.handle, other.handle)
    expect(await whoseOf(owner, child.handle)).toBe(parent.handle)
  })

  it('is that of its introducer’s own first admission, whoever brought that in later', async () => {
    const owner = await lineages()
    const [first, middle] = [await knownAgent(database.db, owner), await knownAgent(database.db, owner)]
    const parent = await knownAgent(database.db, owner, { introduced_by: first.handle })
    await comesBack(owner, parent.handle, null)
    const child = await knownAgent(database.db, owner, { introduced_by: parent.handle })
    expect(await whoseOf(owner, child.handle)).toBe(first.handle)
    expect(await whoseOf(owner, middle.handle)).toBe(middle.handle)
  })
})

describe('Ended windows', () => {
  it('are swept after a day, and no others', async () => {
    const windows = [
      { of: 'calls', per: 'all', max: '9' },
      { of: 'calls', per: 'month', max: '9' },
    ]
    const owner = await ownerWith(database.db, { windows })
    const agent = await knownAgent(database.db, owner)
    expect((await take(database.db, owner, agent)).outcome).toBe('recorded')
    const over = (by: string) =>
      sql`UPDATE allowance_windows SET ends = now() - ${by}::interval WHERE owner = ${owner} AND per = 'month'`.execute(
        database.db,
      )
    await over('23 hours')
    await sweepOwner(database.db, owner, 100)
    expect((await usedOf(database.db, owner)).map(([, per]) => per)).toEqual(['all', 'month'])
    await over('25 hours')
    await sweepOwner(database.db, owner, 100)
    expect((await usedOf(database.db, owner)).map(([, per]) => per)).toEqual(['all'])
  })
})
