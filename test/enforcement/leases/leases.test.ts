/**
 * Contract, "Grant (RPT) liveness", and ADR 0021: under a lease an answer is used again, never for longer
 * than the authority waits, and never once it has asked for it to be dropped. An authority written by hand,
 * and clocks that the test moves.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../../src/enforcement/authorities/authority-client.ts'
import { createAuthorityOffers } from '../../../src/enforcement/authorities/authority-offers.ts'
import { deadlineAt } from '../../../src/enforcement/deadline.ts'
import type { Introspection } from '../../../src/enforcement/introspection.ts'
import { createLeases, type Leases } from '../../../src/enforcement/leases/leases.ts'
import { createJwksCache } from '../../../src/http/outbound/jwks-cache.ts'
import { createOutbound } from '../../../src/http/outbound/outbound.ts'
import { createOutboundStreams } from '../../../src/http/outbound/outbound-stream.ts'
import { createLogger } from '../../../src/http/telemetry/log.ts'
import { asClientId, asOwner } from '../../../src/wire/identifiers.ts'
import { startLeasingAuthority, type LeasingAuthority } from '../../support/leasing-authority.ts'
import { until } from '../../support/until.ts'
import { newKey } from '../calls.ts'

const METADATA = '/.well-known/agents-configuration'
const agent = newKey()
/** Where the clock of the wall began, and the milliseconds that both have been moved by. */
let start = 0
let moved = { forward: 0, wall: 0 }
let authority: LeasingAuthority
let client: AuthorityClient
let leases: Leases
let closing: (() => Promise<void>)[]
let lines: string[]
const counted = { kept: 0, asked: 0, held: 0, invalidated: 0 }

beforeEach(async () => {
  moved = { forward: 0, wall: 0 }
  lines = []
  Object.assign(counted, { kept: 0, asked: 0, held: 0, invalidated: 0 })
  authority = await startLeasingAuthority(agent)
  const pools = {
    challenges: createOutbound({ devLoopback: true }),
    grants: createOutbound({ devLoopback: true }),
  }
  const streams = createOutboundStreams({ devLoopback: true })
  const offers = createAuthorityOffers({ outbound: pools.challenges, clock: Date.now })
  start = Date.now()
  leases = createLeases({
    clocks: { forward: () => moved.forward, wall: () => start + moved.wall },
    offers,
    logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
    metrics: {
      judged: by => counted[by]++,
      registered: () => counted.held++,
      ended: () => counted.held--,
      invalidated: () => counted.invalidated++,
    },
  })
  const about = { owner: asOwner('alice'), authority: authority.issuer }
  client = createAuthorityClient({
    ...about,
    resource: 'https://tools.example.com/mcp/alice',
    client_id: asClientId('tools'),
    credential: { kind: 'secret', secret: 'shh' },
    pools,
    keys: createJwksCache({ outbound: pools.challenges, clock: Date.now }),
    offers,
    leases: { streams, hold: door => leases.of(about, door) },
    clock: Date.now,
  })
  closing = [
    () => leases.close(),
    () => streams.close(),
    () => pools.challenges.close(),
    () => pools.grants.close(),
    () => authority.close(),
  ]
})
afterEach(async () => {
  for (const close of closing) await close()
})

const advance = (ms: number, clocks: ('forward' | 'wall')[] = ['forward', 'wall']): void => {
  for (const clock of clocks) moved[clock] += ms
}
const introspect = (token: string): Promise<Introspection> =>
  client.introspect(token, deadlineAt(Date.now() + 10_000, Date.now))
/** Whether the authority was asked, or an earlier answer was used. */
const judged = async (token: string): Promise<'kept' | 'asked'> => {
  const before = authority.asked.length
  const answer = await introspect(token)
  const by = authority.asked.length > before ? 'asked' : 'kept'
  expect(answer.active && answer.leased).toBe(by === 'kept' ? true : answer.active ? undefined : false)
  return by
}
const newest = () => authority.holders.at(-1)!
const renewedAgain = async (): Promise<void> => {
  const { renewals } = newest()
  // The second of them was sent after this was called.
  await until(() => newest().renewals > renewals + 1)
}
/** A grant of which an answer is kept. */
async function kept(lie?: Record<string, unknown>): Promise<string> {
  const token = authority.issue(lie)
  await introspect(token)
  await until(async () => (await judged(token)) === 'kept')
  return token
}

describe('An answer that has a lease is used again', () => {
  test('for calls that begin within 1.9 s of the question, and the next one asks anew', async () => {
    const token = await kept()
    advance(1_000)
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(899)
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(1)
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('kept')
    expect(authority.holders).toHaveLength(1)
    expect(authority.asked.at(-1)).toEqual({ token, lease: newest().id })
  })

  test('counted from when the question was sent, however late its answer came', async () => {
    const first = await kept()
    const token = authority.issue()
    authority.does.beforeAnswer = () => advance(1_500)
    expect(await judged(token)).toBe('asked')
    authority.does.beforeAnswer = () => undefined
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(400)
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
    expect(first).not.toBe(token)
  })

  test.each([
    [700, 699, 700],
    [60_000, 1_899, 1_900],
  ])('for the smaller of what the authority says (%s ms) and 1.9 s', async (leaseMs, last, first) => {
    authority.does.leaseMs = leaseMs
    const token = await kept()
    advance(last)
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(first - last)
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
  })

  test('for less if a machine slept, or its clock was set: the clock that says more counts', async () => {
    const token = await kept()
    advance(1_900, ['wall'])
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
    advance(-3_600_000, ['wall'])
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(1_900, ['forward'])
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
  })

  test('not if no renewal was answered for 1.9 s', async () => {
    const token = await kept()
    authority.does.renews = 'never answers'
    advance(1_000)
    const other = authority.issue()
    expect(await judged(other)).toBe('asked')
    expect(await judged(other)).toBe('kept')
    advance(900)
    expect(await judged(other)).toBe('asked')
    expect(await judged(other)).toBe('asked')
    expect(await judged(token)).toBe('asked')
  })

  test('not beyond the end of the grant', async () => {
    const exp = Math.floor(start / 1_000) + 10
    advance(exp * 1_000 - 1_500 - start)
    const token = await kept({ exp })
    advance(1_499)
    await renewedAgain()
    expect(await judged(token)).toBe('kept')
    advance(1)
    await renewedAgain()
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('asked')
  })

  test('and the numbers tell by what calls were judged', async () => {
    const before = counted.asked
    const token = await kept()
    await judged(token)
    expect(counted.kept).toBeGreaterThanOrEqual(2)
    expect(counted.asked - before).toBe(authority.asked.length)
    expect(counted.held).toBe(1)
  })
})

describe('What the authority asks to be dropped', () => {
  test('is dropped and acknowledged at once, and asked about anew', async () => {
    const token = await kept()
    authority.end(token)
    authority.invalidate(1)
    await until(() => newest().acknowledged === 1)
    expect(await introspect(token)).toEqual({ active: false, reason: 'connection_revoked' })
    expect(counted.invalidated).toBe(1)
  })

  test('is dropped, too, if the answer to a renewal alone tells of it', async () => {
    const token = await kept()
    authority.does.renewalAsks = 3
    await until(() => newest().acknowledged === 3)
    expect(await judged(token)).toBe('asked')
    expect(authority.holders).toHaveLength(1)
  })

  test('is dropped each time that it asks, also if it counts from the same number again', async () => {
    const token = await kept()
    for (const round of [1, 2]) {
      authority.invalidate(1)
      await until(() => counted.invalidated === round)
      expect(await judged(token)).toBe('asked')
      expect(await judged(token)).toBe('kept')
    }
  })

  test('goes for an answer that is still on its way: it serves its own call and no other', async () => {
    await kept()
    const token = authority.issue()
    authority.does.beforeAnswer = async () => {
      authority.end(token)
      authority.invalidate(1)
      await until(() => newest().acknowledged === 1)
    }
    expect(await introspect(token)).toMatchObject({ active: true })
    authority.does.beforeAnswer = () => undefined
    expect(await introspect(token)).toEqual({ active: false, reason: 'connection_revoked' })
  })
})

describe('When the lease ends', () => {
  test('with its stream, nothing is used until there is another, which replaces it', async () => {
    const token = await kept()
    const { id, stream } = newest()
    authority.does.registers = 'never answers'
    stream.destroy()
    await until(() => authority.server.to('/leases').length === 2)
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('asked')
    expect(authority.asked.at(-1)!.lease).toBeUndefined()
    expect(JSON.parse(authority.server.to('/leases')[1]!.body.toString())).toEqual({ replaces: id })
  })

  test('for a moment, the next call but a few is judged by a kept answer again', async () => {
    const token = await kept()
    newest().stream.end()
    await until(() => authority.holders.length === 2)
    await until(async () => (await judged(token)) === 'kept')
    expect(newest().replaces).toBe('lease-1')
    expect(lines).toEqual([])
  })

  test('because the authority knows it no more, nothing is used and it is registered anew', async () => {
    const token = await kept()
    authority.does.registers = 'never answers'
    authority.does.renews = 404
    await until(() => authority.server.to('/leases').length === 2)
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('asked')
  })

  test.each([
    ['what is no JSON', 'event: invalidate\ndata: {\n\n'],
    ['no number', 'event: invalidate\ndata: {"asked":"all"}\n\n'],
    ['an endless line', `data: ${'x'.repeat(70_000)}`],
  ])('because it told %s, nothing is used', async (_what, bytes) => {
    const token = await kept()
    authority.does.registers = 'never answers'
    newest().stream.write(bytes)
    await until(() => authority.server.to('/leases').length === 2)
    expect(await judged(token)).toBe('asked')
  })

  test('since nobody called for a minute, the authority is told so, and the next call begins anew', async () => {
    const token = await kept()
    advance(60_000)
    await until(() => newest().ended)
    expect(await judged(token)).toBe('asked')
    await until(() => authority.holders.length === 2)
    expect(newest().replaces).toBeUndefined()
  })

  test('and an answer of its last moment comes under the next one, it serves its own call and no other', async () => {
    const token = await kept()
    const isGivenUp = () =>
      authority.server.to('/leases/lease-1').some(({ body }) => body.toString() === '{"end":true}')
    authority.does.renews = 'never answers'
    advance(60_000)
    await until(isGivenUp)
    authority.does.renews = 'gladly'
    authority.does.beforeAnswer = async () => {
      authority.does.beforeAnswer = () => undefined
      await introspect(authority.issue())
      await until(() => authority.holders.length === 2 && newest().renewals > 0)
      // The first holder went before the second came: whoever ended it in between waited for nobody.
      authority.end(token)
    }
    expect(await introspect(token)).toMatchObject({ active: true })
    expect(authority.asked.findLast(one => one.token === token)!.lease).toBe('lease-1')
    expect(await introspect(token)).toEqual({ active: false, reason: 'connection_revoked' })
  })

  test('because the authority counts less than it had asked for, nothing is used and it is registered anew', async () => {
    const token = await kept()
    authority.invalidate(2)
    await until(() => newest().acknowledged === 2)
    authority.does.registers = 'never answers'
    // As of an authority whose database was brought back to an earlier state.
    authority.does.renewalForgets = true
    await until(() => authority.server.to('/leases').length === 2)
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('asked')
  })

  test('with the enforcement point, the authority is told so', async () => {
    await kept()
    await leases.close()
    expect(newest().ended).toBe(true)
    expect(counted.held).toBe(0)
  })
})

describe('The authority is asked about every call', () => {
  test.each<[string, Record<string, unknown>]>([
    ['is for one use', { single_use: true, operation: { tool: 't', params_s256: 's256:x' } }],
    ['several hold', { joint: { account: 'alice' } }],
    ['rests on a decision that she signed', { owner_decision: { item: {}, statement: 'x' } }],
    ['has an answer without a lease', { lease_ms: undefined }],
    ['has an answer with a lease that is no number', { lease_ms: '1900' }],
    ['has an answer with a lease of nothing', { lease_ms: 0 }],
  ])('under a grant that %s', async (_what, lie) => {
    await kept()
    const token = authority.issue(lie)
    expect(await judged(token)).toBe('asked')
    expect(await judged(token)).toBe('asked')
  })

  test.each([0, undefined, 'yes', -1])(
    'if it offers no leases (%s), which one line says; nothing is registered',
    async offers => {
      authority.does.offers = offers
      const token = authority.issue()
      await introspect(token)
      await until(() => authority.server.to(METADATA).length === 1)
      await until(async () => (await introspect(token)) && lines.length > 0)
      for (let calls = 0; calls < 3; calls++) expect(await judged(token)).toBe('asked')
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain('the authority offers no leases')
      expect(authority.server.to('/leases')).toHaveLength(0)
      expect(authority.asked.every(({ lease }) => lease === undefined)).toBe(true)
    },
  )

  test.each([401, 403, 404, 429, 503])('if it refuses one with %s, which one line says', async status => {
    authority.does.registers = status
    const token = authority.issue()
    await until(async () => (await judged(token)) === 'asked' && authority.server.to('/leases').length > 4)
    expect(await judged(token)).toBe('asked')
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain(`the authority answered ${status}`)
    authority.does.registers = 'gladly'
    await until(async () => (await judged(token)) === 'kept')
    expect(lines.map(line => (JSON.parse(line) as { msg: string }).msg).at(-1)).toBe('a lease is held again')
  })
})

test('Several that are asked about at once name the lease once, and each has its own', async () => {
  await kept()
  const tokens = [
    authority.issue(),
    authority.issue({ single_use: true, operation: undefined }),
    authority.issue(),
  ]
  const before = authority.server.to('/introspect').length
  await Promise.all(tokens.map(introspect))
  expect(authority.server.to('/introspect')).toHaveLength(before + 1)
  expect(authority.asked.slice(-3)).toEqual(tokens.map(token => ({ token, lease: newest().id })))
  expect(await judged(tokens[0]!)).toBe('kept')
  expect(await judged(tokens[1]!)).toBe('asked')
  expect(await judged(tokens[2]!)).toBe('kept')
})
