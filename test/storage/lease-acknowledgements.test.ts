/** What sidecars acknowledge in the process that waits for them. docs/decisions/0021-leases.md. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { insertHolder, letGo, renewHolder } from '../../src/storage/authority/grants/leases.ts'
import { inTransaction, STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { acknowledge, acknowledgementsOf } from '../../src/storage/authority/grants/lease-acknowledgements.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

const owner = asOwner('alice')
const client_id = asClientId('rs-1')
const asked = (id: string, times: number) => ({ client_id, id, asked: times })
const holder = (id: string) => ({ owner, client_id, id })

async function isResolved(all: Promise<void>): Promise<boolean> {
  return Promise.race([all.then(() => true), new Promise<false>(resolve => setImmediate(resolve, false))])
}

describe('acknowledgements', () => {
  it('are complete once each sidecar acknowledged as often as it was asked', async () => {
    const { all, isMissing, end } = acknowledgementsOf(owner, [asked('one', 3), asked('other', 1)])
    acknowledge(holder('one'), 2)
    acknowledge(holder('other'), 1)
    acknowledge(holder('other'), 1)
    expect([await isResolved(all), isMissing('one'), isMissing('other')]).toEqual([false, true, false])
    acknowledge(holder('one'), 4)
    expect([await isResolved(all), isMissing('one')]).toEqual([true, false])
    end()
  })

  it.each([
    ['another sidecar', { id: 'two' }],
    ['the same id of another resource server', { client_id: asClientId('rs-2') }],
    ['the same id of another owner', { owner: asOwner('bob') }],
  ])('of %s do not count', async (_, other) => {
    const { all, end } = acknowledgementsOf(owner, [asked('one', 1)])
    acknowledge({ ...holder('one'), ...other }, Infinity)
    expect(await isResolved(all)).toBe(false)
    end()
  })

  it('reach every act that waits, and one of a sidecar that ends counts for each question', async () => {
    const acts = [acknowledgementsOf(owner, [asked('one', 1)]), acknowledgementsOf(owner, [asked('one', 2)])]
    acknowledge(holder('one'), 1)
    expect(await Promise.all(acts.map(({ all }) => isResolved(all)))).toEqual([true, false])
    acts[0]!.end()
    acknowledge(holder('one'), Infinity)
    expect(await isResolved(acts[1]!.all)).toBe(true)
    acts[1]!.end()
  })

  it('do not reach an act that listens no more', async () => {
    const { all, end } = acknowledgementsOf(owner, [asked('one', 1)])
    end()
    acknowledge(holder('one'), 1)
    expect(await isResolved(all)).toBe(false)
  })
})

describe('an act that ends a grant', () => {
  const database = coreStand()

  /** Resolves when Postgres is asked who still holds a lease: by then acknowledgements here are heard. */
  async function firstLook(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const heed = (message: unknown): void => {
      if ((message as SentStatement).text.includes('h.acknowledged < a.asked')) resolve()
    }
    subscribe(STATEMENTS_CHANNEL, heed)
    await promise.finally(() => unsubscribe(STATEMENTS_CHANNEL, heed))
  }

  it('returns once each holder acknowledged here, though Postgres does not have it yet', async () => {
    const hers = await seed.seedOwner(database.db)
    const server = { owner: hers, client_id: seed.CLIENT_ID, generation: 1 }
    const lease = await inTransaction(database.db, tx => insertHolder(tx, server))
    if (typeof lease === 'string') throw new Error(`no lease: ${lease}`)
    const looking = firstLook()
    const done = letGo(database.db, hers, performance.now())
    await looking
    let renewal: Promise<number | undefined> | undefined
    await inTransaction(database.db, async tx => {
      await sql`SELECT FROM lease_holders WHERE owner = ${hers} FOR UPDATE`.execute(tx)
      renewal = renewHolder(database.calls, { ...server, id: lease.id }, 1)
      expect(await done).toMatchObject({ holders: 1, acknowledged: 1, silent: [] })
      const { rows } = await sql<{ acknowledged: number }>`
        SELECT acknowledged FROM lease_holders WHERE owner = ${hers}`.execute(database.db)
      expect(rows).toEqual([{ acknowledged: 0 }])
    })
    expect(await renewal).toBe(1)
  })
})
