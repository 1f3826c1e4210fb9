/**
 * Owns the streams on which sidecars that hold leases are asked to let go: one look at the store per owner
 * and wake-up, shared by all of hers, and how many there may be. Contract: "Introspection and consume
 * answers"; an extension (docs/choices.md, ADR 0021).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { eventFrame, type EventStream } from '../../http/servers/event-stream.ts'
import { isOutage } from '../../storage/core/database.ts'
import { readDropCounts } from '../../storage/authority/grants/leases.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { LEASE_EVENT } from '../../wire/resources/leases.ts'
import { unavailable, type Refusal } from '../../wire/refusal.ts'
import type { Wakeups } from '../context.ts'

/** A sidecar that reads a stream here. */
export interface LeaseReader {
  owner: Owner
  id: string
  stream: EventStream
}

export interface LeaseStreams {
  /**
   * Takes a place for a stream. @returns how it is given back, once the stream has ended.
   * @throws Refusal 503 if as many are open as may be.
   */
  enter(): () => void
  /** Sends what the sidecar is asked from now on; resolves once it has gone, or holds no lease any more. */
  follow(reader: LeaseReader): Promise<void>
  /** How many streams are open now. */
  open(): number
  /** How many places were taken ever. */
  entered(): number
  /** Ends every stream: the server closes. */
  end(): void
}

interface Following extends LeaseReader {
  /** How often it has been asked, as far as it was told. */
  askCount: number
}

interface LeaseFeed {
  readers: Set<Following>
  /** A look is under way, and whether another is due once it has ended. */
  looking: boolean
  due: boolean
  leave: () => void
}

/** The pause doubles with each look that fails. A sidecar hears of it meanwhile at its next renewal. */
const OUTAGE_MS = { first: 100, most: 2_000 }

/** Nothing is looked at until somebody follows. */
export function createLeaseStreams(needed: Wakeups, { streamsMax }: { streamsMax: number }): LeaseStreams {
  const feeds = new Map<Owner, LeaseFeed>()
  let open = 0
  let entered = 0
  const start = (owner: Owner): LeaseFeed => {
    const wake = (): void => void lookAll(needed, owner, feed)
    const unwatch = needed.announcements.watchLeases(owner, wake)
    const leave = (): void => {
      unwatch()
      feeds.delete(owner)
    }
    const feed: LeaseFeed = { readers: new Set(), looking: false, due: false, leave }
    feeds.set(owner, feed)
    return feed
  }
  return {
    open: () => open,
    entered: () => entered,
    enter() {
      if (open >= streamsMax) throw tooMany()
      open++
      entered++
      return () => void open--
    },
    async follow(reader) {
      const { owner, stream } = reader
      if (stream.closed.aborted) return
      const feed = feeds.get(owner) ?? start(owner)
      const following = { ...reader, askCount: 0 }
      feed.readers.add(following)
      // It may have been asked since its row was written.
      void lookAll(needed, owner, feed)
      await new Promise(resolve => stream.closed.addEventListener('abort', resolve, { once: true }))
      feed.readers.delete(following)
      if (feed.readers.size === 0) feed.leave()
    },
    end() {
      for (const { readers } of feeds.values()) for (const { stream } of readers) stream.end()
    },
  }
}

function tooMany(): Refusal {
  return unavailable('As many sidecars follow here as may: ask about each call, and come again later.', 30)
}

/**
 * Looks until nothing has happened since the look began. While Postgres is away, nothing is renewed either:
 * one line tells of it, however many looks fail.
 */
async function lookAll(needed: Wakeups, owner: Owner, feed: LeaseFeed): Promise<void> {
  feed.due = true
  if (feed.looking) return
  feed.looking = true
  let failures = 0
  while (feed.due && feed.readers.size > 0) {
    feed.due = false
    try {
      await look(needed, owner, feed)
      failures = 0
    } catch (error) {
      const level = isOutage(error) ? 'warn' : 'error'
      if (failures === 0) needed.log[level]({ err: error }, 'sidecars could not be asked to let go')
      feed.due = true
      await delay(Math.min(OUTAGE_MS.most, OUTAGE_MS.first * 2 ** failures++), undefined, { ref: false })
    }
  }
  feed.looking = false
}

async function look({ database }: Wakeups, owner: Owner, { readers }: LeaseFeed): Promise<void> {
  const here = [...readers]
  const counts = await readDropCounts(
    database.of(owner),
    owner,
    here.map(({ id }) => id),
  )
  for (const reader of here) {
    const now = counts.get(reader.id)
    if (now === undefined) reader.stream.end()
    else if (now > reader.askCount) {
      reader.askCount = now
      reader.stream.send(eventFrame({ event: LEASE_EVENT.invalidate, data: { asked: now } }))
    }
  }
}
