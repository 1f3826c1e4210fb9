/**
 * What is still to be told, on a real Postgres: contract, "Events" (organization notice: charter moves and
 * role changes arrive).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { ORGANIZATION_DATABASE } from '../../src/storage/organization/database.ts'
import {
  closeEmptyLine,
  endNotice,
  firstNotice,
  insertNotice,
  takeLines,
  tellNoticeAgain,
} from '../../src/storage/organization/notices.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { Notice } from '../../src/wire/organization/notice.ts'
import { openedDatabase } from '../support/postgres.ts'
import { startedOnce } from '../support/started.ts'

const database = startedOnce(() =>
  openedDatabase('organization', url => ORGANIZATION_DATABASE.open({ url, poolMax: 10 })),
)

const moved = (role: string): Notice => ({ kind: 'role_changed', role })
const addressee = (name: string) => ({
  owner: asOwner(name),
  as_uri: 'https://as.example',
  join_id: `join-${name}`,
})
const add = (name: string, notice: Notice, how = {}) =>
  inTransaction(database.db, tx => insertNotice(tx, addressee(name), notice, how))
const take = async () => takeLines(database.db, { limit: 100, seconds: 60 })
const taken = async (name: string) => (await take()).find(({ owner }) => owner === name)

describe('A line of notices', () => {
  it('loses none that is added while it is closed as an empty one', async () => {
    let closedFirst = 0
    for (let round = 0; round < 100; round++) {
      const name = `r${round}`
      await add(name, moved('before'))
      const line = (await taken(name))!
      await endNotice(database.db, line, (await firstNotice(database.db, line))!.jti)
      const emptied = (await taken(name))!
      await Promise.all([closeEmptyLine(database.db, emptied), add(name, moved('after'))])
      const left = await take()
      // It is due, at once or after its lease: in either case somebody takes it.
      const standing = left.length > 0 || (await lineStands(name))
      expect(standing).toBe(true)
      if (left.length > 0) closedFirst++
    }
    expect(closedFirst).toBeGreaterThan(0)
  })

  it('is one taker’s, of 16 at once, and again when its lease has passed', async () => {
    await add('leased', moved('a'))
    const all = await Promise.all(
      Array.from({ length: 16 }, () => takeLines(database.db, { limit: 5, seconds: 60 })),
    )
    expect(all.flat().filter(({ owner }) => owner === 'leased')).toHaveLength(1)
    expect(await taken('leased')).toBeUndefined()
    const passed = sql<string>`now() - interval '1 second'`
    await database.db
      .updateTable('notice_lines')
      .set({ due_at: passed })
      .where('owner', '=', asOwner('leased'))
      .execute()
    expect(await taken('leased')).toBeDefined()
    // Who took it before moves nothing any more.
    const late = all.flat().find(({ owner }) => owner === 'leased')!
    await tellNoticeAgain(database.db, late, { jti: 'x', status: undefined, seconds: 0 })
    expect(await taken('leased')).toBeUndefined()
  })

  it('of one notice that waits for no other is beside that of the membership', async () => {
    await add('both', moved('a'))
    await add('both', { kind: 'break_glass_void', grant: { jti: 'rpt_1' } }, { alone: true })
    const lines = (await take()).filter(({ owner }) => owner === 'both')
    const firsts = await Promise.all(lines.map(line => firstNotice(database.db, line)))
    expect(new Set(firsts.map(first => first!.notice.kind))).toEqual(
      new Set(['role_changed', 'break_glass_void']),
    )
  })
})

async function lineStands(name: string): Promise<boolean> {
  const row = await database.db
    .selectFrom('notice_lines')
    .select('owner')
    .where('owner', '=', asOwner(name))
    .executeTakeFirst()
  return row !== undefined
}
