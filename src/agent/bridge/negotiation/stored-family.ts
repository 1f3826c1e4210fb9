/**
 * Owns the record of one request on disk while this process leads it: it is locked against every other
 * process, written in order, and dropped once. Contract: "Permission ticket" (the family outlives a process):
 * what may happen is written to disk before it can.
 */
import { AgentError } from '../../agent-error.ts'
import type { FamilyRecord } from './family.ts'
import type { Hold } from './holds.ts'
import type { BridgeState } from './state.ts'

export class StoredFamily {
  record: FamilyRecord
  readonly #state: BridgeState
  #writes: Promise<void> = Promise.resolve()
  /** Nothing is written any more, because it was dropped or this process ends. */
  #closed = false
  #hold: Hold | undefined
  /** Another process took it over, so nothing that is done here counts any more. */
  #lost = false
  /** Nobody waits for it here. */
  #deserted = false
  /** How many steps run with it here; none if it only waits. */
  #doing = 1
  #offered = false
  /** The record on disk is the same as here. */
  #isWritten = true
  readonly #known = Promise.withResolvers<void>()

  constructor(record: FamilyRecord, state: BridgeState) {
    this.record = record
    this.#state = state
  }

  /** Whether this process may change it. */
  get hasHold(): boolean {
    return this.#hold !== undefined && !this.#lost
  }

  /**
   * Resolves when it is known what an earlier process left of it, or that this process does not lead it.
   * Changes to the record that come before are lost with it.
   */
  get known(): Promise<void> {
    return this.#known.promise
  }

  /**
   * Takes it for this process alone; false if another live process has it, and does not offer it or
   * `target` is not `offered`.
   */
  async hold(target: 'abandoned' | 'offered'): Promise<boolean> {
    try {
      this.#hold = await this.#state.hold(this.record.id, target)
      // Left meanwhile: nobody would release it, and as long as this process lives no other may continue it.
      if (this.#closed) await this.release()
    } finally {
      if (this.#hold === undefined) this.#known.resolve()
    }
    this.#lost = this.#offered = false
    return this.#hold !== undefined
  }

  async release(): Promise<void> {
    const hold = this.#hold
    this.#hold = undefined
    this.#offered = false
    await hold?.release()
  }

  /** Nobody waits for it here. While no step runs with it either, another process may continue it. */
  desert(): void {
    this.#deserted = true
    void this.#arranged()
  }

  /** Somebody waits for it here; false if another process continues it by now. */
  want(): Promise<boolean> {
    this.#deserted = false
    return this.#arranged()
  }

  /**
   * Waits for something outside this process. Fails with `in_progress` if another process continued it
   * meanwhile.
   */
  async idle<T>(wait: Promise<T>): Promise<T> {
    this.#doing--
    void this.#arranged()
    let waited: T
    try {
      waited = await wait
    } finally {
      this.#doing++
    }
    if (!(await this.#arranged())) throw takeoverError()
    return waited
  }

  /** This process does nothing with it any more, except for the kept result. */
  rest(): void {
    this.#doing--
    void this.#arranged()
  }

  /**
   * Takes over the record of an earlier process, except for the time since when nobody waits; false if there
   * is none.
   */
  async recover(): Promise<boolean> {
    try {
      const record = await this.#state.family<FamilyRecord>(this.record.id)
      if (record === undefined) return false
      this.record = { ...record, left: undefined }
      return true
    } finally {
      this.#known.resolve()
    }
  }

  /**
   * Writes it. Only a request that waits or was decided is written: others begin again. Fails with
   * `in_progress` if another process took it over meanwhile.
   */
  keep(): Promise<void> {
    if (this.#lost) return Promise.reject(takeoverError())
    if (this.#closed || !this.hasHold || this.record.phase.name === 'new') return Promise.resolve()
    return this.#written(() => this.#state.keepFamily(this.record.id, this.record))
  }

  /** Writes it in the phase before the phase counts: if that fails, it stays in the phase that it was in. */
  async keepPhase(phase: FamilyRecord['phase']): Promise<void> {
    const before = this.record.phase
    this.record.phase = phase
    try {
      await this.keep()
    } catch (error) {
      this.record.phase = before
      throw error
    }
  }

  /** It is in the phase from now on. If that cannot be written to disk, only this process knows of it. */
  async enterPhase(phase: FamilyRecord['phase']): Promise<void> {
    await this.keepPhase(phase).catch(() => undefined)
    this.record.phase = phase
  }

  /** Removes it for good. */
  drop(): Promise<void> {
    this.#closed = true
    if (!this.hasHold) return Promise.resolve()
    return this.#written(() => this.#state.dropFamily(this.record.id))
  }

  /** Leaves it on disk as it is, for another process. */
  async leave(): Promise<void> {
    this.#closed = true
    await this.#writes
    await this.release()
  }

  /** Changes run one after the other, so that nothing is kept after it was dropped. */
  #written(change: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(async () => {
      await this.#offer(false)
      const hold = this.#hold
      if (hold !== undefined && !(await hold.isOurs())) this.#lost = true
      if (this.#lost) throw takeoverError()
      this.#isWritten = false
      await change()
      this.#isWritten = true
    })
    this.#writes = done.catch(() => undefined)
    void this.#arranged()
    return done
  }

  /**
   * Offers it or takes the offer back, in the order of the changes; false if another process has it by now.
   */
  #arranged(): Promise<boolean> {
    const done = this.#writes.then(async () => {
      await this.#offer(this.#deserted && this.#doing === 0 && this.#isWritten && !this.#closed)
      return !this.#lost
    })
    this.#writes = done.then(() => undefined)
    return done
  }

  async #offer(isOffered: boolean): Promise<void> {
    const hold = this.#hold
    if (hold === undefined || this.#lost || isOffered === this.#offered) return
    if (isOffered) {
      // A request that cannot be offered stays with this process as long as the process lives.
      this.#offered = await hold.offer().then(
        () => true,
        () => false,
      )
      return
    }
    this.#offered = false
    if (await hold.retake().catch(() => false)) return
    this.#lost = true
    await hold.release().catch(() => undefined)
  }
}

function takeoverError(): AgentError {
  return new AgentError('in_progress', {
    detail: 'Another bridge of this client has taken over this request. Call again in a while.',
    terminal: false,
    local: true,
  })
}
