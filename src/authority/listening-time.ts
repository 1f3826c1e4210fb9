/**
 * For how long an authority has listened without a break. Contract: "Events" (row 2): an enforcement point
 * counts as silent only if this process would have heard it.
 */

export interface Listening {
  /**
   * Milliseconds without a break until now. Call this at each turn of the work, because breaks are noticed by
   * these calls.
   */
  ms(): number
  /** Records that the work failed: messages may have been missed meanwhile. */
  broken(): void
}

/**
 * Begins to listen. A pause of more than `apartMsMax` between two turns is a break as well: this process may
 * have been stopped for that time. Without this rule, an authority that was stopped would first tell every
 * owner that all her enforcement points fell silent.
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
