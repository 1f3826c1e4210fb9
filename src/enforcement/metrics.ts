/**
 * Owns the numbers of one enforcement point. contract, "Errors": an outage must be told apart from a denial, also from outside.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export interface Metrics {
  decided(decision: { outcome: 'allow' | 'deny'; reason: string; step: string; ms: number }): void
  /** One call's time here, beside waiting for the authority. */
  answered(ownMs: number): void
  reportsDropped(count: number): void
  serving(yes: boolean): void
  /** The Prometheus text and its content type. */
  render(): Promise<{ text: string; contentType: string }>
}

/** Fine where it usually lies, so that its median can be read off. */
const OWN_SECONDS = [
  0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0008, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.05,
  0.25, 1,
]

/** Counters of their own, so that two enforcement points in one process do not mix. */
export function createMetrics(): Metrics {
  const registers = [new Registry()]
  const [registry] = registers as [Registry]
  const decisions = new Counter({
    name: 'usher_decisions_total',
    help: 'Decisions by outcome, by the code that was answered, and by the step they ended at.',
    labelNames: ['outcome', 'reason', 'step'],
    registers,
  })
  const seconds = new Histogram({
    name: 'usher_decision_seconds',
    help: 'Time from a call to its decision.',
    labelNames: ['outcome'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  })
  const own = new Histogram({
    name: 'usher_own_seconds',
    help: 'Time from a check to its answer, beside waiting for the authority.',
    buckets: OWN_SECONDS,
    registers,
  })
  const dropped = new Counter({
    name: 'usher_access_reports_dropped_total',
    help: 'Allowed calls that could not be reported to the owner.',
    registers,
  })
  const serving = new Gauge({ name: 'usher_serving', help: '1 while health says SERVING.', registers })
  return {
    decided: ({ outcome, reason, step, ms }) => {
      decisions.inc({ outcome, reason, step })
      seconds.observe({ outcome }, ms / 1000)
    },
    answered: ownMs => own.observe(ownMs / 1000),
    reportsDropped: count => dropped.inc(count),
    serving: yes => serving.set(yes ? 1 : 0),
    render: async () => ({ text: await registry.metrics(), contentType: registry.contentType }),
  }
}
