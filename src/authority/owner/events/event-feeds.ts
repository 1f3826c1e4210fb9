/**
 * Owns the delivery of events to open streams, and how many streams there may be. Each wake-up reads the
 * store once per owner, for all of her streams. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { eventFrame, type EventStream } from '../../../http/servers/event-stream.ts'
import { isOutage } from '../../../storage/core/database.ts'
import { readEvents, type EventRow } from '../../../storage/authority/ledger/events.ts'
import { listStanding } from '../../../storage/authority/credentials/logins.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { askLater, unavailable, type Refusal } from '../../../wire/refusal.ts'
import type { Authority } from '../../context.ts'
import type { OwnerCredential } from '../credentials/credential.ts'

const EVENTS_PER_READ = 100
/**
 * How many positions of her stream one read continues from; streams at other positions wait for the next
 * read. Streams that are up to date are all at the same position.
 */
const PLACES_PER_READ = 8
/**
 * How many reads run at once in one process: a small part of the connections of negotiations and the owner
 * API. Calls have other connections.
 */
const LOOKS_AT_ONCE = 4
const OUTAGE_MS_MIN = 100
const OUTAGE_MS_MAX = 2_000

/** How many streams may be open at a time. */
export interface StreamCaps {
  perOwner: number
  /** The bound for the whole process. */
  inAll: number
}

/** A reader of a stream, and the position from which it reads. */
export interface Reader {
  credential: OwnerCredential
  stream: EventStream
  /** The last event that was sent to it. */
  after: number
}

export interface EventFeeds {
  /**
   * Takes a place for one of her streams. @returns the function that gives it back when the stream has ended.
   * @throws Refusal 429 if she has reached her limit, 503 if the process has reached its own; both say when
   * to try again.
   */
  enter(owner: Owner): () => void
  /**
   * Sends the events that exist and those that come; resolves when the reader has gone, or when its
   * credential is no longer good.
   */
  follow(reader: Reader): Promise<void>
  /** Ends every open stream: the server closes. */
  end(): void
}

interface OwnerFeed {
  owner: Owner
  readers: Set<Reader>
  /** Readers that have not yet taken what they were sent. They get nothing more until they have. */
  full: Set<Reader>
  /** Something happened, or a reader came, since the last read began. */
  due: boolean
  wake: () => void
  /** Called when the last reader has gone. */
  leave: () => void
}

type FeedOptions = Pick<Authority, 'database' | 'announcements' | 'log' | 'clock' | 'quotas' | 'cell'> & {
  heartbeatSeconds: number
  caps: StreamCaps
}

/** There is no feed until somebody reads. */
export function createEventFeeds(options: FeedOptions): EventFeeds {
  const { announcements, caps } = options
  const feeds = new Map<Owner, OwnerFeed>()
  const open = new Map<Owner, number>()
  let inAll = 0
  const takeTurns = createTurns(LOOKS_AT_ONCE)

  const start = (owner: Owner): OwnerFeed => {
    const unwatch = announcements.watch(owner, () => happened(feed))
    const leave = (): void => {
      unwatch()
      feeds.delete(owner)
    }
    const wake = (): void => undefined
    const feed: OwnerFeed = { owner, readers: new Set(), full: new Set(), due: true, wake, leave }
    feeds.set(owner, feed)
    void keepLooking(options, feed, () => takeTurns(() => look(options, feed)))
    return feed
  }
  return {
    enter(owner) {
      const hers = open.get(owner) ?? 0
      if (hers >= caps.perOwner) {
        options.quotas.reached('streams')
        throw tooManyOfHers(caps.perOwner)
      }
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
  const detail = `${streams} event streams of yours are open here, as many as one owner may have: close one, or read your lists instead.`
  return askLater(detail, 30)
}

function tooMany(): Refusal {
  return unavailable(
    'As many event streams are open here as may be: come again, and read your lists until then.',
    30,
  )
}

function happened(feed: OwnerFeed): void {
  feed.due = true
  feed.wake()
}

/**
 * Reads whenever something happened, and at each heartbeat. An announcement only says that a read is
 * worthwhile, so a lost one loses nothing.
 */
async function keepLooking(
  options: FeedOptions,
  feed: OwnerFeed,
  looking: () => Promise<boolean>,
): Promise<void> {
  let outageMs = OUTAGE_MS_MIN
  while (feed.readers.size > 0 || feed.due) {
    // Set before reading, so that what happens meanwhile causes another read.
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
  // Removed at once, so that the next reader does not find a feed that no longer reads.
  feed.leave()
}

/** Waits until something happened, a heartbeat has passed, or a credential has ended by itself. */
async function nextTime({ heartbeatSeconds, clock }: FeedOptions, feed: OwnerFeed): Promise<void> {
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
 * Reads the store once for all readers that are ready for more. @returns whether there is more for one of
 * them at once.
 */
async function look({ database, clock, cell }: FeedOptions, feed: OwnerFeed): Promise<boolean> {
  // This includes readers that take nothing; otherwise each round would find that one had ended, and would
  // begin the next at once.
  for (const { credential, stream } of feed.readers) if (hasEnded(credential, clock)) stream.end()
  const ready = [...feed.readers].filter(reader => !feed.full.has(reader) && !reader.stream.closed.aborted)
  if (ready.length === 0) return false
  const db = database.of(feed.owner)
  const places = [...new Set(ready.map(({ after }) => after))]
  const read = places.slice(0, PLACES_PER_READ)
  const pages = new Map<number, EventRow[]>()
  for (const after of read)
    pages.set(after, await readEvents(db, feed.owner, { after, limit: EVENTS_PER_READ }))
  // Checked after reading, because a credential that has ended may not see what was written since.
  const standing = await listStanding(db, feed.owner, [
    ...new Set(ready.map(({ credential }) => credential.id)),
  ])
  // Checked after reading, too: what was read about an owner who leaves this cell may have another position
  // in her new cell.
  if ((await cell?.stays(feed.owner)) === false) {
    for (const { stream } of feed.readers) stream.end()
    return false
  }
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

function hasEnded({ expiresAt = Infinity }: OwnerCredential, clock: FeedOptions['clock']): boolean {
  return clock.now() >= expiresAt * 1_000
}

/** Sends until the reader takes no more. What it did not get is read again when it is ready. */
function send(feed: OwnerFeed, reader: Reader, page: readonly { id: number; frame: string }[]): void {
  const { stream } = reader
  for (const { id, frame } of page) {
    reader.after = id
    if (stream.send(frame)) continue
    feed.full.add(reader)
    void stream.ready().then(() => {
      feed.full.delete(reader)
      happened(feed)
    })
    return
  }
}

/** Runs so many at a time, in the order in which they came. */
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
