/**
 * Owns the course of a client's call: it is sent under a held grant, or without one; if it is challenged, it
 * joins the negotiation about it. Contract: "What the service does", beats 1 to 4; "Grant (RPT) liveness" (a
 * grant is dropped when it ends).
 */
import type { Json } from '../../wire/json.ts'
import { AgentError, fail } from '../agent-error.ts'
import type { CallAnswer } from '../answer.ts'
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import type { CallParts, ClientCall } from './call-parts.ts'
import { callDirectly, findGrant, sendUnder, type Note } from './direct-call.ts'
import { familyId, isClosed, type FamilyRecord } from './negotiation/family.ts'
import { KnownTools } from './known-tools.ts'
import { createRenewals, type AgentGrant, type Renewals } from './negotiation/renewal.ts'
import type { CallListeners } from './negotiation/negotiation-parts.ts'
import { OpenRequest, type RequestParts, type Waiter } from './negotiation/request.ts'
import type { KnownTool } from './negotiation/state.ts'
import { createSweeper, type Sweeper } from './negotiation/sweep.ts'
import { isAgreed, readOffer, type TermsOffer } from './negotiation/terms.ts'
import { withChange } from './listing/tools.ts'

/** The call is answered, or there is a negotiation to wait for; call `leave` when waiting is over. */
export type Entered =
  | { kind: 'answer'; result: Json }
  | { kind: 'pending'; request: OpenRequest; leave: () => void }

/** The calls of one client. */
export class Calls {
  readonly #parts: CallParts
  readonly #pending = new Map<string, OpenRequest>()
  /** Those that are about one operation by now, and so have another id. */
  readonly #operations = new WeakSet<OpenRequest>()
  readonly #tools: KnownTools
  readonly #sweeper: Sweeper
  readonly #renewals: Renewals
  readonly #requestParts: RequestParts

  constructor(parts: CallParts) {
    this.#parts = parts
    this.#tools = new KnownTools(parts)
    this.#sweeper = createSweeper(parts, id => this.#pending.has(id))
    this.#renewals = createRenewals({
      directory: parts.directory,
      profileOf: owner => parts.profileOf(owner),
      isAgreed: async (template, about) =>
        isAgreed(await offerOf(parts, { ...about, template }), parts.beforehand, parts.state),
    })
    this.#requestParts = this.#partsOfRequests()
  }

  async enter(clientCall: ClientCall): Promise<Entered> {
    const { resource, call } = clientCall
    const knownTool = await this.known(resource, call.tool)
    const operation = familyId(resource, call, true)
    await this.#pending.get(operation)?.dropped()
    // Checked first, whatever is known about the tool by now: if this very call is running or was sent, it is
    // not made a second time.
    if (this.#pending.has(operation) || (await this.#parts.state.family(operation)) !== undefined)
      return this.#join(newFamily(operation, clientCall, this.#parts.now()), undefined, clientCall)
    const id = familyId(resource, call, knownTool?.access === 'asks')
    const record = newFamily(id, clientCall, this.#parts.now())
    await this.#pending.get(id)?.dropped()
    if (this.#pending.has(id)) return this.#join(record, undefined, clientCall)
    const direct = await this.#callDirectly(clientCall)
    if (direct.kind === 'challenge') return this.#join(record, direct.challenge, clientCall)
    // A bridge that was killed when it had the grant left the request behind. A call that finds the grant
    // does not see that request.
    void this.#sweeper.answered(id)
    return { kind: 'answer', result: direct.result }
  }

  /**
   * The result of a request that nobody is asked about: under a grant that is held, or without one. Undefined
   * if it needs another.
   */
  async answerUnasked(clientCall: ClientCall): Promise<Json | undefined> {
    const answer = await this.#callDirectly(clientCall)
    return answer.kind === 'result' ? answer.result : undefined
  }

  /** A request that is running or kept, by its id. */
  async find(id: string): Promise<{ request: OpenRequest; leave: () => void } | undefined> {
    const record = this.#pending.get(id)?.record ?? (await this.#parts.state.family<FamilyRecord>(id))
    if (record === undefined) return undefined
    // A person's consent counts for the tool as it is listed: without the list she would be asked again, but
    // nobody is there.
    await this.#parts.listed(record.resource)
    return this.#join(record, undefined)
  }

  known(resource: string, tool: string): Promise<KnownTool | undefined> {
    return this.#tools.known(resource, tool)
  }

  /** Whether a standing grant for the tool is held. */
  async hasGrant(resource: string, tool: string): Promise<boolean> {
    return (await findGrant(this.#parts, resource, { tool }, 0)) !== undefined
  }

  /**
   * Withdraws, after their time, the requests that nobody has waited for since this process was last alive.
   */
  sweep(): Promise<void> {
    return this.#sweeper.begin()
  }

  async close(): Promise<void> {
    this.#sweeper.close()
    this.#renewals.close()
    await Promise.all([...this.#pending.values()].map(request => request.close()))
  }

  async #callDirectly(clientCall: ClientCall): Promise<CallAnswer> {
    const directParts = { ...this.#parts, renewals: this.#renewals }
    const note: Note = (...fact) => this.#tools.note(...fact)
    try {
      return await callDirectly(directParts, clientCall, note)
    } catch (error) {
      // The client gets the refusal even if it cannot be written to disk.
      if (error instanceof AgentError && isClosed(error))
        await note(clientCall.resource, clientCall.call.tool, 'closed').catch(() => undefined)
      throw error
    }
  }

  #open(record: FamilyRecord, challenge: Challenge | undefined): OpenRequest {
    const request = new OpenRequest(record, this.#requestParts)
    this.#pending.set(record.id, request)
    void request.run(challenge)
    return request
  }

  async #join(
    record: FamilyRecord,
    challenge: Challenge | undefined,
    waiter: Waiter = {},
  ): Promise<Extract<Entered, { kind: 'pending' }>> {
    for (;;) {
      const request = this.#pending.get(record.id) ?? this.#open(record, challenge)
      const leave = request.enter(waiter)
      if (await request.isOurs()) return { kind: 'pending', request, leave }
      leave()
      await request.abandon()
    }
  }

  /** What a negotiation needs from the calls around it. */
  #partsOfRequests(): RequestParts {
    const { state, directory, lingerSeconds, now, beforehand } = this.#parts
    const tools = this.#tools
    return {
      state,
      directory,
      lingerSeconds,
      now,
      sweepEnd: id => this.#sweeper.idle(id),
      profileOf: owner => this.#parts.profileOf(owner),
      challenge: async ({ resource, call }, signal) =>
        sendUnder(this.#parts, { resource, call, signal }, undefined),
      offer: async (template, { resource, call, definition }) => {
        const offer = await offerOf(this.#parts, { resource, call, definition, template })
        const agreed = await isAgreed(offer, beforehand, state)
        await tools.note(resource, call.tool, accessOf(template), agreed ? offer.definition : undefined)
        return agreed ? undefined : offer
      },
      onAgreed: ({ template, definition }, { resource, call }) =>
        tools.note(resource, call.tool, accessOf(template), definition),
      sendOnce: (record, access, listeners) => this.#sendOnce(record, access, listeners),
      onOperation: async request => this.#idOfOperation(request),
      onLeft: id => this.#sweeper.left(id),
      onGrant: ({ resource }) => this.#parts.onGranted(resource),
      onEnded: request => this.#forget(request),
      onRefused: async ({ resource, call }, { code }) => {
        // If she denies one call of a tool that she is asked about each time, the tool stays open.
        const knownTool = await this.known(resource, call.tool)
        if (code !== 'request_denied' || knownTool?.access !== 'asks')
          await tools.note(resource, call.tool, 'closed')
      },
    }
  }

  async #sendOnce(
    { id, resource, call }: FamilyRecord,
    access: AgentGrant,
    listeners: CallListeners,
  ): Promise<Json> {
    const meta = this.#pending.get(id)?.metaOf(call)
    const sending = { resource, call, meta, signal: undefined, ...listeners }
    const answer = await sendUnder(this.#parts, sending, access)
    if (answer.kind === 'result') return answer.result
    return fail(
      'challenged_again',
      'The resource challenges the very grant that was negotiated for this call.',
    )
  }

  /** The request turned out to be about one operation: its id by now. */
  #idOfOperation(request: OpenRequest): string {
    const { record } = request
    const id = familyId(record.resource, record.call, true)
    if (this.#operations.has(request) || record.id === id) return id
    this.#operations.add(request)
    this.#pending.delete(record.id)
    this.#pending.set(id, request)
    return id
  }

  #forget(request: OpenRequest): void {
    const { id } = request.record
    if (this.#pending.get(id) === request) this.#pending.delete(id)
  }
}

function newFamily(id: string, { resource, call, definition }: ClientCall, since: number): FamilyRecord {
  return { id, resource, call, definition, since, phase: { name: 'new' } }
}

function accessOf({ per_operation }: TermsTemplate): 'asks' | 'terms' {
  return per_operation === true ? 'asks' : 'terms'
}

async function offerOf(
  parts: CallParts,
  {
    resource,
    call,
    definition: before,
    template,
  }: Pick<FamilyRecord, 'resource' | 'call' | 'definition'> & { template: TermsTemplate },
): Promise<TermsOffer> {
  const now = parts.definitionOf(resource, call.tool)
  if (now === undefined)
    fail('terms_untrusted', 'The resource lists this tool no more, so nobody can say what it is agreed for.')
  // It may be changed and changed back between the call and the question about it.
  const definition = withChange(before, now)
  return readOffer({ resource, tool: call.tool, definition, template }, undefined)
}
