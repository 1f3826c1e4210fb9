/**
 * How long `/perm` waits for a pull, by a clock that the test moves. Contract: "Protection API" (`/perm`),
 * "Registry materialization".
 */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Announcements } from '../../src/authority/owner/events/announcements.ts'
import { openPublishers } from '../../src/authority/registry/publishers.ts'
import { createRegistry, type Registry } from '../../src/authority/registry/registry.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import {
  decideResourceServer,
  registerResourceServer,
} from '../../src/storage/authority/registry/registrations.ts'
import { claimPull, type ServerSource } from '../../src/storage/authority/registry/registry.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asClientId } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()
const client_id = asClientId('https://tools.example/mcp/x')

/** Who waits for an announcement waits in vain, and the clock of the test goes on by as much. */
function announcementsThatPass(waits: number[]): Announcements {
  const watch = () => () => undefined
  return {
    next: async (_owner, ms) => {
      waits.push(ms)
      vi.advanceTimersByTime(ms)
      return false
    },
    watch,
    watchLeases: watch,
    watchDue: watch,
    close: async () => undefined,
  }
}

/** A registry whose pauses are of the clock of the test. */
function registryAt(pools: Database, waits: number[] = []): { registry: Registry; end: () => Promise<void> } {
  const log = createLogger({ name: 'test', level: 'fatal' })
  const config = {
    issuer: 'https://as.example',
    devLoopback: false,
    trustedNetworks: undefined,
    trustedHosts: undefined,
  }
  const publishers = openPublishers(config, log)
  const registry = createRegistry({
    database: pools,
    announcements: announcementsThatPass(waits),
    log,
    keepSeconds: 60,
    publishers,
    key: importPrivateJwk(generatePrivateJwk()),
    now: () => Date.now() / 1_000,
  })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const end = async (): Promise<void> => {
    vi.useRealTimers()
    const stopped = registry.stop()
    // What a pull fetches has a limit by the clock of the test, which stands still now: it is cut off.
    await publishers.close()
    await stopped
  }
  return { registry, end }
}

async function source(): Promise<ServerSource> {
  const owner = await seed.seedOwner(database.db)
  await inTransaction(database.db, tx =>
    registerResourceServer(tx, { owner, resource_uri: client_id, name: 'X' }),
  )
  await inTransaction(database.db, tx => decideResourceServer(tx, owner, client_id, 'active'))
  return { owner, client_id }
}

describe('Whoever names a resource that is not known', () => {
  it('waits a second at most for a pull that does not end', async () => {
    const of = await source()
    const full = openDatabase({ url: database.url, poolMax: 1 })
    // The pull does not even begin, for it has no connection.
    const held = await full.pool.connect()
    const { registry, end } = registryAt(full)
    onTestFinished(async () => {
      held.release()
      await end()
      await full.close()
    })
    let isOver = false
    void registry.lookAgain(of).then(() => (isOver = true))
    await vi.advanceTimersByTimeAsync(999)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(isOver).toBe(true)
  })

  it('waits a second at most for one that another replica does not end', async () => {
    const of = await source()
    expect(await claimPull(database.db, of, 10)).toHaveProperty('claimed')
    await database.pool.query(
      `UPDATE registry_pulls SET tried_at = tried_at + interval '1 hour' WHERE owner = $1`,
      [of.owner],
    )
    const waits: number[] = []
    const { registry, end } = registryAt(database, waits)
    onTestFinished(end)
    await registry.lookAgain(of)
    expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(1_000)
  })
})
