/**
 * The time by which this replica signs: its database's. Every replica signs for the same owners, and rows are
 * judged by the database's clock, so a replica that went by its own would give what outlives its terms. One
 * whose own clock is far off issues nothing at all. Contract: "Limits" (lifetimes); docs/choices.md,
 * "Storage".
 */
import { Refusal } from '../wire/refusal.ts'

/** What the database's clock showed at some moment between two of this process's. */
export interface ClockReading {
  /** Milliseconds since the epoch. */
  databaseMs: number
  /** By `performance.now()`. */
  askedAt: number
  answeredAt: number
  /** By another connection than the reading before, so perhaps of another server. */
  fresh: boolean
}

export interface Clock {
  /** Milliseconds since the epoch by the database's clock: local time plus the offset. */
  now(): number
  /** The database's clock less this replica's, in seconds; undefined before the first reading. */
  offsetSeconds(): number | undefined
  /** Why this replica issues nothing at the moment: a sentence; undefined where it does. */
  fault(): string | undefined
  /** Takes a reading of the database's clock. */
  take(reading: ClockReading): void
}

export interface ClockOptions {
  /** This replica's clock, in milliseconds since the epoch. */
  local: () => number
  /** Milliseconds that only ever grow, as in a `ClockReading`. */
  monotonic?: () => number
  /** Told when issuing stops (with the fault) and when it begins again (without), as readings come in. */
  onTurn?: (fault: string | undefined) => void
}

/** Further off than this, a replica issues nothing. */
export const OFFSET_SECONDS_MAX = 2
/** A better reading is used so long: oscillators differ by far less than a millisecond in that time. */
const READING_MS_MAX = 60_000
/** What two good readings may differ by. */
const DIFFERENCE_MS_MAX = 50

interface Used {
  /** The database's clock less the monotonic one. */
  difference: number
  /** How long the answer took: the reading is right to half of it. */
  roundTrip: number
  at: number
}

/** A clock that knows nothing yet: until the first reading it shows local time, and says so as its fault. */
export function createClock({
  local,
  monotonic = () => performance.now(),
  onTurn = () => undefined,
}: ClockOptions): Clock {
  let used: Used | undefined
  let stopped: string | undefined
  // Counted on from the reading, so that a local clock which is set meanwhile neither moves the time nor
  // hides that it is off.
  const now = (): number => (used === undefined ? local() : monotonic() + used.difference)
  const offsetSeconds = (): number | undefined => (used === undefined ? undefined : (now() - local()) / 1_000)
  const fault = (): string | undefined => faultOf(offsetSeconds())

  return {
    now,
    offsetSeconds,
    fault,
    take({ databaseMs, askedAt, answeredAt, fresh }) {
      const read: Used = {
        difference: databaseMs - (askedAt + answeredAt) / 2,
        roundTrip: answeredAt - askedAt,
        at: answeredAt,
      }
      if (used === undefined || fresh || isBetter(read, used)) used = read
      const found = fault()
      if ((found === undefined) !== (stopped === undefined)) onTurn(found)
      stopped = found
    },
  }
}

/** More exact, or the other is old, or the two cannot both be right: then the database's clock was set. */
function isBetter(read: Used, used: Used): boolean {
  return (
    read.roundTrip <= used.roundTrip ||
    read.at - used.at > READING_MS_MAX ||
    Math.abs(read.difference - used.difference) > (read.roundTrip + used.roundTrip) / 2 + DIFFERENCE_MS_MAX
  )
}

function faultOf(offset: number | undefined): string | undefined {
  if (offset === undefined) return 'the clock of the database was not read yet'
  const off = Math.abs(offset)
  if (off <= OFFSET_SECONDS_MAX) return undefined
  return `the clock of this replica is ${off.toFixed(1)} s ${offset < 0 ? 'ahead of' : 'behind'} that of the database`
}

/** Refuses to issue anything while the clock is off: 503, which another replica may answer otherwise. */
export function refuseWhileOff(clock: Pick<Clock, 'fault'>): void {
  const fault = clock.fault()
  if (fault === undefined) return
  throw new Refusal('temporarily_unavailable', `Try again shortly: ${fault}, so it issues nothing.`, {
    headers: { 'retry-after': '1' },
  })
}
