/**
 * Owns the metrics of a server with a database, and the listener that serves them. Contract: "Health": for
 * dashboards, never for owners or agents; no label says whose anything is.
 */
import type { CertificateObserver } from '../servers/certificates.ts'
import {
  addCounter,
  addGauge,
  addHistogram,
  createMetricsRegistry,
  requestMetrics,
  type CounterAbout,
  type RequestObserver,
} from './metrics.ts'
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../servers/server.ts'

interface PoolCounts {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** Values that are read at every scrape. */
export interface ServerMetricSources {
  /** The pools of connections to Postgres, by purpose. */
  pools: Readonly<Record<string, PoolCounts>>
  clock: { offsetSeconds(): number | undefined }
  /** Whether the database answers just now. */
  databaseAnswers: () => Promise<boolean>
}

export interface ServerMetrics {
  certificates: CertificateObserver
  answered: RequestObserver
  /**
   * Adds a number of the party that only grows. @returns the function that counts one more under these
   * labels.
   */
  addCounter(about: CounterAbout): (labels: Record<string, string>) => void
  /** Adds a number of the party that is read at every scrape. */
  addGauge(about: { name: string; help: string }, read: () => number): void
  /** Times something of the party's own, in seconds. @returns what notes one more. */
  addHistogram(about: { name: string; help: string }): (seconds: number) => void
  /** A server of `/metrics`, `/health` and `/ready` alone, not yet listening. */
  createServer(): HttpServer
}

const BODY_BYTES_MAX = 1_024

/** The metrics of one party in this process. */
export function createServerMetrics(
  party: 'authority' | 'organization' | 'tally' | 'witness',
  { pools, clock, databaseAnswers }: ServerMetricSources,
  serverOptions: Pick<HttpServerOptions, 'logger' | 'healthy' | 'notReady'> & { healthy: () => boolean },
): ServerMetrics {
  const { registry, certificates, render } = createMetricsRegistry(party)
  addGauge(
    registry,
    {
      name: 'usher_database_connections',
      help: 'Connections to Postgres: of calls and of the rest, in use and idle.',
      labelNames: ['pool', 'state'],
    },
    gauge => {
      for (const [name, pool] of Object.entries(pools)) {
        gauge.set({ pool: name, state: 'used' }, pool.totalCount - pool.idleCount)
        gauge.set({ pool: name, state: 'idle' }, pool.idleCount)
      }
    },
  )
  addGauge(
    registry,
    {
      name: 'usher_database_waiting',
      help: 'Requests that wait for a connection to Postgres, but for those that wait for their own owner’s share.',
      labelNames: ['pool'],
    },
    gauge => {
      for (const [name, pool] of Object.entries(pools)) gauge.set({ pool: name }, pool.waitingCount)
    },
  )
  addGauge(
    registry,
    { name: 'usher_database_up', help: '1 while Postgres answers this replica within a second, else 0.' },
    async gauge => gauge.set((await databaseAnswers()) ? 1 : 0),
  )
  addGauge(
    registry,
    { name: 'usher_serving', help: '1 while health says SERVING or ok, 0 while the process drains.' },
    gauge => gauge.set(serverOptions.healthy() ? 1 : 0),
  )
  addGauge(
    registry,
    {
      name: 'usher_clock_offset_seconds',
      help: "The database's clock less this replica's; more than 2 either way, and it issues nothing.",
    },
    gauge => gauge.set(clock.offsetSeconds() ?? NaN),
  )
  return {
    certificates,
    answered: requestMetrics(registry),
    addCounter: about => addCounter(registry, about),
    addGauge: (about, read) => addGauge(registry, about, gauge => gauge.set(read())),
    addHistogram: about => addHistogram(registry, about),
    createServer: () => {
      const server = createHttpServer({ ...serverOptions, bodyBytesMax: BODY_BYTES_MAX })
      server.get('/metrics', async (_request, reply) => {
        const { text, contentType } = await render()
        return reply.type(contentType).send(text)
      })
      return server
    },
  }
}
