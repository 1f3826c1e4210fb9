/**
 * Races on a real Postgres: 100 rounds of 32 callers each, with exactly one winner if one can win, and
 * nothing live after a revoke has returned.
 */
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  admitConnection,
  blockOperator,
  lockOperator,
  readConnection,
  revokeConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { lockQueue, spendSignature } from '../../src/storage/authority/owners/owners.ts'
import {
  collectFamily,
  decideFamily,
  readUndecided,
} from '../../src/storage/authority/negotiations/pending.ts'
import { openFamily, presentTicket } from '../../src/storage/authority/negotiations/tickets.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { freshDatabase, onServer, PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'
import type { Family, Handle, Owner } from '../../src/wire/identifiers.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(100)
const CALLERS = 32
/** Rounds at once: three share the pool, so that each still sees real contention. */
const AT_ONCE = 3
/** What one process asks at the same time goes in one statement: only several of them race in Postgres. */
const REPLICAS = 8

let database: Database
let replicas: Database[]

beforeAll(async () => {
  database = await freshDatabase({ poolMax: 96, callPoolMax: 48, ...PATIENT })
  replicas = Array.from({ length: REPLICAS }, () =>
    openDatabase({ url: database.url, poolMax: 8, callPoolMax: 4, ...PATIENT }),
  )
})
afterAll(async () => {
  await Promise.all(replicas.map(replica => replica.close()))
  await database.close()
})

const live = async (owner: Owner, rpt: Buffer) => {
  const grant = (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant
  return grant !== undefined && grant.connected && grant.current && !grant.consumed && !grant.expired
}

class Lost extends Error {}

async function approve(owner: Owner, item: { family: Family; handle: Handle; operator?: string }) {
  return inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    if (item.operator !== undefined && (await lockOperator(tx, owner, item.operator)).blocked) return false
    const read = await readUndecided(tx, owner, item.family)
    if (read === 'unknown' || 'gone' in read) return false
    const generation = await admitConnection(tx, {
      owner,
      handle: item.handle,
      identity: 'pseudonymous',
      label: null,
      operator: item.operator ?? null,
      introduced_by: null,
    })
    const decision = {
      owner,
      family: item.family,
      decision: 'approved' as const,
      by: { by: 'owner', actor: seed.ACTOR },
      generation,
    }
    // A lost decision takes its admission back with it.
    if (!(await decideFamily(tx, decision))) throw new Lost()
    return true
  }).catch((error: unknown) => {
    if (error instanceof Lost) return false
    throw error
  })
}

function deny(owner: Owner, family: Family) {
  return inTransaction(database.db, tx =>
    decideFamily(tx, {
      owner,
      family,
      decision: 'denied',
      by: { by: 'owner', actor: seed.ACTOR },
      generation: null,
    }),
  )
}

const present = (owner: Owner, hash: Buffer, replica = database) =>
  presentTicket(replica.db, { owner, hash, nextHash: seed.bytes(), awaitingSeconds: 600, pollSeconds: 0 })

const winners = (outcomes: unknown[]) =>
  outcomes.filter(outcome => outcome !== undefined && outcome !== false).length

describe('Tickets: one presentation each', () => {
  it('a sealed ticket presented by 32 callers opens one negotiation', async () => {
    const owner = await seed.seedOwner(database.db)
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const family = seed.name('fam_')
      const outcomes = await seed.callers(CALLERS, n =>
        openFamily(replicas[n % REPLICAS]!.db, {
          owner,
          family,
          state: 'need_info',
          client_id: seed.CLIENT_ID,
          resource_id: seed.resourceId(owner),
          resource_scopes: ['read'],
          tier_id: seed.TIER,
          template: seed.templateOf(owner, family),
          sealedExpiresAt: Math.floor(Date.now() / 1000) + 300,
          ticketHash: seed.bytes(),
          ticketSeconds: 300,
          negotiationSeconds: 3600,
        }),
      )
      expect(winners(outcomes)).toBe(1)
    })
  })

  it('a later ticket presented by 32 callers is spent by one', async () => {
    const owner = await seed.seedOwner(database.db)
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const hash = seed.bytes()
      await seed.seedFamily(database.db, owner, hash)
      const outcomes = await seed.callers(CALLERS, n => present(owner, hash, replicas[n % REPLICAS]))
      expect(winners(outcomes)).toBe(1)
    })
  })

  it('a signed owner request presented by 32 callers is accepted once', async () => {
    const owner = await seed.seedOwner(database.db)
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const digest = seed.bytes()
      const outcomes = await seed.callers(CALLERS, () =>
        inTransaction(database.db, tx => spendSignature(tx, owner, digest, 120)),
      )
      expect(winners(outcomes)).toBe(1)
    })
  })
})

describe('Single-use grant: spent exactly once', () => {
  it('a grant consumed by 32 callers is spent by one', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle)
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const rpt = await seed.seedGrant(database.db, owner, handle, generation)
      const outcomes = await seed.callers(CALLERS, n =>
        consumeGrant(replicas[n % REPLICAS]!.calls, owner, { client_id: seed.CLIENT_ID }, rpt),
      )
      expect(winners(outcomes)).toBe(1)
    })
  })

  it('a consume that waits for its grant while the connection is revoked wins before the revoke returns, or not at all', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle)
    const rpt = await seed.seedGrant(database.db, owner, handle, generation)
    const holder = await database.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT 1 FROM grants WHERE owner = $1 AND rpt_sha256 = $2 FOR UPDATE', [owner, rpt])
    const consume = consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)
    await until(async () => (await lockWaiters(database)) === 1)
    let returned = false
    const revoke = inTransaction(database.db, tx => revokeConnection(tx, owner, handle, seed.ACTOR)).then(
      () => {
        returned = true
      },
    )
    // The revoke waits for the consume, or it has returned.
    await until(async () => returned || (await lockWaiters(database)) === 2)
    const tooLate = returned
    await holder.query('COMMIT')
    holder.release()
    expect({ tooLate, won: (await consume) !== undefined }).not.toEqual({ tooLate: true, won: true })
    await revoke
  })

  it('after a revoke has returned no consume wins, also while a consumer was killed mid-transaction', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await seed.seedOwner(database.db, { ask_me: true })
      const handle = seed.name('jkt:')
      const generation = await seed.seedConnection(database.db, owner, handle)
      const rpt = await seed.seedGrant(database.db, owner, handle, generation)
      const killed = await consumerHoldingTheGrant(owner, rpt)
      let revoked = false
      const lateWins: boolean[] = []
      const consumers = seed.callers(CALLERS - 2, async () => {
        const before = revoked
        const won =
          (await consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)) !== undefined
        lateWins.push(won && before)
        return won
      })
      const revoke = inTransaction(database.db, tx => revokeConnection(tx, owner, handle, seed.ACTOR)).then(
        () => {
          revoked = true
        },
      )
      await killed.kill()
      await revoke
      const afterwards = await seed.callers(4, () =>
        consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt),
      )
      expect(winners(afterwards)).toBe(0)
      expect(winners(await consumers)).toBeLessThanOrEqual(1)
      expect(lateWins).not.toContain(true)
      expect(await live(owner, rpt)).toBe(false)
    })
  })
})

/** A consumer that has locked connection and grant and updated it, and dies before it commits. */
async function consumerHoldingTheGrant(owner: Owner, rpt: Buffer): Promise<{ kill(): Promise<void> }> {
  const client = new Client({ connectionString: database.url })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await client.query('BEGIN')
  await client.query(
    `SELECT 1 FROM connections c JOIN grants g ON g.owner = c.owner AND g.handle = c.handle
     WHERE g.owner = $1 AND g.rpt_sha256 = $2 FOR SHARE OF c`,
    [owner, rpt],
  )
  await client.query('UPDATE grants SET consumed_at = now() WHERE owner = $1 AND rpt_sha256 = $2', [
    owner,
    rpt,
  ])
  return {
    async kill() {
      await onServer(server => server.query('SELECT pg_terminate_backend($1)', [rows[0]!.pid]))
      await client.end().catch(() => {})
    },
  }
}

describe('Connection: revocation is atomic and immediate', () => {
  it('whatever 31 issuers insert while the connection is revoked is dead once the revoke has returned', async () => {
    let issued = 0
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await seed.seedOwner(database.db)
      const handle = seed.name('jkt:')
      await seed.seedConnection(database.db, owner, handle)
      const rpts: Buffer[] = []
      const issuers = seed.callers(CALLERS - 1, async () => {
        const rpt = seed.bytes()
        const generation = (await readConnection(database.db, owner, handle))!.generation
        const row = seed.grantRow(owner, handle, generation, rpt)
        if (await inTransaction(database.db, tx => recordGrant(tx, row, []))) rpts.push(rpt)
      })
      const ended = await inTransaction(database.db, tx => revokeConnection(tx, owner, handle, seed.ACTOR))
      expect(ended?.handles).toEqual([handle])
      await issuers
      issued += rpts.length
      for (const rpt of rpts) expect(await live(owner, rpt)).toBe(false)
    })
    // Guards the test itself: a race in which nobody was issued anything proves nothing.
    expect(issued).toBeGreaterThan(0)
  })

  it("a block and approvals of that operator's agents leave no agent of it connected", async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await seed.seedOwner(database.db)
      const operator = 'https://operator.example'
      const waiting = await seed.callers(CALLERS - 1, async () => {
        const handle = seed.name('jkt:')
        const { family } = await seed.seedWaiting(database.db, owner, handle, { operator })
        return { family, handle, operator }
      })
      const approvals = Promise.all(waiting.map(item => approve(owner, item)))
      await inTransaction(database.db, tx => blockOperator(tx, owner, operator, seed.ACTOR))
      await approvals
      for (const { handle, family } of waiting) {
        expect((await readConnection(database.db, owner, handle))?.status).not.toBe('active')
        expect(await inTransaction(database.db, tx => collectFamily(tx, owner, family))).toBe(false)
      }
    })
  })
})

describe("awaiting-owner: the owner's one decision", () => {
  it('of 16 approvals and 16 denials exactly one decides', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await seed.seedOwner(database.db)
      const handle = seed.name('jkt:')
      const { family } = await seed.seedWaiting(database.db, owner, handle)
      const outcomes = await seed.callers(CALLERS, n =>
        n % 2 === 0 ? approve(owner, { family, handle }) : deny(owner, family),
      )
      expect(winners(outcomes)).toBe(1)
      const admitted = (await readConnection(database.db, owner, handle)) !== undefined
      expect(outcomes.findIndex(Boolean) % 2 === 0).toBe(admitted)
    })
  })

  it('no poll erases a decision that races with it', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async n => {
      const owner = await seed.seedOwner(database.db)
      const handle = seed.name('jkt:')
      const { family, ticketHash } = await seed.seedWaiting(database.db, owner, handle)
      let ticket = ticketHash
      const polls = (async () => {
        for (let poll = 0; poll < CALLERS - 1; poll++) {
          const next = seed.bytes()
          const seen = await presentTicket(database.db, {
            owner,
            hash: ticket,
            nextHash: next,
            awaitingSeconds: 600,
            pollSeconds: 0,
          })
          expect(seen?.state).toBe('awaiting_owner')
          ticket = next
        }
      })()
      const decided = await (n % 2 === 0 ? approve(owner, { family, handle }) : deny(owner, family))
      await polls
      expect(decided).toBe(true)
      const last = await present(owner, ticket)
      expect(last?.decision).toBe(n % 2 === 0 ? 'approved' : 'denied')
    })
  })

  it('an approval collected by 32 polls is granted once', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const owner = await seed.seedOwner(database.db)
      const handle = seed.name('jkt:')
      const { family } = await seed.seedWaiting(database.db, owner, handle)
      expect(await approve(owner, { family, handle })).toBe(true)
      const outcomes = await seed.callers(CALLERS, () =>
        inTransaction(database.db, tx => collectFamily(tx, owner, family)),
      )
      expect(winners(outcomes)).toBe(1)
    })
  })
})
