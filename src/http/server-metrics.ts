/**
 * Owns the numbers of a server with a database and the listener they are read at. Contract: "Health": for
 * dashboards, never for owners or agents; no label says whose anything is.
 */
import type { CertificateObserver } from './certificates.ts'
import {
  addCounter,
  addGauge,
  createMetricsRegistry,
  requestMetrics,
  type CounterAbout,
  type RequestObserver,
} from './metrics.ts'
import { createHttpServer, type HttpServer, type HttpServerOptions } from './server.ts'

/** What of a pool is counted. */
interface Counted {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** What is read off whenever somebody asks. */
export interface Measured {
  /** Of connections to Postgres, by what they are for. */
  pools: Readonly<Record<string, Counted>>
  clock: { offsetSeconds(): number | undefined }
}

export interface ServerMetrics {
  certificates: CertificateObserver
  answered: RequestObserver
  /** Adds a number that only grows, of the party's own. @returns what counts one more under these labels. */
  addCounter(about: CounterAbout): (labels: Record<string, string>) => void
  /** A server of `/metrics`, `/health` and `/ready` alone, not yet listening. */
  createServer(): HttpServer
}

const BODY_BYTES_MAX = 1_024

/** The numbers of one party in this process. */
export function createServerMetrics(
  party: 'authority' | 'organization',
  { pools, clock }: Measured,
  around: Pick<HttpServerOptions, 'logger' | 'healthy' | 'notReady'> & { healthy: () => boolean },
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
    { name: 'usher_serving', help: '1 while health says SERVING or ok, 0 while the process drains.' },
    gauge => gauge.set(around.healthy() ? 1 : 0),
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
    createServer: () => {
      const server = createHttpServer({ ...around, bodyBytesMax: BODY_BYTES_MAX })
      server.get('/metrics', async (_request, reply) => {
        const { text, contentType } = await render()
        return reply.type(contentType).send(text)
      })
      return server
    },
  }
}
