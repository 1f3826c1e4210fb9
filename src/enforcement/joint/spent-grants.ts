/**
 * Owns the memory of which single-use joint grants were used here. Contract: "Single-use grant" (spendable
 * exactly once): a tally that forgets, or makes another grant from the same verdicts, gets no second use out
 * of them. Only this process remembers, and only the newest 100,000.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import { refuse } from '../../wire/refusal.ts'
import { outage } from '../outage.ts'
import type { Consumption, LiveGrant } from '../introspection.ts'

export interface SpentGrants {
  /**
   * Consumes the one use that verdicts of this negotiation and agreement allow. Refuses 403
   * `already_consumed` if it was used before, and 503 while another call is about to use it.
   */
  once(
    grant: Pick<LiveGrant, 'family' | 'contract'>,
    consume: () => Promise<Consumption>,
  ): Promise<Consumption>
}

const REMEMBERED_MAX = 100_000

/** Remembers nothing yet. */
export function createSpentGrants(): SpentGrants {
  const spent = new BoundedMap<string, true>(REMEMBERED_MAX)
  const uses = new Set<string>()
  return {
    async once({ family, contract }, consume) {
      const use = JSON.stringify([family, contract])
      if (spent.has(use)) refuse('already_consumed', 'The grant could not be used: negotiate again.')
      if (uses.has(use)) throw outage('Another call is about to use this single-use grant: try again.')
      uses.add(use)
      try {
        const consumption = await consume()
        if (consumption.consumed) spent.set(use, true)
        return consumption
      } finally {
        uses.delete(use)
      }
    },
  }
}
