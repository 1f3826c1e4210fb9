/**
 * Owns the owners whom the scenarios about allowances compare. Both have one tier that asks them about each
 * operation, with a rule that lets through what is asked by agents whom they approved; so each grant is for
 * one operation and a single use. One of them bounds that by an allowance (`with`), the other does not.
 */
import { randomUUID } from 'node:crypto'
import { cpus } from 'node:os'
import { createOwnerClient, type OwnerClient } from '../../src/owner/client.ts'
import { admitConnection, recordApproval } from '../../src/storage/authority/connections/connections.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import * as seed from '../../test/support/seed.ts'
import { readCpu, type CpuReading } from '../machine.ts'
import type { System } from '../system.ts'
import { worldOfSeeded } from './bob.ts'
import { openAuthority, type AgreedOperation } from './negotiation.ts'
import { openProtection } from './protection-door.ts'

export const SIDES = ['without', 'with'] as const
export type Side = (typeof SIDES)[number]
export type BySide<T> = Record<Side, T>

export const ALLOWANCE = 'bench'
/** Known to each owner, and approved by her at the tier. */
const AGENTS = 128
/**
 * How many grants each agent has unspent at most while a batch is taken: fewer than the five that it may. All
 * of them together have more places than are read for the owner.
 */
const UNSPENT = 4
/** Calls in flight while a batch is taken. */
const IN_FLIGHT = 32
export const BATCH = AGENTS * UNSPENT
/** More than any run takes. */
const MOST = '999999999999999'
const TOOL = 'notes_read'

/** What the agreements of a batch took. */
export interface BatchSpent {
  /** How many were answered. */
  perSecond: number
  /** Of the time of all processors meanwhile, what was not left idle; NaN without /proc. */
  processorsBusy: number
}

/** An owner, with those who ask her authority. */
export interface Spender {
  readonly owner: Owner
  readonly client: OwnerClient
  readonly agents: readonly PrivateKey[]
  /** The next of her agents gets a grant and spends it. @returns the milliseconds of the agreement. */
  spendOne(): Promise<number>
  /**
   * Each of her agents gets as many grants as it may have unspent, and then spends them. All that comes
   * before and after the agreements is done apart.
   */
  spendBatch(): Promise<BatchSpent>
  close(): Promise<void>
}

/** Both owners at a system that runs, each with agents of her own. */
export async function openSpenders(system: System): Promise<BySide<Spender>> {
  return { without: await openSpender(system, 'without'), with: await openSpender(system, 'with') }
}

/** One of either side; each is another owner. */
export async function openSpender(system: System, side: Side): Promise<Spender> {
  const { db } = system.database
  const { issuer } = system.world
  const { owner, key } = await seed.seedOwnerWithKey(db, { ask_me: true })
  const keys = Array.from({ length: AGENTS }, () => importPrivateJwk(generatePrivateJwk()))
  await approveAll(system, owner, keys)
  const client = createOwnerClient({ api: system.ownerApi, issuer, key })
  await openTier(client, side)
  const world = worldOfSeeded(system, owner)
  const door = await openAuthority(world, { inFlight: IN_FLIGHT, connections: IN_FLIGHT }, 'notes')
  const protection = await openProtection(world, { connections: IN_FLIGHT })
  let asked = 0
  const nextKey = (): PrivateKey => keys[asked++ % keys.length]!
  const spend = async (rpt: string): Promise<void> => {
    if ((await protection.consume(rpt))['consumed'] !== true) throw new Error('a grant was not spent')
  }
  return {
    owner,
    client,
    agents: keys,
    spendOne: async () => {
      let took = 0
      const rpt = await door.negotiate(nextKey(), operation(), ms => (took = ms))
      await spend(rpt)
      return took
    },
    spendBatch: async () => {
      const agreements: (() => Promise<string>)[] = []
      await seed.inRounds(BATCH, IN_FLIGHT, async () => {
        agreements.push(await door.agree(nextKey(), operation()))
      })
      const rpts: string[] = []
      const before = await readCpu({})
      const from = performance.now()
      await seed.inRounds(BATCH, IN_FLIGHT, async n => {
        rpts.push(await agreements[n]!())
      })
      const ms = performance.now() - from
      const after = await readCpu({})
      await seed.inRounds(BATCH, IN_FLIGHT, n => spend(rpts[n]!))
      return { perSecond: (BATCH * 1_000) / ms, processorsBusy: busyBetween(before, after) }
    },
    close: async () => void (await Promise.all([door.close(), protection.close()])),
  }
}

function busyBetween(before: CpuReading | undefined, after: CpuReading | undefined): number {
  if (before === undefined || after === undefined) return NaN
  return (after.machine - before.machine) / (after.at - before.at) / cpus().length
}

/** As if she had approved one operation of each. */
function approveAll({ database: { db } }: System, owner: Owner, keys: readonly PrivateKey[]): Promise<void> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    for (const key of keys) {
      const handle = thumbprintHandle(key)
      const agent = { owner, handle, identity: 'pseudonymous', label: null, operator: null } as const
      const generation = await admitConnection(tx, { ...agent, introduced_by: null })
      await recordApproval(tx, { owner, handle, tier_id: seed.TIER, generation })
    }
  })
}

const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }

/** Her tier lets through what such agents ask, within the allowance if she has one. */
async function openTier(client: OwnerClient, side: Side): Promise<void> {
  const rules = [AUTO]
  if (side === 'with') {
    const at = { tools: [TOOL], amounts: { price: { pointer: '/price' } }, free: ['/of'] }
    const body = {
      hold_s: 3_600,
      amounts: [{ name: 'price', each_max: '50' }],
      windows: [
        { of: 'calls', per: 'all', max: MOST },
        { of: 'price', per: 'month', max: MOST },
      ],
      tiers: { [seed.TIER]: at },
    }
    await client.ask({ method: 'PUT', path: `/owner/allowances/${ALLOWANCE}`, body })
    rules.push({ when: [`operation.beyond:${ALLOWANCE}`], then: 'ask' })
  }
  await client.ask({ method: 'PUT', path: `/owner/policies/${seed.TIER}`, body: { rules } })
}

/** Another one at each call, for the same price. */
const operation = (): AgreedOperation => ({ tool: TOOL, params: { price: 12.5, of: randomUUID() } })
