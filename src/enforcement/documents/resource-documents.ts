/**
 * Owns the documents that the resource publishes about itself. Contract: "Resource metadata (RFC 9728)":
 * structural only, per owner, signed with the resource's key.
 */
import { gravestConsequence } from '../../rules/permission.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import {
  resourceMetadata,
  type ResourceMetadata,
  type ToolSurface,
} from '../../wire/resources/resource-metadata.ts'
import type { OwnerListing } from '../../wire/resources/owner-resources.ts'
import type { Route, Tool } from '../request/routes.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What all documents share. */
export interface DocumentSigner {
  /** Scheme and authority that agents call, without a path. */
  publicUrl: string
  key: PrivateKey
}

/** The RFC 9728 document of one owner's resource. `listing` is the address of its listing. */
export function ownerDocument(
  route: Route,
  listing: string,
  { publicUrl, key }: DocumentSigner,
): ResourceMetadata {
  const tools = [...route.tools.values()]
  return resourceMetadata(
    {
      resource: route.resource,
      authorization_servers: [route.authority],
      scopes_supported: scopesOf(tools),
      jwks_uri: `${publicUrl}/jwks`,
      tool_surfaces: tools.map(tool => toolSurface(tool, route.api)),
      owner_resources_endpoint: listing,
    },
    key,
  )
}

/** The document of `/mcp` itself: it is no owner's resource, so it names no authority and no tool. */
export function bareDocument({ publicUrl, key }: DocumentSigner): ResourceMetadata {
  return resourceMetadata(
    {
      resource: `${publicUrl}/mcp`,
      authorization_servers: [],
      scopes_supported: [],
      jwks_uri: `${publicUrl}/jwks`,
      tool_surfaces: [],
    },
    key,
  )
}

/**
 * The address where an owner's authority asks what one of her resources holds: below her name, and, if she
 * has several, below its path, too.
 */
export function ownerResourcesUrl(publicUrl: string, route: Route, routes: readonly Route[]): string {
  const isOneOfSeveral = ownersOfSeveral(routes).has(route.owner)
  return `${publicUrl}/owner-resources/${route.owner}${isOneOfSeveral ? route.path : ''}`
}

/** Counted once for each table, because there may be thousands of owners, and requests about each. */
const several = new WeakMap<readonly Route[], ReadonlySet<Owner>>()

function ownersOfSeveral(routes: readonly Route[]): ReadonlySet<Owner> {
  const known = several.get(routes)
  if (known !== undefined) return known
  const firsts = new Set<Owner>()
  const found = new Set(
    routes.flatMap(({ owner }) => (firsts.has(owner) ? [owner] : (firsts.add(owner), []))),
  )
  several.set(routes, found)
  return found
}

/**
 * The owner-bound listing of one resource: what it holds, with the tools that touch each, their scopes, and
 * the gravest class that any of them declares. If a tool requires her signature, her authority accepts
 * nothing less.
 */
export function ownerListing(route: Route): OwnerListing {
  const byId = Map.groupBy(route.tools.values(), tool => tool.resource_id)
  return {
    owner: route.owner,
    resources: [...byId].map(([_id, tools]) => ({
      _id,
      name: _id.slice(_id.indexOf('/') + 1),
      type: 'tool',
      resource_scopes: scopesOf(tools),
      ...declared(gravestConsequence(tools.map(({ consequence }) => consequence))),
      tools: tools.map(({ tool, consequence }) => ({ tool, ...declared(consequence) })),
      ...(tools.some(({ ownerApproval }) => ownerApproval !== undefined) && { approval: 'signed' as const }),
    })),
  }
}

function toolSurface({ tool, scopes, consequence }: Tool, api: Route['api'] = []): ToolSurface {
  const http = api.filter(one => one.tool === tool).map(({ method, path }) => ({ method, path }))
  return {
    tool,
    resource_scopes: [...scopes],
    ...declared(consequence),
    ...(http.length === 0 ? {} : { http }),
  }
}

function scopesOf(tools: readonly Tool[]): string[] {
  return [...new Set(tools.flatMap(({ scopes }) => scopes))]
}

function declared(consequence: string | undefined): { consequence?: string } {
  return consequence === undefined ? {} : { consequence }
}
