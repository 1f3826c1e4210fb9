/**
 * Owns how many new origins may be looked up in a minute, because names cost a stranger nothing. Contract:
 * "Operator documents" and "Limits".
 */
import { isIP } from 'node:net'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'

export interface OriginBudgetOptions {
  /** Milliseconds since the epoch. */
  clock: () => number
  /** How many new origins are allowed in any 60 s. */
  perMinute: number
  /** How many of these may be under one site, because subdomains are free for the holder of a domain. */
  perSite: number
}

export interface OriginBudget {
  /** Whether a fetch from this origin may begin; a new one is charged, and then free for 60 s. */
  admits(origin: string): boolean
  /** The origin served a document, so it is not charged again as long as it is remembered. */
  served(origin: string): void
  /** The origin did not answer, so the next fetch from it is charged again. */
  failed(origin: string): void
}

const WINDOW_MS = 60_000
const SERVED_MAX = 4_000

/** A budget over a sliding minute. */
export function createOriginBudget(options: OriginBudgetOptions): OriginBudget {
  const { clock, perMinute, perSite } = options
  const served = new BoundedMap<string, true>(SERVED_MAX)
  /** Origins charged in the last minute, oldest first. */
  let charged: { origin: string | undefined; site: string; at: number }[] = []
  return {
    admits: origin => {
      if (served.has(origin)) return true
      const now = clock()
      charged = charged.filter(({ at }) => now - at < WINDOW_MS)
      if (charged.some(charge => charge.origin === origin)) return true
      const site = siteOf(origin)
      const ofSite = charged.filter(charge => charge.site === site).length
      if (charged.length >= perMinute || ofSite >= perSite) return false
      charged.push({ origin, site, at: now })
      return true
    },
    served: origin => {
      served.set(origin, true) // origins in use are forgotten last
    },
    failed: origin => {
      for (const charge of charged) if (charge.origin === origin) charge.origin = undefined
    },
  }
}

/**
 * The last two labels of a host. Even without a list of public suffixes, this makes a flood of names cost
 * domains.
 */
function siteOf(origin: string): string {
  const { hostname } = new URL(origin)
  if (isLoopbackHost(hostname)) return origin
  const family = isIP(hostname.replace(/^\[|\]$/g, ''))
  if (family === 0) return hostname.split('.').slice(-2).join('.')
  // One holder of IPv6 has more literal addresses than there are names.
  return family === 4 ? hostname : 'IPv6'
}
