/**
 * Owns what the resource publishes, whether the sidecar's own server or the resource itself serves it.
 * Contract: "Resource server enforcement point": RFC 9728 documents, `/jwks`, `/owner-resources`.
 */
import type { SignedRequest } from '../../http/servers/signed-request.ts'
import { publicJwk, type PrivateKey, type PublicJwk } from '../../wire/signatures/keys.ts'
import type { ResourceMetadata } from '../../wire/resources/resource-metadata.ts'
import type { OwnerListing } from '../../wire/resources/owner-resources.ts'
import { refuse } from '../../wire/refusal.ts'
import type { AuthorityGuard } from './authority-guard.ts'
import { bareDocument, ownerDocument, ownerListing, ownerResourcesUrl } from './resource-documents.ts'
import type { Route, RouteTable } from '../request/routes.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'

export interface PublicDocumentsOptions {
  /** The routes that are served. The table may be a different one at each read. */
  table: Pick<RouteTable, 'routes'>
  /** Scheme and authority that agents call, without a path. */
  publicUrl: string
  /** The first signs, all are published. */
  keys: readonly [PrivateKey, ...PrivateKey[]]
  guard: AuthorityGuard
}

export interface PublicDocuments {
  /**
   * The RFC 9728 document of a resource's path; if the path is empty, the document of no particular resource.
   * Refuses `not_found`.
   */
  metadata(path: string): ResourceMetadata
  readonly jwks: { keys: PublicJwk[] }
  /**
   * The listing of one resource: the owner's resource at the path; without a path, her only one; without an
   * owner, the only one that the asking authority governs. Refuses 401 `invalid_token` if the guard does not
   * know the caller, 404 `not_found` if the authority does not govern the resource, 400 `invalid_request` if
   * the caller must name one of several.
   */
  listing(request: SignedRequest, of?: ListedAt): Promise<OwnerListing>
}

/** The path after `/owner-resources/`: an owner, and the path of one of her resources, or nothing. */
export interface ListedAt {
  owner: Owner
  path: string
}

/** Reads the path after `/owner-resources`, as it was sent: `/alice`, or `/alice/mcp/alice`. */
export function listedAt(rest: string): ListedAt {
  const end = rest.indexOf('/', 1)
  const [owner, path] = end < 0 ? [rest, ''] : [rest.slice(0, end), rest.slice(end)]
  return { owner: asOwner(owner.slice(1)), path }
}

/** How long the public documents may be cached, in seconds. The listing is never cached. */
export const DOCUMENT_CACHE_SECONDS = 300

/** Documents are signed once for each route, which changes only with the configuration. */
export function createPublicDocuments(options: PublicDocumentsOptions): PublicDocuments {
  const { table, publicUrl, keys } = options
  const publisher = { publicUrl, key: keys[0] }
  const bare = bareDocument(publisher)
  const signed = new WeakMap<Route, { listing: string; document: ResourceMetadata }>()
  const documentOf = (route: Route): ResourceMetadata => {
    // The document of the same resource changes when its owner gets a second one, or has only one left.
    const listing = ownerResourcesUrl(publicUrl, route, table.routes)
    const entry = signed.get(route)
    if (entry?.listing === listing) return entry.document
    const document = ownerDocument(route, listing, publisher)
    signed.set(route, { listing, document })
    return document
  }
  for (const route of table.routes) documentOf(route)
  return {
    metadata: path => {
      if (path === '') return bare
      const route = table.routes.find(one => one.path === path)
      if (route !== undefined) return documentOf(route)
      return path === '/mcp' ? bare : refuse('not_found', 'No resource is served at this path.')
    },
    jwks: { keys: keys.map(key => publicJwk(key)) },
    listing: (request, of) => (of === undefined ? listOnly(request, options) : listOne(request, of, options)),
  }
}

async function listOnly(
  request: SignedRequest,
  { table: { routes }, guard, publicUrl }: PublicDocumentsOptions,
): Promise<OwnerListing> {
  const querier = await guard(request, authoritiesOf(routes))
  return only(
    routes.filter(({ authority }) => authority === querier),
    { routes, publicUrl },
  )
}

async function listOne(
  request: SignedRequest,
  { owner, path }: ListedAt,
  { table: { routes }, guard, publicUrl }: PublicDocumentsOptions,
): Promise<OwnerListing> {
  const named = routes.filter(one => one.owner === owner && (path === '' || one.path === path))
  const querier = await guard(request, [...new Set([...authoritiesOf(named), ...authoritiesOf(routes)])])
  const governed = named.filter(({ authority }) => authority === querier)
  // An unknown owner and another authority's look alike.
  if (governed.length === 0)
    refuse('not_found', 'No such owner, and no such resource of hers, is governed by this authority here.')
  return only(governed, { routes, publicUrl })
}

/** The listing of the one; refuses if there are several, with the address of each. */
function only(
  governed: readonly Route[],
  { routes, publicUrl }: { routes: readonly Route[]; publicUrl: string },
): OwnerListing {
  if (governed.length > 1) {
    const urls = governed.map(route => ownerResourcesUrl(publicUrl, route, routes))
    refuse('invalid_request', `Ask for one: ${urls.join(' or ')}.`)
  }
  return ownerListing(governed[0]!)
}

function authoritiesOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map(({ authority }) => authority))]
}
