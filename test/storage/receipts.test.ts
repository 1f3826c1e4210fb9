/** Contract, "Grant answer (beat 4)": both sides hold the receipt; the authority's side of it, for ever. */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readReceipts } from '../../src/storage/authority/ledger/receipts.ts'
import { connected, runtimeRole, runtimeRoles } from '../support/postgres.ts'
import { repositoryFiles } from '../support/repository.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()

const ALL = { after: 0, limit: 100 }

async function granted(count: number) {
  const owner = await seed.seedOwner(database.db)
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const grants = Array.from({ length: count }, () => seed.grantRow(owner, handle, generation, seed.bytes()))
  for (const grant of grants) expect(await recordGrant(database.db, grant, [])).toBe(true)
  return { owner, handle, grants }
}

describe('A receipt is kept', () => {
  it('with its grant, in the order of the grants, by family too', async () => {
    const { owner, handle, grants } = await granted(3)
    const rows = await readReceipts(database.db, owner, ALL)
    expect(rows).toEqual(
      grants.map(({ family, jti, receipt }, at) => ({
        seq: at + 1,
        family,
        jti,
        handle,
        issued_at: expect.any(String),
        receipt,
      })),
    )
    expect(await readReceipts(database.db, owner, { ...ALL, after: 2 })).toEqual(rows.slice(2))
    const { family } = grants[1]!
    expect(await readReceipts(database.db, owner, { ...ALL, family })).toEqual([rows[1]])
  })

  it('after its grant was swept', async () => {
    const { owner } = await granted(2)
    await sql`UPDATE grants SET expires_at = now() - interval '2 days' WHERE owner = ${owner}`.execute(
      database.db,
    )
    expect((await sweepOwner(database.db, owner, 100)).rows).toBeGreaterThanOrEqual(2)
    expect(await readReceipts(database.db, owner, ALL)).toHaveLength(2)
  })

  it('and not if the grant was not made', async () => {
    const owner = await seed.seedOwner(database.db)
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle)
    const grant = seed.grantRow(owner, handle, generation + 1, seed.bytes())
    expect(await recordGrant(database.db, grant, [])).toBe(false)
    expect(await readReceipts(database.db, owner, ALL)).toEqual([])
  })
})

describe('Receipts are append-only', () => {
  it.each([
    ['changed', "UPDATE receipts SET receipt = 'another'"],
    ['removed', 'DELETE FROM receipts'],
    ['removed all at once', 'TRUNCATE receipts'],
    ['locked away', 'SELECT * FROM receipts FOR UPDATE'],
  ])('by privilege: no pooled connection may have them %s', async (_, statement) => {
    await granted(1)
    await expect(database.pool.query(statement)).rejects.toMatchObject({ code: '42501' })
  })

  it('by privilege: every connection of the pool works as the runtime role, also after a statement failed', async () => {
    const roles = () =>
      Promise.all(
        Array.from({ length: 8 }, async () => {
          const { rows } = await database.pool.query<{ role: string }>('SELECT current_user::text AS role')
          return rows[0]!.role
        }),
      )
    expect(new Set(await roles())).toEqual(new Set([runtimeRole(database.url)]))
    await expect(inTransaction(database.db, tx => sql`SELECT 1 / 0`.execute(tx))).rejects.toThrow()
    expect(new Set(await roles())).toEqual(new Set([runtimeRole(database.url)]))
  })

  it('by statement: none of ours changes or removes one', () => {
    const sources = repositoryFiles().filter(({ path }) => path.startsWith('src/'))
    const changing =
      /\b(?:UPDATE|DELETE\s+FROM|TRUNCATE|MERGE\s+INTO)\s+receipts\b|\b(?:updateTable|deleteFrom)\(\s*'receipts'/i
    expect(sources.filter(({ text }) => changing.test(text)).map(({ path }) => path)).toEqual([])
  })

  it('again after a restore that lost the privileges, from the next migrate on', async () => {
    const { owner } = await granted(1)
    await connected(database.url, admin =>
      admin.query(
        `REVOKE ALL ON receipts FROM ${runtimeRoles(database.url)}; GRANT ALL ON receipts TO ${runtimeRole(database.url)}`,
      ),
    )
    expect(await AUTHORITY_DATABASE.migrate(database.url)).toEqual([])
    await expect(database.pool.query('DELETE FROM receipts')).rejects.toMatchObject({ code: '42501' })
    expect(await readReceipts(database.db, owner, ALL)).toHaveLength(1)
  })
})
