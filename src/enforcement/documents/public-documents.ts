/**
 * Owns what the resource publishes, whoever serves it: the sidecar's own server or the resource itself.
 * Contract: "Resource server enforcement point": RFC 9728 documents, `/jwks`, `/owner-resources`.
 */
import type { SignedRequest } from '../../http/signed-request.ts'
import { publicJwk, type PrivateKey, type PublicJwk } from '../../wire/keys.ts'
import type { ResourceMetadata } from '../../wire/metadata.ts'
import type { OwnerListing } from '../../wire/owner-resources.ts'
import { refuse } from '../../wire/refusal.ts'
import type { AuthorityGuard } from './authority-guard.ts'
import { bareDocument, ownerDocument, ownerListing, ownerResourcesUrl } from './resource-documents.ts'
import type { Route } from '../request/routes.ts'
import type { Owner } from '../../wire/identifiers.ts'

export interface PublicDocumentsOptions {
  routes: readonly Route[]
  /** Scheme and authority that agents call, without a path. */
  publicUrl: string
  /** The first signs, all are published. */
  keys: readonly [PrivateKey, ...PrivateKey[]]
  guard: AuthorityGuard
}

export interface PublicDocuments {
  /**
   * The RFC 9728 document of a resource's path; of no resource in particular where the path is empty. Refuses
   * `not_found`.
   */
  metadata(path: string): ResourceMetadata
  readonly jwks: { keys: PublicJwk[] }
  /**
   * The resources of one owner, or of the only one whom the asking authority governs. Refuses 401
   * `invalid_token` whom the guard does not know, 404 `not_found` an owner whom the authority does not
   * govern, 400 `invalid_request` where it must name one of several.
   */
  listing(request: SignedRequest, owner?: Owner): Promise<OwnerListing>
}

/** How long the public ones may be kept, in seconds. The listing is never kept. */
export const DOCUMENT_CACHE_SECONDS = 300

/** Documents are signed once: they change only with the configuration, and so with the process. */
export function createPublicDocuments(options: PublicDocumentsOptions): PublicDocuments {
  const { routes, publicUrl, keys } = options
  const publisher = { publicUrl, key: keys[0] }
  const bare = bareDocument(publisher)
  const byPath = new Map(routes.map(route => [route.path, ownerDocument(route, publisher)]))
  byPath.set('/mcp', byPath.get('/mcp') ?? bare)
  byPath.set('', bare)
  return {
    metadata: path => byPath.get(path) ?? refuse('not_found', 'No resource is served at this path.'),
    jwks: { keys: keys.map(key => publicJwk(key)) },
    listing: (request, owner) =>
      owner === undefined ? listOnlyOwner(request, options) : listOwner(request, owner, options),
  }
}

async function listOnlyOwner(
  request: SignedRequest,
  { routes, guard, publicUrl }: PublicDocumentsOptions,
): Promise<OwnerListing> {
  const querier = await guard(request, authoritiesOf(routes))
  const governed = routes.filter(({ authority }) => authority === querier)
  if (governed.length > 1) {
    const urls = governed.map(route => ownerResourcesUrl(publicUrl, route.owner))
    refuse('invalid_request', `Ask for one owner: ${urls.join(' or ')}.`)
  }
  return ownerListing(governed[0]!)
}

async function listOwner(
  request: SignedRequest,
  owner: Owner,
  { routes, guard }: PublicDocumentsOptions,
): Promise<OwnerListing> {
  const route = routes.find(one => one.owner === owner)
  const first = route === undefined ? [] : [route.authority]
  const querier = await guard(request, [...new Set([...first, ...authoritiesOf(routes)])])
  // An unknown owner and another authority's look alike.
  if (route?.authority !== querier) refuse('not_found', 'No such owner is governed by this authority here.')
  return ownerListing(route)
}

function authoritiesOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map(({ authority }) => authority))]
}
