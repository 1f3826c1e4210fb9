/**
 * Owns the numbers of leases at one enforcement point that may hold some. Contract: "Grant (RPT) liveness"
 * (leases, docs/choices.md, ADR 0021).
 */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { LeaseObserver } from '../leases/holder.ts'

export type LeaseMetrics = Pick<LeaseObserver, 'judged' | 'registered' | 'ended' | 'invalidated'>

/** Adds them to a registry. */
export function createLeaseMetrics(registry: Registry): LeaseMetrics {
  const registers = [registry]
  const answers = new Counter({
    name: 'usher_grant_answers_total',
    help: 'Answers about standing grants by which calls were judged: kept under a lease, or asked for anew.',
    labelNames: ['by'],
    registers,
  })
  const gauge = new Gauge({
    name: 'usher_leases_held',
    help: 'Leases that are held, one for each owner whose agents called within a minute.',
    registers,
  })
  const invalidated = new Counter({
    name: 'usher_lease_invalidations_total',
    help: 'Times that all kept answers about an owner were dropped because her authority asked for it.',
    registers,
  })
  for (const by of ['kept', 'asked']) answers.inc({ by }, 0)
  return {
    judged: by => answers.inc({ by }),
    registered: () => gauge.inc(),
    ended: () => gauge.dec(),
    invalidated: () => invalidated.inc(),
  }
}
