/**
 * Tells an operator of each security event: one line of the log and one more of a counter. It names people
 * and things by their ids, and holds no secret and no text that an agent wrote. Contract: "Events", "Health".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { RequestObserver } from '../http/metrics.ts'
import { createRateShares } from '../limits/rate-shares.ts'
import type { Db } from '../storage/authority/database.ts'
import type { LedgerKind } from '../storage/authority/ledger.ts'
import { onNumbered, type Numbered } from '../storage/authority/positions.ts'
import type { AuthorityMetrics } from './metrics.ts'

/** Events that happen with every call or agreement are not security events; the owner's ledger has them. */
const ORDINARY: ReadonlySet<string> = new Set<LedgerKind>([
  'promised',
  'touched',
  'relaxed',
  'reports_missing',
  'reports_unknown',
])

/**
 * The limit on lines about refused credentials, per route, because anybody can cause them. The counter counts
 * all.
 */
const REFUSED_LINES_PER_MINUTE = 60
const ROUTES_MAX = 100

export interface SecurityLogOptions {
  log: FastifyBaseLogger
  metrics: Pick<AuthorityMetrics, 'securityEvent' | 'answered'>
  /** Milliseconds since the epoch. */
  clock: () => number
}

/**
 * Reports what is committed through `db`, once across all replicas, because one of them numbers it.
 * @returns what observes the answers of the listeners in place of `metrics.answered`: a request refused with
 * 401 is an event, too.
 */
export function startSecurityLog(db: Db, { log, metrics, clock }: SecurityLogOptions): RequestObserver {
  onNumbered(db, numbered => {
    for (const one of numbered) {
      if (ORDINARY.has(one.kind)) continue
      metrics.securityEvent(one.kind)
      log.info(securityLine(one), 'security')
    }
  })
  const lines = createRateShares({ perMinute: REFUSED_LINES_PER_MINUTE, sourcesMax: ROUTES_MAX, clock })
  return asked => {
    metrics.answered(asked)
    if (asked.status !== 401) return
    metrics.securityEvent('credential_refused')
    const { method, route } = asked
    if (lines.take(`${method} ${route}`) === 0)
      log.warn({ event: 'credential_refused', method, route }, 'security')
  }
}

function securityLine({ owner, kind, seq, handle, family, jti }: Numbered): object {
  return {
    event: kind,
    owner,
    seq,
    ...(handle !== null && { handle }),
    ...(family !== null && { family }),
    ...(jti !== null && { jti }),
  }
}
