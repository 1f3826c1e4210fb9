/**
 * Owns how a call is sent without asking anybody: under a grant that is held, or without one. Contract:
 * "Authorized call", "Grant (RPT) liveness" (a grant is dropped when it ends).
 */
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import type { CallAnswer } from '../answer.ts'
import { attempt, covers, standingGrants } from '../authorized-call.ts'
import { namedBy, needName, toolOf } from '../transports/mcp.ts'
import type { CallParts, ClientCall } from './call-parts.ts'
import type { AgentGrant, Renewals } from './negotiation/renewal.ts'
import type { KnownTool } from './negotiation/state.ts'

/** Notes what is known of a tool by now. */
export type Note = (
  resource: string,
  tool: string,
  access: KnownTool['access'],
  definition?: string,
) => Promise<void>

/** A grant that ends sooner than this is renewed by the call that would use it. */
const RENEW_SECONDS = 30

interface DirectParts extends CallParts {
  renewals: Renewals
}

/** Sends it under a held grant, or without one; returns the challenge if there was one. */
export async function callDirectly(
  parts: DirectParts,
  clientCall: ClientCall,
  note: Note,
): Promise<CallAnswer> {
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
      const { challenge } = answer
      const named = await sendAsNamed(parts, clientCall, { challenge, challenged: access })
      if (named !== undefined) return named
      await access.profile.store.dropGrant(access.grant)
      await lost()
    }
    return answer
  }
  const answer = await sendUnder(parts, clientCall, undefined)
  if (answer.kind === 'challenge') {
    const named = await sendAsNamed(parts, clientCall, { challenge: answer.challenge, challenged: access })
    if (named !== undefined) return named
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
 * Sends a call again under the standing grant of the tool that its challenge names: of the part of this tool
 * that it is about, or of the tool to which the resource maps this method, such as the tool that gave the
 * link to what is read. Undefined if there is no such tool. For a method it is undefined too if no such grant
 * is held, or the grant is not enough: then the method is negotiated about. `challenged` is the grant of the
 * challenge.
 */
async function sendAsNamed(
  parts: CallParts,
  clientCall: ClientCall,
  { challenge, challenged }: { challenge: Challenge; challenged?: AgentGrant | undefined },
): Promise<CallAnswer | undefined> {
  const { resource, call } = clientCall
  const name = toolOf(namedBy(call, challenge))
  if (name === needName(call)) return undefined
  if (call.method === undefined) {
    const access = await findGrant(parts, resource, { tool: call.tool, part: name }, 0)
    if (access === undefined) return { kind: 'challenge', challenge }
    const answer = await sendUnder(parts, clientCall, access)
    if (answer.kind === 'challenge') await access.profile.store.dropGrant(access.grant)
    return answer
  }
  // What a person agreed to counts for the tool as it is listed.
  await parts.listed(resource).catch(() => undefined)
  const access = await findGrant(parts, resource, { tool: name }, 0)
  if (access === undefined || access.grant.jti === challenged?.grant.jti) return undefined
  const answer = await sendUnder(parts, clientCall, access)
  return answer.kind === 'challenge' ? undefined : answer
}

/**
 * A live standing grant for the tool, or for the part of it that is named; none if the tool is not, or not
 * listed as, what was agreed to.
 */
export async function findGrant(
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
export async function sendUnder(
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
