/**
 * Owns what the processes of every party measure alike, and how it is read: Prometheus text. Contract:
 * "Health" and "Errors": an outage must be distinguishable from a denial, even from outside. No label
 * contains text from a caller.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readManifest } from '../../files/package.ts'
import type { CertificateObserver } from '../servers/certificates.ts'

/** The metrics of one party in this process. */
export interface MetricsRegistry {
  /** For `registers` of the party's own metrics. */
  registry: Registry
  certificates: CertificateObserver
  /** The Prometheus text of these metrics and of the process, and its content type. */
  render: () => Promise<RenderedMetrics>
}

export interface RenderedMetrics {
  text: string
  contentType: string
}

/** A number that is read at every scrape; `read` sets it, or one for each combination of labels. */
export function addGauge(
  registry: Registry,
  about: { name: string; help: string; labelNames?: string[] },
  read: (gauge: Gauge) => void | Promise<void>,
): void {
  registry.registerMetric(
    new Gauge({
      ...about,
      registers: [],
      collect() {
        return read(this)
      },
    }),
  )
}

export interface CounterAbout {
  name: string
  help: string
  labelNames: string[]
}

/** A number that only grows. @returns the function that counts one more under these labels. */
export function addCounter(
  registry: Registry,
  about: CounterAbout,
): (labels: Record<string, string>) => void {
  const counter = new Counter({ ...about, registers: [registry] })
  return labels => counter.inc(labels)
}

/** Times something, in seconds. @returns what notes one more. */
export function addHistogram(
  registry: Registry,
  about: { name: string; help: string },
): (seconds: number) => void {
  const histogram = new Histogram({ ...about, buckets: LATENCY_BUCKETS, registers: [registry] })
  return seconds => histogram.observe(seconds)
}

/** Buckets in seconds for what takes from a millisecond to a few seconds. */
export const LATENCY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/**
 * A registry of its own, so that two parties in one process do not mix, with build information and
 * certificates in it.
 */
export function createMetricsRegistry(
  party: 'sidecar' | 'authority' | 'organization' | 'tally' | 'witness',
): MetricsRegistry {
  const registry = new Registry()
  const registers = [registry]
  const version = readManifest().version
  addGauge(
    registry,
    {
      name: 'usher_build_info',
      help: '1, with the versions that run as labels.',
      labelNames: ['party', 'version', 'node'],
    },
    gauge => gauge.set({ party, version, node: process.version }, 1),
  )
  return {
    registry,
    certificates: certificateMetrics(registers),
    render: async () => ({
      text: await Registry.merge([registry, processRegistry()]).metrics(),
      contentType: registry.contentType,
    }),
  }
}

function certificateMetrics(registers: Registry[]): CertificateObserver {
  const notAfter = new Gauge({
    name: 'usher_certificate_not_after_seconds',
    help: 'When the certificate in use expires, in seconds since the epoch.',
    labelNames: ['use'],
    registers,
  })
  const reloads = new Counter({
    name: 'usher_certificate_reloads_total',
    help: 'Renewed certificates that were put in use (loaded) or could not be used (refused).',
    labelNames: ['use', 'outcome'],
    registers,
  })
  return {
    loaded: (use, at) => {
      notAfter.set({ use }, at)
      for (const outcome of ['loaded', 'refused']) reloads.inc({ use, outcome }, 0)
    },
    reloaded: use => reloads.inc({ use, outcome: 'loaded' }),
    refused: use => reloads.inc({ use, outcome: 'refused' }),
  }
}

/** A request to one of our HTTP servers; `route` is a path template of ours, never a path as it came. */
export type RequestObserver = (request: {
  method: string
  route: string
  status: number
  seconds: number
}) => void

/** Counts and times requests by method, route and status. */
export function requestMetrics(registry: Registry): RequestObserver {
  const seconds = new Histogram({
    name: 'usher_http_request_seconds',
    help: 'Time to answer a request, by route; `none` is a path that is not served.',
    labelNames: ['method', 'route', 'status'],
    buckets: LATENCY_BUCKETS,
    registers: [registry],
  })
  return ({ method, route, status, seconds: took }) =>
    seconds.observe({ method, route, status: String(status) }, took)
}

let ofProcess: Registry | undefined

/**
 * Memory, CPU, event loop and garbage collection: these belong to the process, however many registries there
 * are.
 */
function processRegistry(): Registry {
  if (ofProcess !== undefined) return ofProcess
  ofProcess = new Registry()
  collectDefaultMetrics({ register: ofProcess })
  return ofProcess
}
