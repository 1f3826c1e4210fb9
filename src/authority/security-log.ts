/**
 * Tells an operator of each security event: what the authority's ledgers and receipts say, once it is
 * numbered. Contract: "Events", "Health".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { RequestObserver } from '../http/telemetry/metrics.ts'
import { createSecurityLog, type SecurityLine } from '../http/telemetry/security-log.ts'
import type { Db } from '../storage/authority/database.ts'
import type { LedgerKind } from '../storage/authority/ledger/ledger.ts'
import { onNumbered, type Numbered } from '../storage/authority/ledger/positions.ts'
import type { AuthorityMetrics } from './metrics.ts'

/** Events that happen with every call or agreement are not security events; the owner's ledger has them. */
export const ORDINARY_ENTRIES = [
  'promised',
  'touched',
  'relaxed',
  'reports_missing',
  'reports_unknown',
] as const satisfies readonly LedgerKind[]
const ORDINARY: ReadonlySet<string> = new Set(ORDINARY_ENTRIES)

export interface AuthoritySecurityLogOptions {
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
export function startSecurityLog(
  db: Db,
  { log, metrics, clock }: AuthoritySecurityLogOptions,
): RequestObserver {
  const count = (event: string): void => metrics.securityEvent(event)
  const security = createSecurityLog({ log, count, answered: metrics.answered, clock })
  onNumbered(db, numbered => {
    for (const one of numbered) if (!ORDINARY.has(one.kind)) security.report(securityLine(one))
  })
  return security.answered
}

function securityLine({ owner, kind, seq, handle, family, jti }: Numbered): SecurityLine {
  return {
    event: kind,
    owner,
    seq,
    ...(handle !== null && { handle }),
    ...(family !== null && { family }),
    ...(jti !== null && { jti }),
  }
}
