/**
 * Allowed calls on their way to the owner's ledger, past an authority that is slow, away, and back. contract,
 * "Events", 2.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createAccessReports,
  type AccessReports,
  type AccessReportsOptions,
} from '../../src/enforcement/authorities/access-reports.ts'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import type { AccessReport } from '../../src/enforcement/reports/outbox.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { reportsIn, sentTo, toldReports, type Sent } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { asClientId, asFamily, asOwner } from '../../src/wire/identifiers.ts'

let authority: ScriptedAuthority
let other: ScriptedAuthority
let outbound: Outbound
let reports: AccessReports
let sent: number
let dropped: [number, string][]

beforeEach(async () => {
  authority = await startScriptedAuthority()
  other = await startScriptedAuthority()
  outbound = createOutbound({ devLoopback: true })
})
afterEach(() => Promise.all([outbound.close(), authority.close(), other.close()]))

function open(options: Partial<AccessReportsOptions> = {}): void {
  sent = 0
  dropped = []
  reports = createAccessReports({
    clock: Date.now,
    gatherMs: 5,
    retryMs: { first: 5, most: 20 },
    onSent: count => (sent += count),
    onDropped: (count, why) => dropped.push([count, why]),
    ...options,
  })
}

const clientOf = ({ issuer }: ScriptedAuthority): AuthorityClient =>
  createAuthorityClient({
    authority: issuer,
    owner: asOwner('alice'),
    resource: 'https://tools.example.com/mcp/alice',
    client_id: asClientId('demo-tools'),
    credential: { kind: 'secret', secret: 'shh' },
    pools: { challenges: outbound, grants: outbound },
    keys: createJwksCache({ outbound, clock: Date.now }),
    clock: Date.now,
  })

/** The tool's name tells one from another. */
const entry = (tool: string): AccessReport => ({
  family: asFamily('fam_x'),
  jti: 'rpt_x',
  tool,
  summary: 's256:x',
  at: 1,
})
const add = (client: AuthorityClient, count: number, name = 'e') => {
  for (let i = 0; i < count; i++) reports.add(client, entry(`${name}${i}`))
}
/** The tools in each request with calls, in order. */
const batches = (at: ScriptedAuthority): string[][] =>
  sentTo(at.received).flatMap(sent => {
    const tools = reportsIn(sent).map(({ tool }) => tool)
    return tools.length === 0 ? [] : [tools]
  })
/** What runs said of themselves. */
const words = (at: ScriptedAuthority): Sent[] =>
  sentTo(at.received).filter(sent => reportsIn(sent).length === 0)
const counted = { status: 200, body: { recorded: 1 } }

describe('An authority that answers', () => {
  test('is told of the first call alone, and then in batches, in order, each call once', async () => {
    open({ batchMax: 10 })
    add(clientOf(authority), 25)
    await until(() => sent === 25)
    expect(batches(authority).map(({ length }) => length)).toEqual([1, 10, 10, 4])
    expect(batches(authority).flat()).toEqual(Array.from({ length: 25 }, (_, i) => `e${i}`))
    expect([reports.waiting(), dropped]).toEqual([0, []])
  })

  test('gets what came during a request together with what comes soon after, not by itself', async () => {
    open({ gatherMs: 2_000 })
    const client = clientOf(authority)
    authority.script('/audit/access', (_received, nth) => {
      if (nth === 2) add(client, 1, 'during')
      return counted
    })
    add(client, 1, 'first')
    await until(() => sent === 1)
    add(client, 1)
    await until(() => sent === 2)
    add(client, 2, 'after')
    await until(() => sent === 5)
    expect(batches(authority)).toEqual([['first0'], ['e0'], ['during0', 'after0', 'after1']])
  })

  test('and refuses one entry loses only that one', async () => {
    authority.script('/audit/access', ({ body }) =>
      body.includes('"e3"') ? { status: 400, body: { error: 'invalid_request' } } : counted,
    )
    open()
    add(clientOf(authority), 8)
    await until(() => sent + dropped.length === 8)
    expect(dropped).toEqual([[1, 'the authority refused them']])
  })
})

describe('An authority whose answer does not say how many it recorded', () => {
  const saysTrue = { status: 200, body: { recorded: true } }

  test('gets each call by itself, as one object with the members of a report, and nothing about a run', async () => {
    authority.script('/audit/access', saysTrue)
    open({ quietMs: 60 })
    add(clientOf(authority), 25)
    await until(() => sent === 25)
    await reports.close(1_000)
    const requests = sentTo(authority.received)
    expect(requests[0]).toEqual({
      ...entry('e0'),
      id: expect.any(String),
      instance: expect.any(String),
      n: 1,
    })
    expect(requests.map(({ tool }) => tool)).toEqual(Array.from({ length: 25 }, (_, i) => `e${i}`))
    expect(dropped).toEqual([])
  })

  test('keeps none of them waiting for others', async () => {
    authority.script('/audit/access', saysTrue)
    open({ gatherMs: 700 })
    add(clientOf(authority), 100)
    // A pause between each two would take longer than this waits.
    await until(() => sent === 100)
  })

  test('has not taken several that were sent together: each is sent again, by itself', async () => {
    authority.script('/audit/access', (_received, nth) => (nth === 1 ? counted : saysTrue))
    open()
    const client = clientOf(authority)
    add(client, 4)
    await until(() => sent === 4)
    expect(batches(authority)).toEqual([['e0'], ['e1', 'e2', 'e3'], ['e1'], ['e2'], ['e3']])
    authority.script('/audit/access', counted)
    add(client, 3, 'later')
    await until(() => sent === 7)
    await reports.close(1_000)
    expect(batches(authority).slice(5)).toEqual([['later0'], ['later1'], ['later2']])
    expect([words(authority), dropped]).toEqual([[], []])
  })
})

describe('An authority that is away', () => {
  test('is told once it is back, of everything and under the same ids', async () => {
    authority.script('/audit/access', (_received, nth) =>
      nth < 12 ? (nth % 2 ? 'cut' : { status: 503, body: {} }) : counted,
    )
    open()
    add(clientOf(authority), 3)
    await until(() => sent === 3)
    expect(batches(authority).length).toBeGreaterThanOrEqual(12)
    expect(new Set(toldReports(authority.received).map(({ id }) => id)).size).toBe(3)
    expect(dropped).toEqual([])
  })

  test('keeps no call waiting, and no other authority without its reports', async () => {
    authority.script('/audit/access', 'hang')
    open()
    add(clientOf(authority), 500)
    add(clientOf(other), 5)
    await until(() => sent === 5)
    expect([batches(other).flat().length, reports.waiting()]).toEqual([5, 500])
  })

  test('loses reports that the queue cannot hold, its own before those of others, and counts them all', async () => {
    authority.script('/audit/access', 'hang')
    other.script('/audit/access', 'hang')
    open({ queueMax: 100, batchMax: 10 })
    const [away, little] = [clientOf(authority), clientOf(other)]
    add(away, 150)
    expect([reports.waiting(), dropped.length]).toEqual([100, 50])
    add(little, 20)
    expect([reports.waiting(), dropped.length]).toEqual([100, 70])
    other.script('/audit/access', undefined)
    await reports.close(3_000)
    expect(batches(other).flat()).toContain('e0')
    expect(dropped.reduce((sum, [count]) => sum + count, 0) + sent).toBe(170)
  })
})

describe('At the end', () => {
  test('what waits is sent at once, however long it might have waited', async () => {
    open({ gatherMs: 600_000 })
    add(clientOf(authority), 3)
    await reports.close(30_000)
    expect([sent, dropped]).toEqual([3, []])
  })

  test('an authority that is away is asked again, at no great rate, and what it did not take is counted', async () => {
    authority.script('/audit/access', { status: 503, body: {} })
    open()
    add(clientOf(authority), 3)
    await reports.close(3_000)
    expect(dropped).toEqual([[3, 'there was no time left to send them']])
    expect(batches(authority).length).toBeGreaterThan(1)
    expect(batches(authority).length).toBeLessThan(200)
  })

  test('nothing is taken any more, and the call of it is not let through', async () => {
    open()
    await reports.close(10)
    const client = clientOf(authority)
    expect(() => reports.ready(client)).toThrow(/about to end/)
    expect(() => add(client, 1)).toThrow(/about to end/)
    expect([reports.waiting(), dropped.length]).toEqual([0, 0])
  })
})

describe('Each report has the name of its run and its number', () => {
  const numbers = (at: ScriptedAuthority) =>
    toldReports(at.received).map(({ instance, n, id }) => ({ instance, n, id }))

  test('from 1 for each authority, with an id made of both', async () => {
    open()
    add(clientOf(authority), 3)
    add(clientOf(other), 2)
    await until(() => sent === 5)
    const [first, second] = [numbers(authority), numbers(other)]
    expect([first.map(({ n }) => n), second.map(({ n }) => n)]).toEqual([
      [1, 2, 3],
      [1, 2],
    ])
    const { instance } = first[0]!
    expect(
      [...first, ...second].every(one => one.instance === instance && one.id === `${instance}.${one.n}`),
    ).toBe(true)
  })

  test('and one that was lost leaves its number out', async () => {
    authority.script('/audit/access', 'hang')
    open({ queueMax: 2, batchMax: 2 })
    const client = clientOf(authority)
    add(client, 2)
    await until(() => authority.count('/audit/access') === 1)
    add(client, 3, 'lost')
    expect(dropped).toHaveLength(3)
    authority.script('/audit/access', undefined)
    await until(() => sent === 2)
    add(client, 1, 'later')
    await until(() => sent === 3)
    expect(numbers(authority).at(-1)!.n).toBe(6)
  })

  test('entries that the authority cannot place are counted as lost', async () => {
    authority.script('/audit/access', ({ body }) => ({
      status: 200,
      body: body.includes('"entries"') ? { recorded: 1, unknown: ['x'] } : { recorded: 1 },
    }))
    open()
    add(clientOf(authority), 3)
    await until(() => sent + dropped.length === 3)
    expect(dropped).toEqual([[1, 'the authority knows no such grant']])
  })

  test('a clean end says the last number, also of what could not be sent', async () => {
    other.script('/audit/access', ({ body }, nth) =>
      nth > 1 && body.includes('"tool"') ? { status: 503, body: {} } : counted,
    )
    open()
    add(clientOf(authority), 3)
    add(clientOf(other), 2)
    await reports.close(1_000)
    expect([words(authority), words(other)]).toEqual([
      [{ instance: expect.any(String), n: 3, ended: true }],
      [{ instance: expect.any(String), n: 2, ended: true }],
    ])
  })

  test('a run that has nothing to report says now and then how far it has come', async () => {
    open({ quietMs: 60 })
    add(clientOf(authority), 3)
    await until(() => words(authority).length >= 2)
    expect(words(authority)[0]).toEqual({ instance: expect.any(String), n: 3, ended: false })
    await reports.close(1_000)
  })
})
