/** The owner's event stream: contract, "Events", "Owner API" (`/owner/events`); WHATWG HTML §9.2. */
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { appendEvent, startOfReading } from '../../src/storage/authority/ledger/events.ts'
import { insertDeviceKey, revokeDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { watchEvents } from '../../src/owner/index.ts'
import { EventStreamReader, type ServerSentEvent } from '../../src/wire/event-stream.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type TestAuthority, type TestOwner } from '../support/authority.ts'
import { freshDatabase } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { severableLink } from '../support/severable-link.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const HEARTBEAT = { environment: { UMA_AS_HEARTBEAT_SECONDS: '1' } }
const WAIT = { timeout: 60_000, interval: 10 }

const authority = authorityStand({ owners: ['alice', 'bea'], ...HEARTBEAT })
const alicesKey = () => ({ kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint })

const append = (n: number, owner = asOwner('alice')) =>
  inTransaction(authority.database.db, tx => appendEvent(tx, owner, 'decided', { n }))
/** The position of her newest event. */
const newest = async (owner = asOwner('alice')) => (await startOfReading(authority.database.db, owner)).after

interface Stream {
  response: Response
  events: ServerSentEvent[]
  text(): string
  lastEventId(): string
  ended: Promise<void>
  close(): void
}

async function open(
  at: TestAuthority = authority,
  options: { lastEventId?: string; owner?: TestOwner } = {},
): Promise<Stream> {
  const headers = options.lastEventId === undefined ? {} : { 'last-event-id': options.lastEventId }
  const prepared = at.prepare(options.owner ?? at.alice, { target: '/owner/events', headers })
  const gone = new AbortController()
  const response = await fetch(prepared.url, { headers: prepared.headers, signal: gone.signal })
  const reader = new EventStreamReader(options.lastEventId)
  const stream = { events: [] as ServerSentEvent[], text: '' }
  const ended = (async () => {
    for await (const chunk of response.body!) {
      stream.text += Buffer.from(chunk).toString()
      stream.events.push(...reader.read(chunk))
    }
  })().catch(() => undefined)
  // The position is written when the stream is open, so everything that happens from here on must arrive.
  await vi.waitFor(() => expect(stream.text).not.toBe(''), WAIT)
  return {
    response,
    events: stream.events,
    text: () => stream.text,
    lastEventId: () => reader.lastEventId,
    ended,
    close: () => gone.abort(),
  }
}

const numbers = (stream: Stream) => stream.events.map(event => (JSON.parse(event.data) as { n: number }).n)
const arrives = (stream: Stream, expected: number[]) =>
  vi.waitFor(() => expect(numbers(stream)).toEqual(expected), WAIT)

describe('GET /owner/events', () => {
  it('is an event stream that nothing keeps or holds back', async () => {
    const stream = await open()
    expect(stream.response.status).toBe(200)
    expect(stream.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(stream.response.headers.get('cache-control')).toBe('no-store')
    expect(stream.response.headers.get('x-accel-buffering')).toBe('no')
    stream.close()
  })

  it('pushes a decision as `decided` with family, decision, by and actor', async () => {
    const stream = await open()
    const { family } = await seed.seedWaiting(authority.database.db, asOwner('alice'), seed.name('jkt:'))
    await authority.alice.client.decide(family, 'denied')
    await vi.waitFor(() => expect(stream.events).toHaveLength(1), WAIT)
    expect(stream.events[0]).toMatchObject({ type: 'decided', id: expect.stringMatching(/^\d+$/) })
    expect(JSON.parse(stream.events[0]!.data)).toEqual({
      family,
      decision: 'denied',
      by: 'owner',
      actor: alicesKey(),
    })
    stream.close()
  })

  it('pushes a revocation as `connection_revoked`, and what waited as `decided`', async () => {
    const handle = seed.name('jkt:')
    await seed.seedConnection(authority.database.db, asOwner('alice'), handle)
    const { family } = await seed.seedWaiting(authority.database.db, asOwner('alice'), handle, {
      kind: 'operation',
    })
    const stream = await open()
    await authority.alice.client.revoke(handle)
    await vi.waitFor(() => expect(stream.events).toHaveLength(2), WAIT)
    expect(stream.events.map(({ type, data }) => [type, JSON.parse(data)])).toEqual([
      ['connection_revoked', { handle, by: 'owner', actor: alicesKey() }],
      ['decided', { family, decision: 'denied', by: 'revocation', actor: alicesKey() }],
    ])
    stream.close()
  })

  it('starts with what happens from now on, and says at once where that is', async () => {
    await append(1)
    const stream = await open()
    const id = await newest()
    await vi.waitFor(() => expect(stream.lastEventId()).toBe(String(id)), WAIT)
    await append(2)
    await arrives(stream, [2])
    stream.close()
  })

  it('holds nothing of another owner', async () => {
    const stream = await open()
    await append(10, asOwner('bea'))
    await append(11)
    await arrives(stream, [11])
    stream.close()
  })

  it('resumes strictly after Last-Event-ID', async () => {
    const before = await open()
    for (const n of [21, 22, 23]) await append(n)
    await arrives(before, [21, 22, 23])
    before.close()
    await append(24)
    const after = await open(authority, { lastEventId: before.events[1]!.id })
    await arrives(after, [23, 24])
    after.close()
  })

  it('resumes from the place it was given before any event came', async () => {
    await append(31)
    const before = await open()
    await vi.waitFor(() => expect(before.lastEventId()).not.toBe(''), WAIT)
    before.close()
    await append(32)
    const after = await open(authority, { lastEventId: before.lastEventId() })
    await arrives(after, [32])
    after.close()
  })

  it('an id too old, or one that never was, gets `reset`, and the stream goes on from the newest', async () => {
    for (const n of [40, 41]) await append(n)
    const last = await newest()
    await sql`UPDATE events SET at = now() - interval '8 days' WHERE owner = 'alice' AND seq < ${last}`.execute(
      authority.database.db,
    )
    await sweepOwner(authority.database.db, asOwner('alice'), 1_000)
    for (const lastEventId of ['0', String(last - 2), String(last + 1), '999999999999999']) {
      const stream = await open(authority, { lastEventId })
      await vi.waitFor(() => expect(stream.events).toHaveLength(1), WAIT)
      expect(stream.events[0]).toEqual({ type: 'reset', data: '{}', id: String(last) })
      stream.close()
    }
  })

  it('keeps any text of an event on one data line', async () => {
    const data = { text: 'a\r\nevent: forged\n\ndata: x\u2028\u2029\u0000\ud83d\ude00' }
    const stream = await open()
    await inTransaction(authority.database.db, tx => appendEvent(tx, asOwner('alice'), 'pending', data))
    await vi.waitFor(() => expect(stream.events).toHaveLength(1), WAIT)
    expect(stream.events[0]!.type).toBe('pending')
    expect(JSON.parse(stream.events[0]!.data)).toEqual(data)
    stream.close()
  })

  it('sends a heartbeat comment while nothing happens', async () => {
    const stream = await open()
    await vi.waitFor(
      () => expect(stream.text().match(/^:\n\n/gm)?.length ?? 0).toBeGreaterThanOrEqual(2),
      WAIT,
    )
    expect(stream.events).toEqual([])
    stream.close()
  })

  it('one that is refused gets a status and a reason, no stream', async () => {
    const headers = { 'last-event-id': 'the last one' }
    const refused = await authority.call(authority.alice, { target: '/owner/events', headers })
    expect(refused).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    expect(refused.headers.get('content-type')).toMatch(/^application\/json/)
  })

  it('a HEAD is no stream', async () => {
    const reply = await authority.call(authority.alice, { method: 'HEAD', target: '/owner/events' })
    expect(reply.status).toBe(405)
  })

  it('ends when its device key is revoked', async () => {
    const key = importPrivateJwk(generatePrivateJwk())
    const row = { owner: asOwner('alice'), kid: key.thumbprint, jwk: publicJwk(key), name: 'phone' }
    await inTransaction(authority.database.db, tx => insertDeviceKey(tx, row))
    const stream = await open(authority, { owner: { ...authority.alice, key } })
    await inTransaction(authority.database.db, tx => revokeDeviceKey(tx, asOwner('alice'), key.thumbprint))
    await append(51)
    await stream.ended
    expect(stream.events).toEqual([])
  })

  it('is followed by the owner’s client through its resumption', async () => {
    const gone = new AbortController()
    const access = { api: authority.ownerUrl, issuer: authority.issuer, key: authority.alice.key }
    const seen: unknown[] = []
    let opened = false
    const watching = (async () => {
      const options = { signal: gone.signal, onState: () => (opened = true) }
      for await (const event of watchEvents(access, options)) seen.push(event.data)
    })().catch(() => undefined)
    await vi.waitFor(() => expect(opened).toBe(true), WAIT)
    await vi.waitFor(async () => {
      if (seen.length === 0) await append(61)
      expect(seen[0]).toEqual({ n: 61 })
    }, WAIT)
    gone.abort()
    await watching
  })
})

describe('A late commit', () => {
  it('is sent when it comes, and held nobody back before', async () => {
    const stream = await open()
    const [written, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const late = inTransaction(authority.database.db, async tx => {
      await appendEvent(tx, asOwner('alice'), 'decided', { n: 71 })
      written.resolve()
      await commit.promise
    })
    onTestFinished(() => commit.resolve())
    await written.promise
    await append(72)
    await arrives(stream, [72])
    commit.resolve()
    await late
    await arrives(stream, [72, 71])
    const resumed = await open(authority, { lastEventId: stream.events[0]!.id })
    await arrives(resumed, [71])
    stream.close()
    resumed.close()
  })

  it('of many writers at once every event arrives once, also to readers who come and go', async () => {
    await append(99)
    const start = await open()
    const writers = Array.from({ length: 8 }, (_, w) =>
      (async () => {
        for (let n = 0; n < 25; n++) await append(1_000 + w * 100 + n)
      })(),
    )
    const seen: number[] = []
    let lastEventId = start.lastEventId()
    start.close()
    while (seen.length < 200) {
      const stream = await open(authority, { lastEventId })
      await vi.waitFor(() => expect(stream.events.length).toBeGreaterThan(0), WAIT)
      stream.close()
      seen.push(...numbers(stream))
      lastEventId = stream.events.at(-1)!.id
    }
    await Promise.all(writers)
    expect(new Set(seen).size).toBe(200)
    expect(seen).toHaveLength(200)
  })
})

describe('Two authorities on one database', () => {
  it('tell each other’s events, and a stream resumes on the other one', async () => {
    const other = await startTestAuthority({ beside: authority, ...HEARTBEAT })
    const stream = await open(other)
    await append(91)
    const { family } = await seed.seedWaiting(authority.database.db, asOwner('alice'), seed.name('jkt:'))
    await authority.alice.client.decide(family, 'approved')
    await vi.waitFor(() => expect(stream.events).toHaveLength(2), WAIT)
    expect(JSON.parse(stream.events[1]!.data)).toMatchObject({ family, decision: 'approved' })
    await other.close()
    await stream.ended
    const resumed = await open(authority, { lastEventId: stream.events[0]!.id })
    await vi.waitFor(() => expect(resumed.events).toHaveLength(1), WAIT)
    resumed.close()
  })
})

describe('When the database fails over', () => {
  it('an open stream survives and misses nothing; requests get 503, and are served again after', async () => {
    const database = await freshDatabase()
    const link = await severableLink(database.url)
    const environment = { ...HEARTBEAT.environment, DATABASE_URL: link.url }
    const away = await startTestAuthority({ environment })
    const happen = (n: number) =>
      inTransaction(database.db, tx => appendEvent(tx, asOwner('alice'), 'decided', { n }))
    try {
      const stream = await open(away)
      await happen(1)
      await arrives(stream, [1])
      link.cut()
      const refused = await away.call(away.alice, { target: '/owner/pending' })
      expect(refused).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
      const events = await away.call(away.alice, { target: '/owner/events' })
      expect(events).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
      await happen(2)
      // The stream looks into the store once a heartbeat: by the second one it has met the outage.
      const beats = () => stream.text().split(':\n\n').length
      const before = beats()
      await vi.waitFor(() => expect(beats()).toBeGreaterThan(before + 1), WAIT)
      link.mend()
      await arrives(stream, [1, 2])
      await happen(3)
      await arrives(stream, [1, 2, 3])
      expect((await away.call(away.alice, { target: '/owner/pending' })).status).toBe(200)
      stream.close()
    } finally {
      await away.close()
      await link.close()
      await database.close()
    }
  })
})

describe('When the authority ends', () => {
  it('its streams end, and close does not wait for their readers', async () => {
    const ending = await startTestAuthority({ beside: authority })
    const stream = await open(ending)
    await ending.close()
    await stream.ended
  })
})
