/**
 * Owns the throttling of notifications that a stranger can cause as often as it likes. The first is passed on
 * at once, later ones at intervals, and the last one is never lost. Contract: "Agreement (claim_token, beat
 * 3)" (what strangers write is shown, never obeyed): a resource cannot fill the client's channel with it.
 */

/** However often a server says that a list changed, its client is notified at most once in this time. */
export const CHANGED_MILLISECONDS = 5000

/** A throttled notification. */
export interface Spaced {
  act: () => void
  close: () => void
}

/**
 * Calls `action` at the first `act`, and then at most once in that time; several calls within that time count
 * as one, at its end.
 */
export function spaced(action: () => void, milliseconds: number): Spaced {
  let pause: NodeJS.Timeout | undefined
  let again = false
  const begin = (): void => {
    again = false
    action()
    pause = setTimeout(() => {
      pause = undefined
      if (again) begin()
    }, milliseconds).unref()
  }
  return {
    act: () => {
      if (pause === undefined) begin()
      else again = true
    },
    close: () => {
      clearTimeout(pause)
      again = false
    },
  }
}
