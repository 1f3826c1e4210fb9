/**
 * Owns the numbers of one enforcement point. Contract: "Errors": an outage must be distinguishable from a
 * denial, even from outside. Every label has few values: a value that an authority or a caller invented is
 * counted as `other`.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { CertificateObserver } from '../../http/servers/certificates.ts'
import {
  addGauge,
  createMetricsRegistry,
  LATENCY_BUCKETS,
  type RenderedMetrics,
} from '../../http/telemetry/metrics.ts'
import type { OutboundReason, OutboundStats } from '../../http/outbound/outbound.ts'
import type { ReplicaObserver } from '../../http/outbound/replicas.ts'
import { INACTIVE_REASONS } from '../../rules/grant-end.ts'
import { REFUSALS } from '../../wire/refusal.ts'
import { createLeaseMetrics, type LeaseMetrics } from './lease-metrics.ts'

/** One request to an authority, however many of its addresses were tried. */
export interface AuthorityCall {
  call:
    | 'introspect'
    | 'consume'
    | 'perm'
    | 'token'
    | 'report'
    | 'register'
    | 'jwks'
    | 'membership'
    | 'mandate'
    | 'lease'
    | 'other'
  /** A status below 300, below 500, or any other; or why there was no status. */
  outcome: 'answered' | 'refused' | 'failed' | OutboundReason
  seconds: number
}

/** Values that are read when the metrics are scraped. */
export interface MetricSources {
  reports: { waiting(): number; bytes(): number; left(): number }
  pools: Record<'challenges' | 'grants', () => OutboundStats>
}

export interface Metrics {
  decided(decision: { outcome: 'allow' | 'deny'; reason: string; step: string; ms: number }): void
  /** The time of one call here, except for waiting for the authority. */
  answered(ownMs: number): void
  /** A check is being judged between these two calls. */
  checkStarted(): void
  checkEnded(): void
  authorityCalled(call: AuthorityCall): void
  patRenewed(outcome: 'renewed' | 'refused' | 'failed'): void
  reportsSent(count: number): void
  reportsDropped(count: number): void
  /** Counts a call that was not let through because its report could not be stored. */
  reportUnkept(): void
  serving(yes: boolean): void
  /** Counts an export of traces that the collector did not accept. */
  traceExportFailed(): void
  replicas: ReplicaObserver
  certificates: CertificateObserver
  /** The metrics of leases; called only if the enforcement point uses leases. */
  leases(): LeaseMetrics
  /** Says where gauges are read. */
  observe(sources: MetricSources): void
  /** The Prometheus text and its content type. */
  render: () => Promise<RenderedMetrics>
}

/** The buckets are fine around the usual values, so that the median can be read off. */
const OWN_SECONDS = [
  0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.05,
  0.25, 1,
]

const KNOWN_REASONS: ReadonlySet<string> = new Set([
  ...Object.keys(REFUSALS),
  ...INACTIVE_REASONS,
  'granted',
  'no_grant_needed',
  'unknown',
])

/** Each has its own counters, so that two enforcement points in one process do not mix. */
export function createMetrics(): Metrics {
  const { registry, certificates, render } = createMetricsRegistry('sidecar')
  return {
    ...decisionMetrics(registry),
    ...authorityMetrics(registry),
    ...reportMetrics(registry),
    observe: sources => readSources(registry, sources),
    certificates,
    leases: () => createLeaseMetrics(registry),
    render,
  }
}

function decisionMetrics(
  registry: Registry,
): Pick<Metrics, 'decided' | 'answered' | 'checkStarted' | 'checkEnded' | 'serving' | 'traceExportFailed'> {
  const registers = [registry]
  const decisions = new Counter({
    name: 'usher_decisions_total',
    help: 'Decisions by outcome, by the reason that the log line has, and by the step they ended at.',
    labelNames: ['outcome', 'reason', 'step'],
    registers,
  })
  const seconds = new Histogram({
    name: 'usher_decision_seconds',
    help: 'Time from a call to its decision.',
    labelNames: ['outcome'],
    buckets: LATENCY_BUCKETS,
    registers,
  })
  const own = new Histogram({
    name: 'usher_own_seconds',
    help: 'Time from a check to its answer, beside waiting for the authority.',
    buckets: OWN_SECONDS,
    registers,
  })
  const serving = new Gauge({ name: 'usher_serving', help: '1 while health says SERVING.', registers })
  const exportsFailed = new Counter({
    name: 'usher_trace_exports_failed_total',
    help: 'Exports of traces that the collector did not accept; their spans are dropped.',
    registers,
  })
  let inFlight = 0
  addGauge(registry, { name: 'usher_checks_in_flight', help: 'Checks that are being judged.' }, gauge =>
    gauge.set(inFlight),
  )
  return {
    decided: ({ outcome, reason, step, ms }) => {
      decisions.inc({ outcome, reason: KNOWN_REASONS.has(reason) ? reason : 'other', step })
      seconds.observe({ outcome }, ms / 1000)
    },
    answered: ownMs => own.observe(ownMs / 1000),
    checkStarted: () => void inFlight++,
    checkEnded: () => void inFlight--,
    serving: yes => serving.set(yes ? 1 : 0),
    traceExportFailed: () => exportsFailed.inc(),
  }
}

function authorityMetrics(registry: Registry): Pick<Metrics, 'authorityCalled' | 'patRenewed' | 'replicas'> {
  const registers = [registry]
  const seconds = new Histogram({
    name: 'usher_authority_seconds',
    help: 'Time of requests to authorities, by call and outcome.',
    labelNames: ['call', 'outcome'],
    buckets: LATENCY_BUCKETS,
    registers,
  })
  const pats = new Counter({
    name: 'usher_pat_requests_total',
    help: 'Protection access tokens asked for: renewed, refused by the authority, or failed.',
    labelNames: ['outcome'],
    registers,
  })
  const up = new Gauge({
    name: 'usher_authority_address_up',
    help: '1 while a configured address of an authority is asked, 0 while it is passed over.',
    labelNames: ['address'],
    registers,
  })
  const failovers = new Counter({
    name: 'usher_authority_failovers_total',
    help: 'Requests that were retried at another address of an authority, by the outcome of the attempt before.',
    labelNames: ['reason'],
    registers,
  })
  return {
    authorityCalled: ({ call, outcome, seconds: took }) => seconds.observe({ call, outcome }, took),
    patRenewed: outcome => pats.inc({ outcome }),
    replicas: {
      changed: (address, isUp) => up.set({ address }, isUp ? 1 : 0),
      failedOver: reason => failovers.inc({ reason }),
    },
  }
}

function reportMetrics(registry: Registry): Pick<Metrics, 'reportsSent' | 'reportsDropped' | 'reportUnkept'> {
  const registers = [registry]
  const sent = new Counter({
    name: 'usher_access_reports_sent_total',
    help: 'Allowed calls that an authority took note of.',
    registers,
  })
  const dropped = new Counter({
    name: 'usher_access_reports_dropped_total',
    help: 'Allowed calls that could not be reported to the owner.',
    registers,
  })
  const unkept = new Counter({
    name: 'usher_access_reports_unkept_total',
    help: 'Calls that were refused, for their report could not be kept in reports.state_dir.',
    registers,
  })
  return {
    reportsSent: count => sent.inc(count),
    reportsDropped: count => dropped.inc(count),
    reportUnkept: () => unkept.inc(),
  }
}

function readSources(registry: Registry, { reports, pools }: MetricSources): void {
  addGauge(
    registry,
    { name: 'usher_access_reports_waiting', help: 'Allowed calls that are still to be reported.' },
    gauge => gauge.set(reports.waiting()),
  )
  addGauge(
    registry,
    {
      name: 'usher_access_reports_state_bytes',
      help: 'Bytes of reports in reports.state_dir that are still to be sent.',
    },
    gauge => gauge.set(reports.bytes()),
  )
  addGauge(
    registry,
    {
      name: 'usher_access_reports_left',
      help: 'Journals of reports in reports.state_dir that nobody here can send.',
    },
    gauge => gauge.set(reports.left()),
  )
  addGauge(
    registry,
    {
      name: 'usher_authority_pool',
      help: 'Connections to authorities, requests on them and requests waiting for one, by pool.',
      labelNames: ['pool', 'what'],
    },
    gauge => {
      for (const [pool, stats] of Object.entries(pools)) {
        const { connections, inFlight, waiting } = stats()
        gauge.set({ pool, what: 'connections' }, connections)
        gauge.set({ pool, what: 'in_flight' }, inFlight)
        gauge.set({ pool, what: 'waiting' }, waiting)
      }
    },
  )
}
