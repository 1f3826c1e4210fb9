/**
 * Owns the poll that the authority holds for a waiting caller. Its ticket is spent when it is sent, and the
 * next one comes with its answer: so a bridge that ends waits for that answer a while. Contract: "Permission
 * ticket" (awaiting-owner: the ticket rotates on every poll).
 */
import { waitAtMost } from '../../../limits/patience.ts'
import type { TokenAnswer } from '../../negotiation/token.ts'

/**
 * No poll is held longer, and a bridge that ends waits no longer for its answer: clients end a server by
 * force after some four seconds, and an authority asks for three seconds between polls by default.
 * @internal its test ends a bridge.
 */
export const EARLY_POLL_SECONDS_MAX = 5

/** The poll of one negotiation. */
export class EarlyPoll {
  #open: PromiseWithResolvers<void> | undefined
  #isClosed = false

  /** The bridge ends: nothing is to be begun any more. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Sends it; undefined if it would be held for too long, or this process ends. */
  begin(send: () => Promise<TokenAnswer>, seconds: number): Promise<TokenAnswer> | undefined {
    if (this.#isClosed || seconds > EARLY_POLL_SECONDS_MAX) return undefined
    this.#open = Promise.withResolvers()
    const answer = send()
    answer.catch(() => this.end())
    return answer
  }

  /** What it brought is on disk, or is nothing to keep. */
  end(): void {
    this.#open?.resolve()
    this.#open = undefined
  }

  /** Resolves once no poll is held whose answer is still to be kept, or after the longest time. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#open !== undefined) await waitAtMost(EARLY_POLL_SECONDS_MAX * 1000, this.#open.promise)
  }
}
