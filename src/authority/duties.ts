/**
 * Owns the background work of an authority: what it does without being asked. Contract: "Parties" (owner's
 * authorization server), "Limits", "Registry materialization".
 */
import type { AuthorityConfig } from '../config.ts'
import type { RequestObserver } from '../http/telemetry/metrics.ts'
import { createOutbound } from '../http/outbound/outbound.ts'
import type { Repetition } from '../limits/repetition.ts'
import { originBase } from '../wire/ledger/checkpoint.ts'
import { warnOfDifferences } from './administration/differences.ts'
import { startReturns } from './allowance-returns.ts'
import type { Cells } from './cells/cells.ts'
import type { Authority } from './context.ts'
import { startWithdrawals } from './joint/withdrawals.ts'
import { startDelivery, type CountNotification } from './notifications/delivery.ts'
import type { Notifier } from './notifications/sending.ts'
import { each, type AuthorityCell } from './opening.ts'
import { startCalls } from './organization/organization-messages.ts'
import { startCompliance } from './organization/compliance-reports.ts'
import { startDocuments } from './organization/documents.ts'
import { startViews } from './organization/view-polling.ts'
import { createWitnessAsking, startWitnessRounds, type WitnessOutcome } from './ledger/witness-rounds.ts'
import { reportLeases, type ReportOptions } from './protection/lease-reports.ts'
import { createLeaseStreams, type LeaseStreams } from './protection/lease-streams.ts'
import { startLeaseSweep } from './protection/lease-sweep.ts'
import { startSecurityLog, type AuthoritySecurityLogOptions } from './security-log.ts'
import { startSweeper } from './sweeper.ts'

/**
 * What is swept, what goes back to allowances, and what is sent to organizations and tallies, for the owners
 * of one authority.
 */
export function dutiesOf(
  authority: Authority,
  { config, localClock }: { config: AuthorityConfig; localClock: () => number },
) {
  const { sweepSeconds: pauseSeconds, retentionSeconds: retention } = config
  const messages = [startDocuments, startCalls, startViews, startCompliance, startWithdrawals]
  return [
    () => startSweeper(authority, { pauseSeconds, localClock, retention }),
    () => startReturns(authority),
    ...messages.map(start => () => start(authority)),
  ]
}

/**
 * Notifies owners, if there is a key for it. It uses connections of its own, so a silent endpoint holds no
 * connection that others need.
 */
export function startNotifying(
  { notificationKey: key, issuer, devLoopback }: AuthorityConfig,
  authority: Authority,
  of: Pick<Notifier, 'page'> & { count: CountNotification; closers: (() => Promise<void>)[] },
): Notifier | undefined {
  if (key === undefined) return undefined
  const { page, count, closers } = of
  const outbound = createOutbound({ devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const notifier = { key, issuer, outbound, now: () => authority.now(), page }
  const delivery = startDelivery({ ...authority, notifier, count })
  closers.push(() => delivery.stop())
  return notifier
}

/**
 * What sends the heads of ledgers to witnesses, in each cell; nothing if there are none. They are the
 * operator's choice, and may be in a private network. The cells share their turns.
 */
export function witnessingsOf(
  { issuer, witnesses, devLoopback }: Pick<AuthorityConfig, 'issuer' | 'witnesses' | 'devLoopback'>,
  authorities: readonly Pick<Authority, 'database' | 'log'>[],
  count: (outcome: WitnessOutcome) => void,
): (() => Repetition)[] {
  if (witnesses === undefined) return []
  const base = originBase(issuer)
  const asking = createWitnessAsking({ witnesses })
  return authorities.map(({ database, log }) => () => {
    const outbound = createOutbound({ devLoopback })
    const sent = { witnesses, asking, outbound, base, log, count }
    const rounds = startWitnessRounds(database.ofNobody, sent)
    return {
      stop: async () => {
        const stopped = rounds.stop()
        // Running requests are aborted, so that stopping does not wait for another server.
        await outbound.close()
        await stopped
      },
    }
  })
}

/** Lets sidecars listen for the end of leases, also if this replica gives none, because others may. */
export function startLeases(
  cells: Cells<AuthorityCell>,
  of: Omit<ReportOptions, 'streams'> & { config: AuthorityConfig; closers: (() => Promise<void>)[] },
): ReadonlyMap<AuthorityCell, LeaseStreams> {
  const { config, closers, ...services } = of
  const all = each(cells, ({ authority }) => {
    const streams = createLeaseStreams(authority, { streamsMax: config.leaseStreamsMax })
    const sweep = startLeaseSweep(authority, streams)
    closers.push(() => sweep.stop())
    return streams
  })
  const databases = cells.all.map(({ database }) => database.ofNobody)
  reportLeases(databases, { ...services, streams: [...all.values()] })
  return all
}

/** Logs security events of every cell. @returns what observes the answers of all listeners. */
export function startSecurityLogs(
  { all }: Cells<AuthorityCell>,
  options: AuthoritySecurityLogOptions,
): RequestObserver {
  const [answered] = all.map(({ database }) => startSecurityLog(database.ofNobody, options))
  return answered!
}

/**
 * Pulls what resource servers publish, and compares the owners with the provisioning file. Nobody waits for
 * either.
 */
export function startRegistries({ all }: Cells<AuthorityCell>, closers: (() => Promise<void>)[]): void {
  for (const { authority, owners } of all) {
    authority.registry.start()
    closers.push(warnOfDifferences(authority, owners))
  }
}
