/**
 * Owns one negotiation that several calls may wait for, from the challenge to the grant or the answer. contract, "Permission ticket" and
 * "Single-use grant": the owner is asked once, and what she approved once is sent once, when somebody waits for it.
 */
import type { Json } from '../../wire/json.ts'
import type { Challenge } from '../../wire/negotiation.ts'
import { AgentError } from '../agent-error.ts'
import type { CallAnswer } from '../answer.ts'
import { negotiate, resumeNegotiation, withdrawRequest, type WaitingRequest } from '../negotiate.ts'
import type { Directory } from '../metadata.ts'
import type { Profile } from '../profile.ts'
import type { Accepted } from '../receipt.ts'
import type { Grant } from '../store.ts'
import { familyName, keptError, outcomeUnknown, thrown, type Family } from './family.ts'
import type { BridgeState, Owner } from './state.ts'
import type { Offer } from './terms.ts'
import type { TermsTemplate } from '../../wire/terms.ts'

/** How a negotiation ended well: a grant for every call of the tool, or the answer to the one call that was approved. */
export type Settled =
  { kind: 'grant'; grant: Grant; owner: Owner } | { kind: 'answer'; result: Json; family: string }

/** Where it is. `offer`: a person has to say yes to terms; `waiting`: the owner has to decide. */
export type Stage =
  | { name: 'starting' }
  | { name: 'offer'; offer: Offer }
  | { name: 'waiting'; owner: string; since: number; family: string; kind: WaitingRequest['kind'] }
  | { name: 'settled'; settled: Settled }
  | { name: 'failed'; error: AgentError }

/** What a negotiation is led with. */
export interface RequestParts {
  state: BridgeState
  directory: Directory
  lingerSeconds: number
  now: () => number
  profileOf(owner: Owner): Promise<Profile>
  /** A challenge to the call, or its answer where none is needed any more. */
  challenge(record: Family, signal: AbortSignal): Promise<CallAnswer>
  /** The terms as a person is asked about them; undefined where she agreed already. */
  offer(template: TermsTemplate, record: Family): Promise<Offer | undefined>
  /** A person agreed to the terms of this tool, as it is defined now. */
  onAgreed(template: TermsTemplate, record: Family): Promise<void>
  /** Sends the call under a grant for this one use. */
  sendOnce(record: Family, grant: Grant, profile: Profile): Promise<Json>
  /** The request became that of one operation, and has another id. */
  onOperation(request: PendingRequest): Promise<string>
  onEnded(request: PendingRequest): void
  /** The owner, or a rule of hers, refused. */
  onRefused(record: Family): Promise<void>
}

/** A negotiation under way. */
export class PendingRequest {
  stage: Stage = { name: 'starting' }
  record: Family
  /** It is over, and nothing of it is kept once this resolves: the same call is another one. */
  dropped: Promise<void> | undefined
  readonly #parts: RequestParts
  readonly #listeners = new Set<() => void>()
  readonly #ending = new AbortController()
  #waiters = 0
  #gone = false
  #writes: Promise<void> = Promise.resolve()
  #withdrawing = false
  #linger: NodeJS.Timeout | undefined
  #decide: ((accepted: boolean | AgentError) => void) | undefined
  #release: (() => Promise<void>) | undefined
  /** Ends the pause between two polls: somebody came to ask. */
  #wake: (() => void) | undefined

  constructor(record: Family, parts: RequestParts) {
    this.record = record
    this.#parts = parts
  }

  /** Somebody waits for it, until the function answered is called. */
  enter(): () => void {
    this.#waiters++
    clearTimeout(this.#linger)
    this.#wake?.()
    this.record.left = undefined
    this.#changed()
    let left = false
    return () => {
      if (left) return
      left = true
      if (--this.#waiters === 0) this.#deserted()
    }
  }

  /** The family of the contract, as far as it is known. */
  family(): string | undefined {
    return familyName(this.record)
  }

  /** Resolves once `when` holds of the stage, the time is over, or the signal says so; never rejects. */
  async until(when: (stage: Stage) => boolean, milliseconds: number, signal: AbortSignal): Promise<void> {
    if (when(this.stage) || signal.aborted) return
    await new Promise<void>(resolve => {
      const end = (): void => {
        clearTimeout(timer)
        this.#listeners.delete(look)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const look = (): void => void (when(this.stage) && end())
      const timer = setTimeout(end, Math.max(0, milliseconds))
      this.#listeners.add(look)
      signal.addEventListener('abort', end, { once: true })
    })
  }

  /** A person's word about the terms offered. */
  decide(accepted: boolean | AgentError): void {
    this.#decide?.(accepted)
  }

  /** A client that asked for a task waits for it, whatever becomes of this process. */
  async becomeTask(id: string | undefined): Promise<void> {
    this.record.task = id
    await this.#keep()
    this.#changed()
  }

  /** Takes the request back: nobody wants it decided any more. */
  withdraw(): void {
    this.#withdrawing = true
    this.#wake?.()
    this.decide(false)
  }

  /** The client has the answer: nothing of it is kept. */
  async delivered(): Promise<void> {
    if (this.record.phase.name === 'answered' || this.record.phase.name === 'refused') await this.#forget()
  }

  /** Ends this process's part in it; what is on disk stays. */
  async close(): Promise<void> {
    clearTimeout(this.#linger)
    this.#ending.abort()
    await this.#release?.()
  }

  /** Leads it to its end. Never rejects. */
  async run(challenge: Challenge | undefined): Promise<void> {
    try {
      await this.#held()
      const settled = await this.#settle(challenge)
      // Of a grant nothing is left to do here: whoever calls next finds it.
      if (settled.kind === 'grant') await this.#forget()
      this.#move({ name: 'settled', settled })
      if (settled.kind === 'answer' && this.#waiters === 0) this.#deserted()
    } catch (error) {
      const failure =
        error instanceof AgentError
          ? error
          : new AgentError('unexpected_answer', {
              detail: 'The negotiation failed.',
              local: true,
              cause: error,
            })
      await this.#failed(failure)
    }
  }

  async #held(): Promise<void> {
    this.#release = await this.#parts.state.hold(this.record.id)
    if (this.#release !== undefined) return
    throw new AgentError('in_progress', {
      detail: 'Another window of this client waits for the very same. Call again in a while.',
      terminal: false,
      local: true,
    })
  }

  async #settle(given: Challenge | undefined): Promise<Settled> {
    const kept = await this.#parts.state.family<Family>(this.record.id)
    if (kept !== undefined) {
      this.record = { ...kept, left: undefined }
      const { phase } = kept
      if (phase.name === 'sending') throw outcomeUnknown(phase.family)
      if (phase.name === 'refused') throw thrown(phase.error)
      if (phase.name === 'answered') return { kind: 'answer', result: phase.result, family: phase.family }
      if (phase.name === 'granted' && phase.grant.exp > this.#parts.now() && kept.owner !== undefined)
        return this.#use(phase.grant, kept.owner)
      if (phase.name === 'waiting' && kept.owner !== undefined) {
        const resumed = await this.#resume(phase.request, kept.owner)
        if (resumed !== undefined) return this.#accepted(resumed, kept.owner)
      }
    }
    return this.#begin(given, 1)
  }

  /** Where its ticket counts for nothing any more, a new negotiation joins what waits. */
  async #resume(waiting: WaitingRequest, owner: Owner): Promise<Accepted | undefined> {
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

  async #begin(given: Challenge | undefined, attempt: number): Promise<Settled> {
    const found: CallAnswer =
      given === undefined
        ? await this.#parts.challenge(this.record, this.#ending.signal)
        : { kind: 'challenge', challenge: given }
    if (found.kind === 'result') return { kind: 'answer', result: found.result, family: '' }
    const { challenge } = found
    const owner = ownerIn(challenge)
    this.record.owner = owner
    const profile = await this.#parts.profileOf(owner)
    try {
      const request = { ...this.#negotiation(owner, profile), challenge }
      return await this.#accepted(await negotiate(profile, this.#parts.directory, request), owner)
    } catch (error) {
      // The ticket did not outlive a person's thinking; what she said is kept.
      if (!(error instanceof AgentError) || error.code !== 'invalid_grant' || attempt > 1) throw error
      return this.#begin(undefined, attempt + 1)
    }
  }

  #negotiation(owner: Owner, profile: Profile) {
    const { resource, call } = this.record
    return {
      resource,
      call,
      signal: this.#ending.signal,
      confirm: (template: TermsTemplate) => this.#confirm(template),
      pause: (seconds: number) => this.#pause(seconds),
      onWaiting: async (request: WaitingRequest) => {
        this.record.phase = { name: 'waiting', request }
        await this.#keep()
        this.#tellWaiting(request, owner)
        if (!this.#withdrawing) return
        await withdrawRequest(profile, this.#parts.directory, { resource, call, waiting: request })
        throw new AgentError('terms_declined', { detail: 'The request was taken back.', local: true })
      },
    }
  }

  async #pause(seconds: number): Promise<void> {
    const { signal } = this.#ending
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, seconds * 1000)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
      signal.addEventListener('abort', this.#wake, { once: true })
    })
    this.#wake = undefined
    if (signal.aborted)
      throw new AgentError('aborted', { detail: 'The bridge ended.', local: true, terminal: false })
  }

  async #confirm(template: TermsTemplate): Promise<boolean> {
    if (this.#withdrawing) return false
    if (template.per_operation === true) {
      await this.#release?.()
      this.record.id = await this.#parts.onOperation(this)
      await this.#held()
    }
    const offer = await this.#parts.offer(template, this.record)
    if (offer === undefined) return true
    const word = new Promise<boolean | AgentError>(resolve => (this.#decide = resolve))
    this.#move({ name: 'offer', offer })
    const accepted = await word
    this.#decide = undefined
    this.#move({ name: 'starting' })
    if (accepted instanceof AgentError) throw accepted
    if (accepted) {
      await this.#parts.state.keepAgreed(offer.consent)
      await this.#parts.onAgreed(template, this.record)
    }
    return accepted
  }

  async #accepted({ grant }: Accepted, owner: Owner): Promise<Settled> {
    await this.#parts.state.keepOwner(this.record.resource, owner)
    if (!grant.single_use) return { kind: 'grant', grant, owner }
    this.record.phase = { name: 'granted', grant }
    await this.#keep()
    return this.#use(grant, owner)
  }

  /** An approval executes nothing while nobody waits. */
  async #use(grant: Grant, owner: Owner): Promise<Settled> {
    const profile = await this.#parts.profileOf(owner)
    while (this.#waiters === 0 && this.record.task === undefined) {
      if (this.#withdrawing)
        throw new AgentError('terms_declined', { detail: 'The request was taken back.', local: true })
      await new Promise<void>((resolve, reject) => {
        const look = (): void => {
          this.#listeners.delete(look)
          resolve()
        }
        this.#listeners.add(look)
        this.#ending.signal.addEventListener('abort', () =>
          reject(new AgentError('aborted', { detail: 'The bridge ended.', local: true, terminal: false })),
        )
      })
    }
    const { family } = grant
    this.record.phase = { name: 'sending', family }
    await this.#keep()
    const result = await this.#parts.sendOnce(this.record, grant, profile)
    this.record.phase = { name: 'answered', result, family }
    await this.#keep()
    return { kind: 'answer', result, family }
  }

  /** What came of something that the owner was asked is told to whoever asks next; an outage changes nothing of what is kept. */
  async #failed(error: AgentError): Promise<void> {
    const { name } = this.record.phase
    const family = familyName(this.record)
    const told = error.code === 'outcome_unknown' && name === 'sending' ? outcomeUnknown(family) : error
    if (name === 'sending' || name === 'refused' || (name === 'waiting' && isDecision(error))) {
      this.record.phase = { name: 'refused', error: keptError(told), family }
      await this.#keep()
    }
    if (isClosed(error)) await this.#parts.onRefused(this.record)
    this.#move({ name: 'failed', error: told })
    if (this.record.phase.name !== 'refused') await this.#end()
    else if (this.#waiters === 0) this.#deserted()
  }

  #tellWaiting({ kind, signed }: WaitingRequest, { owner }: Owner): void {
    const { family } = signed.template
    this.#move({ name: 'waiting', owner, since: this.record.since, family, kind })
  }

  #deserted(): void {
    if (this.record.task !== undefined) return
    if (this.stage.name === 'failed' && this.record.phase.name !== 'refused') return
    if (this.stage.name === 'settled' && this.stage.settled.kind === 'grant') return
    this.record.left = this.#parts.now()
    void this.#keep().catch(() => undefined)
    this.#linger = setTimeout(() => this.#lingered(), this.#parts.lingerSeconds * 1000)
    this.#linger.unref()
  }

  #lingered(): void {
    const { name } = this.record.phase
    if (name === 'answered' || name === 'refused') void this.#forget().catch(() => undefined)
    else this.withdraw()
    this.#changed()
  }

  /** Only what waits, or was decided, is worth keeping: the rest begins anew. */
  #keep(): Promise<void> {
    return this.#written(async () => {
      if (this.#gone || this.#ending.signal.aborted || this.record.phase.name === 'new') return
      await this.#parts.state.keepFamily(this.record.id, this.record)
    })
  }

  #forget(): Promise<void> {
    this.#gone = true
    this.dropped ??= this.#written(() => this.#parts.state.dropFamily(this.record.id)).then(() => this.#end())
    return this.dropped
  }

  /** One change of the record after the other: nothing is kept once it was dropped. */
  #written(change: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(change)
    this.#writes = done.catch(() => undefined)
    return done
  }

  async #end(): Promise<void> {
    clearTimeout(this.#linger)
    const release = this.#release
    this.#release = undefined
    await release?.().catch(() => undefined)
    this.#parts.onEnded(this)
  }

  #move(stage: Stage): void {
    this.stage = stage
    this.#changed()
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

const CLOSED: ReadonlySet<string> = new Set(['request_denied', 'access_revoked'])

/** Whether somebody else's word ended it: the owner's, or a rule of hers. */
export function isClosed({ local, code }: AgentError): boolean {
  return !local && CLOSED.has(code)
}

/** Whether nothing that is tried again changes it. */
function isDecision({ code, terminal }: AgentError): boolean {
  return terminal && code !== 'aborted' && code !== 'invalid_grant'
}

/** Whose it is, as the challenge says that was found to agree with the resource: `<owner>/<tool>`, and the authority. */
export function ownerIn({ as_uri, authorization_remediation }: Challenge): Owner {
  const [first] = authorization_remediation.authorization_details
  const owner = first?.identifier.split('/')[0]
  return { as_uri, owner: owner === undefined || owner === '' ? 'unnamed' : owner }
}
