/**
 * Owns the course of a client's call: it is sent under a held grant, or without one; if it is challenged, it
 * joins the negotiation about it. Contract: "What the service does", beats 1 to 4; "Grant (RPT) liveness" (a
 * grant is dropped when it ends).
 */
import type { Json } from '../../wire/json.ts'
import { AgentError, fail } from '../agent-error.ts'
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import type { CallParts, ClientCall } from './call-parts.ts'
import { callDirectly, findGrant, sendUnder, type Note } from './direct-call.ts'
import { familyId, isClosed, type Family } from './negotiation/family.ts'
import { createRenewals } from './negotiation/renewal.ts'
import { PendingRequest, type RequestParts, type Waiter } from './negotiation/request.ts'
import type { KnownTool } from './negotiation/state.ts'
import { createSweeper, type Sweeper } from './negotiation/sweep.ts'
import { isAgreed, readOffer, type Offer } from './negotiation/terms.ts'
import { withChange } from './listing/tools.ts'

/** The call is answered, or there is a negotiation to wait for; call `leave` when waiting is over. */
export type Entered =
  { kind: 'answer'; result: Json } | { kind: 'pending'; request: PendingRequest; leave: () => void }

/** The calls of one client. */
export interface Calls {
  enter(clientCall: ClientCall): Promise<Entered>
  /** A request that is running or kept, by its id. */
  find(id: string): Promise<{ request: PendingRequest; leave: () => void } | undefined>
  known(resource: string, tool: string): Promise<KnownTool | undefined>
  /** Whether a standing grant for the tool is held. */
  hasGrant(resource: string, tool: string): Promise<boolean>
  /**
   * Withdraws, after their time, the requests that nobody has waited for since this process was last alive.
   */
  sweep(): Promise<void>
  close(): Promise<void>
}

export function createCalls(parts: CallParts): Calls {
  const { state } = parts
  const pending = new Map<string, PendingRequest>()
  const sweeper = createSweeper(parts, id => pending.has(id))
  const renewals = createRenewals({
    directory: parts.directory,
    profileOf: owner => parts.profileOf(owner),
    isAgreed: async (template, about) =>
      isAgreed(await offerOf(parts, { ...about, template }), parts.beforehand, state),
  })

  const { known, note } = knownTools(parts)
  const requestParts = partsOfRequests(parts, { known, note, pending, sweeper })

  const open = (record: Family, challenge: Challenge | undefined): PendingRequest => {
    const request = new PendingRequest(record, requestParts)
    pending.set(record.id, request)
    void request.run(challenge)
    return request
  }
  const join = async (
    record: Family,
    challenge: Challenge | undefined,
    waiter: Waiter = {},
  ): Promise<Extract<Entered, { kind: 'pending' }>> => {
    for (;;) {
      const request = pending.get(record.id) ?? open(record, challenge)
      const leave = request.enter(waiter)
      if (await request.isOurs()) return { kind: 'pending', request, leave }
      leave()
      await request.abandon()
    }
  }

  return {
    known,
    hasGrant: async (resource, tool) => (await findGrant(parts, resource, { tool }, 0)) !== undefined,
    enter: async clientCall => {
      const { resource, call } = clientCall
      const knownTool = await known(resource, call.tool)
      const operation = familyId(resource, call, true)
      await pending.get(operation)?.dropped()
      // Checked first, whatever is known about the tool by now: if this very call is running or was sent, it
      // is not made a second time.
      if (pending.has(operation) || (await state.family(operation)) !== undefined)
        return join(newFamily(operation, clientCall, parts.now()), undefined, clientCall)
      const id = familyId(resource, call, knownTool?.access === 'asks')
      const record = newFamily(id, clientCall, parts.now())
      await pending.get(id)?.dropped()
      if (pending.has(id)) return join(record, undefined, clientCall)
      const directParts = { ...parts, renewals }
      const direct = await callDirectly(directParts, clientCall, note).catch(async (error: unknown) => {
        // The client gets the refusal even if it cannot be written to disk.
        if (error instanceof AgentError && isClosed(error))
          await note(resource, call.tool, 'closed').catch(() => undefined)
        throw error
      })
      if (direct.kind === 'challenge') return join(record, direct.challenge, clientCall)
      // A bridge that was killed when it had the grant left the request behind. A call that finds the grant
      // does not see that request.
      void sweeper.answered(id)
      return { kind: 'answer', result: direct.result }
    },
    find: async id => {
      const record = pending.get(id)?.record ?? (await state.family<Family>(id))
      if (record === undefined) return undefined
      // A person's consent counts for the tool as it is listed: without the list she would be asked again,
      // but nobody is there.
      await parts.listed(record.resource)
      return join(record, undefined)
    },
    sweep: () => sweeper.begin(),
    close: async () => {
      sweeper.close()
      renewals.close()
      await Promise.all([...pending.values()].map(request => request.close()))
    },
  }
}

/** The known facts about the tools, and how a change is noted. */
function knownTools(parts: CallParts): { known: Calls['known']; note: Note } {
  const { state } = parts
  /** What could not be written. Otherwise the disk counts: other windows of the client write there, too. */
  const unwritten = new Map<string, KnownTool>()
  const known: Calls['known'] = async (resource, tool) =>
    unwritten.get(`${resource} ${tool}`) ?? state.tool(resource, tool)
  const write: Note = async (resource, tool, access, definition) => {
    const before = await known(resource, tool)
    const now = { resource, tool, access, definition: definition ?? before?.definition }
    const name = `${resource} ${tool}`
    const isNews = before?.access !== access || before.definition !== now.definition
    if (!isNews && !unwritten.has(name)) return
    unwritten.set(name, now)
    try {
      await state.keepTool(now)
      unwritten.delete(name)
    } finally {
      // A person's consent changes nothing that a list shows; the grant after it does.
      if (before?.access !== access) parts.onKnown()
    }
  }
  let turn: Promise<void> = Promise.resolve()
  // One after the other: of two at once, the one that knows less must not be written last.
  const note: Note = (...fact) => {
    const noted = turn.then(() => write(...fact))
    turn = noted.catch(() => undefined)
    return noted
  }
  return { known, note }
}

function newFamily(id: string, { resource, call, definition }: ClientCall, since: number): Family {
  return { id, resource, call, definition, since, phase: { name: 'new' } }
}

/** What a negotiation needs from the calls around it. */
function partsOfRequests(
  parts: CallParts,
  {
    known,
    note,
    pending,
    sweeper,
  }: { known: Calls['known']; note: Note; pending: Map<string, PendingRequest>; sweeper: Sweeper },
): RequestParts {
  const { state, directory, lingerSeconds, now } = parts
  const operations = new WeakSet<PendingRequest>()
  return {
    state,
    directory,
    lingerSeconds,
    now,
    profileOf: owner => parts.profileOf(owner),
    challenge: async (call, signal) =>
      sendUnder(parts, { resource: call.resource, call: call.call, signal }, undefined),
    offer: async (template, { resource, call, definition }) => {
      const offer = await offerOf(parts, { resource, call, definition, template })
      const agreed = await isAgreed(offer, parts.beforehand, state)
      await note(resource, call.tool, accessOf(template), agreed ? offer.definition : undefined)
      return agreed ? undefined : offer
    },
    onAgreed: ({ template, definition }, { resource, call }) =>
      note(resource, call.tool, accessOf(template), definition),
    sendOnce: async ({ id, resource, call }, access, listeners) => {
      const meta = pending.get(id)?.metaOf(call)
      const answer = await sendUnder(parts, { resource, call, meta, signal: undefined, ...listeners }, access)
      if (answer.kind === 'result') return answer.result
      return fail(
        'challenged_again',
        'The resource challenges the very grant that was negotiated for this call.',
      )
    },
    onOperation: async request => {
      const { record } = request
      const id = familyId(record.resource, record.call, true)
      if (operations.has(request) || record.id === id) return id
      operations.add(request)
      pending.delete(record.id)
      pending.set(id, request)
      return id
    },
    onLeft: id => sweeper.left(id),
    onGrant: ({ resource }) => parts.onGranted(resource),
    onEnded: request =>
      void (pending.get(request.record.id) === request && pending.delete(request.record.id)),
    onRefused: async ({ resource, call }, { code }) => {
      // If she denies one call of a tool that she is asked about each time, the tool stays open.
      const knownTool = await known(resource, call.tool)
      if (code !== 'request_denied' || knownTool?.access !== 'asks') await note(resource, call.tool, 'closed')
    },
  }
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
  }: Pick<Family, 'resource' | 'call' | 'definition'> & { template: TermsTemplate },
): Promise<Offer> {
  const now = parts.definitionOf(resource, call.tool)
  if (now === undefined)
    fail('terms_untrusted', 'The resource lists this tool no more, so nobody can say what it is agreed for.')
  // It may be changed and changed back between the call and the question about it.
  const definition = withChange(before, now)
  return readOffer({ resource, tool: call.tool, definition, template }, undefined)
}
