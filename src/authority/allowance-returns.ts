/**
 * Gives back, within seconds, what grants took of allowances and did not spend before they expired. Replicas
 * share the work. Contract: "Limits" (lifetimes), "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import { startRepeating, type Repetition } from '../limits/repetition.ts'
import { isOutage } from '../storage/core/database.ts'
import { returnShares, takeReturns } from '../storage/authority/policies/allowance-returns.ts'
import type { Store } from './context.ts'

const PAUSE_SECONDS = 1
/** For how long one replica has what it took to itself; then another tries. */
const CLAIM_SECONDS = 10

/** Starts the rounds, one each second. */
export function startReturns(authority: Store): Repetition {
  const onError = (error: unknown): void => say(authority, error, 'shares of allowances were not returned')
  return startRepeating(stopped => returnDue(authority, stopped), { pauseSeconds: PAUSE_SECONDS, onError })
}

/** Returns what is due until nothing is. A failure for one owner stops no others: she comes due again. */
export async function returnDue(authority: Store, stopped: () => boolean): Promise<void> {
  const db = authority.database.ofNobody
  while (!stopped()) {
    const due = await takeReturns(db, CLAIM_SECONDS)
    if (due.length === 0) return
    for (const claims of Map.groupBy(due, ({ owner }) => owner).values())
      await returnShares(db, claims).catch((error: unknown) =>
        say(authority, error, 'shares of an owner were not returned', { owner: claims[0]!.owner }),
      )
  }
}

function say({ log }: Store, err: unknown, what: string, of: object = {}): void {
  log[isOutage(err) ? 'warn' : 'error']({ err, ...of }, what)
}
