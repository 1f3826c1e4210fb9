/**
 * Owns what one look at the database's clock says. Contract: "Limits" (lifetimes): rows are judged by the
 * database's clock.
 */

/** What the database's clock showed between two moments of this process. */
export interface ClockReading {
  /** Milliseconds since the epoch. */
  databaseMs: number
  /** The times of our own clock, by `performance.now()`. */
  sentAt: number
  answeredAt: number
  /** This reading used another connection than the previous one, so it may come from another server. */
  fresh: boolean
}
