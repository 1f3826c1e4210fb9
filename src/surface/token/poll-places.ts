/**
 * Owns how many early polls one server holds. Contract: "Permission ticket" (awaiting-owner): agents that
 * poll too early cost it no more than that.
 */

/** How many polls are held at a time; above that, an early poll is answered at once. */
const HELD_POLLS_MAX = 1_000

export class PollPlaces {
  readonly #max: number
  #count = 0

  /** @param max how many polls are held at a time. */
  constructor(max = HELD_POLLS_MAX) {
    this.#max = max
  }

  /** The result of `wait`; `instead`, without waiting, if every place is taken. */
  async hold<T>(wait: () => Promise<T>, instead: T): Promise<T> {
    if (this.#count >= this.#max) return instead
    this.#count += 1
    try {
      return await wait()
    } finally {
      this.#count -= 1
    }
  }
}
