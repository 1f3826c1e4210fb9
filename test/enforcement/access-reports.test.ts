/** Allowed calls on their way to the owner's ledger, past an authority that is slow, away, and back. contract, "Events", 2. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createAccessReports,
  type AccessReports,
  type AccessReportsOptions,
} from '../../src/enforcement/authorities/access-reports.ts'
import {
  createAuthorityClient,
  type AccessEntry,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import { createJwksCache } from '../../src/http/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
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

const entry = (id: string): AccessEntry => ({
  id,
  family: asFamily('fam_x'),
  jti: 'rpt_x',
  tool: 'portfolio_read',
  summary: 's256:x',
  at: 1,
})
const add = (client: AuthorityClient, count: number, name = 'e') => {
  for (let i = 0; i < count; i++) reports.add(client, entry(`${name}${i}`))
}
/** The ids in each request, in order. */
const batches = (at: ScriptedAuthority): string[][] =>
  at.received
    .filter(({ path }) => path === '/audit/access')
    .map(({ body }) => (JSON.parse(body) as { entries: AccessEntry[] }).entries.map(({ id }) => id))

describe('An authority that answers', () => {
  test('is told of calls in batches, in order, each call once', async () => {
    open({ batchMax: 10 })
    add(clientOf(authority), 25)
    await until(() => sent === 25)
    expect(batches(authority).map(({ length }) => length)).toEqual([10, 10, 5])
    expect(batches(authority).flat()).toEqual(Array.from({ length: 25 }, (_, i) => `e${i}`))
    expect([reports.waiting(), dropped]).toEqual([0, []])
  })

  test('and refuses one entry loses that one, and none of those beside it', async () => {
    authority.script('/audit/access', ({ body }) =>
      body.includes('"e3"') ? { status: 400, body: { error: 'invalid_request' } } : { status: 200, body: {} },
    )
    open()
    add(clientOf(authority), 8)
    await until(() => sent + dropped.length === 8)
    expect(dropped).toEqual([[1, 'the authority refused them']])
  })
})

describe('An authority that is away', () => {
  test('is told once it is back, of everything and under the same ids', async () => {
    authority.script('/audit/access', (_received, nth) =>
      nth < 12 ? (nth % 2 ? 'cut' : { status: 503, body: {} }) : { status: 200, body: {} },
    )
    open()
    add(clientOf(authority), 3)
    await until(() => sent === 3)
    expect(new Set(batches(authority).map(ids => ids.join())).size).toBe(1)
    expect([batches(authority).length, dropped]).toEqual([expect.any(Number), []])
    expect(batches(authority).length).toBeGreaterThanOrEqual(12)
  })

  test('keeps no call waiting, and no other authority without its reports', async () => {
    authority.script('/audit/access', 'hang')
    open()
    add(clientOf(authority), 500)
    add(clientOf(other), 5)
    await until(() => sent === 5)
    expect([batches(other).flat().length, reports.waiting()]).toEqual([5, 500])
  })

  test('costs what the queue cannot hold, its own before that of others, all of it counted', async () => {
    authority.script('/audit/access', 'hang')
    other.script('/audit/access', 'hang')
    open({ queueMax: 100, batchMax: 10 })
    const [away, little] = [clientOf(authority), clientOf(other)]
    add(away, 150)
    expect([reports.waiting(), dropped.length]).toEqual([100, 50])
    add(little, 20)
    expect([reports.waiting(), dropped.length]).toEqual([100, 70])
    other.script('/audit/access', undefined)
    await reports.close(400)
    expect(batches(other).flat()).toContain('e0')
    expect(dropped.reduce((sum, [count]) => sum + count, 0) + sent).toBe(170)
  })
})

describe('At the end', () => {
  test('what waits is sent at once, however long it might have waited', async () => {
    open({ gatherMs: 60_000 })
    add(clientOf(authority), 3)
    await reports.close(2_000)
    expect([sent, dropped]).toEqual([3, []])
  })

  test('an authority that is away is asked again, at no great rate, and what it did not take is counted', async () => {
    authority.script('/audit/access', { status: 503, body: {} })
    open()
    add(clientOf(authority), 3)
    await reports.close(450)
    expect(dropped).toEqual([[3, 'there was no time left to send them']])
    expect(batches(authority).length).toBeGreaterThan(1)
    expect(batches(authority).length).toBeLessThan(30)
  })

  test('nothing is taken any more', async () => {
    open()
    await reports.close(10)
    add(clientOf(authority), 1)
    expect([reports.waiting(), dropped.length]).toEqual([0, 1])
  })
})
