/**
 * Owns what becomes of a call that a client makes: sent under a grant that is held, or bare, and where it is
 * challenged joined to the negotiation that is about it. Contract: "What the service does", beats 1 to 4;
 * "Grant (RPT) liveness" (a grant is dropped where it ends).
 */
import type { Progress } from '@modelcontextprotocol/client'
import type { Json } from '../../wire/json.ts'
import { AgentError, fail } from '../agent-error.ts'
import { attempt, standingGrants, covers } from '../authorized-call.ts'
import type { CallAnswer } from '../answer.ts'
import type { ToolCall } from '../mcp.ts'
import type { Directory } from '../metadata.ts'
import { negotiate, withdrawRequest } from '../negotiate.ts'
import type { Profile } from '../profile.ts'
import type { Grant } from '../store.ts'
import type { Challenge } from '../../wire/negotiation.ts'
import type { TermsTemplate } from '../../wire/terms.ts'
import { familyId, isClosed, ownerIn, type Family } from './family.ts'
import { PendingRequest, type RequestParts } from './request.ts'
import type { BridgeState, KnownTool, Owner } from './state.ts'
import { isAgreed, readOffer, type AcceptedBeforehand, type Offer } from './terms.ts'
import type { Upstream } from './upstream.ts'

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
  /** Hash of the tool as it is listed now. */
  definitionOf(resource: string, tool: string): string | undefined
  /** Reads what the resource lists, where that was not read yet. */
  listed(resource: string): Promise<unknown>
  /** What is known of a tool changed: its mark is another one. */
  onKnown(): void
  /** A grant for tools of the resource came to be. */
  onGranted(resource: string): void
}

/** One call of a client. */
export interface Asked {
  resource: string
  call: ToolCall
  signal: AbortSignal
  onProgress?: ((progress: Progress) => void) | undefined
}

/** Answered, or there is a negotiation to wait for; `leave` it when that is over. */
export type Entered =
  { kind: 'answer'; result: Json } | { kind: 'pending'; request: PendingRequest; leave: () => void }

/** The calls of one client. */
export interface Calls {
  enter(asked: Asked): Promise<Entered>
  /** A request that is under way or kept, by its id. */
  find(id: string): Promise<{ request: PendingRequest; leave: () => void } | undefined>
  known(resource: string, tool: string): Promise<KnownTool | undefined>
  /** Whether a standing grant for the tool is held. */
  held(resource: string, tool: string): Promise<boolean>
  /** Takes back, after their time, what nobody waits for any more since this process was last alive. */
  sweep(): Promise<void>
  close(): Promise<void>
}

/** A grant that ends sooner than this is renewed by the call that would use it. */
const RENEW_SECONDS = 30

export function createCalls(parts: CallParts): Calls {
  const { state } = parts
  const pending = new Map<string, PendingRequest>()
  const timers = new Set<NodeJS.Timeout>()

  const { known, note } = knownTools(parts)
  const requestParts = partsOfRequests(parts, { known, note, pending })

  const open = (record: Family, challenge: Challenge | undefined): PendingRequest => {
    const request = new PendingRequest(record, requestParts)
    pending.set(record.id, request)
    void request.run(challenge)
    return request
  }
  const join = (record: Family, challenge: Challenge | undefined): Entered => {
    const request = pending.get(record.id) ?? open(record, challenge)
    return { kind: 'pending', request, leave: request.enter() }
  }

  return {
    known,
    held: async (resource, tool) => (await heldGrant(parts, resource, tool, 0)) !== undefined,
    enter: async asked => {
      const { resource, call } = asked
      const seen = await known(resource, call.tool)
      const operation = familyId(resource, call, true)
      await pending.get(operation)?.dropped
      // Whatever is known of the tool by now: this very call is under way, or was, and is not made beside
      // that.
      if (pending.has(operation) || (await state.family(operation)) !== undefined)
        return join(newFamily(operation, asked, parts.now()), undefined)
      const id = familyId(resource, call, seen?.access === 'asks')
      const record = newFamily(id, asked, parts.now())
      if (pending.has(id)) return join(record, undefined)
      const direct = await callDirectly(parts, asked, note).catch(async (error: unknown) => {
        if (error instanceof AgentError && isClosed(error)) await note(resource, call.tool, 'closed')
        throw error
      })
      if (direct.kind === 'result') return { kind: 'answer', result: direct.result }
      return join(record, direct.challenge)
    },
    find: async id => {
      const record = pending.get(id)?.record ?? (await state.family<Family>(id))
      if (record === undefined) return undefined
      // What a person agreed to counts for the tool as it is listed: unread, she would be asked anew, and
      // nobody is there.
      await parts.listed(record.resource)
      const joined = join(record, undefined)
      return joined.kind === 'pending' ? joined : undefined
    },
    sweep: async () => {
      for (const record of await state.families<Family>()) {
        const left = record.left ?? (await leftNow(parts, record.id))
        if (left === undefined) continue
        // A clock that was put back makes nobody wait longer.
        const seconds = Math.min(Math.max(0, left + parts.lingerSeconds - parts.now()), parts.lingerSeconds)
        const timer = setTimeout(
          () => void endKept(parts, record.id, pending).catch(() => undefined),
          seconds * 1000,
        )
        timers.add(timer.unref())
      }
    },
    close: async () => {
      for (const timer of timers) clearTimeout(timer)
      await Promise.all([...pending.values()].map(request => request.close()))
    },
  }
}

/** What is known of the tools, and what notes it where it changed. */
function knownTools(parts: CallParts): { known: Calls['known']; note: Note } {
  const { state } = parts
  const noted = new Map<string, KnownTool>()
  const known: Calls['known'] = async (resource, tool) =>
    noted.get(`${resource} ${tool}`) ?? state.tool(resource, tool)
  const note: Note = async (resource, tool, access, definition) => {
    const before = await known(resource, tool)
    const now = { resource, tool, access, definition: definition ?? before?.definition }
    noted.set(`${resource} ${tool}`, now)
    if (before?.access === access && before.definition === now.definition) return
    await state.keepTool(now)
    parts.onKnown()
  }
  return { known, note }
}

function newFamily(id: string, { resource, call }: Asked, since: number): Family {
  return { id, resource, call, since, phase: { name: 'new' } }
}

type Note = (
  resource: string,
  tool: string,
  access: KnownTool['access'],
  definition?: string,
) => Promise<void>

/** What a negotiation needs of the calls around it. */
function partsOfRequests(
  parts: CallParts,
  { known, note, pending }: { known: Calls['known']; note: Note; pending: Map<string, PendingRequest> },
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
    offer: async (template, { resource, call }) => {
      const offer = await offerOf(parts, { resource, call, template })
      const agreed = await isAgreed(offer, parts.beforehand, state)
      await note(resource, call.tool, accessOf(template), agreed ? offer.definition : undefined)
      return agreed ? undefined : offer
    },
    onAgreed: ({ template, definition }, { resource, call }) =>
      note(resource, call.tool, accessOf(template), definition),
    sendOnce: async (record, grant, profile) => {
      const { resource, call } = record
      const answer = await sendUnder(parts, { resource, call, signal: undefined }, { grant, profile })
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
    onGrant: ({ resource }) => parts.onGranted(resource),
    onEnded: request =>
      void (pending.get(request.record.id) === request && pending.delete(request.record.id)),
    onRefused: async ({ resource, call }, { code }) => {
      // That she denied one call closes no tool that she is asked about each time.
      const seen = await known(resource, call.tool)
      if (code !== 'request_denied' || seen?.access !== 'asks') await note(resource, call.tool, 'closed')
    },
  }
}

function accessOf({ per_operation }: TermsTemplate): 'asks' | 'terms' {
  return per_operation === true ? 'asks' : 'terms'
}

function offerOf(
  parts: CallParts,
  { resource, call, template }: { resource: string; call: ToolCall; template: TermsTemplate },
): Promise<Offer> {
  const definition = parts.definitionOf(resource, call.tool)
  return readOffer({ resource, tool: call.tool, definition, template }, undefined)
}

/** Under a grant that is held, else bare; what it was challenged with where it was. */
async function callDirectly(parts: CallParts, asked: Asked, note: Note): Promise<CallAnswer> {
  const { resource, call } = asked
  const held = await heldGrant(parts, resource, call.tool, 0)
  if (held !== undefined && held.grant.exp - parts.now() > RENEW_SECONDS) {
    const lost = async (): Promise<void> => {
      if ((await heldGrant(parts, resource, call.tool, 0)) === undefined) parts.onKnown()
    }
    const answer = await sendUnder(parts, asked, held).catch(async (error: unknown) => {
      await lost()
      throw error
    })
    if (answer.kind === 'challenge') {
      await held.profile.store.dropGrant(held.grant)
      await lost()
    }
    return answer
  }
  const answer = await sendUnder(parts, asked, undefined)
  if (answer.kind === 'result') {
    await note(resource, call.tool, 'free')
    return answer
  }
  if (held === undefined) return answer
  const renewed = await renewedGrant(parts, asked, answer.challenge)
  return sendUnder(parts, asked, renewed ?? held)
}

/**
 * Another grant on the same terms, without asking anybody; undefined where somebody would have to be asked.
 */
async function renewedGrant(
  parts: CallParts,
  { resource, call, signal }: Asked,
  challenge: Challenge,
): Promise<Held | undefined> {
  const profile = await parts.profileOf(ownerIn(challenge))
  try {
    const confirm = async (template: TermsTemplate): Promise<boolean> => {
      const offer = await offerOf(parts, { resource, call, template })
      if (await isAgreed(offer, parts.beforehand, parts.state)) return true
      return fail('terms_unanswered', 'The terms are others than were agreed to.')
    }
    const onWaiting: Parameters<typeof negotiate>[2]['onWaiting'] = async waiting => {
      await withdrawRequest(profile, parts.directory, { resource, call, waiting })
      fail('terms_unanswered', 'The owner would have to be asked.')
    }
    const { grant } = await negotiate(profile, parts.directory, {
      resource,
      call,
      challenge,
      signal,
      confirm,
      onWaiting,
    })
    return { grant, profile }
  } catch (error) {
    if (error instanceof AgentError) return undefined
    throw error
  }
}

interface Held {
  grant: Grant
  profile: Profile
}

/** A live standing grant for the tool; none where the tool is not any more what was agreed to. */
async function heldGrant(
  parts: CallParts,
  resource: string,
  tool: string,
  secondsLeft: number,
): Promise<Held | undefined> {
  const { state } = parts
  const [owner, known] = await Promise.all([state.ownerOf(resource), state.tool(resource, tool)])
  const definition = parts.definitionOf(resource, tool)
  if (owner === undefined || known === undefined || known.definition !== definition) return undefined
  const profile = await parts.profileOf(owner)
  const need = await profile.store.need(resource, tool)
  if (need === undefined) return undefined
  const grants = await standingGrants(profile, resource)
  const grant = grants.find(one => covers(one, need) && one.exp - parts.now() >= secondsLeft)
  return grant && { grant, profile }
}

/** Sends the call, under a grant if any, again only where it was refused for a while. */
async function sendUnder(
  parts: CallParts,
  { resource, call, signal, onProgress }: Omit<Asked, 'signal'> & { signal: AbortSignal | undefined },
  held: Held | undefined,
): Promise<CallAnswer> {
  const upstream = parts.upstreamOf(resource)
  const { grant, profile } = held ?? { grant: undefined, profile: parts.bare }
  const send = (accessToken: string | undefined): Promise<CallAnswer> =>
    upstream.send({
      call,
      signal,
      onProgress,
      once: grant?.single_use,
      proof: accessToken === undefined ? undefined : { accessToken, key: profile.key },
    })
  const name = grant === undefined ? 'none' : 'kept'
  return attempt(profile, { resource, call, signal, send }, { grant, name })
}

/**
 * Somebody waited for it when its process ended: they have from now on to come back. Undefined where another
 * process leads it.
 */
async function leftNow({ state, now }: CallParts, id: string): Promise<number | undefined> {
  const release = await state.hold(id)
  if (release === undefined) return undefined
  try {
    const record = await state.family<Family>(id)
    if (record === undefined) return undefined
    const left = record.left ?? now()
    if (record.left === undefined) await state.keepFamily(id, { ...record, left })
    return left
  } finally {
    await release()
  }
}

/** Ends what nobody came back for: an answer is dropped, a request that waits is declined. */
async function endKept(
  parts: CallParts,
  id: string,
  pending: ReadonlyMap<string, PendingRequest>,
): Promise<void> {
  const record = await parts.state.family<Family>(id)
  if (record === undefined || pending.has(id)) return
  const release = await parts.state.hold(id)
  if (release === undefined) return
  try {
    const { phase, owner, resource, call } = record
    if (phase.name === 'sending') return
    if (phase.name === 'waiting' && owner !== undefined)
      await withdrawRequest(await parts.profileOf(owner), parts.directory, {
        resource,
        call,
        waiting: phase.request,
      })
    await parts.state.dropFamily(id)
  } finally {
    await release()
  }
}
