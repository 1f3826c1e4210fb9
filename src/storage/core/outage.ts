/**
 * Owns how an outage of the store looks to a caller: as ours, never as the caller's fault. Contract:
 * "Errors": 503, the one refusal that is worth trying again.
 */
import { unavailable, type Refusal } from '../../wire/refusal.ts'
import { isOutage } from './database.ts'

/** The refusal that an error of the store is; undefined if it is none of an outage. */
export function outageRefusal(error: unknown): Refusal | undefined {
  if (!isOutage(error)) return undefined
  return unavailable('Try again shortly: the store does not answer in time.', 1, error)
}
