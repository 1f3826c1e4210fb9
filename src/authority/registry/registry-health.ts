/**
 * Whether the registry of this authority has landed, for whoever operates it.
 * Contract: "Health", "Registry materialization".
 */
import type { FastifyInstance } from 'fastify'
import type { Db } from '../../storage/authority/database.ts'
import { listOwners } from '../../storage/authority/owners.ts'
import { countSources, type SourceCount } from '../../storage/authority/registry.ts'
import type { Authority } from '../context.ts'

const OWNERS_PER_READ = 100
const REGISTRY_KEPT_MS = 2_000

/** Registers /health/registry. Anybody may ask, so it is counted at most every two seconds, and names nobody. */
export function registerRegistryHealth(
  app: FastifyInstance,
  { database }: Pick<Authority, 'database'>,
): void {
  let counted: { until: number; answer: Promise<object> } | undefined
  app.get('/health/registry', async (_request, reply) => {
    if (counted === undefined || performance.now() >= counted.until) {
      const fresh = { until: performance.now() + REGISTRY_KEPT_MS, answer: countRegistry(database.db) }
      fresh.answer.catch(() => (fresh.until = 0))
      counted = fresh
    }
    return reply.header('cache-control', 'no-store').send(await counted.answer)
  })
}

/**
 * Of all active resource servers: whether each has landed (a provisioned one that publishes nothing has at once), and how
 * the last pulls went, by state and reason. One that failed after it had landed goes on with what it listed before.
 */
async function countRegistry(db: Db): Promise<object> {
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
