/**
 * GET /owner/events: the owner's notifications as server-sent events, from the store and in its order, on
 * whichever replica they happened. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { openEventStream, type EventStream } from '../../http/event-stream.ts'
import { isOutage } from '../../storage/core/database.ts'
import { findEvent, latestEvent, readEvents, type EventCursor } from '../../storage/authority/events.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { ownerOf, type OwnerCredential } from './guard.ts'
import { queryOf } from './requests.ts'

const NO_QUERY = z.strictObject({})
const EVENTS_PER_READ = 100
/** Until the transaction that holds an event back has ended; nobody announces that. */
const UNSETTLED_MS = 20
const OUTAGE_MS_MIN = 100
const OUTAGE_MS_MAX = 2_000

/** Registers GET /owner/events. Open streams end when the server closes. */
export function registerOwnerEvents(
  app: FastifyInstance,
  authority: Authority,
  heartbeatSeconds: number,
): void {
  const open = new Set<EventStream>()
  app.addHook('preClose', async () => {
    for (const stream of open) stream.end()
  })
  // A HEAD would hold its connection as long as a stream does, and tell nothing.
  app.get(
    '/owner/events',
    { exposeHeadRoute: false, config: { holdsAnswer: true } },
    async (request, reply) => {
      queryOf(NO_QUERY, request)
      const credential = ownerOf(request)
      const start = await startingPlace(authority, credential.owner, lastEventId(request))
      const stream = openEventStream(reply, heartbeatSeconds)
      open.add(stream)
      try {
        await follow({ authority, credential, stream, heartbeatMs: heartbeatSeconds * 1_000 }, start)
      } catch (error) {
        authority.log.error({ err: error }, 'an event stream broke off')
      } finally {
        open.delete(stream)
        stream.end()
      }
    },
  )
}

/** The last event that the reader was given (`Last-Event-ID`), if it names one. */
function lastEventId(request: FastifyRequest): number | undefined {
  const text = request.headers['last-event-id']
  if (text === undefined || text === '') return undefined
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text))
    refuse('invalid_request', 'Send as Last-Event-ID the id of an event of this stream.')
  return Number(text)
}

interface Start {
  cursor: EventCursor
  /** The event that the reader knows is kept no more, nor perhaps what came after it. */
  reset: boolean
}

async function startingPlace(authority: Authority, owner: string, known: number | undefined): Promise<Start> {
  const { db } = authority.database
  const found = known === undefined ? undefined : await findEvent(db, owner, known)
  if (found !== undefined) return { cursor: found, reset: false }
  return { cursor: await latestEvent(db, owner), reset: known !== undefined }
}

interface Following {
  authority: Authority
  credential: OwnerCredential
  stream: EventStream
  heartbeatMs: number
}

/**
 * Sends what is there and what comes, until the reader goes or its credential is no longer good. Each turn
 * reads the store: an announcement only says that it is worth reading, and one lost in an outage loses nothing.
 */
async function follow(following: Following, start: Start): Promise<void> {
  const { stream } = following
  let { cursor } = start
  let outageMs = OUTAGE_MS_MIN
  if (start.reset) await stream.send({ id: cursor.id, event: 'reset', data: {} })
  else stream.place(cursor.id)
  while (!stream.closed.aborted) {
    try {
      const next = await turn(following, cursor)
      if (next === 'ended') return
      cursor = next
      outageMs = OUTAGE_MS_MIN
    } catch (error) {
      if (!isOutage(error)) throw error
      following.authority.log.warn({ err: error }, 'an event stream waits for the database')
      await delay(outageMs, undefined, { signal: stream.closed }).catch(() => undefined)
      outageMs = Math.min(outageMs * 2, OUTAGE_MS_MAX)
    }
  }
}

/** One look at the store, after which either events were sent or the next announcement was waited for. */
async function turn(
  { authority, credential, stream, heartbeatMs }: Following,
  cursor: EventCursor,
): Promise<EventCursor | 'ended'> {
  const { db } = authority.database
  const { expiresAt } = credential
  const untilEnd = expiresAt === undefined ? heartbeatMs : expiresAt * 1_000 - authority.clock.now()
  // Waiting begins before reading: what happens in between is announced to this wait.
  const reading = new AbortController()
  const announced = authority.announcements.next(
    credential.owner,
    Math.max(1, Math.min(heartbeatMs, untilEnd)),
    AbortSignal.any([stream.closed, reading.signal]),
  )
  try {
    const page = { after: cursor, limit: EVENTS_PER_READ }
    const { events, unsettled } = await readEvents(db, credential.owner, page)
    // After reading: what was written since the credential ended is not for it.
    if (!(await credential.stands(db))) return 'ended'
    for (const event of events) await stream.send(event)
    if (unsettled) await delay(UNSETTLED_MS, undefined, { signal: stream.closed }).catch(() => undefined)
    else if (events.length === 0) await announced
    return events.at(-1) ?? cursor
  } finally {
    reading.abort()
  }
}
