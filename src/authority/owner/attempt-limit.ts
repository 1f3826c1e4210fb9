/**
 * How often one source may guess. Contract: "Limits" (rate limits are ours to choose).
 */
import { peerNetwork } from '../../http/peer-network.ts'

export interface AttemptLimitOptions {
  /** Failures after which a source waits, and how many it gets back in a minute. */
  failuresPerMinute: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface AttemptLimit {
  /** Seconds until the source may try again; 0: now. */
  wait(source: string): number
  failed(source: string): void
}

const SOURCES_MAX = 10_000

/** Each source has a share of failures that refills steadily; success costs nothing. */
export function createAttemptLimit({ failuresPerMinute, clock }: AttemptLimitOptions): AttemptLimit {
  const shares = new Map<string, { left: number; at: number }>()
  const perMs = failuresPerMinute / 60_000
  const left = (network: string): number => {
    const share = shares.get(network)
    if (share === undefined) return failuresPerMinute
    return Math.min(failuresPerMinute, share.left + (clock() - share.at) * perMs)
  }
  return {
    wait: source => {
      const share = left(peerNetwork(source))
      return share >= 1 ? 0 : Math.max(1, Math.ceil((1 - share) / perMs / 1_000))
    },
    failed: source => {
      const network = peerNetwork(source)
      const share = left(network)
      shares.delete(network)
      shares.set(network, { left: Math.max(0, share - 1), at: clock() })
      if (shares.size > SOURCES_MAX) shares.delete(shares.keys().next().value!)
    },
  }
}
