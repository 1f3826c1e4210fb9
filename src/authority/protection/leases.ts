/**
 * POST /leases and POST /leases/{id}: a sidecar that would use answers about grants again for a moment says
 * so, hears when it must let go, and says that it did. Contract: "Introspection and consume answers"; an
 * extension (docs/choices.md, ADR 0021).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { eventFrame, openEventStream } from '../../http/servers/event-stream.ts'
import { endHolder, insertHolder, renewHolder } from '../../storage/authority/grants/leases.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { invalidPat, PAT, type PatGuard, type PatHolder } from '../../surface/pat-guard.ts'
import {
  LEASE_EVENT,
  LEASE_ID,
  LEASE_MS,
  LEASE_RENEW_MS,
  LEASES_PATH,
  type Lease,
  type LeaseRenewal,
  type LeaseRequest,
} from '../../wire/resources/leases.ts'
import { askLater, refuse } from '../../wire/refusal.ts'
import type { Store } from '../context.ts'
import type { LeaseStreams } from './lease-streams.ts'

export interface Leasing extends Store {
  readonly guard: PatGuard
  readonly streams: LeaseStreams
}

/** A sidecar that misses a few of these knows that its stream is dead. */
const HEARTBEAT_SECONDS = 1
/** No holder can be asked more often. */
const ASKED_MAX = 2_147_483_647

const ID = z.string().regex(LEASE_ID)
const REQUEST: z.ZodType<LeaseRequest> = z.strictObject({ replaces: ID.optional() })
const RENEWAL: z.ZodType<LeaseRenewal> = z.union([
  z.strictObject({ acknowledged: z.int().min(0).max(ASKED_MAX) }),
  z.strictObject({ end: z.literal(true) }),
])

const UNCACHED = { 'cache-control': 'no-store' }
const ADDED = { addedUnder: 'Leased liveness' } as const

/** Open streams end with `streams.end`. */
const POST_LEASES: Endpoint<Leasing> = endpoint({
  method: 'post',
  path: LEASES_PATH,
  rows: ADDED,
  summary: 'Registers a sidecar that would use answers about grants again, and tells it when it must let go',
  credential: PAT,
  body: { schema: REQUEST },
  holdsAnswer: true,
  answers: {
    200: { says: 'Server-sent events: `lease` first, then `invalidate`.', type: 'text/event-stream' },
  },
  refuses: { 429: ['temporarily_unavailable'] },
  handle: async (leasing: Leasing, { caller, body, reply }) => {
    const leave = leasing.streams.enter()
    try {
      const id = await register(leasing, caller, body)
      const stream = openEventStream(reply, HEARTBEAT_SECONDS)
      const lease: Lease = { id, lease_ms: LEASE_MS, renew_ms: LEASE_RENEW_MS, asked: 0 }
      stream.send(eventFrame({ event: LEASE_EVENT.lease, data: lease }))
      await leasing.streams.follow({ owner: caller.owner, id, stream })
      stream.end()
    } finally {
      leave()
    }
    return 'written'
  },
})

const POST_LEASE: Endpoint<Leasing> = endpoint({
  method: 'post',
  path: '/leases/{id}',
  rows: ADDED,
  summary: 'A sidecar renews its lease and says up to when it let go; or ends it',
  credential: PAT,
  parameters: { schema: z.object({ id: z.string() }), unknown: 'Register again: there is no such lease.' },
  body: { schema: RENEWAL },
  answers: {
    200: {
      says: 'How often it has been asked to let go.',
      schema: z.object({ asked: z.int().min(0) }),
      headers: UNCACHED,
    },
  },
  refuses: { 404: ['not_found'] },
  handle: async ({ database }: Leasing, { caller, parameters: { id }, body, answer }) => {
    const holder = { ...caller, id }
    const outcome =
      'end' in body
        ? await endHolder(database.of(caller.owner), holder)
        : await renewHolder(database.callsOf(caller.owner), holder, body.acknowledged)
    if (outcome === undefined) refuse('not_found', 'Register again: there is no such lease.')
    return answer(200, { asked: outcome })
  },
})

export const LEASES: readonly Endpoint<Leasing>[] = [POST_LEASES, POST_LEASE]

async function register(
  { database }: Leasing,
  { owner, client_id, generation }: PatHolder,
  { replaces }: LeaseRequest,
): Promise<string> {
  const made = await inTransaction(database.of(owner), tx =>
    insertHolder(tx, { owner, client_id, generation, replaces }),
  )
  if (made === 'withdrawn') throw invalidPat()
  if (made === 'too many')
    throw askLater(
      'As many sidecars of this resource server follow as may: ask about each call, and come again later.',
      30,
    )
  return made.id
}
