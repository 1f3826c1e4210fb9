/**
 * Owns one negotiation as the calls that wait for it see it: who waits, what they are told, how long it stays
 * when nobody does. Contract: "Permission ticket" and "Single-use grant": the owner is asked once, and what
 * she approved once is sent once, when somebody waits for it.
 */
import type { Challenge } from '../../wire/negotiation.ts'
import { AgentError } from '../agent-error.ts'
import type { ToolCall } from '../mcp.ts'
import { familyName, isClosed, isDecision, keptError, outcomeUnknown, type Family } from './family.ts'
import { KeptFamily } from './kept-family.ts'
import { Negotiation, type NegotiationParts } from './negotiation.ts'
import { Stages, type Stage } from './stage.ts'
import { unusable } from './state.ts'

/** What a request is led with. */
export interface RequestParts extends NegotiationParts {
  lingerSeconds: number
  /** The request became that of one operation, and has another id. */
  onOperation(request: PendingRequest): Promise<string>
  /** There is a grant for every call of the tool. */
  onGrant(record: Family): void
  onEnded(request: PendingRequest): void
  /** The owner, or a rule of hers, refused. */
  onRefused(record: Family, error: AgentError): Promise<void>
}

/** A negotiation under way. */
export class PendingRequest {
  /** It is over, and nothing of it is kept once this resolves: the same call is another one. */
  dropped: Promise<void> | undefined
  readonly #parts: RequestParts
  readonly #kept: KeptFamily
  readonly #at = new Stages()
  readonly #negotiation: Negotiation
  #waiters = 0
  #linger: NodeJS.Timeout | undefined

  constructor(record: Family, parts: RequestParts) {
    this.#kept = new KeptFamily(record, parts.state)
    this.#parts = parts
    const about = {
      kept: this.#kept,
      at: this.#at,
      isAwaited: () => this.#waiters > 0,
      onOperation: () => parts.onOperation(this),
    }
    this.#negotiation = new Negotiation(about, parts)
  }

  get stage(): Stage {
    return this.#at.stage
  }

  get record(): Family {
    return this.#kept.record
  }

  /** Somebody waits for it, until the function answered is called. */
  enter(): () => void {
    this.#waiters++
    clearTimeout(this.#linger)
    this.#negotiation.wake()
    this.record.left = undefined
    this.#at.changed()
    let left = false
    return () => {
      if (left) return
      left = true
      if (--this.#waiters === 0) this.#deserted()
    }
  }

  /** Whether it is about that call too: one that is approved each time is about itself alone. */
  serves(resource: string, call: ToolCall): boolean {
    return this.#negotiation.serves(resource, call)
  }

  /** The family of the contract, as far as it is known. */
  family(): string | undefined {
    return familyName(this.record)
  }

  /** Resolves once `when` holds of the stage, the time is over, or the signal says so; never rejects. */
  until(when: (stage: Stage) => boolean, milliseconds: number, signal: AbortSignal): Promise<void> {
    return this.#at.until(when, milliseconds, signal)
  }

  /** A person's word about the terms offered. */
  decide(accepted: boolean | AgentError): void {
    this.#negotiation.decide(accepted)
  }

  /** Clients that asked for tasks wait for it, whatever becomes of this process. */
  async waitByTasks(ids: readonly string[]): Promise<void> {
    this.record.tasks = ids.length === 0 ? undefined : [...ids]
    await this.#kept.keep()
    this.#at.changed()
  }

  /** Takes the request back: nobody wants it decided any more. */
  withdraw(): void {
    this.#negotiation.withdraw()
  }

  /** The client has the answer: nothing of it is kept. */
  async delivered(): Promise<void> {
    if (this.record.phase.name === 'answered' || this.record.phase.name === 'refused') await this.#forget()
  }

  /** Ends this process's part in it; what is on disk stays. */
  async close(): Promise<void> {
    clearTimeout(this.#linger)
    this.#negotiation.end()
    await this.#kept.leave()
  }

  /** Leads it to its end. Never rejects. */
  async run(challenge: Challenge | undefined): Promise<void> {
    try {
      const settled = await this.#negotiation.lead(challenge)
      // Of a grant nothing is left to do here: whoever calls next finds it.
      if (settled.kind === 'grant') {
        await this.#forget()
        this.#parts.onGrant(this.record)
      }
      this.#at.move({ name: 'settled', settled })
      if (settled.kind === 'answer' && this.#waiters === 0) this.#deserted()
    } catch (error) {
      const said = unusable(error)
      const failure =
        said instanceof AgentError
          ? said
          : new AgentError('unexpected_answer', {
              detail: 'The negotiation failed.',
              local: true,
              cause: error,
            })
      await this.#failed(failure)
    }
  }

  /**
   * What came of something that the owner was asked is told to whoever asks next; an outage changes nothing
   * of what is kept.
   */
  async #failed(failure: AgentError): Promise<void> {
    // Of one that another process leads nothing is ours to say.
    const name = this.#kept.isHeld ? this.record.phase.name : 'new'
    const family = familyName(this.record)
    const told = failure.code === 'outcome_unknown' && name === 'sending' ? outcomeUnknown(family) : failure
    if (name === 'sending' || name === 'refused' || (name === 'waiting' && isDecision(failure))) {
      this.record.phase = { name: 'refused', error: keptError(told), family }
      await this.#kept.keep().catch(() => undefined)
    }
    if (isClosed(failure)) await this.#parts.onRefused(this.record, failure).catch(() => undefined)
    this.#at.move({ name: 'failed', error: told })
    if (name === 'new' || this.record.phase.name !== 'refused') await this.#end()
    else if (this.#waiters === 0) this.#deserted()
  }

  #deserted(): void {
    if (this.record.tasks !== undefined) return
    if (this.stage.name === 'failed' && this.record.phase.name !== 'refused') return
    if (this.stage.name === 'settled' && this.stage.settled.kind === 'grant') return
    this.record.left = this.#parts.now()
    void this.#kept.keep().catch(() => undefined)
    this.#linger = setTimeout(() => this.#lingered(), this.#parts.lingerSeconds * 1000)
    this.#linger.unref()
  }

  #lingered(): void {
    const { name } = this.record.phase
    if (name === 'answered' || name === 'refused') void this.#forget().catch(() => undefined)
    else this.withdraw()
    this.#at.changed()
  }

  #forget(): Promise<void> {
    this.dropped ??= this.#kept.drop().then(() => this.#end())
    return this.dropped
  }

  async #end(): Promise<void> {
    clearTimeout(this.#linger)
    await this.#kept.release().catch(() => undefined)
    this.#parts.onEnded(this)
  }
}
