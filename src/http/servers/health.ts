/**
 * Whether a process is alive, and whether requests should come to it; served at every listener of its kind.
 * Contract: "Health".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from './endpoint.ts'

/** What a process knows about itself. */
export interface Liveness {
  /** False while it drains. */
  healthy: () => boolean
  /** Why requests should go to another replica; undefined if there is no reason. */
  notReady: () => string | undefined | Promise<string | undefined>
}

const UNCACHED = { 'cache-control': 'no-store' }

/** GET /health: 503 while the process drains. */
export const HEALTH: Endpoint<Liveness> = endpoint({
  method: 'get',
  path: '/health',
  rows: ['health'],
  summary: 'Local liveness',
  answers: {
    200: {
      says: 'Local liveness',
      schema: z.object({ status: z.enum(['ok', 'draining']) }),
      headers: UNCACHED,
    },
    503: { says: 'It drains.', schema: z.object({ status: z.literal('draining') }), headers: UNCACHED },
  },
  handle: async ({ healthy }: Liveness, { answer }) =>
    healthy() ? answer(200, { status: 'ok' }) : answer(503, { status: 'draining' }),
})

/** GET /ready, for balancers: 503 tells them to send requests elsewhere, and restarts nothing. */
export const READY: Endpoint<Liveness> = endpoint({
  method: 'get',
  path: '/ready',
  rows: { addedUnder: 'Health' },
  summary: 'Whether this replica should get requests; 503 with the reason if not',
  answers: {
    200: {
      says: 'Whether this replica should get requests; 503 with the reason if not',
      schema: z.object({ status: z.literal('ready') }),
      headers: UNCACHED,
    },
    503: {
      says: 'They should go to another one, and why.',
      schema: z.object({ status: z.literal('not_ready'), because: z.string() }),
      headers: UNCACHED,
    },
  },
  handle: async ({ healthy, notReady }: Liveness, { answer }) => {
    const because = healthy() ? await notReady() : 'it is draining'
    return because === undefined
      ? answer(200, { status: 'ready' })
      : answer(503, { status: 'not_ready', because })
  },
})
