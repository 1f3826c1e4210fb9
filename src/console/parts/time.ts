/**
 * Owns how times are shown: in the reader's own time zone and language. Contract: "Owner API" (times are ISO
 * 8601).
 */

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** An instant, by an ISO text or by milliseconds since the epoch. */
export function whenText(instant: string | number): string {
  const date = new Date(instant)
  return Number.isNaN(date.getTime()) ? String(instant) : WHEN.format(date)
}

const EXACT = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
})

/** The same to the millisecond, for what is compared with each other. */
export function exactText(milliseconds: number): string {
  return Number.isNaN(milliseconds) ? String(milliseconds) : EXACT.format(milliseconds)
}

const UNITS = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** How long ago that was, in the largest unit that fits. */
export function agoText(instant: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - instant) / 1_000))
  const [length, unit] = UNITS.find(([least]) => seconds >= least) ?? [1, 'second']
  return AGO.format(-Math.floor(seconds / length), unit)
}
