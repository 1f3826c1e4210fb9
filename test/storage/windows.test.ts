/**
 * Whose membership a window of an emergency was opened for, on a real Postgres: contract, "The organization's
 * authority" (break-glass).
 */
import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { insertVoucher, readVoucher } from '../../src/storage/organization/break-glass.ts'
import { lockHead } from '../../src/storage/organization/charters.ts'
import { ORGANIZATION_DATABASE, type Tx } from '../../src/storage/organization/database.ts'
import { deleteMember, insertMember } from '../../src/storage/organization/members.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { openedDatabase } from '../support/postgres.ts'
import { startedOnce } from '../support/started.ts'

const database = startedOnce(() =>
  openedDatabase('organization', url => ORGANIZATION_DATABASE.open({ url, poolMax: 10 })),
)

const joins = async (tx: Tx, name: string): Promise<void> => {
  const owner = asOwner(name)
  await deleteMember(tx, owner)
  const as = { as_uri: 'https://as.example', join_id: 'join', role: null }
  await insertMember(tx, { owner, ...as, agreed_version: 1, view_version: 1 })
}
const opens = async (tx: Tx, name: string): Promise<void> => {
  const of = { owner: asOwner(name), admin: 'root', reason: 'drill' }
  await insertVoucher(tx, { ...of, voucher_sha256: Buffer.from(name) }, 300)
}
const isGood = async (name: string): Promise<boolean> =>
  (await readVoucher(database.db, Buffer.from(name), asOwner(name))) !== undefined
const change = (work: (tx: Tx) => Promise<void>) =>
  inTransaction(database.db, async tx => {
    await lockHead(tx)
    await work(tx)
  })

/** One after the other, the later one in a transaction that began before the earlier. */
async function inTurn(earlier: (tx: Tx) => Promise<void>, later: (tx: Tx) => Promise<void>): Promise<void> {
  await inTransaction(database.db, async tx => {
    await sql`SELECT now()`.execute(tx)
    await change(earlier)
    await lockHead(tx)
    await later(tx)
  })
}

it('A window that was opened for a membership is not one of the next, whenever that began to be made', async () => {
  await change(tx => joins(tx, 'alice'))
  await inTurn(
    tx => opens(tx, 'alice'),
    tx => joins(tx, 'alice'),
  )
  expect(await isGood('alice')).toBe(false)
})

it('and one that is opened for the present one is good, whenever that began to be done', async () => {
  await inTurn(
    tx => joins(tx, 'bea'),
    tx => opens(tx, 'bea'),
  )
  expect(await isGood('bea')).toBe(true)
})
