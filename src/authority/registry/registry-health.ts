/**
 * GET /health/registry: whether what resource servers publish has been pulled; for dashboards, never a
 * readiness probe. Contract: "Health".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import type { Db } from '../../storage/authority/database.ts'
import { countSources, type SourceCount } from '../../storage/authority/registry/registry.ts'

/** How long an answer is valid after it arrived. */
const ANSWER_AGE_MS = 2_000
/**
 * And this many times as long as the count took. So counting takes at most a tenth of one connection's time,
 * even if it is asked for often and there are many owners.
 */
const KEPT_TIMES = 9

const REGISTRY_HEALTH = z
  .object({
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
  .meta({ id: 'RegistryHealth' })
type RegistryHealth = z.output<typeof REGISTRY_HEALTH>

/**
 * Anybody may ask. So one statement counts, only one at a time and only now and then, and the answer names
 * nobody.
 */
export type CountedRegistry = () => Promise<RegistryHealth>

/**
 * A count that all callers in the meantime share. Its answer is valid for a while; a failed count is not
 * kept.
 */
export function createCountedRegistry(...cells: readonly Db[]): CountedRegistry {
  let counting: Promise<RegistryHealth> | undefined
  let counted: { until: number; answer: RegistryHealth } | undefined
  const count = async (): Promise<RegistryHealth> => {
    const since = performance.now()
    try {
      const answer = await countRegistry(cells)
      const now = performance.now()
      counted = { until: now + Math.max(ANSWER_AGE_MS, KEPT_TIMES * (now - since)), answer }
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
 * For all active resource servers: whether each has landed (a provisioned one that publishes nothing has
 * landed at once), and how the last pulls went, by state and reason. A server that fails after it landed
 * keeps what it listed before.
 */
async function countRegistry(cells: readonly Db[]): Promise<RegistryHealth> {
  const all = merged((await Promise.all(cells.map(countSources))).flat())
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

/** Adds up equal states of several cells. */
function merged(counts: SourceCount[]): SourceCount[] {
  const alike = new Map<string, SourceCount>()
  for (const one of counts) {
    const key = JSON.stringify([one.state, one.fault, one.landed])
    const same = alike.get(key)
    const at = [same?.at ?? '', one.at ?? ''].sort().at(-1) || null
    alike.set(key, same === undefined ? one : { ...one, count: same.count + one.count, at })
  }
  return [...alike.values()]
}
