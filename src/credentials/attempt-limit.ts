/**
 * How often one source may guess. Contract: "Limits" (rate limits are ours to choose).
 */
import { peerNetwork } from '../http/peer-network.ts'
import { createRateShares } from '../limits/rate-shares.ts'
import { askLater } from '../wire/refusal.ts'

export interface AttemptLimitOptions {
  /** After how many failures a source must wait, and how many it regains in a minute. */
  failuresPerMinute: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface AttemptLimit {
  /** Seconds until the source may try again; 0 means now. */
  wait(source: string): number
  failed(source: string): void
}

const SOURCES_MAX = 10_000

/** Each source has a share of failures that refills steadily; success costs nothing. */
export function createAttemptLimit({ failuresPerMinute, clock }: AttemptLimitOptions): AttemptLimit {
  const shares = createRateShares({ perMinute: failuresPerMinute, sourcesMax: SOURCES_MAX, clock })
  return {
    wait: source => shares.wait(peerNetwork(source)),
    failed: source => shares.charge(peerNetwork(source)),
  }
}

/** Refuses 429 with the time to wait, if a source has guessed too often. */
export function refuseGuessing(limit: AttemptLimit, source: string): void {
  const seconds = limit.wait(source)
  if (seconds > 0) throw askLater('Wait before you try another code.', seconds)
}
