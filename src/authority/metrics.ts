/**
 * Owns the numbers of one authority. Contract: "Health": for dashboards, never for owners or agents; no label
 * says whose anything is.
 */
import { createServerMetrics, type ServerMetrics } from '../http/server-metrics.ts'
import type { HttpServerOptions } from '../http/server.ts'
import type { Authority } from './context.ts'

/** Reads the pools of the database, and the clock, whenever somebody asks. */
export function createAuthorityMetrics(
  { database, clock }: Pick<Authority, 'database' | 'clock'>,
  around: Pick<HttpServerOptions, 'logger' | 'healthy' | 'notReady'> & { healthy: () => boolean },
): ServerMetrics {
  const pools = { calls: database.callPool, rest: database.pool }
  return createServerMetrics('authority', { pools, clock }, around)
}
