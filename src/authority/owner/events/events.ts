/**
 * GET /owner/events: the owner's notifications as server-sent events, read from the store in its order,
 * whatever replica wrote them. Contract: "Events", "Owner API" (`/owner/events`).
 */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { eventFrame, openEventStream } from '../../../http/servers/event-stream.ts'
import { startOfReading } from '../../../storage/authority/ledger/events.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { OWNER } from '../credentials/guard.ts'

/** Open streams end with `feeds.end`. */
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
  refuses: { 429: ['temporarily_unavailable'] },
  handle: async (api: OwnerApi, { caller, request, reply }) => {
    const known = lastEventId(request)
    const leave = api.feeds.enter(caller.owner)
    try {
      const db = api.database.of(caller.owner)
      const { after, reset } = await startOfReading(db, caller.owner, known)
      const stream = openEventStream(reply, api.heartbeatSeconds)
      if (reset) stream.send(eventFrame({ id: after, event: 'reset', data: {} }))
      else stream.place(after)
      await api.feeds.follow({ credential: caller, stream, after })
      stream.end()
    } finally {
      leave()
    }
    return 'written'
  },
})

/** The last event that the reader got (`Last-Event-ID`), if it names one. */
function lastEventId(request: FastifyRequest): number | undefined {
  const text = request.headers['last-event-id']
  if (text === undefined || text === '') return undefined
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text))
    refuse('invalid_request', 'Send as Last-Event-ID the id of an event of this stream.')
  return Number(text)
}
