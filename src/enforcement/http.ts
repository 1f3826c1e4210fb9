/**
 * Owns the HTTP side of the enforcement point. contract, "Resource server enforcement point": RFC 9728 documents, `/jwks`,
 * `/owner-resources`. Decides nothing about calls.
 */
import type { FastifyRequest } from 'fastify'
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../http/server.ts'
import { publicJwk, type PrivateKey } from '../wire/keys.ts'
import { WELL_KNOWN } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import type { AuthorityGuard } from './authority-guard.ts'
import type { Metrics } from './metrics.ts'
import { bareDocument, ownerDocument, ownerListing, ownerResourcesUrl } from './resource-documents.ts'
import type { Route } from './routes.ts'

export interface DocumentServerOptions extends Omit<HttpServerOptions, 'bodyBytesMax'> {
  routes: readonly Route[]
  /** Scheme and authority that agents call, without a path. */
  publicUrl: string
  /** The first signs, all are published. */
  keys: readonly [PrivateKey, ...PrivateKey[]]
  guard: AuthorityGuard
  metrics: Metrics
}

const BODY_BYTES_MAX = 4096
const CACHE_SECONDS = 300

/** The server of public documents, not yet listening. */
export function createDocumentServer(options: DocumentServerOptions): HttpServer {
  const server = createHttpServer({ ...options, bodyBytesMax: BODY_BYTES_MAX })
  serveMetadata(server, options)
  serveOwnerResources(server, options)
  const jwks = { keys: options.keys.map(key => publicJwk(key)) }
  server.get('/jwks', async (_request, reply) => reply.header('cache-control', publicFor()).send(jwks))
  server.get('/metrics', async (_request, reply) => {
    const { text, contentType } = await options.metrics.render()
    return reply.type(contentType).send(text)
  })
  return server
}

/** Documents are signed once: they change only with the configuration, and so with the process. */
function serveMetadata(server: HttpServer, options: DocumentServerOptions): void {
  const publisher = { publicUrl: options.publicUrl, key: options.keys[0] }
  const bare = bareDocument(publisher)
  const byPath = new Map(options.routes.map(route => [route.path, ownerDocument(route, publisher)]))
  byPath.set('/mcp', byPath.get('/mcp') ?? bare)
  server.get(WELL_KNOWN.protectedResource, async (_request, reply) =>
    reply.header('cache-control', publicFor()).send(bare),
  )
  server.get(`${WELL_KNOWN.protectedResource}/*`, async (request, reply) => {
    const document = byPath.get(rawPath(request).slice(WELL_KNOWN.protectedResource.length))
    if (document === undefined) refuse('not_found', 'No resource is served at this path.')
    return reply.header('cache-control', publicFor()).send(document)
  })
}

function serveOwnerResources(server: HttpServer, { routes, guard, publicUrl }: DocumentServerOptions): void {
  const authorities = [...new Set(routes.map(({ authority }) => authority))]

  server.get('/owner-resources', async (request, reply) => {
    const querier = await guard(request, authorities)
    const governed = routes.filter(({ authority }) => authority === querier)
    if (governed.length > 1) {
      const urls = governed.map(({ owner }) => ownerResourcesUrl(publicUrl, owner))
      refuse('invalid_request', `Ask for one owner: ${urls.join(' or ')}.`)
    }
    return reply.header('cache-control', 'no-store').send(ownerListing(governed[0]!))
  })

  server.get<{ Params: { owner: string } }>('/owner-resources/:owner', async (request, reply) => {
    const route = routes.find(({ owner }) => owner === request.params.owner)
    const first = route === undefined ? [] : [route.authority]
    const querier = await guard(request, [...new Set([...first, ...authorities])])
    // An unknown owner and another authority's look alike.
    if (route?.authority !== querier) refuse('not_found', 'No such owner is governed by this authority here.')
    return reply.header('cache-control', 'no-store').send(ownerListing(route))
  })
}

function rawPath(request: FastifyRequest): string {
  return request.raw.url!.split('?', 1)[0]!
}

function publicFor(): string {
  return `public, max-age=${CACHE_SECONDS}`
}
