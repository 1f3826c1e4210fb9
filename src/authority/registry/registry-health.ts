/**
 * GET /health/registry: whether what resource servers publish has been pulled; for dashboards, never a
 * readiness probe. Contract: "Health".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import type { Db } from '../../storage/authority/database.ts'
import { countSources } from '../../storage/authority/registry.ts'

/** How long an answer is good, from when it was there. */
const KEPT_MS = 2_000
/**
 * And so many times as long as it took: whoever asks, and however many owners there are, counting is a tenth
 * of one connection's time.
 */
const KEPT_TIMES = 9

const REGISTRY_HEALTH = z.object({
  landed: z.boolean(),
  resource_servers: z.int().min(0),
  waiting: z.int().min(0),
  sources: z.array(
    z.object({
      state: z.enum(['landed', 'failed', 'waiting']),
      reason: z.string().optional(),
      count: z.int().min(1),
      at: z.string().optional(),
    }),
  ),
})
type RegistryHealth = z.output<typeof REGISTRY_HEALTH>

/** Anybody may ask, so it is counted by one statement, once at a time, now and then; and it names nobody. */
export type CountedRegistry = () => Promise<RegistryHealth>

/**
 * A count that all who ask meanwhile share, and whose answer is good for a while after; one that failed is no
 * answer.
 */
export function createCountedRegistry(db: Db): CountedRegistry {
  let counting: Promise<RegistryHealth> | undefined
  let counted: { until: number; answer: RegistryHealth } | undefined
  const count = async (): Promise<RegistryHealth> => {
    const since = performance.now()
    try {
      const answer = await countRegistry(db)
      const now = performance.now()
      counted = { until: now + Math.max(KEPT_MS, KEPT_TIMES * (now - since)), answer }
      return answer
    } finally {
      counting = undefined
    }
  }
  return async () => {
    if (counted !== undefined && performance.now() < counted.until) return counted.answer
    return (counting ??= count())
  }
}

export const REGISTRY_ENDPOINT: Endpoint<CountedRegistry> = endpoint({
  method: 'get',
  path: '/health/registry',
  rows: ['health-registry'],
  summary: 'Whether the registry has landed; never a readiness probe',
  answers: {
    200: {
      says: 'Whether every active resource server has landed, and how the last pulls went.',
      schema: REGISTRY_HEALTH,
      headers: { 'cache-control': 'no-store' },
    },
  },
  handle: async (counted: CountedRegistry, { answer }) => answer(200, await counted()),
})

/**
 * Of all active resource servers: whether each has landed (a provisioned one that publishes nothing has at
 * once), and how the last pulls went, by state and reason. One that failed after it had landed goes on with
 * what it listed before.
 */
async function countRegistry(db: Db): Promise<RegistryHealth> {
  const all = await countSources(db)
  const sum = (counts: typeof all): number => counts.reduce((total, { count }) => total + count, 0)
  const waiting = sum(all.filter(({ landed }) => !landed))
  return {
    landed: waiting === 0,
    resource_servers: sum(all),
    waiting,
    sources: all.map(({ state, fault, count, at }) => ({
      state,
      ...(fault === null ? {} : { reason: fault }),
      count,
      ...(at === null ? {} : { at }),
    })),
  }
}
