/**
 * Owns what the resource publishes about itself. Contract: "Resource metadata (RFC 9728)": structural only,
 * per owner, signed with the resource's key.
 */
import { gravestConsequence } from '../../rules/permission.ts'
import type { PrivateKey } from '../../wire/keys.ts'
import { resourceMetadata, type ResourceMetadata, type ToolSurface } from '../../wire/metadata.ts'
import type { OwnerListing } from '../../wire/owner-resources.ts'
import type { Route, Tool } from '../request/routes.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What all documents share. */
export interface Publisher {
  /** Scheme and authority that agents call, without a path. */
  publicUrl: string
  key: PrivateKey
}

/** The RFC 9728 document of one owner's resource. */
export function ownerDocument(route: Route, { publicUrl, key }: Publisher): ResourceMetadata {
  const tools = [...route.tools.values()]
  return resourceMetadata(
    {
      resource: route.resource,
      authorization_servers: [route.authority],
      scopes_supported: scopesOf(tools),
      jwks_uri: `${publicUrl}/jwks`,
      tool_surfaces: tools.map(tool => toolSurface(tool, route.api)),
      owner_resources_endpoint: ownerResourcesUrl(publicUrl, route.owner),
    },
    key,
  )
}

/** The document of `/mcp` itself: it is no owner's resource, so it names no authority and no tool. */
export function bareDocument({ publicUrl, key }: Publisher): ResourceMetadata {
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

/** Where an owner's authority asks for her resources. */
export function ownerResourcesUrl(publicUrl: string, owner: Owner): string {
  return `${publicUrl}/owner-resources/${owner}`
}

/**
 * The owner-bound listing: each resource with the tools that touch it, their scopes, and the gravest class
 * that any of them declares.
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
