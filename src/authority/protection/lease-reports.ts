/**
 * Tells an operator of what was waited for because sidecars hold leases: numbers, and a line of the log for
 * each that did not answer. Contract: "Health"; ADR 0021. No number says whose.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { ServerMetrics } from '../../http/telemetry/server-metrics.ts'
import type { Db } from '../../storage/authority/database.ts'
import { onLetGo } from '../../storage/authority/grants/leases.ts'
import type { LeaseStreams } from './lease-streams.ts'

export interface ReportOptions {
  log: FastifyBaseLogger
  metrics: Pick<ServerMetrics, 'addCounter' | 'addGauge' | 'addHistogram'>
  /** The streams of every cell. */
  streams: readonly Pick<LeaseStreams, 'open'>[]
}

/** Reports what is waited for through these databases, which are those of the cells. */
export function reportLeases(databases: readonly Db[], { log, metrics, streams }: ReportOptions): void {
  metrics.addGauge(
    { name: 'usher_lease_streams', help: 'Streams to sidecars that hold leases, of this process.' },
    () => streams.reduce((sum, { open }) => sum + open(), 0),
  )
  const seconds = metrics.addHistogram({
    name: 'usher_lease_settlement_seconds',
    help: 'How long an act that ended something waited for sidecars to let go.',
  })
  const unanswered = metrics.addCounter({
    name: 'usher_lease_unanswered_total',
    help: 'Sidecars that were asked to let go, did not answer, and were waited for.',
    labelNames: [],
  })
  for (const db of databases)
    onLetGo(db, ({ owner, silent, blind, waited_ms }) => {
      seconds(waited_ms / 1_000)
      if (blind) log.warn({ owner, waited_ms }, 'sidecars could not be asked to let go: they were waited for')
      for (const client_id of blind ? [] : silent) {
        unanswered({})
        log.warn({ event: 'lease_unanswered', owner, client_id, waited_ms }, 'security')
      }
    })
}
