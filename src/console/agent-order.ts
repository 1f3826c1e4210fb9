/**
 * Owns in which order the page lists her agents. Contract: "Owner API" (`/owner/connections`).
 */
import type { Connection } from '../wire/owner/owner-api.ts'

/** Which agents were active when the page first listed them, by handle. */
export type FirstListed = Map<string, boolean>

/**
 * Her agents, those with access first, and of each half the newest first. An agent stays in its half for as
 * long as the page is open, so that what she has just revoked does not move away from under her hand.
 * `firstListed` belongs to one opening of the page, and is completed here.
 */
export function inListOrder(agents: readonly Connection[], firstListed: FirstListed): Connection[] {
  for (const { handle, status } of agents)
    if (!firstListed.has(handle)) firstListed.set(handle, status === 'active')
  const half = ({ handle }: Connection): number => (firstListed.get(handle) === true ? 0 : 1)
  return [...agents].sort(
    (a, b) => half(a) - half(b) || compare(b.first_seen, a.first_seen) || compare(a.handle, b.handle),
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
