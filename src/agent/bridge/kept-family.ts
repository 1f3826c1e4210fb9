/**
 * Owns the record of one request on disk while this process leads it: held against every other process,
 * written in order, dropped once. Contract: "Permission ticket" (the family outlives a process): what may
 * have happened is written down before it can.
 */
import type { Family } from './family.ts'
import type { BridgeState } from './state.ts'

export class KeptFamily {
  record: Family
  readonly #state: BridgeState
  #writes: Promise<void> = Promise.resolve()
  /** Nothing is written any more: it was dropped, or this process ends. */
  #closed = false
  #release: (() => Promise<void>) | undefined

  constructor(record: Family, state: BridgeState) {
    this.record = record
    this.#state = state
  }

  /** Whether it is this process's to change. */
  get isHeld(): boolean {
    return this.#release !== undefined
  }

  /** Takes it for this process alone; false where another one that lives has it. */
  async hold(): Promise<boolean> {
    this.#release = await this.#state.hold(this.record.id)
    return this.#release !== undefined
  }

  async release(): Promise<void> {
    const release = this.#release
    this.#release = undefined
    await release?.()
  }

  /**
   * What an earlier process left of it becomes the record, but for since when nobody waits; false where there
   * is nothing.
   */
  async recover(): Promise<boolean> {
    const kept = await this.#state.family<Family>(this.record.id)
    if (kept === undefined) return false
    this.record = { ...kept, left: undefined }
    return true
  }

  /** Writes it. Only what waits, or was decided, is worth that: the rest begins anew. */
  keep(): Promise<void> {
    if (this.#closed || !this.isHeld || this.record.phase.name === 'new') return Promise.resolve()
    return this.#written(() => this.#state.keepFamily(this.record.id, this.record))
  }

  /** Removes it for good. */
  drop(): Promise<void> {
    this.#closed = true
    if (!this.isHeld) return Promise.resolve()
    return this.#written(() => this.#state.dropFamily(this.record.id))
  }

  /** Leaves it on disk as it is, for another process. */
  async leave(): Promise<void> {
    this.#closed = true
    await this.#writes
    await this.release()
  }

  /** One change after the other, so that nothing is kept after it was dropped. */
  #written(change: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(change)
    this.#writes = done.catch(() => undefined)
    return done
  }
}
