/**
 * Owns which configured resource a call is for. contract, "Authorized call": owner, resource and authority come from configuration; a
 * path that nobody configured is nobody's, and no owner stands in for another.
 */
import type { SignatureBase } from '../http/signed-request.ts'
import { refuse } from '../wire/refusal.ts'
import type { AuthorityClient } from './authority-client.ts'
import type { Call } from './call.ts'
import type { McpSettings } from './mcp.ts'

/** What a call of one tool needs, and what the resource declares about it. */
export interface Tool {
  readonly tool: string
  readonly resource_id: string
  readonly scopes: readonly string[]
  readonly consequence?: string | undefined
}

/** One owner's resource at this enforcement point. */
export interface Route {
  readonly owner: string
  /** The one path it is called at. */
  readonly path: string
  /** Public URL + path: the RFC 9728 `resource`, and the `aud` of its grants. */
  readonly resource: string
  /** Issuer of the owner's authorization server. */
  readonly authority: string
  readonly client: AuthorityClient
  readonly tools: ReadonlyMap<string, Tool>
  readonly mcp: McpSettings
  /** Scheme and authority of every signature base here. */
  readonly signatureBase: SignatureBase
}

export interface RouteTable {
  readonly routes: readonly Route[]
  /** The route of a call. Refuses `not_found` where its path, or the owner that the proxy was configured with, has none. */
  find(call: Pick<Call, 'path' | 'context'>): Route
}

/** A table of routes whose owners and paths are each unique. */
export function routeTable(routes: readonly Route[]): RouteTable {
  const byPath = new Map(routes.map(route => [route.path, route]))
  const byOwner = new Map(routes.map(route => [route.owner, route]))
  return {
    routes,
    find: ({ path, context }) => {
      const atPath = byPath.get(path)
      // What the proxy's operator set for the route comes first; it may not contradict the path that the agent signed.
      const route = context.owner === undefined ? atPath : byOwner.get(context.owner)
      if (route === undefined || route !== atPath) refuse('not_found', 'No resource is served at this path.')
      return route
    },
  }
}
