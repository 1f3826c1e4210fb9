/**
 * Owns what follows from the answer to a notice, and when it is sent again. Contract: "Events" (organization
 * notice): delivery is at least once, and a receiver that is not concerned is not told for ever.
 */

/**
 * `ended`: it was received, or does not concern the receiver; `stopped`: it was not understood, so sending it
 * again would not help.
 */
export type NoticeOutcome = 'ended' | 'stopped' | 'again'

const ENDING = [403, 404, 409]
const STOPPING = [400, 401]
const PAUSE_SECONDS_MAX = 300

/** The outcome by the HTTP status of the answer; undefined if there was none. */
export function noticeOutcome(status: number | undefined): NoticeOutcome {
  if (status === undefined) return 'again'
  if ((status >= 200 && status < 300) || ENDING.includes(status)) return 'ended'
  return STOPPING.includes(status) ? 'stopped' : 'again'
}

/**
 * Seconds until the next attempt after so many failures: a second, then twice as long each time, up to five
 * minutes, reduced at random by up to a half.
 */
export function noticePause(attempts: number, chance: number): number {
  return Math.min(2 ** Math.min(attempts, 20), PAUSE_SECONDS_MAX) * (1 - chance / 2)
}
