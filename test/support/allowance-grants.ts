/**
 * Owns grants within an allowance as storage writes them, for tests of what is counted and of what goes back:
 * no operation is weighed.
 */
import { sql } from 'kysely'
import { latestExpiry } from '../../src/rules/allowance/expiry.ts'
import type { Db } from '../../src/storage/authority/database.ts'
import { recordWithin, type WithinOutcome } from '../../src/storage/authority/grants/issue-allowance.ts'
import {
  readAllowanceUse,
  type AllowanceUse,
} from '../../src/storage/authority/policies/allowance-windows.ts'
import { storeAllowance } from '../../src/storage/authority/policies/allowances.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { OWNER_ALLOWANCE, type OwnerAllowance } from '../../src/wire/documents/allowance.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import * as seed from './seed.ts'

export const ALLOWANCE = 'weekend'

/** An owner with an ask-me tier and an allowance, which has these members. */
export async function ownerWith(db: Db, members: object = {}): Promise<Owner> {
  const owner = await seed.seedOwner(db, { ask_me: true })
  await saveAllowance(db, owner, members)
  return owner
}

/** Makes the allowance, or another version of it. */
export async function saveAllowance(db: Db, owner: Owner, members: object = {}): Promise<OwnerAllowance> {
  const fixed = { id: ALLOWANCE, version: 1, zone: 'UTC', among: 'all', until: null, hold_s: 300 }
  const amounts = [{ name: 'price' }]
  const allowance = OWNER_ALLOWANCE.parse({ ...fixed, amounts, windows: [], tiers: {}, ...members })
  const outcome = await inTransaction(db, tx => storeAllowance(tx, owner, allowance))
  if (outcome !== 'stored') throw new Error(`the allowance is ${outcome}`)
  return allowance
}

export interface SpendingAgent {
  handle: Handle
  generation: number
}

/** An agent that she knows. */
export async function knownAgent(
  db: Db,
  owner: Owner,
  more: { introduced_by?: Handle } = {},
): Promise<SpendingAgent> {
  const handle = seed.name('jkt:')
  return { handle, generation: await seed.seedConnection(db, owner, handle, more) }
}

export async function useOf(db: Db, owner: Owner, handle: Handle, at?: string): Promise<AllowanceUse> {
  const of = { id: ALLOWANCE, handle, resource_id: seed.resourceId(owner), ...(at !== undefined && { at }) }
  const use = await readAllowanceUse(db, owner, of)
  if (use === undefined) throw new Error('she has no such allowance')
  return use
}

/** What one grant takes of what was read, and when it ends. */
export interface Taking {
  amount?: string
  /** Seconds since the epoch. */
  expiresAt?: number
  /** What was read before; left out, it is read now. */
  use?: AllowanceUse
  most?: number
}

/** The grant that an agent gets for so much of the allowance, as it would be recorded. */
export async function withinOf(
  db: Db,
  owner: Owner,
  { handle, generation }: SpendingAgent,
  { amount = '1', use, most, ...taking }: Taking = {},
) {
  const read = use ?? (await useOf(db, owner, handle))
  const windows = read.windows.map(({ of, per, max, start, ends }) => {
    const taken = of === 'calls' ? '1' : amount
    return { of, per, max, start, ends, amount: taken }
  })
  const { allowance, whose } = read
  const rpt = seed.bytes()
  const expiresAt = taking.expiresAt ?? latestExpiry(allowance, read.windows, read.now)!
  const governed = await seed.governedOf(db, owner)
  const grant = { ...seed.grantRow(owner, handle, generation, rpt), ...governed, expiresAt }
  const share = { allowance: allowance.id, version: allowance.version, whose, windows }
  return { grant, entries: [{ kind: 'promised' as const, data: {} }], most, share, rpt }
}

/** Takes it. */
export async function take(
  db: Db,
  owner: Owner,
  agent: SpendingAgent,
  taking: Taking = {},
): Promise<{ outcome: WithinOutcome; rpt: Buffer }> {
  const { rpt, ...record } = await withinOf(db, owner, agent, taking)
  return { outcome: await recordWithin(db, record), rpt }
}

/** What is used of each of her windows, in the order of their keys. */
export async function usedOf(db: Db, owner: Owner): Promise<[of: string, per: string, used: string][]> {
  const { rows } = await sql<{ of: string; per: string; used: string }>`
    SELECT of, per, trim_scale(used)::text AS used FROM allowance_windows WHERE owner = ${owner}
    ORDER BY allowance, whose, of, per, start`.execute(db)
  return rows.map(({ of, per, used }) => [of, per, used])
}

/** How many rows she has of what the issue of a grant within an allowance writes. */
export async function rowsOf(
  db: Db,
  owner: Owner,
): Promise<{ grants: number; places: number; ledger: number }> {
  const { rows } = await sql<{ grants: number; places: number; ledger: number }>`
    SELECT (SELECT count(*) FROM grants WHERE owner = ${owner})::int AS grants,
      (SELECT count(*) FROM allowance_held WHERE owner = ${owner})::int AS places,
      (SELECT count(*) FROM ledger WHERE owner = ${owner})::int AS ledger`.execute(db)
  return rows[0]!
}

/** As if so much time had passed for her grants: what lives for less is over, and due. */
export async function lapse(db: Db, owner: Owner, by = '1 hour'): Promise<void> {
  await inTransaction(db, async tx => {
    await sql`UPDATE grants SET expires_at = expires_at - ${by}::interval WHERE owner = ${owner}`.execute(tx)
    await sql`
      UPDATE allowance_held SET expires_at = expires_at - ${by}::interval, due_at = due_at - ${by}::interval
      WHERE owner = ${owner}`.execute(tx)
  })
}
