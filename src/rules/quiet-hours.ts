/**
 * Owns when a message about what waits is sent to an address of hers: at once, or, if what is asked can be
 * undone, after her quiet hours and together with others. Contract: "Events" (row 1), "Owner API".
 */
import type { MessageTiming, QuietHours } from '../wire/owner/owner-api.ts'
import { parseConsequence } from './permission.ts'

const DAY_MINUTES = 1_440

/** A time of day as it is written in quiet hours: `00:00` to `23:59`. */
export const TIME_OF_DAY = /^(?:[01]\d|2[0-3]):[0-5]\d$/

/**
 * Whether a message about an item of this class may wait. One about an irreversible operation never does, nor
 * one about an operation of which nobody said whether it can be undone.
 */
export function mayWait(consequence: unknown): boolean {
  const known = parseConsequence(consequence)
  return known !== undefined && known !== 'irreversible'
}

/**
 * When messages that may wait are sent, in seconds since the epoch like `now` and `oldest`, which is when the
 * oldest of them was written: once it is `digest_minutes` old, and then as soon as it is not quiet. Never
 * before `now`.
 */
export function sendingTime(
  { quiet_hours, digest_minutes }: MessageTiming,
  { oldest, now }: { oldest: number; now: number },
): number {
  const earliest = Math.max(now, oldest + (digest_minutes ?? 0) * 60)
  return quiet_hours === null ? earliest : quietEnd(quiet_hours, earliest)
}

/** Whether times of day are known for a zone of this name. An offset such as `+01:00` is no name. */
export function isTimeZone(name: string): boolean {
  return /^[A-Za-z]/.test(name) && clockIn(name) !== undefined
}

/**
 * The first time from `at` on when a clock in her zone shows no quiet time. So a time that it shows twice
 * in autumn is quiet both times or not at all, and if it skips the end in spring, it is quiet until it is put
 * forward. In a zone that is unknown by now it is never quiet: a message at night is better than none.
 */
function quietEnd({ from, until, time_zone }: QuietHours, at: number): number {
  const clock = clockIn(time_zone)
  if (clock === undefined) return at
  const [begins, ends] = [minuteOf(from), minuteOf(until)]
  const isQuiet = (shown: number): boolean =>
    begins < ends ? begins <= shown && shown < ends : begins <= shown || shown < ends
  let minute = Math.floor(at / 60)
  if (!isQuiet(clock(minute))) return at
  // Each turn reaches the end, or a change of the clock before it. No zone changes its clock twice in a day.
  for (let turn = 0; turn < 3 && isQuiet(clock(minute)); turn++)
    minute = steadyUntil(clock, minute, (ends - clock(minute) + DAY_MINUTES) % DAY_MINUTES)
  return minute * 60
}

/** What a clock shows in a minute, counted from the epoch: the minute of its day. */
type MinuteOfDay = (minute: number) => number

function clockIn(timeZone: string): MinuteOfDay | undefined {
  try {
    const format = new Intl.DateTimeFormat('en-GB', {
      timeZone,
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    })
    return minute => minuteOf(format.format(minute * 60_000))
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function minuteOf(time: string): number {
  const [hours, minutes] = time.split(':')
  return Number(hours) * 60 + Number(minutes)
}

/** So many minutes later, or the minute before that in which the clock is changed. */
function steadyUntil(clock: MinuteOfDay, minute: number, later: number): number {
  const shown = clock(minute)
  const isSteady = (after: number): boolean => clock(minute + after) === (shown + after) % DAY_MINUTES
  if (isSteady(later)) return minute + later
  let [steady, changed] = [0, later]
  while (changed - steady > 1) {
    const middle = Math.floor((steady + changed) / 2)
    if (isSteady(middle)) steady = middle
    else changed = middle
  }
  return minute + changed
}
