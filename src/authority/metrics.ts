/**
 * Owns the numbers of one authority. Contract: "Health": for dashboards, never for owners or agents; no label
 * says whose anything is.
 */
import { SECURITY_EVENTS } from '../http/telemetry/security-log.ts'
import { createServerMetrics, type ServerMetrics } from '../http/telemetry/server-metrics.ts'
import type { HttpServerOptions } from '../http/servers/server.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import type { Authority } from './context.ts'
import type { Checkpoints } from './ledger/checkpoints.ts'
import type { WitnessOutcome } from './ledger/witness-rounds.ts'
import type { CountNotification } from './notifications/delivery.ts'

/** The metrics of every server, and those of security events. */
export interface AuthorityMetrics extends ServerMetrics {
  /** Counts one more of this event. The name is ours, never a caller's. */
  securityEvent(event: string): void
  /**
   * Counts, from now on, what was refused because an owner was being moved. @returns what counts one more.
   */
  countMoving(): () => void
  /** Counts, from now on, what witnesses answer. @returns what counts one more. */
  countWitnesses(): (outcome: WitnessOutcome) => void
  /** Counts what became of one more message to an owner. */
  notified: CountNotification
}

/** What of an authority is measured. */
type AuthorityMetricSources = Pick<Authority, 'database' | 'clock' | 'quotas'> &
  Partial<Pick<Authority, 'checkpoints'>>

/** Whenever the metrics are read, reads the pools of the database, whether it answers, and the clock. */
export function createAuthorityMetrics(
  cells: readonly { name: string; authority: AuthorityMetricSources }[],
  serverOptions: Pick<HttpServerOptions, 'logger' | 'healthy' | 'notReady'> & { healthy: () => boolean },
): AuthorityMetrics {
  const [home, ...others] = cells.map(({ authority }) => authority)
  const { clock } = home!
  const named = (name: string): string => (name === cells[0]!.name ? '' : `@${name}`)
  const pools = Object.fromEntries(
    cells.flatMap(({ name, authority: { database } }) => [
      [`calls${named(name)}`, database.callPool],
      [`rest${named(name)}`, database.pool],
    ]),
  )
  const databaseAnswers = async (): Promise<boolean> => {
    const answers = [home!, ...others].map(({ database }) => answersNow(database.pool))
    return (await Promise.all(answers)).every(Boolean)
  }
  const metrics = createServerMetrics('authority', { pools, clock, databaseAnswers }, serverOptions)
  const count = metrics.addCounter(SECURITY_EVENTS)
  const refused = metrics.addCounter({
    name: 'usher_quota_refusals_total',
    help: 'Requests refused because an owner was at her limit, by kind.',
    labelNames: ['quota'],
  })
  for (const { quotas } of [home!, ...others]) quotas.listen(quota => refused({ quota }))
  const standbys = [home!, ...others].flatMap(({ database: { standby } }) => standby ?? [])
  if (standbys.length > 0)
    metrics.addGauge(
      {
        name: 'usher_standby_silent_seconds',
        help: 'Since the last word of a synchronous standby; above 5 everything is answered 503. Only with UMA_AS_REQUIRE_SYNC_STANDBY.',
      },
      () => Math.max(...standbys.map(standby => standby.silentSeconds())),
    )
  countCheckpoints(
    metrics,
    [home!, ...others].flatMap(({ checkpoints }) => checkpoints ?? []),
  )
  const notified = metrics.addCounter({
    name: 'usher_notifications_total',
    help: 'Messages to owners outside of their pages, by kind of address and outcome.',
    labelNames: ['kind', 'outcome'],
  })
  return {
    ...metrics,
    securityEvent: event => count({ event }),
    countMoving: () => {
      const moving = metrics.addCounter({
        name: 'usher_moving_refusals_total',
        help: 'Answered 503 because an owner was being moved to another cell. Only with UMA_AS_CELLS.',
        labelNames: [],
      })
      return () => moving({})
    },
    countWitnesses: () => {
      const sent = metrics.addCounter({
        name: 'usher_witnesses_total',
        help: 'Heads of ledgers that were sent to a witness, by outcome; `lost`: it has cosigned more entries than there are.',
        labelNames: ['outcome'],
      })
      return outcome => sent({ outcome })
    },
    notified: (kind, outcome) => notified({ kind, outcome }),
  }
}

/** Counts what came of attempts to sign, if there are keys of the log. */
function countCheckpoints(metrics: ServerMetrics, all: readonly Checkpoints[]): void {
  if (all.length === 0) return
  const count = metrics.addCounter({
    name: 'usher_checkpoints_total',
    help: 'Attempts to sign the tree of a ledger, by outcome; `contradicted`: it is not what was signed of it before.',
    labelNames: ['outcome'],
  })
  for (const checkpoints of all) checkpoints.listen(outcome => count({ outcome }))
}
