/**
 * Owns which configured resource a call is for. Contract: "Authorized call": owner, resource and authority
 * come from configuration. A path that is not configured belongs to nobody, and no owner takes another's
 * place.
 */
import type { ToolPart } from '../../config.ts'
import type { SignatureBase } from '../../http/servers/signed-request.ts'
import { decodeOnce } from '../../wire/resources/http-operation.ts'
import { refuse } from '../../wire/refusal.ts'
import type { ApiOperation } from './api-table.ts'
import type { ToolApproval } from '../approval/owner-approval.ts'
import type { AuthorityClient } from '../authorities/authority-client.ts'
import type { Call } from '../call.ts'
import type { RouteJoint } from '../joint/mandate-check.ts'
import type { RouteOrganization } from '../organization/ceiling.ts'
import type { RequestReader } from './call-request.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What a call of one tool needs, and the resource's declarations about it. */
export interface Tool {
  readonly tool: string
  /** Set for a part of a tool: the tool that is called, and the arguments by which a call is of the part. */
  readonly of?: ToolPart | undefined
  readonly resource_id: string
  readonly scopes: readonly string[]
  readonly consequence?: string | undefined
  /** The keys whose signed decisions each call of it needs; left out if it needs none. */
  readonly ownerApproval?: ToolApproval | undefined
}

/** One owner's resource at this enforcement point. */
export interface Route {
  readonly owner: Owner
  /** The one path at which it is called; for a plain API, the base that all its calls begin with. */
  readonly path: string
  /** Public URL + path: the RFC 9728 `resource`, and the `aud` of its grants. */
  readonly resource: string
  /** Issuer of the owner's authorization server. */
  readonly authority: string
  readonly client: AuthorityClient
  /** Whether its authority lets it in by `/rs/register`, and reads the resources that it publishes. */
  readonly registersItself?: boolean | undefined
  /** The organization above her; if left out, none is configured and none is asked. */
  readonly organization?: RouteOrganization | undefined
  /** The mandate of the account, if the owner is a jointly held account; left out if she holds it alone. */
  readonly joint?: RouteJoint | undefined
  readonly tools: ReadonlyMap<string, Tool>
  /** Reads a call as the resource would: as MCP, or by the table of its API. */
  readonly readRequest: RequestReader
  /** The table of a plain API; left out for MCP. */
  readonly api?: readonly ApiOperation[] | undefined
  /** Scheme and authority of every signature base here. */
  readonly signatureBase: SignatureBase
}

export interface RouteTable {
  readonly routes: readonly Route[]
  /**
   * The route of a call. Refuses `not_found` if there is no route for its path, or for the owner that the
   * proxy was configured with, and `invalid_request` if the path could be taken for one below another
   * resource.
   */
  find(call: Pick<Call, 'path' | 'context'>): Route
}

/**
 * A table of routes whose owners and paths are each unique. An MCP resource is called only at its path, a
 * plain API also below it. If several match the beginning of a path, segment by segment, the longest counts.
 */
export function routeTable(routes: readonly Route[]): RouteTable {
  const asWritten = finder(routes, path => path)
  const asFolded = finder(routes, folded)
  const isShared = new Set(
    routes.filter(({ path }) => routes.some(other => folded(other.path).startsWith(`${folded(path)}/`))),
  )
  return {
    routes,
    find: ({ path, context }) => {
      const route = asWritten(path)
      // The owner that the proxy's operator set for the route may not contradict the path that the agent
      // signed.
      if (route === undefined || (context.owner !== undefined && context.owner !== route.owner)) {
        refuse('not_found', 'No resource is served at this path.')
      }
      if (isShared.has(route)) refuseOtherReading(path, route, asFolded)
      return route
    },
  }
}

/**
 * A path below one resource that belongs to another resource for a server that decodes, folds case or drops a
 * last slash before it routes.
 */
function refuseOtherReading(path: string, route: Route, asFolded: FindRoute): void {
  const text = folded(decodeOnce(path))
  if ([text, text.replace(/\/$/, '')].some(one => folded(asFolded(one)?.path ?? '') !== folded(route.path))) {
    refuse('invalid_request', 'Spell the path as the resource does, without escapes and in its case.')
  }
}

function folded(path: string): string {
  return path.toLowerCase()
}

type FindRoute = (path: string) => Route | undefined

function finder(routes: readonly Route[], spell: (path: string) => string): FindRoute {
  const byPath = new Map(routes.map(route => [spell(route.path), route]))
  const bases = routes.filter(({ api }) => api !== undefined)
  const byBase = new Map(bases.map(route => [spell(route.path), route]))
  const depth = Math.max(0, ...[...byBase.keys()].map(base => base.split('/').length - 1))
  return path => byPath.get(path) ?? longestBase(path, byBase, depth)
}

/** Looks no deeper than the deepest base, however many segments a path has. */
function longestBase(path: string, byBase: ReadonlyMap<string, Route>, depth: number): Route | undefined {
  let found: Route | undefined
  let end = path.indexOf('/', 1)
  for (let level = 0; level < depth && end > 0; level++) {
    found = byBase.get(path.slice(0, end)) ?? found
    end = path.indexOf('/', end + 1)
  }
  return found
}
