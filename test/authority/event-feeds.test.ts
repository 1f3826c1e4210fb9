/** How events reach many streams: contract, "Events", "Owner API" (`/owner/events`), "Limits". */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { appendEvent } from '../../src/storage/authority/ledger/events.ts'
import { insertDeviceKey, revokeDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { inTransaction, STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { EventStreamReader } from '../../src/wire/event-stream.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { TestOwner } from '../support/authority.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { authorityStand } from '../support/stands.ts'

const PER_OWNER = 12
const IN_ALL = 15
const WAIT = { timeout: 60_000, interval: 10 }
const authority = authorityStand({
  owners: ['alice', 'bea'],
  environment: { UMA_AS_STREAMS_PER_OWNER: String(PER_OWNER), UMA_AS_STREAMS_MAX: String(IN_ALL) },
})

const append = (data: Record<string, unknown>, owner = asOwner('alice')) =>
  inTransaction(authority.database.db, tx => appendEvent(tx, owner, 'decided', data))

interface Stream {
  numbers: number[]
  ended: Promise<void>
  close(): void
}

/**
 * Opens a stream that stays open, as soon as those of the previous test have given their places back; closed
 * with the test.
 */
const open = (owner: TestOwner = authority.alice): Promise<Stream> => vi.waitFor(() => tryOpen(owner), WAIT)

async function tryOpen(owner: TestOwner): Promise<Stream> {
  const { url, headers } = authority.prepare(owner, { target: '/owner/events' })
  const gone = new AbortController()
  onTestFinished(() => gone.abort())
  const response = await fetch(url, { headers, signal: gone.signal })
  if (response.status !== 200) throw new Error(await response.text())
  const reader = new EventStreamReader()
  const numbers: number[] = []
  const stands = Promise.withResolvers<void>()
  const ended = (async () => {
    for await (const chunk of response.body!) {
      for (const { data } of reader.read(chunk)) numbers.push((JSON.parse(data) as { n: number }).n)
      stands.resolve()
    }
  })().catch(() => undefined)
  await stands.promise
  return { numbers, ended, close: () => gone.abort() }
}

const refusal = async (owner: TestOwner) => {
  const { status, body, headers } = await authority.call(owner, { target: '/owner/events' })
  return {
    status,
    error: body.error,
    says: body.error_description as string,
    retry: headers.get('retry-after'),
  }
}

describe('Many streams of one owner', () => {
  it('are served by one look at the store, however many they are', async () => {
    const streams: Stream[] = []
    for (let n = 0; n < PER_OWNER; n++) streams.push(await open())
    const sent: string[] = []
    const note = (statement: unknown): void => void sent.push((statement as SentStatement).text)
    subscribe(STATEMENTS_CHANNEL, note)
    try {
      await append({ n: 1 })
      await vi.waitFor(
        () => expect(streams.map(({ numbers }) => numbers)).toEqual(streams.map(() => [1])),
        WAIT,
      )
    } finally {
      unsubscribe(STATEMENTS_CHANNEL, note)
    }
    const looks = sent.filter(text => /SELECT seq AS id, event, data FROM events/.test(text))
    const proofs = sent.filter(text => /FROM device_keys/.test(text))
    // One for what was announced, the one after it that finds nothing more, and on a busy machine the first
    // ones of streams that had just been opened: far from one for each stream.
    expect(looks.length).toBeLessThan(PER_OWNER / 2)
    expect(proofs.length).toBeLessThan(PER_OWNER / 2)
  })

  it('each get every event once and in order, though many are written while they come and go', async () => {
    const steady = [await open(), await open()]
    const total = 300
    const writing = (async () => {
      for (let n = 0; n < total; n++) await append({ n: 1_000 + n })
    })()
    for (let n = 0; n < 10; n++) (await open()).close()
    await writing
    const all = Array.from({ length: total }, (_, n) => 1_000 + n)
    await vi.waitFor(() => expect(steady.map(({ numbers }) => numbers)).toEqual([all, all]), {
      ...WAIT,
      timeout: 30_000,
    })
  })

  it('one that takes nothing holds up no other', async () => {
    const { url, headers } = authority.prepare(authority.alice, { target: '/owner/events' })
    const { hostname, port, pathname, host } = new URL(url)
    const slow = connect(Number(port), hostname)
    onTestFinished(() => void slow.destroy())
    const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    const stands = new Promise(resolve => slow.once('data', resolve))
    slow.write(`GET ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n`)
    await stands
    slow.pause()
    const quick = await open()
    const filling = 'x'.repeat(200_000)
    for (let n = 0; n < 40; n++) await append({ n, filling })
    await vi.waitFor(() => expect(quick.numbers).toEqual(Array.from({ length: 40 }, (_, n) => n)), WAIT)
    // Once it takes them it gets them all: nothing was kept for it but its place.
    let text = ''
    slow.on('data', chunk => (text += chunk.toString('latin1')))
    slow.resume()
    await vi.waitFor(
      () => expect(text.match(/"n":\d+/g)).toEqual(Array.from({ length: 40 }, (_, n) => `"n":${n}`)),
      WAIT,
    )
  })

  it('end one by one: that whose credential is revoked, and no other', async () => {
    const key = importPrivateJwk(generatePrivateJwk())
    const row = { owner: asOwner('alice'), kid: key.thumbprint, jwk: publicJwk(key), name: 'tablet' }
    await inTransaction(authority.database.db, tx => insertDeviceKey(tx, row))
    const [ending, staying] = [await open({ ...authority.alice, key }), await open()]
    await inTransaction(authority.database.db, tx => revokeDeviceKey(tx, asOwner('alice'), key.thumbprint))
    await append({ n: 7 })
    await ending.ended
    await vi.waitFor(() => expect(staying.numbers).toEqual([7]), WAIT)
    expect(ending.numbers).toEqual([])
  })
})

describe('More streams than may be', () => {
  it('of one owner are refused with 429, saying what to do and when, and another owner has hers', async () => {
    const streams: Stream[] = []
    for (let n = 0; n < PER_OWNER; n++) streams.push(await open())
    expect(await refusal(authority.alice)).toEqual({
      status: 429,
      error: 'temporarily_unavailable',
      says: expect.stringMatching(/12 event streams of yours are open here.*close one/),
      retry: '30',
    })
    expect(await quotaRefusals(authority, 'streams')).toBe(1)
    await open(authority.owners['bea'])
    streams.pop()!.close()
    await open()
  })

  it('are refused even if many come at once', async () => {
    const tried = await Promise.allSettled(
      Array.from({ length: 3 * PER_OWNER }, () => tryOpen(authority.alice)),
    )
    const standing = tried.filter(({ status }) => status === 'fulfilled').length
    expect(standing).toBeGreaterThan(0)
    expect(standing).toBeLessThanOrEqual(PER_OWNER)
    for (let n = standing; n < PER_OWNER; n++) await open()
    expect(await refusal(authority.alice)).toMatchObject({ status: 429 })
  })

  it('of the process are refused with 503, saying when to come again', async () => {
    for (let n = 0; n < PER_OWNER; n++) await open()
    for (let n = PER_OWNER; n < IN_ALL; n++) await open(authority.owners['bea'])
    expect(await refusal(authority.owners['bea']!)).toMatchObject({
      status: 503,
      error: 'temporarily_unavailable',
      says: expect.stringMatching(/come again/),
      retry: '30',
    })
  })
})
