/**
 * Owns which resources a client of MCP 2026-07-28 hears of (`resourceSubscriptions` of
 * `subscriptions/listen`). The SDK serves the request, and promises whatever it names; so it gets the request
 * with those resources alone that their servers let the bridge follow. Contract: "Authorized call": a server
 * is asked under a grant that is held, or under none, and nobody is asked for one.
 */
import { PROTOCOL_VERSION_META_KEY, SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import type { Bridge } from '../core.ts'
import { methodDefinition } from '../listing/objects.ts'
import { SUBSCRIPTIONS_MAX, type Follower } from './subscriptions.ts'

const LISTEN = 'subscriptions/listen'
/** The answer to the client waits no longer for servers. */
const FOLLOW_MILLISECONDS_MAX = 10_000

/** A request to listen, and what is followed for it. */
export interface ListenedResources {
  /** The request as the SDK gets it. */
  request: JsonObject
  /** The client has the answer: what it hears of comes after that. */
  acknowledge: () => void
  /** The client listens no more. */
  end: () => void
}

/** Whether a message is such a request, in the revision that has it. */
export function isListening(message: Json | undefined): message is JsonObject {
  if (!isJsonObject(message) || message['method'] !== LISTEN || message['id'] === undefined) return false
  const { params } = message
  const meta = isJsonObject(params) ? params['_meta'] : undefined
  return isJsonObject(meta) && typeof meta[PROTOCOL_VERSION_META_KEY] === 'string'
}

/**
 * Follows what the request names, as far as that is let. `open` gives the bridge of its client, and fails if
 * it names none. `send` sends the client a notification.
 */
export async function listenFor(
  request: JsonObject,
  open: (params: JsonObject) => Bridge,
  send: (notification: JsonObject) => void,
): Promise<ListenedResources> {
  const params = isJsonObject(request['params']) ? request['params'] : {}
  const filter = isJsonObject(params['notifications']) ? params['notifications'] : {}
  const uris = filter['resourceSubscriptions']
  const isFollowing = Array.isArray(uris) && uris.every(uri => typeof uri === 'string')
  // The SDK refuses a request that is none.
  if (!isFollowing) return { request, acknowledge: () => undefined, end: () => undefined }
  let isAcknowledged = false
  const early = new Set<string>()
  const tell = (uri: string): void =>
    send({
      jsonrpc: '2.0',
      method: 'notifications/resources/updated',
      params: { uri, _meta: { [SUBSCRIPTION_ID_META_KEY]: request['id']! } },
    })
  const follower: Follower = { updated: uri => void (isAcknowledged ? tell(uri) : early.add(uri)) }
  let bridge: Bridge | undefined
  const follow = async (uri: string): Promise<string[]> => {
    try {
      bridge ??= open(params)
      return (await followFor(bridge, follower, uri)) ? [uri] : []
    } catch {
      return []
    }
  }
  const distinct = [...new Set(uris)].slice(0, SUBSCRIPTIONS_MAX)
  const resourceSubscriptions = (await Promise.all(distinct.map(follow))).flat()
  const notifications = { ...filter, resourceSubscriptions }
  return {
    request: { ...request, params: { ...params, notifications } },
    acknowledge: () => {
      isAcknowledged = true
      for (const uri of early) tell(uri)
      early.clear()
    },
    end: () => {
      const left = bridge?.notices.subscriptions.leave(follower) ?? []
      for (const { resource, uri } of left) void bridge?.notices.unfollow(resource, uri)
    },
  }
}

/** Asks the server of a resource to tell of its changes; false if it does not. */
async function followFor(
  { objects, upstreamOf, notices, calls }: Bridge,
  follower: Follower,
  uri: string,
): Promise<boolean> {
  const late = AbortSignal.timeout(FOLLOW_MILLISECONDS_MAX)
  const place = await waitAtMost(FOLLOW_MILLISECONDS_MAX, objects.placeOf(uri))
  if (place === undefined || place === LATE) return false
  const call = await waitAtMost(FOLLOW_MILLISECONDS_MAX, upstreamOf(place).followingCall(uri))
  if (call === undefined || call === LATE || !notices.subscriptions.add(follower, place, uri)) return false
  const request = { resource: place, call, definition: methodDefinition(call.tool), signal: late }
  const answer = await calls.answerUnasked(request).catch(() => undefined)
  if (answer === undefined) notices.subscriptions.remove(follower, place, uri)
  return answer !== undefined
}
