/**
 * Contract, "Tally for a jointly held resource": a tally asks the servers of holders, and an answer that says
 * nothing about the holder never counts as hers: it is asked again, or told as an outage.
 */
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { LEASE_SECONDS } from '../../src/storage/tally/answers.ts'
import {
  HOLDER_TIMEOUT_MS,
  createHolderClient,
  type HolderClient,
  type VerdictQuestion,
} from '../../src/tally/holders/client.ts'
import { createQuotes } from '../../src/tally/negotiation/quotes.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'
import { startTestHolder, type TestHolder } from '../support/holder.ts'
import { mandateOf, TALLY } from '../support/joint.ts'
import type { Reply } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'
import { newKey } from '../support/wire-samples.ts'

let holder: TestHolder
let outbound: Outbound
let client: HolderClient
beforeEach(async () => {
  holder = await startTestHolder()
  outbound = createOutbound({ devLoopback: true })
  client = clientOver(outbound)
})
afterEach(async () => {
  await outbound.close()
  await holder.close()
})

function clientOver(through: Outbound): HolderClient {
  const now = (): number => Math.floor(Date.now() / 1000)
  return createHolderClient({ issuer: TALLY, key: newKey(), outbound: through, now })
}

const account = asOwner('family-1')
const asked = () => ({
  owner: asOwner('bea'),
  issuer: holder.issuer,
  account,
  resource_id: 'family-1/savings',
})
const question = (): VerdictQuestion => ({
  ...asked(),
  negotiation: asFamily('fam_1'),
  contract: 's256:agreement',
  agreement: 'e30.e30.AA',
  final: true,
})

/** An answer with a status, and nothing to read. */
const STATUSES: [string, Reply, object][] = [
  ...[401, 408, 425, 429, 500, 502, 503].map((status): [string, Reply, object] => [
    String(status),
    { status, body: { error: 'x' } },
    { silent: `it answered ${status}` },
  ]),
  ...[400, 403, 404, 410, 422].map((status): [string, Reply, object] => [
    String(status),
    { status, body: { error: 'x' } },
    { refused: status },
  ]),
]
const cut = (response: ServerResponse): void => void response.destroy()
const JUNK: [string, Reply, object][] = [
  ['200 that is no JSON', { body: 'yes' }, { silent: expect.any(String) as string }],
  ['200 with a list', { body: [] }, { silent: expect.any(String) as string }],
  ['200 that says nothing', { body: {} }, { silent: expect.any(String) as string }],
  [
    '200 longer than any answer',
    { body: { pad: 'x'.repeat(100_000) } },
    { silent: expect.any(String) as string },
  ],
  [
    '301 to elsewhere',
    { status: 301, headers: { location: 'http://127.0.0.1:1/' } },
    { silent: 'it answered 301' },
  ],
  ['a connection that is cut', { write: cut }, { silent: expect.any(String) as string }],
]

describe('an answer to the question for a verdict', () => {
  test.each([...STATUSES, ...JUNK])('%s is taken for what it says of the holder', async (_, reply, heard) => {
    holder.server.script('/joint/verdict', reply)
    expect(await client.ask(question())).toEqual(heard)
  })

  test('that says pending without saying whether she is ready is no answer', async () => {
    holder.server.script('/joint/verdict', { body: { pending: true, family: 'fam_x' } })
    expect(await client.ask(question())).toEqual({ silent: expect.any(String) as string })
  })

  test.each(['404', '503'])('%s has the address of her server looked up again', async status => {
    holder.server.script('/joint/verdict', { status: Number(status), body: {} })
    await client.ask(question())
    await client.ask(question())
    expect(holder.server.to('/.well-known/agents-configuration')).toHaveLength(2)
    holder.server.script('/joint/verdict', { body: { closed: true } })
    await client.ask(question())
    expect(await client.ask(question())).toEqual({ closed: true })
    expect(holder.server.to('/.well-known/agents-configuration')).toHaveLength(3)
  })

  test('is given up in one time for all that it takes, the address included, before her lease ends', async () => {
    holder.server.script('/joint/verdict', { write: () => new Promise(() => undefined) })
    holder.server.script('/.well-known/agents-configuration', async () => {
      const since = performance.now()
      await until(() => performance.now() - since > HOLDER_TIMEOUT_MS / 8)
      return undefined
    })
    let addressMs = 0
    const allowedMs: (number | undefined)[] = []
    const timed: Outbound = {
      ...outbound,
      getJson: async (url, options) => {
        const since = performance.now()
        return outbound.getJson(url, options).finally(() => (addressMs = performance.now() - since))
      },
      request: message => {
        allowedMs.push(message.timeoutMs)
        return outbound.request(message)
      },
    }
    expect(await clientOver(timed).ask(question())).toEqual({ silent: 'timeout' })
    // What the address took is gone from the time for the question; a part of a millisecond may be given.
    expect(allowedMs).toHaveLength(1)
    expect(allowedMs[0]).toBeLessThanOrEqual(HOLDER_TIMEOUT_MS - addressMs + 1)
    expect(HOLDER_TIMEOUT_MS).toBeLessThan(LEASE_SECONDS * 1_000)
  })

  test('from a server whose endpoints are at another origin is asked for nowhere', async () => {
    const other = await startTestHolder()
    try {
      holder.server.script('/.well-known/agents-configuration', {
        body: {
          issuer: holder.issuer,
          token_endpoint: `${holder.issuer}/token`,
          jwks_uri: `${holder.issuer}/jwks`,
          joint_quote_endpoint: `${holder.issuer}/joint/quote`,
          joint_verdict_endpoint: `${other.issuer}/joint/verdict`,
        },
      })
      expect(await client.ask(question())).toEqual({
        silent: expect.stringContaining('another origin') as string,
      })
      expect(other.server.received).toEqual([])
    } finally {
      await other.close()
    }
  })
})

describe('the offers of holders', () => {
  /** Milliseconds that a test lets pass. */
  let clock: number
  beforeEach(() => void (clock = 0))
  const mandate = () =>
    mandateOf({
      holders: [
        { owner: 'bea', issuer: holder.issuer, weight: 1 },
        { owner: 'carl', issuer: holder.issuer, weight: 1 },
      ],
    })
  const quotes = () => createQuotes(client, () => clock)
  const requests = (): number => holder.server.to('/joint/quote').length
  const OUTAGE = { code: 'temporarily_unavailable', status: 503 }

  test.each([...STATUSES, ...JUNK])('%s: an outage, or an offer of nothing', async (_, reply, heard) => {
    holder.server.script('/joint/quote', reply)
    const folded = quotes().folded(mandate(), 'family-1/savings')
    if ('refused' in heard) expect(await folded).toEqual({ terms: undefined, weight: 0 })
    else await expect(folded).rejects.toMatchObject(OUTAGE)
  })

  test('of another resource than was asked about are an outage', async () => {
    holder.server.script('/joint/quote', { body: { owner: 'bea', tier: { resources: ['family-1/other'] } } })
    await expect(quotes().folded(mandate(), 'family-1/savings')).rejects.toMatchObject(OUTAGE)
  })

  test('are asked for once by many that come together, and kept for 30 s, each for its resource', async () => {
    const kept = quotes()
    const savings = () => kept.folded(mandate(), 'family-1/savings')
    const [first, ...others] = await Promise.all(Array.from({ length: 8 }, savings))
    expect(first!.weight).toBe(2)
    for (const other of others) expect(other).toBe(first)
    expect(requests()).toBe(2)
    await kept.folded(mandate(), 'family-1/deposit')
    expect(requests()).toBe(4)
    clock = 29_999
    await savings()
    expect(requests()).toBe(4)
    clock = 30_000
    await savings()
    expect(requests()).toBe(6)
  })

  test('that failed are asked for again at once, and no caller but those that waited is told of it', async () => {
    const kept = quotes()
    holder.server.script('/joint/quote', { status: 500, body: {} })
    await expect(kept.folded(mandate(), 'family-1/savings')).rejects.toMatchObject(OUTAGE)
    holder.server.script('/joint/quote', () => undefined)
    expect(await kept.folded(mandate(), 'family-1/savings')).toMatchObject({ weight: 2 })
  })

  test('that fail late cost nothing of those that were asked for meanwhile', async () => {
    const kept = quotes()
    const held: ((reply: Reply) => void)[] = []
    holder.server.script('/joint/quote', () => new Promise<Reply>(resolve => held.push(resolve)))
    const late = kept.folded(mandate(), 'family-1/savings')
    const failed = expect(late).rejects.toMatchObject(OUTAGE)
    await until(() => held.length === 2)
    clock = 30_000
    holder.server.script('/joint/quote', () => undefined)
    expect(await kept.folded(mandate(), 'family-1/savings')).toMatchObject({ weight: 2 })
    for (const answer of held) answer({ status: 500, body: {} })
    await failed
    await kept.folded(mandate(), 'family-1/savings')
    expect(requests()).toBe(4)
  })

  test('of a server that never answers are given up, as an outage', async () => {
    holder.server.script('/joint/quote', { write: () => new Promise(() => undefined) })
    const before = performance.now()
    await expect(quotes().folded(mandate(), 'family-1/savings')).rejects.toMatchObject(OUTAGE)
    expect(performance.now() - before).toBeLessThan(30_000)
  })
})
