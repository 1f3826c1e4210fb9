/**
 * Owns the stage of a negotiation, and who is notified when it changes. Contract: "Permission ticket" (its
 * states, as a client of the bridge meets them).
 */
import type { Json, JsonObject } from '../../../wire/json.ts'
import type { AgentError } from '../../agent-error.ts'
import type { WaitingRequest } from '../../negotiation/negotiate.ts'
import type { Grant } from '../../store.ts'
import type { Question, Reply } from '../questions/questions.ts'
import type { ResourceOwner } from './state.ts'
import type { TermsOffer } from './terms.ts'

/**
 * How a negotiation ended well: a grant for every call of the tool, or the answer to the record's call, which
 * was approved, or is `free`: it was answered without a grant, so that no call of the tool needs one.
 */
export type Settled =
  | { kind: 'grant'; grant: Grant; owner: ResourceOwner }
  | { kind: 'answer'; result: Json; family: string; free?: boolean }

/**
 * The stage. `offer`: a person has to say yes to terms; `waiting`: the owner has to decide; `approved`: she
 * approved this one call, which is not `sent` yet, or whose answer has not come yet; `asked`: the tool's
 * server has a question before it answers.
 */
export type Stage =
  | { name: 'starting' }
  | { name: 'offer'; offer: TermsOffer }
  | { name: 'waiting'; owner: string; since: number; family: string; kind: WaitingRequest['kind'] }
  | { name: 'approved'; owner: string; family: string; sent: boolean }
  | { name: 'asked'; question: Question }
  | { name: 'settled'; settled: Settled }
  | { name: 'failed'; error: AgentError }

/** The stages of one negotiation, one after the other. */
export class Stages {
  #stage: Stage = { name: 'starting' }
  readonly #listeners = new Set<() => void>()

  get stage(): Stage {
    return this.#stage
  }

  move(stage: Stage): void {
    this.#stage = stage
    this.changed()
  }

  /**
   * The tool's server asks before it answers: a waiting caller puts the question to a person. Afterwards the
   * stage is what it was before. Resolves with `cancel` when the signal says so; never rejects.
   */
  async ask(params: JsonObject, signal: AbortSignal): Promise<Reply> {
    const before = this.#stage
    const { promise, resolve } = Promise.withResolvers<Reply>()
    const cancel = (): void => resolve({ action: 'cancel' })
    signal.addEventListener('abort', cancel, { once: true })
    this.move({ name: 'asked', question: { id: crypto.randomUUID(), params, signal, answer: resolve } })
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', cancel)
      this.move(before)
    }
  }

  /** Something else that somebody waits for may have changed. */
  changed(): void {
    for (const listener of this.#listeners) listener()
  }

  /**
   * Resolves when `when` holds for the stage, when the time is over, or when the signal says so; never
   * rejects.
   */
  async until(when: (stage: Stage) => boolean, milliseconds: number, signal: AbortSignal): Promise<void> {
    if (when(this.#stage) || signal.aborted) return
    await this.#next(signal, { milliseconds, when: () => when(this.#stage) })
  }

  /** Resolves at the next change, or when the signal says so. */
  async changes(signal: AbortSignal): Promise<void> {
    if (!signal.aborted) await this.#next(signal, { milliseconds: undefined, when: () => true })
  }

  #next(
    signal: AbortSignal,
    { milliseconds, when }: { milliseconds: number | undefined; when: () => boolean },
  ): Promise<void> {
    return new Promise(resolve => {
      const end = (): void => {
        clearTimeout(timer)
        this.#listeners.delete(look)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const look = (): void => void (when() && end())
      const timer = milliseconds === undefined ? undefined : setTimeout(end, Math.max(0, milliseconds))
      this.#listeners.add(look)
      signal.addEventListener('abort', end, { once: true })
    })
  }
}
