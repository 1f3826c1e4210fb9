/**
 * Owns which sessions of one client follow which resources of MCP: each session hears of a change, and a
 * server hears of a subscription once, and of its end when nobody is left. Contract: "What the service does":
 * the client is unmodified.
 */
import { spaced, type Spaced } from '../listing/spaced.ts'

/** Who follows a resource: one session of the client. */
export interface Follower {
  updated: (uri: string) => void
}

export interface Subscriptions {
  /** False if the session follows as many as it may. */
  add: (follower: Follower, resource: string, uri: string) => boolean
  /** True if nobody follows it any more. */
  remove: (follower: Follower, resource: string, uri: string) => boolean
  /** Removes all of a session. Returns what nobody follows any more. */
  leave: (follower: Follower) => { resource: string; uri: string }[]
  /** The server says that this, or a part of it, changed. */
  updated: (resource: string, uri: string) => void
  /** What is followed at a server. */
  of: (resource: string) => string[]
  close: () => void
}

/** Of one session, or of one request to listen. */
export const SUBSCRIPTIONS_MAX = 256
/** However often a server says that a resource changed, a session is notified at most once in this time. */
const UPDATED_MILLISECONDS = 500

interface FollowedResource {
  resource: string
  uri: string
  /** Each with its own spacing. */
  followers: Map<Follower, Spaced>
}

export function createSubscriptions(): Subscriptions {
  const following = new Map<string, FollowedResource>()
  const keyOf = (resource: string, uri: string): string => JSON.stringify([resource, uri])
  const remove: Subscriptions['remove'] = (follower, resource, uri) => {
    const key = keyOf(resource, uri)
    const one = following.get(key)
    one?.followers.get(follower)?.close()
    if (one?.followers.delete(follower) !== true || one.followers.size > 0) return false
    following.delete(key)
    return true
  }
  const ofFollower = (follower: Follower): FollowedResource[] =>
    [...following.values()].filter(({ followers }) => followers.has(follower))
  return {
    add: (follower, resource, uri) => {
      const key = keyOf(resource, uri)
      const one = following.get(key) ?? { resource, uri, followers: new Map<Follower, Spaced>() }
      if (one.followers.has(follower)) return true
      if (ofFollower(follower).length >= SUBSCRIPTIONS_MAX) return false
      following.set(key, one)
      one.followers.set(
        follower,
        spaced(() => follower.updated(uri), UPDATED_MILLISECONDS),
      )
      return true
    },
    remove,
    leave: follower =>
      ofFollower(follower).flatMap(({ resource, uri }) =>
        remove(follower, resource, uri) ? [{ resource, uri }] : [],
      ),
    updated: (resource, uri) => {
      for (const one of following.values())
        if (one.resource === resource && isPart(uri, one.uri))
          for (const { act } of one.followers.values()) act()
    },
    of: resource => [...following.values()].flatMap(one => (one.resource === resource ? [one.uri] : [])),
    close: () => {
      for (const { followers } of following.values()) for (const { close } of followers.values()) close()
      following.clear()
    },
  }
}

/** A server may name a part of what is followed. The client is told by the name that it knows. */
function isPart(uri: string, of: string): boolean {
  return uri === of || uri.startsWith(of.endsWith('/') ? of : `${of}/`)
}
