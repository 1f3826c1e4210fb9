/**
 * Owns the numbers of one authority and the listener they are read at. contract, "Health": for dashboards, never for owners or agents; no
 * label says whose anything is.
 */
import type { CertificateObserver } from '../http/certificates.ts'
import type { Logger } from '../http/log.ts'
import { addGauge, createMetricsRegistry, requestMetrics, type RequestObserver } from '../http/metrics.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import type { Database } from '../storage/core/database.ts'

export interface AuthorityMetrics {
  certificates: CertificateObserver
  answered: RequestObserver
  /** A server of `/metrics` and `/health` alone, not yet listening. */
  createServer(logger: Logger): HttpServer
}

const BODY_BYTES_MAX = 1_024

/** Reads the pool of the database whenever somebody asks. */
export function createAuthorityMetrics(database: Database, serving: () => boolean): AuthorityMetrics {
  const { registry, certificates, render } = createMetricsRegistry('authority')
  const { pool } = database
  addGauge(
    registry,
    {
      name: 'usher_database_connections',
      help: 'Connections to Postgres: in use, and idle.',
      labelNames: ['state'],
    },
    gauge => {
      gauge.set({ state: 'used' }, pool.totalCount - pool.idleCount)
      gauge.set({ state: 'idle' }, pool.idleCount)
    },
  )
  addGauge(
    registry,
    { name: 'usher_database_waiting', help: 'Requests that wait for a connection to Postgres.' },
    gauge => gauge.set(pool.waitingCount),
  )
  addGauge(
    registry,
    { name: 'usher_serving', help: '1 while health says SERVING or ok, 0 while the process drains.' },
    gauge => gauge.set(serving() ? 1 : 0),
  )
  return {
    certificates,
    answered: requestMetrics(registry),
    createServer: logger => {
      const server = createHttpServer({ logger, bodyBytesMax: BODY_BYTES_MAX, healthy: serving })
      server.get('/metrics', async (_request, reply) => {
        const { text, contentType } = await render()
        return reply.type(contentType).send(text)
      })
      return server
    },
  }
}
