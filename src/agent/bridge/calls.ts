/**
 * Owns the course of a client's call: it is sent under a held grant, or without one; if it is challenged, it
 * joins the negotiation about it. Contract: "What the service does", beats 1 to 4; "Grant (RPT) liveness" (a
 * grant is dropped when it ends).
 */
import type { Json, JsonObject } from '../../wire/json.ts'
import { AgentError, fail } from '../agent-error.ts'
import { attempt, standingGrants, covers } from '../authorized-call.ts'
import type { CallAnswer } from '../answer.ts'
import { namedBy, needName, type ToolCall } from '../transports/mcp.ts'
import type { Directory } from '../negotiation/metadata.ts'
import type { Profile } from '../profile.ts'
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { familyId, isClosed, type Family } from './negotiation/family.ts'
import { createRenewals, type AgentGrant, type Renewals } from './negotiation/renewal.ts'
import type { Listeners } from './notices/logs.ts'
import type { Ask } from './questions/questions.ts'
import { PendingRequest, type RequestParts, type Waiter } from './negotiation/request.ts'
import type { BridgeState, KnownTool, Owner } from './negotiation/state.ts'
import { createSweeper, type Sweeper } from './negotiation/sweep.ts'
import { isAgreed, readOffer, type AcceptedBeforehand, type Offer } from './negotiation/terms.ts'
import { withChange } from './listing/tools.ts'
import type { Upstream } from './upstream/upstream.ts'

/** What calls are made with. */
export interface CallParts {
  state: BridgeState
  directory: Directory
  beforehand: AcceptedBeforehand
  lingerSeconds: number
  now: () => number
  profileOf(owner: Owner): Promise<Profile>
  /** Signs nothing: for calls without a grant. */
  bare: Profile
  upstreamOf(resource: string): Upstream
  /** Hash of the tool as it is listed now, and as the client was shown it; undefined if it is not listed. */
  definitionOf(resource: string, tool: string): string | undefined
  /** Reads the resource's list of tools, if that was not read yet. */
  listed(resource: string): Promise<unknown>
  /** Called if the mark of a tool changed. */
  onKnown(): void
  /** Called if a grant for tools of the resource was received. */
  onGranted(resource: string): void
}

/** One call of a client. */
export interface ClientCall extends Listeners {
  resource: string
  call: ToolCall
  /** Hash of the tool as it is when the call comes, and as the client was shown it. */
  definition?: string | undefined
  signal: AbortSignal
  /** What the client says about the sending alone; neither approved nor kept. */
  meta?: JsonObject | undefined
  /** Puts the question of the tool's server to the person at the client; left out if she cannot be asked. */
  ask?: Ask | undefined
}

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

/** A grant that ends sooner than this is renewed by the call that would use it. */
const RENEW_SECONDS = 30

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

type Note = (
  resource: string,
  tool: string,
  access: KnownTool['access'],
  definition?: string,
) => Promise<void>

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

interface DirectParts extends CallParts {
  renewals: Renewals
}

/** Sends it under a held grant, or without one; returns the challenge if there was one. */
async function callDirectly(parts: DirectParts, clientCall: ClientCall, note: Note): Promise<CallAnswer> {
  const { resource, call } = clientCall
  const access = await findGrant(parts, resource, call, 0)
  const isNew = access !== undefined && access.grant.exp - parts.now() > RENEW_SECONDS
  if (access !== undefined && (isNew || parts.renewals.isInVain(access, clientCall))) {
    const lost = async (): Promise<void> => {
      const left = await findGrant(parts, resource, call, 0).catch(() => undefined)
      if (left === undefined) parts.onKnown()
    }
    const answer = await sendUnder(parts, clientCall, access).catch(async (error: unknown) => {
      await lost()
      throw error
    })
    if (answer.kind === 'challenge') {
      const part = await sendAsPart(parts, clientCall, answer.challenge)
      if (part !== undefined) return part
      await access.profile.store.dropGrant(access.grant)
      await lost()
    }
    return answer
  }
  const answer = await sendUnder(parts, clientCall, undefined)
  if (answer.kind === 'challenge') {
    const part = await sendAsPart(parts, clientCall, answer.challenge)
    if (part !== undefined) return part
  }
  if (answer.kind === 'result') {
    // The call was made, so the client gets the answer even if nothing can be written to disk.
    if (call.method === undefined) await note(resource, call.tool, 'free').catch(() => undefined)
    return answer
  }
  if (access === undefined) return answer
  const newest = await findGrant(parts, resource, call, 0)
  const next =
    newest !== undefined && newest.grant.jti !== access.grant.jti
      ? newest
      : await parts.renewals.after(access, { resource, call }, answer.challenge)
  return sendUnder(parts, clientCall, next ?? access)
}

/**
 * Sends a call again that its challenge names as a part of its tool, under the grant of that part if one is
 * held. Undefined if it is none of a part; the grant of another part lives on.
 */
async function sendAsPart(
  parts: CallParts,
  clientCall: ClientCall,
  challenge: Challenge,
): Promise<CallAnswer | undefined> {
  const { resource, call } = clientCall
  const name = needName(namedBy(call, challenge))
  if (name === needName(call)) return undefined
  const access = await findGrant(parts, resource, { tool: call.tool, part: name }, 0)
  if (access === undefined) return { kind: 'challenge', challenge }
  const answer = await sendUnder(parts, clientCall, access)
  if (answer.kind === 'challenge') await access.profile.store.dropGrant(access.grant)
  return answer
}

/**
 * A live standing grant for the tool, or for the part of it that is named; none if the tool is not, or not
 * listed as, what was agreed to.
 */
async function findGrant(
  parts: CallParts,
  resource: string,
  { tool, part = tool }: { tool: string; part?: string },
  secondsLeft: number,
): Promise<AgentGrant | undefined> {
  const { state } = parts
  const [owner, known] = await Promise.all([state.ownerOf(resource), state.tool(resource, tool)])
  const definition = parts.definitionOf(resource, tool)
  if (owner === undefined || definition === undefined || known?.definition !== definition) return undefined
  const profile = await parts.profileOf(owner)
  const need = await profile.store.need(resource, part)
  if (need === undefined) return undefined
  const grants = await standingGrants(profile, resource)
  const [grant] = grants
    .filter(one => covers(one, need) && one.exp - parts.now() >= secondsLeft)
    .toSorted((a, b) => b.exp - a.exp)
  return grant && { grant, profile }
}

/** Sends the call, under a grant if there is one. Retries only if it was refused temporarily. */
async function sendUnder(
  parts: CallParts,
  sending: Omit<ClientCall, 'signal'> & { signal: AbortSignal | undefined },
  access: AgentGrant | undefined,
): Promise<CallAnswer> {
  const { resource, call, meta, signal, onProgress, onLog, ask } = sending
  const upstream = parts.upstreamOf(resource)
  const { grant, profile } = access ?? { grant: undefined, profile: parts.bare }
  const send = (accessToken: string | undefined): Promise<CallAnswer> =>
    upstream.send({
      call,
      meta,
      signal,
      onProgress,
      onLog,
      ask,
      once: grant?.single_use,
      proof: accessToken === undefined ? undefined : { accessToken, key: profile.key },
    })
  const name = grant === undefined ? 'none' : 'kept'
  return attempt(profile, { resource, call, signal, send }, { grant, name })
}
