/**
 * Owns how a server is asked again for changes of the resources that are followed, after it forgot a session
 * or a stream of it ended. Contract: "Authorized call": as other requests outside calls, it is asked under a
 * standing grant that is held.
 */
import type { ToolCall } from '../../transports/mcp.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Subscriptions } from './subscriptions.ts'

interface Parts {
  upstreamOf: (resource: string) => Upstream
  subscriptions: Subscriptions
  /** False if the server did not take it. */
  send: (resource: string, call: ToolCall) => Promise<boolean>
}

export interface FollowingAgain {
  now: (resource: string, uri: string) => void
  /** After a second. */
  later: (resource: string, uri: string) => void
  close: () => void
}

const FIRST_MILLISECONDS = 1000
const LAST_MILLISECONDS = 300_000

/** Asks more and more rarely until it is taken, or nobody follows the resource any more. */
export function createFollowingAgain({ upstreamOf, subscriptions, send }: Parts): FollowingAgain {
  const timers = new Map<string, NodeJS.Timeout>()
  /** Those that are asked for at the moment: reaching the server may find that it forgot a session. */
  const underway = new Set<string>()
  let isClosed = false
  const keyOf = (resource: string, uri: string): string => JSON.stringify([resource, uri])
  const follow = async (resource: string, uri: string): Promise<boolean> => {
    const call = await upstreamOf(resource).followingCall(uri)
    return call !== undefined && send(resource, call)
  }
  const attempt = async (
    resource: string,
    uri: string,
    { isFirst, next }: { isFirst: boolean; next: number },
  ): Promise<void> => {
    const key = keyOf(resource, uri)
    clearTimeout(timers.get(key))
    timers.delete(key)
    if (underway.has(key) || !subscriptions.of(resource).includes(uri)) return
    underway.add(key)
    const isFollowed = await follow(resource, uri).catch(() => false)
    underway.delete(key)
    // The last session left meanwhile.
    if (!subscriptions.of(resource).includes(uri)) return upstreamOf(resource).unfollow(uri)
    // It may have changed while nobody listened.
    if (isFollowed || isFirst) subscriptions.updated(resource, uri)
    if (!isFollowed) later(resource, uri, next)
  }
  const later = (resource: string, uri: string, milliseconds: number): void => {
    const key = keyOf(resource, uri)
    if (isClosed || timers.has(key)) return
    const next = Math.min(milliseconds * 2, LAST_MILLISECONDS)
    const timer = setTimeout(() => void attempt(resource, uri, { isFirst: false, next }), milliseconds)
    timers.set(key, timer.unref())
  }
  return {
    now: (resource, uri) => void attempt(resource, uri, { isFirst: true, next: FIRST_MILLISECONDS }),
    later: (resource, uri) => later(resource, uri, FIRST_MILLISECONDS),
    close: () => {
      isClosed = true
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}
