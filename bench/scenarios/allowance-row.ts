/**
 * Owns what the row of a busy allowance passes, so that what the authority passes has a measure: transactions
 * that wait for each other at that row, over as many connections as an authority gives one owner, by a
 * process that does nothing else. One kind only adds to the row. The other is the long form of
 * docs/details/storage.md: a statement that waits for the row, and one that then reads all that a grant rests
 * on and writes it. Its grants are written as the authority writes them, but with shorter texts, one entry of
 * the ledger each, no negotiation that ends with them, and without a limit of live ones.
 */
import { sql } from 'kysely'
import { Client } from 'pg'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { recordWithin } from '../../src/storage/authority/grants/issue-allowance.ts'
import { readAllowanceUse } from '../../src/storage/authority/policies/allowance-windows.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { halfOf } from '../../src/storage/core/shares.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { withinOf, type SpendingAgent } from '../../test/support/allowance-grants.ts'
import * as seed from '../../test/support/seed.ts'
import type { System } from '../system.ts'
import { ALLOWANCE, BATCH, openSpender } from './allowance-owners.ts'

/** Transactions of each connection before those that count: Postgres plans a statement anew five times. */
const WARM_UP_EACH = 7

/** How many transactions of either kind a second the row passes. */
export interface RowRates {
  adding: number
  granting: number
}

/** The row of an owner whom nobody else asks. */
export interface AllowanceRow {
  /** As many transactions of each kind as a batch has. */
  rates(): Promise<RowRates>
  close(): Promise<void>
}

export async function openRow(system: System): Promise<AllowanceRow> {
  const spender = await openSpender(system, 'with')
  // Its first grants make the row.
  await spender.spendBatch()
  await spender.close()
  const { owner } = spender
  const lanes = halfOf(system.world.poolMax)
  const { url } = system.database
  const database = openDatabase({ url, poolMax: lanes })
  const clients = Array.from({ length: lanes }, () => new Client({ connectionString: url }))
  await Promise.all(clients.map(client => client.connect()))
  const adding = addingTo(owner, clients)
  const granting = await grantingAt(owner, database, lanes)
  await adding(lanes * WARM_UP_EACH)
  return {
    rates: async () => ({ adding: await adding(BATCH), granting: await granting() }),
    close: async () => {
      await Promise.all([database.close(), ...clients.map(client => client.end())])
    },
  }
}

const ROW = `owner = $1 AND allowance = $2 AND whose = '' AND of = 'calls' AND per = 'all'`
const LOCK_ROW = { name: 'lock', text: `SELECT used FROM allowance_windows WHERE ${ROW} FOR NO KEY UPDATE` }
const ADD_TO_ROW = { name: 'add', text: `UPDATE allowance_windows SET used = used + 1 WHERE ${ROW}` }

/** Runs so many that add to the row, and answers how many a second passed. */
function addingTo(owner: Owner, clients: readonly Client[]): (howMany: number) => Promise<number> {
  const values = [owner, ALLOWANCE]
  const idle = [...clients]
  const add = async (): Promise<void> => {
    const client = idle.pop()!
    await client.query('BEGIN')
    await client.query({ ...LOCK_ROW, values })
    const { rowCount } = await client.query({ ...ADD_TO_ROW, values })
    if (rowCount !== 1) throw new Error('the allowance has no row to add to')
    await client.query('COMMIT')
    idle.push(client)
  }
  return howMany => perSecond(howMany, () => seed.inRounds(howMany, clients.length, add))
}

/** Runs a batch of those that write a grant, and answers how many a second passed. */
async function grantingAt(owner: Owner, { db }: Database, lanes: number): Promise<() => Promise<number>> {
  const { rows: agents } = await sql<SpendingAgent>`
    SELECT handle, generation FROM connections WHERE owner = ${owner}`.execute(db)
  const of = { id: ALLOWANCE, handle: agents[0]!.handle, resource_id: seed.resourceId(owner) }
  type Record = Awaited<ReturnType<typeof withinOf>>
  const recordsOf = async (howMany: number): Promise<Record[]> => {
    const use = await readAllowanceUse(db, owner, of)
    if (use === undefined) throw new Error('she has no such allowance')
    const taking = { amount: '12.5', use }
    const made = await seed.callers(howMany, n => withinOf(db, owner, agents[n % agents.length]!, taking))
    return made.map(({ share, ...record }) => ({ ...record, share: { ...share, content: use.content } }))
  }
  const grant = async (record: Record, ends: () => void): Promise<void> =>
    inTransaction(db, async tx => {
      const outcome = await recordWithin(tx, record)
      if (outcome !== 'recorded') throw new Error(`a grant was not recorded: ${outcome}`)
      ends()
    })
  const back = new Error('taken back')
  const takenBack = (): never => {
    throw back
  }
  const warmUp = await recordsOf(lanes * WARM_UP_EACH)
  await seed.inRounds(warmUp.length, lanes, n =>
    grant(warmUp[n]!, takenBack).catch((error: unknown) => {
      if (error !== back) throw error
    }),
  )
  return async () => {
    const records = await recordsOf(BATCH)
    const rate = await perSecond(BATCH, () =>
      seed.inRounds(BATCH, lanes, n => grant(records[n]!, () => undefined)),
    )
    // They give their places back.
    await sql`UPDATE grants SET consumed_at = now() WHERE owner = ${owner} AND consumed_at IS NULL`.execute(
      db,
    )
    return rate
  }
}

async function perSecond(howMany: number, run: () => Promise<void>): Promise<number> {
  const from = performance.now()
  await run()
  return (howMany * 1_000) / (performance.now() - from)
}
