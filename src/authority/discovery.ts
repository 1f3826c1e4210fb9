/**
 * What anybody may know of this authority: its metadata, its keys, whether its registry has landed.
 * Contract: "Owner's authorization server: public", "Authorization server metadata members", "Health".
 */
import type { FastifyInstance, FastifyReply } from 'fastify'
import { listOwners } from '../storage/authority/owners.ts'
import { countSources, type SourceCount } from '../storage/authority/registry.ts'
import { publicJwk } from '../wire/keys.ts'
import { authorizationServerMetadata } from '../wire/metadata.ts'
import { AUTHORITY_PATH, WELL_KNOWN } from '../wire/names.ts'
import type { Authority } from './context.ts'

/** As long as others keep what they fetched here. */
const KEPT = 'public, max-age=300'
const OWNERS_PER_READ = 100
const REGISTRY_KEPT_MS = 2_000

/** Registers both well-known paths (one document), /jwks and /health/registry; /health is every server's own. */
export function registerDiscovery(app: FastifyInstance, authority: Authority, ownerUrl: string): void {
  const document = authorizationServerMetadata({
    issuer: authority.issuer,
    specNs: authority.specNs,
    owner_endpoint: ownerUrl + AUTHORITY_PATH.owner,
    registration: true,
  })
  const keys = { keys: authority.keys.map(key => publicJwk(key)) }
  const kept = (body: object) => (_request: unknown, reply: FastifyReply) =>
    reply.header('cache-control', KEPT).header('access-control-allow-origin', '*').send(body)
  app.get(WELL_KNOWN.agentsConfiguration, kept(document))
  app.get(WELL_KNOWN.umaConfiguration, kept(document))
  app.get(AUTHORITY_PATH.jwks, kept(keys))
  registerRegistryHealth(app, authority)
}

/** Anybody may ask, so it is counted at most every two seconds, and names nobody. */
function registerRegistryHealth(app: FastifyInstance, authority: Authority): void {
  let counted: { until: number; answer: Promise<object> } | undefined
  app.get('/health/registry', async (_request, reply) => {
    if (counted === undefined || performance.now() >= counted.until) {
      const fresh = { until: performance.now() + REGISTRY_KEPT_MS, answer: countRegistry(authority) }
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
async function countRegistry(authority: Authority): Promise<object> {
  const { db } = authority.database
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
