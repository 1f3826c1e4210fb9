/**
 * Replicas whose machines' clocks are wrong: they sign by the database's time, and issue nothing if they are
 * too far off. Contract, "Limits" (lifetimes), "Grant (RPT) liveness", "Errors" (503).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { createClock } from '../../src/surface/clock.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { startTestAuthority, type TestAuthority, type TestAuthorityOptions } from '../support/authority.ts'
import { callWithPat, testAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand()

const databaseSeconds = async (): Promise<number> => {
  const { rows } = await sql<{ now: number }>`
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now`.execute(authority.database.db)
  return rows[0]!.now
}
/** A second replica, on a machine whose clock differs. */
async function withReplica(
  localClock: () => number,
  work: (replica: TestAuthority) => Promise<void>,
  environment: TestAuthorityOptions['environment'] = {},
): Promise<void> {
  const replica = await startTestAuthority({ beside: authority, localClock, environment })
  try {
    await work(replica)
  } finally {
    await replica.close()
  }
}
const offBy = (seconds: number) => () => Date.now() + seconds * 1_000

describe.each([1.9, -1.9])('A replica whose clock is off by %d s', seconds => {
  it("grants, and seals tickets, by the database's time", () =>
    withReplica(offBy(seconds), async replica => {
      const before = Math.floor(await databaseSeconds())
      const { rpt } = await testAgent(replica).granted('portfolio_read', { expires_in: 60 })
      const after = await databaseSeconds()
      const { iat, exp } = readRptClaims(rpt)
      expect(exp).toBe(iat + 60)
      // A hundredth for what a reading over the network may be off by.
      expect(iat).toBeGreaterThanOrEqual(before - 0.01)
      expect(iat).toBeLessThanOrEqual(after + 0.01)
      expect((await fetch(`${replica.publicUrl}/ready`)).status).toBe(200)
    }))
})

describe.each([120, -120])('A replica whose clock is off by %d s issues nothing', seconds => {
  it('no grant, no PAT and no ticket: 503, and the ticket that was shown is not spent', () =>
    withReplica(offBy(seconds), async replica => {
      const agent = testAgent(authority)
      const ticket = await agent.ticket()
      const pat = await authority.pat()
      const refused = [
        await testAgent(replica).present(ticket),
        await callWithPat(replica, pat, '/perm', {
          resource_id: 'alice/portfolio',
          resource_scopes: ['read'],
        }),
      ]
      for (const { status, body, headers } of refused) {
        expect([status, body.error]).toEqual([503, 'temporarily_unavailable'])
        expect(body.error_description).toContain('clock')
        expect(headers.get('retry-after')).toBe('1')
      }
      await expect(replica.pat()).rejects.toThrow(/503/)
      expect((await agent.present(ticket)).body.error).toBe('need_info')
    }))

  it('while introspection and consume go on, by the time of the database', () =>
    withReplica(offBy(seconds), async replica => {
      const operation = { operation: { tool: 'place_trade', params: {} } }
      const { rpt } = await testAgent(authority).granted('place_trade', operation)
      const pat = await authority.pat()
      const ask = async (path: string) => callWithPat(replica, pat, path, { token: rpt })
      expect((await ask('/introspect')).body.active).toBe(true)
      expect((await ask('/consume')).body.consumed).toBe(true)
      expect((await ask('/introspect')).body.reason).toBe('already_consumed')
    }))

  it('and says so: /ready is 503 at every listener and /health 200, the metric tells by how much', () =>
    withReplica(offBy(seconds), async replica => {
      for (const listener of [replica.publicUrl, replica.ownerUrl, replica.metricsUrl]) {
        const ready = await fetch(`${listener}/ready`)
        expect(ready.status).toBe(503)
        expect(await ready.json()).toEqual({
          status: 'not_ready',
          because: expect.stringMatching(seconds > 0 ? /120\.\d s ahead of/ : /1(19\.\d|20\.\d) s behind/),
        })
        expect((await fetch(`${listener}/health`)).status).toBe(200)
      }
      const told = await (await fetch(`${replica.metricsUrl}/metrics`)).text()
      const offset = Number(/^usher_clock_offset_seconds (\S+)$/m.exec(told)?.[1])
      expect(Math.abs(offset + seconds)).toBeLessThan(1)
    }))
})

it('a clock that is set while the replica runs stops it at once, and once it is right it issues again', async () => {
  let set = 0
  await withReplica(
    () => Date.now() + set,
    async replica => {
      const agent = testAgent(replica)
      expect((await agent.granted()).rpt).toBeDefined()
      set = 120_000
      await expect(agent.offer()).rejects.toThrow(/503/)
      set = 0
      expect((await agent.ask()).status).toBe(200)
    },
  )
})

describe("A reading of the database's clock", () => {
  /** A clock whose machine shows `local`, after readings `[database's time, how long it took, asked at]`. */
  const after = (local: number, ...readings: [number, number, number, boolean?][]) => {
    const turns: (string | undefined)[] = []
    let at = 0
    const clock = createClock({
      local: () => local + at,
      monotonic: () => at,
      onTurn: fault => turns.push(fault),
    })
    for (const [databaseMs, took, sentAt, fresh = false] of readings) {
      at = sentAt + took
      clock.take({ databaseMs, sentAt, answeredAt: at, fresh })
    }
    return { clock, turns }
  }

  it('is of the middle of the time that it took', () => {
    expect(after(1_000_000, [1_000_050, 100, 0]).clock.offsetSeconds()).toBe(0)
  })
  it('that took long does not replace one that did not', () => {
    expect(after(0, [5, 10, 0], [4_500, 3_000, 2_000]).clock.offsetSeconds()).toBe(0)
  })
  it('that took long does if the one before is old, is of another connection, or cannot be true any more', () => {
    const off = (...second: [number, number, number, boolean?]) =>
      after(0, [5, 10, 0], second).clock.offsetSeconds()
    expect(off(70_700, 1_000, 70_000)).toBeCloseTo(0.2)
    expect(off(10_700, 1_000, 10_000, true)).toBeCloseTo(0.2)
    expect(off(15_700, 1_000, 10_000)).toBeCloseTo(5.2)
  })
  it('tells once that issuing stops, and once that it begins again', () => {
    const { clock, turns } = after(
      0,
      [5, 10, 0],
      [13_005, 10, 10_000],
      [23_005, 10, 20_000],
      [30_005, 10, 30_000],
    )
    expect(turns).toEqual([expect.stringContaining('3.0 s behind'), undefined])
    expect(clock.fault()).toBeUndefined()
  })
  it('is needed before anything is issued', () => {
    expect(after(0).clock.fault()).toMatch(/not read yet/)
  })
})
