/**
 * The time by which this replica signs: that of its database. Every replica signs for the same owners, and
 * rows are judged by the database's clock. So a replica that used its own clock could issue grants that
 * outlive their terms. A replica whose own clock is far off issues nothing at all. Contract: "Limits"
 * (lifetimes); docs/choices.md, "Storage".
 */
import type { ClockReading } from '../limits/clock-reading.ts'
import type { Logger } from '../http/telemetry/log.ts'
import { unavailable } from '../wire/refusal.ts'

export interface Clock {
  /** Milliseconds since the epoch by the database's clock: local time plus the offset. */
  now(): number
  /** The database's clock minus this replica's, in seconds; undefined before the first reading. */
  offsetSeconds(): number | undefined
  /** Why this replica issues nothing at the moment, as a sentence; undefined if it does issue. */
  fault(): string | undefined
  /** Takes a reading of the database's clock. */
  take(reading: ClockReading): void
}

export interface ClockOptions {
  /** This replica's clock, in milliseconds since the epoch. */
  local: () => number
  /** Milliseconds that only ever grow, as in a `ClockReading`. */
  monotonic?: () => number
  /** Called when issuing stops (with the fault) and when it begins again (without), as readings come in. */
  onTurn?: (fault: string | undefined) => void
}

/** If its clock is off by more than this, a replica issues nothing. */
export const OFFSET_SECONDS_MAX = 2
/** How long a better reading is used: in that time, oscillators differ by far less than a millisecond. */
const READING_MS_MAX = 60_000
/** How much two good readings may differ. */
const DIFFERENCE_MS_MAX = 50

interface Used {
  /** The database's clock minus the monotonic one. */
  difference: number
  /** How long the answer took; the reading is accurate to half of that. */
  roundTrip: number
  at: number
}

/** What an authorization server does by its clock, in words. */
export const GRANTING = {
  goesOn: 'it issues grants',
  stops: 'it issues nothing (introspection keeps working)',
}

/** For `onTurn`: logs when this replica stops issuing, and when it continues. */
export function logClockChanges(
  log: Pick<Logger, 'info' | 'error'>,
  { goesOn, stops }: typeof GRANTING,
): (fault: string | undefined) => void {
  return fault => {
    if (fault === undefined) log.info(`the clock of this replica is right again: ${goesOn}`)
    else log.error(`${fault}: until its clock is right, ${stops}`)
  }
}

/** A clock that knows nothing yet: until the first reading it shows local time, and says so as its fault. */
export function createClock({
  local,
  monotonic = () => performance.now(),
  onTurn = () => undefined,
}: ClockOptions): Clock {
  let used: Used | undefined
  let stopped: string | undefined
  // The time continues from the reading. So if the local clock is set meanwhile, this neither changes the
  // time nor hides that the clock is off.
  const now = (): number => (used === undefined ? local() : monotonic() + used.difference)
  const offsetSeconds = (): number | undefined => (used === undefined ? undefined : (now() - local()) / 1_000)
  const fault = (): string | undefined => faultOf(offsetSeconds())

  return {
    now,
    offsetSeconds,
    fault,
    take({ databaseMs, sentAt, answeredAt, fresh }) {
      const read: Used = {
        difference: databaseMs - (sentAt + answeredAt) / 2,
        roundTrip: answeredAt - sentAt,
        at: answeredAt,
      }
      if (used === undefined || fresh || isBetter(read, used)) used = read
      const found = fault()
      if ((found === undefined) !== (stopped === undefined)) onTurn(found)
      stopped = found
    },
  }
}

/**
 * The new reading is more exact, or the old one is too old, or both cannot be right, which means that the
 * database's clock was set.
 */
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
  return `the clock of this replica is ${off.toFixed(1)} s ${offset < 0 ? 'ahead of' : 'behind'} the clock of the database`
}

/** Refuses to issue anything while the clock is off: 503, because another replica may be able to answer. */
export function refuseWhileOff(clock: Pick<Clock, 'fault'>): void {
  const fault = clock.fault()
  if (fault === undefined) return
  throw unavailable(`Try again shortly: ${fault}, so it issues nothing.`, 1)
}
