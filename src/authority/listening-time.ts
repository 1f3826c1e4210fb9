/**
 * For how long an authority has listened without a break. Contract: "Events" (row 2): an enforcement point is
 * silent only where it would have been heard.
 */

export interface Listening {
  /**
   * Milliseconds without a break until now. To be asked at each turn of the work that its breaks are told by.
   */
  ms(): number
  /** That work failed: what was said meanwhile may not have been heard either. */
  broken(): void
}

/**
 * Begins to listen. A pause of more than `apartMsMax` between two turns is a break as well: this process may
 * have been away for as long as those it listens to. Without this an authority that was away would tell every
 * owner, as its first word, that all of hers fell silent.
 */
export function listeningFor({ clock, apartMsMax }: { clock: () => number; apartMsMax: number }): Listening {
  let since = clock()
  let last = since
  return {
    ms: () => {
      const now = clock()
      if (now - last > apartMsMax) since = now
      last = now
      return now - since
    },
    broken: () => {
      since = clock()
    },
  }
}
