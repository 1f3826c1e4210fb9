/**
 * GET /health/registry: whether what resource servers publish has been pulled; for dashboards, never a readiness probe.
 * Contract: "Health".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import type { Db } from '../../storage/authority/database.ts'
import { listOwners } from '../../storage/authority/owners.ts'
import { countSources, type SourceCount } from '../../storage/authority/registry.ts'

const OWNERS_PER_READ = 100
const KEPT_MS = 2_000

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

/** Anybody may ask, so it is counted at most every two seconds, and names nobody. */
export type CountedRegistry = () => Promise<RegistryHealth>

/** A count that answers for two seconds; one that failed is no answer. */
export function createCountedRegistry(db: Db): CountedRegistry {
  let counted: { until: number; answer: Promise<RegistryHealth> } | undefined
  return () => {
    if (counted === undefined || performance.now() >= counted.until) {
      const fresh = { until: performance.now() + KEPT_MS, answer: countRegistry(db) }
      fresh.answer.catch(() => (fresh.until = 0))
      counted = fresh
    }
    return counted.answer
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
 * Of all active resource servers: whether each has landed (a provisioned one that publishes nothing has at once), and how
 * the last pulls went, by state and reason. One that failed after it had landed goes on with what it listed before.
 */
async function countRegistry(db: Db): Promise<RegistryHealth> {
  const sources = new Map<string, SourceCount>()
  let after: string | undefined
  for (;;) {
    const owners = await listOwners(db, { after, limit: OWNERS_PER_READ })
    for (const { owner } of owners) {
      for (const counted of await countSources(db, owner)) addTo(sources, counted)
    }
    after = owners.at(-1)?.owner
    if (owners.length < OWNERS_PER_READ) break
  }
  const all = [...sources.values()]
  const sum = (counts: SourceCount[]): number => counts.reduce((total, { count }) => total + count, 0)
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

function addTo(sources: Map<string, SourceCount>, counted: SourceCount): void {
  const key = JSON.stringify([counted.state, counted.fault, counted.landed])
  const { count = 0, at = null } = sources.get(key) ?? {}
  const latest = counted.at !== null && (at === null || counted.at > at) ? counted.at : at
  sources.set(key, { ...counted, count: count + counted.count, at: latest })
}
