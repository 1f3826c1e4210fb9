/**
 * Owns the delivery of events to open streams: one look at the store per owner and wake-up, shared by all of
 * her streams, and how many there may be. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { eventFrame, type EventStream } from '../../http/event-stream.ts'
import { isOutage } from '../../storage/core/database.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import { readEvents, type EventRow } from '../../storage/authority/events.ts'
import { listStanding } from '../../storage/authority/logins.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import type { OwnerCredential } from './credential.ts'

const EVENTS_PER_READ = 100
/**
 * Places in her stream that one look reads on from; streams elsewhere wait for the next. Those who follow
 * what happens are all at one.
 */
const PLACES_PER_READ = 8
/**
 * Looks at once, of one process: a small part of the connections that negotiations and the owner API have.
 * Calls have others.
 */
const LOOKS_AT_ONCE = 4
const OUTAGE_MS_MIN = 100
const OUTAGE_MS_MAX = 2_000

/** Streams that may be open at a time. */
export interface StreamCaps {
  perOwner: number
  /** Of the process. */
  inAll: number
}

/** Who reads a stream, and from where on. */
export interface Reader {
  credential: OwnerCredential
  stream: EventStream
  /** The last event that was sent. */
  after: number
}

export interface EventFeeds {
  /**
   * Takes a place for a stream of hers. @returns how it is given back, once the stream has ended.
   * @throws Refusal 429 where she has as many as she may, 503 where the process has; both say when to come
   * again.
   */
  enter(owner: Owner): () => void
  /**
   * Sends what is there and what comes; resolves when the reader has gone, or its credential is no longer
   * good.
   */
  follow(reader: Reader): Promise<void>
  /** Ends every open stream: the server closes. */
  end(): void
}

interface Feed {
  owner: Owner
  readers: Set<Reader>
  /** Those who have not taken what they were sent: they are sent no more until they have. */
  full: Set<Reader>
  /** Something happened, or somebody came, since the last look began. */
  due: boolean
  wake: () => void
  /** Called when nobody follows any more. */
  leave: () => void
}

type Needed = Pick<Authority, 'database' | 'announcements' | 'log' | 'clock'> & {
  heartbeatSeconds: number
  caps: StreamCaps
}

/** No feed stands until somebody follows. */
export function createEventFeeds(options: Needed): EventFeeds {
  const { announcements, caps } = options
  const feeds = new Map<Owner, Feed>()
  const open = new Map<Owner, number>()
  let inAll = 0
  const takeTurns = createTurns(LOOKS_AT_ONCE)

  const start = (owner: Owner): Feed => {
    const unwatch = announcements.watch(owner, () => happened(feed))
    const leave = (): void => {
      unwatch()
      feeds.delete(owner)
    }
    const wake = (): void => undefined
    const feed: Feed = { owner, readers: new Set(), full: new Set(), due: true, wake, leave }
    feeds.set(owner, feed)
    void keepLooking(options, feed, () => takeTurns(() => onBehalfOf(owner, () => look(options, feed))))
    return feed
  }
  return {
    enter(owner) {
      const hers = open.get(owner) ?? 0
      if (hers >= caps.perOwner) throw tooManyOfHers(caps.perOwner)
      if (inAll >= caps.inAll) throw tooMany()
      open.set(owner, hers + 1)
      inAll++
      return () => {
        inAll--
        const left = open.get(owner)! - 1
        if (left === 0) open.delete(owner)
        else open.set(owner, left)
      }
    },
    async follow(reader) {
      const { closed } = reader.stream
      if (closed.aborted) return
      const { owner } = reader.credential
      const feed = feeds.get(owner) ?? start(owner)
      feed.readers.add(reader)
      happened(feed)
      await new Promise(resolve => closed.addEventListener('abort', resolve, { once: true }))
      feed.readers.delete(reader)
      feed.full.delete(reader)
      happened(feed)
    },
    end() {
      for (const { readers } of feeds.values()) for (const { stream } of readers) stream.end()
    },
  }
}

function tooManyOfHers(streams: number): Refusal {
  return new Refusal(
    'temporarily_unavailable',
    `${streams} event streams of yours are open here, as many as one owner may have: close one, or read your lists instead.`,
    { status: 429, headers: { 'retry-after': '30' } },
  )
}

function tooMany(): Refusal {
  return new Refusal(
    'temporarily_unavailable',
    'As many event streams are open here as may be: come again, and read your lists until then.',
    { headers: { 'retry-after': '30' } },
  )
}

function happened(feed: Feed): void {
  feed.due = true
  feed.wake()
}

/**
 * Looks whenever something happened, and once a heartbeat: an announcement only says that it is worth
 * looking, and one that is lost loses nothing.
 */
async function keepLooking(options: Needed, feed: Feed, looking: () => Promise<boolean>): Promise<void> {
  let outageMs = OUTAGE_MS_MIN
  while (feed.readers.size > 0 || feed.due) {
    // Before looking: what happens meanwhile is looked at again.
    feed.due = false
    try {
      const more = await looking()
      outageMs = OUTAGE_MS_MIN
      if (!more) await nextTime(options, feed)
    } catch (error) {
      if (isOutage(error)) {
        options.log.warn({ err: error }, 'event streams wait for the database')
        await delay(outageMs, undefined, { ref: false })
        outageMs = Math.min(outageMs * 2, OUTAGE_MS_MAX)
      } else {
        options.log.error({ err: error }, 'event streams broke off')
        for (const { stream } of feed.readers) stream.end()
      }
    }
  }
  // At once: who comes next is not to find a feed that nobody looks for.
  feed.leave()
}

/** Waits until something happened, a heartbeat has passed, or a credential has ended by itself. */
async function nextTime({ heartbeatSeconds, clock }: Needed, feed: Feed): Promise<void> {
  if (feed.due || feed.readers.size === 0) return
  const ends = [...feed.readers].map(
    ({ credential: { expiresAt = Infinity } }) => expiresAt * 1_000 - clock.now(),
  )
  await new Promise<void>(resolve => {
    const timer = setTimeout(resolve, Math.max(1, Math.min(heartbeatSeconds * 1_000, ...ends)))
    feed.wake = () => {
      clearTimeout(timer)
      resolve()
    }
  })
  feed.wake = () => undefined
}

/**
 * One look at the store for all who are ready to be sent more. @returns whether there is more for one of them
 * at once.
 */
async function look({ database: { db }, clock }: Needed, feed: Feed): Promise<boolean> {
  // Also those who take nothing: else each round would find that one had ended, and begin the next at once.
  for (const { credential, stream } of feed.readers) if (hasEnded(credential, clock)) stream.end()
  const ready = [...feed.readers].filter(reader => !feed.full.has(reader) && !reader.stream.closed.aborted)
  if (ready.length === 0) return false
  const places = [...new Set(ready.map(({ after }) => after))]
  const read = places.slice(0, PLACES_PER_READ)
  const pages = new Map<number, EventRow[]>()
  for (const after of read)
    pages.set(after, await readEvents(db, feed.owner, { after, limit: EVENTS_PER_READ }))
  // After reading: what was written since a credential ended is not for it.
  const standing = await listStanding(db, feed.owner, [
    ...new Set(ready.map(({ credential }) => credential.id)),
  ])
  const frames = new Map(
    [...pages].map(([after, events]) => [
      after,
      events.map(event => ({ id: event.id, frame: eventFrame(event) })),
    ]),
  )
  let more = read.length < places.length
  for (const reader of ready) {
    const { credential, stream } = reader
    if (!standing.has(credential.id) || hasEnded(credential, clock)) {
      stream.end()
      continue
    }
    const page = frames.get(reader.after) ?? []
    send(feed, reader, page)
    more ||= page.length === EVENTS_PER_READ
  }
  return more
}

function hasEnded({ expiresAt = Infinity }: OwnerCredential, clock: Needed['clock']): boolean {
  return clock.now() >= expiresAt * 1_000
}

/** Sends until the reader has taken no more: what it did not get is read again for it, once it has. */
function send(feed: Feed, reader: Reader, page: readonly { id: number; frame: string }[]): void {
  const { stream } = reader
  for (const { id, frame } of page) {
    reader.after = id
    if (stream.send(frame)) continue
    feed.full.add(reader)
    void stream.taken().then(() => {
      feed.full.delete(reader)
      happened(feed)
    })
    return
  }
}

/** So many at a time, in the order in which they came. */
function createTurns(atOnce: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let running = 0
  return async work => {
    if (running >= atOnce) await new Promise<void>(resolve => waiting.push(resolve))
    else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
