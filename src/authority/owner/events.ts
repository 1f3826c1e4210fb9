/**
 * GET /owner/events: the owner's notifications as server-sent events, from the store and in its order, on
 * whichever replica they happened. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { openEventStream, type EventStream } from '../../http/event-stream.ts'
import { isOutage } from '../../storage/core/database.ts'
import { readEvents, startOfReading } from '../../storage/authority/events.ts'
import { refuse } from '../../wire/refusal.ts'
import type { OwnerApi } from './api.ts'
import { OWNER, type OwnerCredential } from './guard.ts'

const EVENTS_PER_READ = 100
const OUTAGE_MS_MIN = 100
const OUTAGE_MS_MAX = 2_000

/** Open streams end with `endStreams`. */
export const EVENTS: Endpoint<OwnerApi> = endpoint({
  method: 'get',
  path: '/owner/events',
  rows: ['owner-events'],
  summary: 'The event stream of her portal',
  credential: OWNER,
  query: z.strictObject({}),
  reads: { 'last-event-id': 'Resumes after this event.' },
  holdsAnswer: true,
  noHead: true,
  answers: { 200: { says: 'Server-sent events.', type: 'text/event-stream' } },
  handle: async (api: OwnerApi, { caller, request, reply }) => {
    const start = await startOfReading(api.database.db, caller.owner, lastEventId(request))
    const stream = openEventStream(reply, api.heartbeatSeconds)
    api.streams.add(stream)
    try {
      await follow({ api, credential: caller, stream }, start)
    } catch (error) {
      api.log.error({ err: error }, 'an event stream broke off')
    } finally {
      api.streams.delete(stream)
      stream.end()
    }
    return 'written'
  },
})

/** Ends every open stream: the server closes. */
export function endStreams({ streams }: Pick<OwnerApi, 'streams'>): void {
  for (const stream of streams) stream.end()
}

/** The last event that the reader was given (`Last-Event-ID`), if it names one. */
function lastEventId(request: FastifyRequest): number | undefined {
  const text = request.headers['last-event-id']
  if (text === undefined || text === '') return undefined
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text))
    refuse('invalid_request', 'Send as Last-Event-ID the id of an event of this stream.')
  return Number(text)
}

interface Following {
  api: OwnerApi
  credential: OwnerCredential
  stream: EventStream
}

/**
 * Sends what is there and what comes, until the reader goes or its credential is no longer good. Each turn
 * reads the store: an announcement only says that it is worth reading, and one lost in an outage loses nothing.
 */
async function follow(following: Following, start: { after: number; reset: boolean }): Promise<void> {
  const { stream } = following
  let { after } = start
  let outageMs = OUTAGE_MS_MIN
  if (start.reset) await stream.send({ id: after, event: 'reset', data: {} })
  else stream.place(after)
  while (!stream.closed.aborted) {
    try {
      const next = await turn(following, after)
      if (next === 'ended') return
      after = next
      outageMs = OUTAGE_MS_MIN
    } catch (error) {
      if (!isOutage(error)) throw error
      following.api.log.warn({ err: error }, 'an event stream waits for the database')
      await delay(outageMs, undefined, { signal: stream.closed }).catch(() => undefined)
      outageMs = Math.min(outageMs * 2, OUTAGE_MS_MAX)
    }
  }
}

/** One look at the store, after which either events were sent or the next announcement was waited for. */
async function turn({ api, credential, stream }: Following, after: number): Promise<number | 'ended'> {
  const { db } = api.database
  const { expiresAt } = credential
  const heartbeatMs = api.heartbeatSeconds * 1_000
  const untilEnd = expiresAt === undefined ? heartbeatMs : expiresAt * 1_000 - api.clock.now()
  // Waiting begins before reading: what happens in between is announced to this wait.
  const reading = new AbortController()
  const announced = api.announcements.next(
    credential.owner,
    Math.max(1, Math.min(heartbeatMs, untilEnd)),
    AbortSignal.any([stream.closed, reading.signal]),
  )
  try {
    const events = await readEvents(db, credential.owner, { after, limit: EVENTS_PER_READ })
    // After reading: what was written since the credential ended is not for it.
    if (!(await credential.stands(db))) return 'ended'
    for (const event of events) await stream.send(event)
    if (events.length === 0) await announced
    return events.at(-1)?.id ?? after
  } finally {
    reading.abort()
  }
}
