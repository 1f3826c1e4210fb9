/**
 * Owns the course of one negotiation of the bridge: it resumes from what was kept, or begins from a
 * challenge. It puts the terms to a person, waits for the owner, and sends an approved call once. Contract:
 * "Permission ticket", "Agreement (claim_token, beat 3)", "Single-use grant".
 */
import type { Json } from '../../../wire/json.ts'
import type { Challenge } from '../../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import { AgentError } from '../../agent-error.ts'
import type { CallAnswer } from '../../answer.ts'
import { namedBy, type ToolCall } from '../../transports/mcp.ts'
import {
  negotiate,
  resumeNegotiation,
  withdrawRequest,
  type WaitingRequest,
} from '../../negotiation/negotiate.ts'
import type { Profile } from '../../profile.ts'
import type { Accepted } from '../../negotiation/receipt.ts'
import type { Grant } from '../../store.ts'
import type { TokenAnswer } from '../../negotiation/token.ts'
import {
  familyId,
  familyName,
  isOfOneCall,
  outcomeUnknown,
  ownerIn,
  thrown,
  type FamilyRecord,
} from './family.ts'
import { EarlyPoll } from './early-poll.ts'
import type { CallListeners, NegotiationAbout, NegotiationParts } from './negotiation-parts.ts'
import type { StoredFamily } from './stored-family.ts'
import type { Settled, Stages } from './stage.ts'
import type { ResourceOwner } from './state.ts'

/** A grant that ends while the call is on its way is useless. */
const SECONDS_LEFT_MIN = 2
/**
 * While nobody waits, the authority is polled this seldom: a request that is never polled expires there,
 * after an hour by default.
 */
const IDLE_SECONDS = 1800
/** The pause between two attempts to reach an authority that a task waits for. */
const OUTAGE_SECONDS = 5

/** One negotiation, led from what is kept of it, or from a challenge, to its grant or its answer. */
export class BridgeNegotiation {
  readonly #parts: NegotiationParts
  readonly #about: NegotiationAbout
  readonly #ending = new AbortController()
  readonly #earlyPoll = new EarlyPoll()
  #withdrawing = false
  /** It is about this exact call. */
  #perOperation = false
  #isFailedByCall = false
  #decide: ((accepted: boolean | AgentError) => void) | undefined
  /** Ends the pause between two polls: somebody came to ask. */
  #wake: (() => void) | undefined

  constructor(about: NegotiationAbout, parts: NegotiationParts) {
    this.#about = about
    this.#parts = parts
  }

  get #storedFamily(): StoredFamily {
    return this.#about.storedFamily
  }

  get #at(): Stages {
    return this.#about.at
  }

  get record(): FamilyRecord {
    return this.#storedFamily.record
  }

  /** Whether it is about that call too: if each call is approved, a request is only about its own call. */
  serves(resource: string, call: ToolCall): boolean {
    return !this.#perOperation || this.record.id === familyId(resource, call, true)
  }

  /**
   * Whether it failed by what the record's call itself met, made without a grant: that says nothing of other
   * calls.
   */
  get isFailedByCall(): boolean {
    return this.#isFailedByCall
  }

  /** A person's answer about the offered terms. */
  decide(accepted: boolean | AgentError): void {
    this.#decide?.(accepted)
  }

  /** Somebody came to ask: the authority is polled at once. */
  wake(): void {
    this.#wake?.()
  }

  /** Withdraws the request, because nobody needs the decision any more. */
  withdraw(): void {
    this.#withdrawing = true
    this.wake()
    this.#at.changed()
    this.decide(false)
  }

  /** Ends this process's part in it once the ticket of a poll that is held is on disk again, or is lost. */
  async close(): Promise<void> {
    await this.#earlyPoll.close()
    this.end()
  }

  /** Ends this process's part in it at once; what is on disk stays. */
  end(): void {
    this.#ending.abort()
    this.decide(ended())
  }

  /** Leads it to its end. Fails with `AgentError` if it fails. */
  async lead(challenge: Challenge | undefined): Promise<Settled> {
    try {
      await this.#takeHold()
      return await this.#outlasting(() => this.#settle(challenge))
    } finally {
      this.#earlyPoll.end()
    }
  }

  /** A task waits until an outage ends, because nobody is there to call again. */
  async #outlasting(settle: () => Promise<Settled>): Promise<Settled> {
    for (;;) {
      try {
        return await settle()
      } catch (error) {
        const { tasks, phase } = this.record
        if (!(error instanceof AgentError) || error.terminal || error.code === 'aborted') throw error
        const isPending = phase.name === 'waiting' || phase.name === 'granted'
        if (tasks === undefined || !isPending || this.#withdrawing) throw error
        await this.#pause(OUTAGE_SECONDS)
      }
    }
  }

  async #takeHold(): Promise<void> {
    await this.#parts.sweepEnd(this.record.id)
    if (await this.#storedFamily.hold('offered')) return
    throw new AgentError('in_progress', {
      detail: 'Another window of this client waits for the very same. Call again in a while.',
      terminal: false,
      local: true,
    })
  }

  async #settle(firstChallenge: Challenge | undefined): Promise<Settled> {
    this.#isFailedByCall = false
    if (await this.#storedFamily.recover()) {
      const { phase, owner } = this.record
      if (phase.name === 'sending') throw outcomeUnknown(phase.family)
      if (phase.name === 'refused') throw thrown(phase.error)
      if (phase.name === 'answered') return { kind: 'answer', result: phase.result, family: phase.family }
      if (phase.name === 'granted' && this.#isLive(phase.grant) && owner !== undefined)
        return this.#use(phase.grant, owner)
      if (phase.name === 'waiting' && owner !== undefined) {
        const resumed = await this.#resume(phase.request, owner)
        if (resumed !== undefined) return this.#accepted(resumed, owner)
      }
    }
    return this.#begin(firstChallenge, 1)
  }

  /** If its ticket is no longer valid, a new negotiation joins what waits. */
  async #resume(waiting: WaitingRequest, owner: ResourceOwner): Promise<Accepted | undefined> {
    const { directory } = this.#parts
    const profile = await this.#parts.profileOf(owner)
    this.#tellWaiting(waiting, owner)
    try {
      return await resumeNegotiation(profile, directory, { ...this.#negotiation(owner, profile), waiting })
    } catch (error) {
      if (error instanceof AgentError && error.code === 'invalid_grant') return undefined
      throw error
    }
  }

  async #begin(firstChallenge: Challenge | undefined, attempt: number): Promise<Settled> {
    const found = await this.#challenged(firstChallenge)
    if (found.kind === 'result') {
      const answered = await this.#answered(found.result, familyName(this.record) ?? '')
      return { ...answered, free: !isOfOneCall(this.record) }
    }
    const { challenge } = found
    const owner = ownerIn(challenge)
    this.record.owner = owner
    this.record.call = namedBy(this.record.call, challenge)
    const profile = await this.#parts.profileOf(owner)
    const answerLost = this.#waitedBefore()
    try {
      const request = { ...this.#negotiation(owner, profile), challenge, answerLost }
      return await this.#accepted(await negotiate(profile, this.#parts.directory, request), owner)
    } catch (error) {
      // The ticket expired while a person was thinking; her answer is kept.
      if (!(error instanceof AgentError) || error.code !== 'invalid_grant' || attempt > 1) throw error
      return this.#begin(undefined, attempt + 1)
    }
  }

  /** A challenge to a call that somebody waits for, or that call's answer if no grant is needed any more. */
  async #challenged(firstChallenge: Challenge | undefined): Promise<CallAnswer> {
    if (firstChallenge !== undefined) return { kind: 'challenge', challenge: firstChallenge }
    await this.#untilAwaited()
    if (!isOfOneCall(this.record)) this.record.call = this.#about.awaitedCall() ?? this.record.call
    try {
      return await this.#parts.challenge(this.record, this.#ending.signal)
    } catch (error) {
      this.#isFailedByCall = true
      throw error
    }
  }

  /** Nothing is sent for somebody who left. */
  async #untilAwaited(): Promise<void> {
    while (!this.#about.isAwaited() && this.record.tasks === undefined) {
      if (this.#withdrawing)
        throw new AgentError('terms_declined', { detail: 'The request was taken back.', local: true })
      await this.#storedFamily.idle(this.#at.changes(this.#ending.signal))
      if (this.#ending.signal.aborted) throw ended()
    }
  }

  /**
   * Whether the owner was asked already by a ticket that is no longer valid, because the answer to it was
   * lost, or by a grant that ended unspent.
   */
  #waitedBefore(): boolean {
    const { record } = this
    if (record.phase.name === 'granted') return true
    if (record.phase.name !== 'waiting') return false
    const { family, template_id } = record.phase.request.signed.template
    record.joined ??= { family, template_id }
    return true
  }

  #negotiation(owner: ResourceOwner, profile: Profile) {
    const { resource, call } = this.record
    return {
      resource,
      call,
      owner: owner.owner,
      signal: this.#ending.signal,
      confirm: (template: TermsTemplate) => this.#confirm(template),
      pause: (seconds: number) => this.#pause(seconds),
      pollEarly: (send: () => Promise<TokenAnswer>, seconds: number) =>
        this.#mayPollEarly ? this.#earlyPoll.begin(send, seconds) : undefined,
      onWaiting: async (request: WaitingRequest) => {
        if (this.record.joined?.template_id !== request.signed.template.template_id)
          this.record.joined = undefined
        this.record.phase = { name: 'waiting', request }
        // The owner was asked already: the callers keep waiting, even if only this process knows of it.
        await this.#storedFamily.keep().catch(() => undefined)
        this.#earlyPoll.end()
        if (this.#earlyPoll.isClosed) throw ended()
        this.#tellWaiting(request, owner)
        if (!this.#withdrawing) return
        await withdrawRequest(profile, this.#parts.directory, { resource, call, waiting: request })
        throw new AgentError('terms_declined', { detail: 'The request was taken back.', local: true })
      },
    }
  }

  async #pause(seconds: number): Promise<void> {
    const { signal } = this.#ending
    const over = new Promise<void>(resolve => {
      const timer = setTimeout(resolve, seconds * 1000)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
      signal.addEventListener('abort', this.#wake, { once: true })
    })
    await this.#storedFamily.idle(over)
    this.#wake = undefined
    // A grant that is collected while nobody waits may have ended when somebody does.
    if (!this.#isNeeded)
      await this.#storedFamily.idle(this.#at.until(() => this.#isNeeded, IDLE_SECONDS * 1000, signal))
    if (signal.aborted) throw ended()
  }

  /**
   * Somebody hears of a decision, so a poll may be held. A poll spends the ticket: for a task whose client is
   * away, and for nobody, the ticket stays on disk between polls.
   */
  get #mayPollEarly(): boolean {
    return this.#about.hasWaiter() && !this.#withdrawing
  }

  /** Somebody waits for it, or it is to be withdrawn. */
  get #isNeeded(): boolean {
    return this.#about.isAwaited() || this.record.tasks !== undefined || this.#withdrawing
  }

  async #confirm(template: TermsTemplate): Promise<boolean> {
    this.#earlyPoll.end()
    if (this.#withdrawing) return false
    if (template.per_operation === true) {
      await this.#storedFamily.release()
      this.#perOperation = true
      this.record.id = await this.#about.onOperation()
      await this.#takeHold()
    }
    const offer = await this.#parts.offer(template, this.record)
    if (offer === undefined) return true
    const word = new Promise<boolean | AgentError>(resolve => (this.#decide = resolve))
    this.#at.move({ name: 'offer', offer })
    const accepted = await this.#storedFamily.idle(word)
    this.#decide = undefined
    this.#at.move({ name: 'starting' })
    if (accepted instanceof AgentError) throw accepted
    if (accepted) {
      await this.#parts.state.keepAgreed(offer.consent)
      await this.#parts.onAgreed(offer, this.record)
    }
    return accepted
  }

  async #accepted({ grant }: Accepted, owner: ResourceOwner): Promise<Settled> {
    await this.#parts.state.keepOwner(this.record.resource, owner)
    if (!grant.single_use) return { kind: 'grant', grant, owner }
    // If this is not written to disk, it is only lost with this process: nothing is sent under it before it
    // is written.
    await this.#storedFamily.enterPhase({ name: 'granted', grant })
    this.#earlyPoll.end()
    if (this.#earlyPoll.isClosed) throw ended()
    return this.#use(grant, owner)
  }

  #isLive({ exp }: Grant): boolean {
    return exp - this.#parts.now() >= SECONDS_LEFT_MIN
  }

  /** An approval executes nothing while nobody waits. */
  async #use(grant: Grant, owner: ResourceOwner): Promise<Settled> {
    const { family } = grant
    const wasLive = this.#isLive(grant)
    const approved = { name: 'approved', owner: owner.owner, family } as const
    this.#at.move({ ...approved, sent: false })
    const profile = await this.#parts.profileOf(owner)
    await this.#untilAwaited()
    // Then nothing is written to disk any more, so nothing is sent.
    if (this.#ending.signal.aborted) throw ended()
    // Under a grant that ended while nobody waited, the call would be refused.
    if (wasLive && !this.#isLive(grant)) return this.#begin(undefined, 1)
    await this.#storedFamily.keepPhase({ name: 'sending', family })
    this.#at.move({ ...approved, sent: true })
    const listeners: CallListeners = {
      ...this.#about.listeners,
      ask: (params, signal) => this.#at.ask(params, signal),
    }
    const sent = this.#parts.sendOnce(this.record, { grant, profile }, listeners)
    const result = await sent.catch(async (error: unknown) => {
      // The call was not made, and her approval holds: the next caller uses it. If that cannot be written to
      // disk, a later process still reports the call as sent.
      if (error instanceof AgentError && error.unspent)
        await this.#storedFamily.enterPhase({ name: 'granted', grant })
      throw error
    })
    return this.#answered(result, family)
  }

  /** The answer came: waiting callers get it even if it cannot be written to disk. */
  async #answered(result: Json, family: string): Promise<Extract<Settled, { kind: 'answer' }>> {
    await this.#storedFamily.enterPhase({ name: 'answered', result, family })
    return { kind: 'answer', result, family }
  }

  #tellWaiting({ kind, signed }: WaitingRequest, { owner }: ResourceOwner): void {
    const family = familyName(this.record) ?? signed.template.family
    this.#at.move({ name: 'waiting', owner, since: this.record.since, family, kind })
  }
}

function ended(): AgentError {
  return new AgentError('aborted', { detail: 'The bridge ended.', local: true, terminal: false })
}
