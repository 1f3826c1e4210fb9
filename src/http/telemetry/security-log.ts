/**
 * Tells an operator of a party's security events: one line of the log and one more of a counter for each. A
 * line names people and things by their ids, and holds no secret and no text that an agent wrote. Contract:
 * "Events", "Health".
 */
import type { FastifyBaseLogger } from 'fastify'
import { createRateShares } from '../../limits/rate-shares.ts'
import type { CounterAbout, RequestObserver } from './metrics.ts'

/** The counter of these events. */
export const SECURITY_EVENTS: CounterAbout = {
  name: 'usher_security_events_total',
  help: 'Security events, by kind; each is a line of the log, too.',
  labelNames: ['event'],
}

/**
 * The limit on lines from one source about what others can cause as often as they like. The counter counts
 * all.
 */
const LIMITED_LINES_PER_MINUTE = 60
const SOURCES_MAX = 10_000

export interface SecurityLogOptions {
  log: FastifyBaseLogger
  /** Counts one more of an event. The name is ours, never a caller's. */
  count: (event: string) => void
  answered: RequestObserver
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** What a line says besides the kind of its event. */
export type SecurityLine = { event: string } & Record<string, unknown>

export interface SecurityLog {
  /** Counts an event and writes its line. */
  report(line: SecurityLine): void
  /** The same, but of one source there are at most 60 lines a minute. */
  reportLimited(source: string, line: SecurityLine): void
  /**
   * Observes the answers of the listeners in place of the observer in the options: a request refused with
   * 401 is an event, too.
   */
  answered: RequestObserver
}

/** Writes nothing before it is used. */
export function createSecurityLog({ log, count, answered, clock }: SecurityLogOptions): SecurityLog {
  const lines = createRateShares({ perMinute: LIMITED_LINES_PER_MINUTE, sourcesMax: SOURCES_MAX, clock })
  return {
    report: line => {
      count(line.event)
      log.info(line, 'security')
    },
    reportLimited: (source, line) => {
      count(line.event)
      if (lines.take(`${line.event} ${source}`) === 0) log.info(line, 'security')
    },
    answered: request => {
      answered(request)
      if (request.status !== 401) return
      const { method, route } = request
      const line = { event: 'credential_refused', method, route }
      count(line.event)
      if (lines.take(`${line.event} ${method} ${route}`) === 0) log.warn(line, 'security')
    },
  }
}
