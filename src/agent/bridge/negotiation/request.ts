/**
 * Owns one negotiation as its waiting calls see it: which calls wait, what they are answered, and how long
 * the negotiation stays if none waits. Contract: "Permission ticket" and "Single-use grant": the owner is
 * asked once, and what she approved once is sent once, when somebody waits for it.
 */
import type { JsonObject } from '../../../wire/json.ts'
import type { Challenge } from '../../../wire/negotiation/negotiation.ts'
import { AgentError } from '../../agent-error.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import {
  familyName,
  isClosed,
  isDecision,
  isOfOneCall,
  isSameCall,
  storedError,
  outcomeUnknown,
  type FamilyRecord,
  type StoredTask,
} from './family.ts'
import { NoAnswer } from '../answers/foreign-answer.ts'
import type { ProgressListeners } from '../notices/logs.ts'
import { StoredFamily } from './stored-family.ts'
import { BridgeNegotiation } from './negotiation.ts'
import type { NegotiationAbout, NegotiationParts } from './negotiation-parts.ts'
import { Stages, type Settled, type Stage } from './stage.ts'
import { unusable } from './state.ts'
import { TIMER_SECONDS_MAX } from '../bounds.ts'

/** What running a request needs. */
export interface RequestParts extends NegotiationParts {
  lingerSeconds: number
  /** Called if the request turns out to be for one operation, and so has another id. */
  onOperation(request: OpenRequest): Promise<string>
  /** There is a grant for every call of the tool. */
  onGrant(record: FamilyRecord): void
  onEnded(request: OpenRequest): void
  /** It ended here, and what is kept of it waits for its owner, or was approved by her. */
  onLeft(id: string): void
  /** The owner, or one of her rules, refused. */
  onRefused(record: FamilyRecord, error: AgentError): Promise<void>
}

/** A call that waits, and who is told of the tool's progress meanwhile. */
export interface Waiter extends ProgressListeners {
  call?: ToolCall | undefined
  /** What its client says about the sending alone. */
  meta?: JsonObject | undefined
  /** Whether its client is there for the answer at the moment; left out, it is. */
  isHere?: (() => boolean) | undefined
}

/** A negotiation under way. */
export class OpenRequest {
  #dropping: Promise<void> | undefined
  /** Whether it is over, and nothing of it is to be kept. */
  #isOver = false
  readonly #parts: RequestParts
  readonly #storedFamily: StoredFamily
  readonly #at = new Stages()
  readonly #negotiation: BridgeNegotiation
  readonly #waiting = new Set<Waiter>()
  #linger: NodeJS.Timeout | undefined
  /** A caller here got the result, or is about to get it. */
  #isReported = false

  constructor(record: FamilyRecord, parts: RequestParts) {
    this.#storedFamily = new StoredFamily(record, parts.state)
    this.#parts = parts
    const about: NegotiationAbout = {
      storedFamily: this.#storedFamily,
      at: this.#at,
      isAwaited: () => this.#waiters > 0,
      hasWaiter: () => [...this.#waiting].some(({ isHere }) => isHere?.() ?? true),
      awaitedCall: () => this.#awaitedCall(),
      onOperation: () => parts.onOperation(this),
      listeners: {
        onProgress: progress => {
          for (const { onProgress } of this.#waiting) onProgress?.(progress)
        },
        onLog: log => {
          for (const { onLog } of this.#waiting) onLog?.(log)
        },
      },
    }
    this.#negotiation = new BridgeNegotiation(about, parts)
  }

  get stage(): Stage {
    return this.#at.stage
  }

  get record(): FamilyRecord {
    return this.#storedFamily.record
  }

  get #waiters(): number {
    return this.#waiting.size
  }

  #awaitedCall(): ToolCall | undefined {
    const calls = [...this.#waiting, ...(this.record.tasks ?? [])].map(({ call }) => call)
    return calls.find(call => call !== undefined)
  }

  /** What the client of a waiting caller of that call says about the sending alone. */
  metaOf(call: ToolCall): JsonObject | undefined {
    const waiting = [...this.#waiting].filter(one => one.call !== undefined && isSameCall(one.call, call))
    return waiting.find(({ meta }) => meta !== undefined)?.meta
  }

  /** Registers a waiting caller, until the returned function is called. */
  enter(waiter: Waiter = {}): () => void {
    const waiting = { ...waiter }
    this.#waiting.add(waiting)
    clearTimeout(this.#linger)
    void this.#storedFamily.want()
    this.#negotiation.wake()
    this.record.left = undefined
    this.#at.changed()
    return () => {
      if (!this.#waiting.delete(waiting)) return
      this.#isReported ||= this.stage.name === 'settled' || this.stage.name === 'failed'
      if (this.#waiters === 0) this.#deserted()
      // It may have been the one that asked a person.
      else this.#at.changed()
    }
  }

  /**
   * Whether this process still leads it, now that somebody waits: while nobody waited, another process may
   * have continued it.
   */
  isOurs(): Promise<boolean> {
    return this.#storedFamily.want()
  }

  /** Another process continues it, so nothing of it is left here. */
  async abandon(): Promise<void> {
    this.#negotiation.end()
    await this.#end()
  }

  /** Whether it is about that call too: if each call is approved, a request is only about its own call. */
  serves(resource: string, call: ToolCall): boolean {
    return this.#negotiation.serves(resource, call)
  }

  /** Whether the answer that it has is the answer to that call. */
  answers(call: ToolCall): boolean {
    return isSameCall(this.record.call, call)
  }

  /** Whether the failure that it ended with is one of that call, too. */
  failsFor(call: ToolCall): boolean {
    return !this.#negotiation.isFailedByCall || this.answers(call)
  }

  /** The family of the contract, as far as it is known. */
  family(): string | undefined {
    return familyName(this.record)
  }

  /**
   * Resolves when `when` holds for the stage, when the time is over, or when the signal says so; never
   * rejects.
   */
  until(when: (stage: Stage) => boolean, milliseconds: number, signal: AbortSignal): Promise<void> {
    return this.#at.until(when, milliseconds, signal)
  }

  /** A person's answer about the offered terms. */
  decide(accepted: boolean | AgentError): void {
    this.#negotiation.decide(accepted)
  }

  /**
   * Clients that asked for tasks wait for it until then, whatever becomes of this process. `change` gets the
   * tasks as they are when it is made, so that changes which come together lose none.
   */
  async waitByTasks(change: (tasks: readonly StoredTask[]) => readonly StoredTask[]): Promise<void> {
    // A client may ask for its task, or cancel it, before this process has read what an earlier one left.
    await this.#storedFamily.known
    const tasks = change(this.record.tasks ?? [])
    this.record.tasks = tasks.length === 0 ? undefined : [...tasks]
    await this.#storedFamily.keep()
    this.#at.changed()
    if (tasks.length === 0 && this.#waiters === 0) this.#deserted()
  }

  /** Withdraws the request, because nobody needs the decision any more. */
  withdraw(): void {
    this.#negotiation.withdraw()
  }

  /** The client has the answer: nothing of it is kept. */
  async delivered(): Promise<void> {
    if (this.#isForAll && this.record.tasks !== undefined) return this.#forgetForAll()
    if (this.#isForAll) return
    if (this.record.phase.name === 'answered' || this.record.phase.name === 'refused') await this.#forget()
  }

  /** Ends this process's part in it; what is on disk stays. */
  async close(): Promise<void> {
    clearTimeout(this.#linger)
    await this.#negotiation.close()
    await this.#storedFamily.leave()
  }

  /** Leads it to its end. Never rejects. */
  async run(challenge: Challenge | undefined): Promise<void> {
    try {
      const settled = await this.#negotiation.lead(challenge)
      if (isForAll(settled)) {
        // The next caller finds the grant, or needs none. A task has no answer yet, so its record outlives
        // this process.
        await (this.record.tasks === undefined ? this.#forget() : this.#end())
      }
      if (settled.kind === 'grant') this.#parts.onGrant(this.record)
      this.#at.move({ name: 'settled', settled })
      if (settled.kind === 'answer' && this.#waiters === 0) this.#deserted()
    } catch (error) {
      const reason = unusable(error)
      const failure =
        reason instanceof AgentError
          ? reason
          : new AgentError('unexpected_answer', {
              detail: 'The negotiation failed.',
              local: true,
              cause: error,
            })
      await this.#failed(failure)
    } finally {
      this.#storedFamily.rest()
    }
  }

  /**
   * The result of something that the owner was asked is kept for the next caller; an outage changes nothing
   * that is kept.
   */
  async #failed(failure: AgentError): Promise<void> {
    // If another process leads it, this one has nothing to say about it.
    const name = this.#storedFamily.hasHold ? this.record.phase.name : 'new'
    const family = familyName(this.record)
    const isUnknown = failure.code === 'outcome_unknown' && name === 'sending'
    const instead = failure instanceof NoAnswer ? failure.detail : undefined
    const outcome = isUnknown ? outcomeUnknown(family, instead) : failure
    const isForAll = !this.#negotiation.isFailedByCall || isOfOneCall(this.record)
    if (name === 'sending' || name === 'refused' || (name === 'waiting' && isForAll && isDecision(failure))) {
      this.record.phase = { name: 'refused', error: storedError(outcome), family }
      await this.#storedFamily.keep().catch(() => undefined)
    }
    if (isClosed(failure)) await this.#parts.onRefused(this.record, failure).catch(() => undefined)
    const isOver = name === 'new' || this.record.phase.name !== 'refused'
    // A caller that got the result and asks again at once makes a new request.
    if (isOver) await this.#end()
    this.#at.move({ name: 'failed', error: outcome })
    if (name === 'waiting' || name === 'granted') this.#parts.onLeft(this.record.id)
    if (!isOver && this.#waiters === 0) this.#deserted()
  }

  #deserted(): void {
    const until = Math.max(0, ...(this.record.tasks ?? []).map(task => task.until))
    const seconds = until - this.#parts.now()
    clearTimeout(this.#linger)
    if (seconds > 0) {
      // How long a disconnected client may come back for its task.
      const look = (): void => void (this.#waiters === 0 && this.#deserted())
      this.#linger = setTimeout(look, Math.min(seconds, TIMER_SECONDS_MAX) * 1000).unref()
      return
    }
    this.record.tasks = undefined
    if (this.stage.name === 'failed' && this.record.phase.name !== 'refused') return
    if (this.#isForAll) return
    this.record.left = this.#parts.now()
    void this.#storedFamily.keep().catch(() => undefined)
    // An answer that is being sent to one client is not given to another at the same time.
    if (!this.#isReported) this.#storedFamily.desert()
    this.#linger = setTimeout(() => void this.#lingered(), this.#parts.lingerSeconds * 1000)
    this.#linger.unref()
  }

  async #lingered(): Promise<void> {
    if (!(await this.#storedFamily.want())) return this.abandon()
    if (this.#waiters > 0) return
    const { name } = this.record.phase
    if (name === 'answered' || name === 'refused') void this.#forget().catch(() => undefined)
    else this.withdraw()
    this.#at.changed()
  }

  get #isForAll(): boolean {
    const { stage } = this
    return stage.name === 'settled' && isForAll(stage.settled)
  }

  /**
   * The record that a task was kept for; if the tool is negotiated about again, the new negotiation has the
   * record by now.
   */
  async #forgetForAll(): Promise<void> {
    if (!(await this.#storedFamily.hold('abandoned'))) return
    try {
      await this.#storedFamily.drop()
    } finally {
      await this.#storedFamily.release()
    }
  }

  /**
   * If it is over: nothing of it is kept when this resolves, and a repeat of the call begins a new request.
   * If something could not be removed, it is tried again each time, because until then no such call can be
   * made.
   */
  dropped(): Promise<void> | undefined {
    return this.#isOver ? this.#forget() : undefined
  }

  #forget(): Promise<void> {
    this.#isOver = true
    this.#dropping ??= this.#storedFamily
      .drop()
      .then(() => this.#end())
      .catch((error: unknown) => {
        this.#dropping = undefined
        throw error
      })
    return this.#dropping
  }

  async #end(): Promise<void> {
    clearTimeout(this.#linger)
    await this.#storedFamily.release().catch(() => undefined)
    this.#parts.onEnded(this)
  }
}

/** Every call of the tool continues by itself: there is a grant for it, or it needs none any more. */
function isForAll(settled: Settled): boolean {
  return settled.kind === 'grant' || settled.free === true
}
