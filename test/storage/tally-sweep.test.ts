/**
 * What a tally removes, and what it keeps: docs/limits.md, "What is kept"; contract, "Limits" (lifetimes),
 * "Tally for a jointly held resource".
 */
import { describe, expect, test } from 'vitest'
import { listAccesses, recordAccesses } from '../../src/storage/tally/accesses.ts'
import { readGrant } from '../../src/storage/tally/grants.ts'
import { sweepTally } from '../../src/storage/tally/sweep.ts'
import { withdraw } from '../../src/storage/tally/withdrawals.ts'
import {
  ACCOUNT,
  age,
  approved,
  count,
  granted,
  HOLDERS,
  ISSUER,
  tallyDatabase,
  TOOLS,
  waiting,
} from '../support/tally-database.ts'
import { connected } from '../support/postgres.ts'
import { startedForEach } from '../support/started.ts'

const database = startedForEach(tallyDatabase)
const sweep = (limit = 100) => sweepTally(database.db, limit)
const NEGOTIATION = ['ticket_expires_at', 'sealed_expires_at']

describe('Negotiations', () => {
  test('go some days after their ticket has expired, with what holders answered, in batches', async () => {
    for (let n = 0; n < 5; n++) await waiting(database)
    expect(await sweep()).toEqual({ rows: 0, more: false, faults: [] })
    await age(database, 'negotiations', NEGOTIATION, '7 days')
    expect((await sweep()).rows).toBe(0)
    await age(database, 'negotiations', NEGOTIATION, '2 days')
    await waiting(database)
    expect(await sweep(2)).toEqual({ rows: 2, more: true, faults: [] })
    expect(await sweep(2)).toEqual({ rows: 2, more: true, faults: [] })
    expect(await sweep(2)).toEqual({ rows: 1, more: false, faults: [] })
    expect([await count(database, 'negotiations'), await count(database, 'answers')]).toEqual([1, 3])
  })

  test('stay while their sealed ticket could be presented again', async () => {
    await waiting(database)
    await age(database, 'negotiations', ['ticket_expires_at'], '9 days')
    expect((await sweep()).rows).toBe(0)
  })

  test('stay while their grant lives, however long that is, and go with it', async () => {
    const month = Math.floor(Date.now() / 1_000) + 30 * 86_400
    const { rptSha256 } = await granted(database, await approved(database), { expiresAt: month })
    const live = async () =>
      (await readGrant(database.calls, { owner: ACCOUNT, clientId: TOOLS, rptSha256 }))?.grant
    await age(database, 'negotiations', NEGOTIATION, '20 days')
    await sweep()
    expect(await live()).toMatchObject({ withdrawn: false, expired: false })
    await age(database, 'grants', ['expires_at'], '31 days')
    await age(database, 'negotiations', NEGOTIATION, '11 days')
    await sweep()
    expect(await live()).toMatchObject({ expired: true })
    await age(database, 'grants', ['expires_at'], '8 days')
    await age(database, 'negotiations', NEGOTIATION, '8 days')
    await sweep()
    expect(await live()).toBeUndefined()
    expect([await count(database, 'negotiations'), await count(database, 'receipts')]).toEqual([0, 1])
  })
})

describe('Calls that were reported', () => {
  const report = async (key: string) => {
    const family = await approved(database)
    await granted(database, family)
    await recordAccesses(database.db, { account: ACCOUNT, client_id: TOOLS }, [
      { key, family, jti: undefined, tool: 'read', summary: undefined, at: 1_700_000_000 },
    ])
  }
  const listed = async () =>
    (await listAccesses(database.db, ACCOUNT, { before: 0, limit: 10 })).map(({ n }) => n)

  test('are kept for 30 days, and say which resource and agent they were of', async () => {
    await report('first')
    await age(database, 'accesses', ['recorded_at'], '29 days')
    await report('second')
    await sweep()
    expect(await listed()).toEqual([2, 1])
    await age(database, 'accesses', ['recorded_at'], '2 days')
    await sweep()
    expect(await listed()).toEqual([2])
    expect(await listAccesses(database.db, ACCOUNT, { before: 0, limit: 10 })).toMatchObject([
      { n: 2, client_id: TOOLS, resource_id: 'family-1/savings', agent: 'jkt:agent', tool: 'read' },
    ])
  })

  test('outlive the grant that they were made under', async () => {
    await report('one')
    await age(database, 'grants', ['expires_at'], '9 days')
    await age(database, 'negotiations', NEGOTIATION, '9 days')
    await sweep()
    expect([await count(database, 'grants'), await listed()]).toEqual([0, [1]])
  })
})

describe('Withdrawals that were received', () => {
  test('are known for 8 days past their end, for the holder tells them until she is heard', async () => {
    const [holder] = HOLDERS
    const given = {
      account: ACCOUNT,
      holder: holder!,
      issuer: ISSUER,
      jti: 'wd_1',
      negotiations: 'all' as const,
    }
    const told = (exp: number) => withdraw(database.db, { ...given, exp })
    const exp = Math.floor(Date.now() / 1_000) + 300
    expect(await told(exp)).toBe(0)
    await age(database, 'withdrawals', ['expires_at'], '7 days')
    await sweep()
    expect(await told(exp + 7 * 86_400)).toBeUndefined()
    await age(database, 'withdrawals', ['expires_at'], '2 days')
    await sweep()
    expect(await count(database, 'withdrawals')).toBe(0)
  })
})

test('What fails of one table keeps no other from being swept', async () => {
  await waiting(database)
  await age(database, 'negotiations', NEGOTIATION, '9 days')
  // By the owner of the tables, because a process that serves requests may change none.
  await connected(database.url, owner => owner.query('ALTER TABLE accesses RENAME TO elsewhere'))
  const { rows: gone, faults } = await sweep()
  expect([gone, faults.map(({ table }) => table)]).toEqual([1, ['accesses']])
})
