/**
 * Owns what follows from the answer to a notice, and when it is told again. Contract: "Events" (organization
 * notice): at least once, and nothing is told for ever to whom it does not concern.
 */

/**
 * `ended`: it was received, or does not concern who was told; `stopped`: it was not understood, so saying it
 * again would not help.
 */
export type NoticeOutcome = 'ended' | 'stopped' | 'again'

const ENDING = [403, 404, 409]
const STOPPING = [400, 401]
const PAUSE_SECONDS_MAX = 300

/** By the HTTP status of the answer; undefined where there was none. */
export function noticeOutcome(status: number | undefined): NoticeOutcome {
  if (status === undefined) return 'again'
  if ((status >= 200 && status < 300) || ENDING.includes(status)) return 'ended'
  return STOPPING.includes(status) ? 'stopped' : 'again'
}

/**
 * Seconds until the next attempt after so many in vain: a second, then twice as long each time, to five
 * minutes; less up to a half by chance.
 */
export function noticePause(attempts: number, chance: number): number {
  return Math.min(2 ** Math.min(attempts, 20), PAUSE_SECONDS_MAX) * (1 - chance / 2)
}
