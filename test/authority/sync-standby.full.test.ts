/**
 * A synchronous standby that takes over, and an authority that answers nothing which it does not have:
 * contract, "What the service does" (row 9: revocation is immediate), "Errors" (503).
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterEach, expect, it } from 'vitest'
import {
  startEmbeddedPair,
  startRestartablePostgres,
  type PostgresPair,
} from '../../src/dev/stack/embedded-postgres.ts'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { watchStandby } from '../../src/storage/core/standby.ts'
import { startTestAuthority, type Reply, type TestAuthority } from '../support/authority.ts'
import { embeddedPair } from '../support/embedded-pair.ts'
import { killFamily } from '../support/process-family.ts'
import { describeWith, type Requirement } from '../support/requirement.ts'
import { severableLink, type SeverableLink } from '../support/severable-link.ts'
import { callWithPat, decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

interface Stand {
  pair: PostgresPair
  /** By which the standby follows the primary. */
  following: SeverableLink
  /** At the primary, and wants a standby. */
  authority: TestAuthority
  /** Makes the standby a primary; answers an authority over it. */
  takenOver: () => Promise<TestAuthority>
}

async function installedPostgres(): Promise<Requirement<true>> {
  const pair = await embeddedPair()
  if ('missing' in pair) return pair
  await pair.found.stop()
  return { found: true }
}

const WANTED = { UMA_AS_REQUIRE_SYNC_STANDBY: 'true' }
const closing: (() => Promise<void>)[] = []

async function pairOf(): Promise<Pick<Stand, 'pair' | 'following'>> {
  let following: SeverableLink | undefined
  const through = async (url: string): Promise<string> => {
    following = await severableLink(url)
    return following.url
  }
  const pair = await startEmbeddedPair({ synchronous: true, through })
  closing.push(
    () => following!.close(),
    () => pair.stop(),
  )
  await AUTHORITY_DATABASE.migrate(pair.primary.url)
  return { pair, following: following! }
}

async function standOf(): Promise<Stand> {
  const { pair, following } = await pairOf()
  const authority = await startTestAuthority({
    environment: { ...WANTED, DATABASE_URL: pair.primary.url, UMA_AS_DATABASE_WAIT_SECONDS: '60' },
  })
  closing.unshift(() => authority.close())
  const takenOver = async (): Promise<TestAuthority> => {
    const standby = new Client({ connectionString: pair.standby.url })
    await standby.connect()
    await standby.query('SELECT pg_promote()')
    await standby.end()
    const environment = { DATABASE_URL: pair.standby.url, UMA_AS_REQUIRE_SYNC_STANDBY: 'false' }
    const next = await startTestAuthority({ beside: authority, environment })
    closing.unshift(() => next.close())
    return next
  }
  return { pair, following, authority, takenOver }
}

const post = (authority: TestAuthority, target: string, json: object) =>
  authority.call(authority.alice, { method: 'POST', target, json })
const revoke = (authority: TestAuthority, { handle }: TestAgent) =>
  post(authority, '/owner/connections/revoke', { handle })
/** `active`, or why there is no answer. */
const introspected = async (authority: TestAuthority, token: string): Promise<unknown> => {
  const { status, body } = await protectionCall(authority, '/introspect', { token })
  return status === 200 ? (body as { active: boolean }).active : status
}
/** A PAT is asked for first, which is refused alike. */
const outcome = (asked: Promise<unknown>): Promise<unknown> =>
  asked.catch((error: unknown) => (/answered 503|\b503\b/.test(String(error)) ? 503 : error))
/** The terms are of one operation each. */
const OPERATION = { operation: { tool: 'place_trade', params: { isin: 'DE0001102580', amount: 5 } } }
const isAcknowledged = ({ status }: Reply): boolean => status >= 200 && status < 300

const isConsumedNow = async (authority: TestAuthority, token: string): Promise<boolean> => {
  const { status, body } = await protectionCall(authority, '/consume', { token })
  expect(status).toBe(200)
  return (body as { consumed: boolean }).consumed
}

/** `usher authority owner …`, which wants a standby as the server does. */
const command = async (url: string, waitSeconds: number, ...args: string[]): Promise<string> => {
  const environment = { ...WANTED, DATABASE_URL: url, UMA_AS_DATABASE_WAIT_SECONDS: String(waitSeconds) }
  const ran = await promisify(execFile)(process.execPath, [usherProgram(), 'authority', 'owner', ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...environment },
  })
  return ran.stdout
}

afterEach(async () => {
  for (const close of closing.splice(0)) await close().catch(() => undefined)
})

describeWith(await installedPostgres(), 'An authority that requires a synchronous standby', () => {
  it('answers no introspection within 6 seconds of being cut off, while another revokes at the standby', async () => {
    const { following, authority, takenOver } = await standOf()
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const pat = await authority.pat()
    const asks = async (): Promise<unknown> => {
      const { status, body } = await callWithPat(authority, pat, '/introspect', { token: rpt })
      return status === 200 ? (body as { active: boolean }).active : status
    }
    expect(await asks()).toBe(true)

    const cutAt = performance.now()
    following.cut()
    const next = await takenOver()
    expect(isAcknowledged(await revoke(next, agent))).toBe(true)
    expect(await introspected(next, rpt)).toBe(false)
    // Whatever the old one says until it is silent, it says before 6 seconds are over.
    let last = performance.now()
    await until(async () => {
      const sentAt = performance.now()
      const said = await asks()
      if (said === true) last = sentAt
      return said === 503
    }, 20_000)
    expect(last - cutAt).toBeLessThan(6_000)
    expect(await asks()).toBe(503)
    const ready = await fetch(`${authority.publicUrl}/ready`)
    expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining('standby')])
    const metrics = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
    expect(Number(/^usher_standby_silent_seconds.* (\S+)$/m.exec(metrics)?.[1])).toBeGreaterThan(5)
  })

  it('acknowledges nothing that the standby does not have, says so as an outage, and goes on once it is back', async () => {
    const { following, authority } = await standOf()
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    following.cut()
    // Its commit waits for the standby until Postgres gives the statement up.
    expect((await revoke(authority, agent)).status).toBe(503)
    expect(await outcome(introspected(authority, rpt))).toBe(503)
    following.mend()
    await until(async () => (await outcome(introspected(authority, rpt))) !== 503)
    expect(isAcknowledged(await revoke(authority, testAgent(authority)))).toBe(false)
    expect(isAcknowledged(await revoke(authority, agent))).toBe(true)
    expect(await introspected(authority, rpt)).toBe(false)
  })

  it('takes a commit for none whose wait for the standby was ended, though Postgres calls it done', async () => {
    const { pair, following, authority } = await standOf()
    const agent = testAgent(authority)
    await agent.granted()
    const administrator = new Client({ connectionString: pair.primary.url })
    await administrator.connect()
    closing.unshift(() => administrator.end())
    following.cut()
    const revoked = revoke(authority, agent)
    await until(async () => {
      const { rowCount } = await administrator.query(
        `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event = 'SyncRep' AND application_name = 'usher'`,
      )
      return (rowCount ?? 0) > 0
    })
    // The last word of the standby is not 5 seconds old.
    expect((await revoked).status).toBe(503)
  })

  it('does not start without one, and names the setting and the remedy', async () => {
    const { pair, following } = await pairOf()
    following.cut()
    const environment = { ...WANTED, DATABASE_URL: pair.primary.url, UMA_AS_DATABASE_WAIT_SECONDS: '1' }
    await expect(startTestAuthority({ environment })).rejects.toThrow(
      /^UMA_AS_REQUIRE_SYNC_STANDBY: .*Start the standby and name it in synchronous_standby_names/,
    )
  })

  it('acknowledges no act of its operator by a command that the standby does not have', async () => {
    const { pair, following, authority, takenOver } = await standOf()
    const { rpt } = await testAgent(authority).granted()
    following.cut()
    await expect(command(pair.primary.url, 1, 'suspend', 'alice')).rejects.toMatchObject({
      stdout: '',
      stderr: expect.stringMatching(/UMA_AS_REQUIRE_SYNC_STANDBY: no synchronous standby/) as string,
    })
    following.mend()
    expect(await command(pair.primary.url, 60, 'suspend', 'alice')).toContain('every grant has ended')
    const next = await takenOver()
    expect(await introspected(next, rpt)).toBe(false)
  })

  it('is not content with names of standbys at a primary that can have none', async () => {
    const server = await startRestartablePostgres({ maxConnections: 20 })
    closing.unshift(() => server.stop())
    const administrator = new Client({ connectionString: server.url })
    await administrator.connect()
    await administrator.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`)
    await administrator.query('ALTER SYSTEM SET max_wal_senders = 0')
    await administrator.end()
    const ended = once(server.process(), 'exit')
    server.process().kill('SIGINT')
    await ended
    await server.startAgain()
    const watch = watchStandby({ url: server.url, waitSeconds: 0, onTurn: () => undefined })
    await expect(watch).rejects.toThrow('max_wal_senders of the primary is 0')
  })

  it('loses no acknowledged revoke, block, consume or decision when the primary is killed under load', async () => {
    const { pair, authority, takenOver } = await standOf()
    /** Keyed by what was done: a token, an origin, a ticket. */
    const acknowledged = {
      revoked: [] as string[],
      blocked: [] as string[],
      consumed: [] as string[],
      decided: [] as string[],
    }
    const killed = new AbortController()
    const rounds = {
      revoked: async (agent: TestAgent) => {
        const { rpt } = await agent.granted()
        return isAcknowledged(await revoke(authority, agent)) ? rpt : undefined
      },
      blocked: async (agent: TestAgent) => {
        const origin = `https://${agent.key.thumbprint.toLowerCase().replaceAll(/[^a-z0-9]/g, 'x')}.example`
        return isAcknowledged(await post(authority, '/owner/operators/block', { origin }))
          ? origin
          : undefined
      },
      consumed: async (agent: TestAgent) => {
        const { rpt } = await agent.granted('place_trade', OPERATION)
        return (await isConsumedNow(authority, rpt)) ? rpt : undefined
      },
      decided: async (agent: TestAgent) => {
        const { body } = await agent.ask('place_trade', OPERATION)
        const ticket = (body as { ticket: string }).ticket
        return isAcknowledged(await decide(authority, agent.handle, 'approved')) ? ticket : undefined
      },
    }
    const loops = Object.entries(rounds).map(async ([what, round]) => {
      while (!killed.signal.aborted) {
        const proof = await round(testAgent(authority)).catch((error: unknown) => {
          if (!killed.signal.aborted) throw error
        })
        if (proof !== undefined) acknowledged[what as keyof typeof rounds].push(proof)
      }
    })
    const enough = until(() => Object.values(acknowledged).every(({ length }) => length >= 5))
    await Promise.race([enough, Promise.all(loops)])
    killed.abort()
    await killFamily(pair.primary.pid!)
    await Promise.all(loops)

    const next = await takenOver()
    for (const rpt of acknowledged.revoked) expect(await introspected(next, rpt)).toBe(false)
    const { body } = await next.call(next.alice, { target: '/owner/operators?limit=1000' })
    const blocked = (body as { origin: string; blocked: boolean }[]).filter(one => one.blocked)
    expect(blocked.map(({ origin }) => origin)).toEqual(expect.arrayContaining(acknowledged.blocked))
    for (const rpt of acknowledged.consumed) expect(await isConsumedNow(next, rpt)).toBe(false)
    for (const ticket of acknowledged.decided) {
      const collected = await testAgent(next).present(ticket)
      expect([collected.status, typeof collected.body.access_token]).toEqual([200, 'string'])
    }
  }, 180_000)
})
