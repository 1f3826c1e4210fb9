/**
 * Owns the HTTP side of the sidecar. Contract: "Resource server enforcement point": RFC 9728 documents,
 * `/jwks`, `/owner-resources`. Decides nothing about calls.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ANY_ORIGIN } from '../../http/servers/any-origin.ts'
import { serveEndpoints } from '../../http/servers/endpoint.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../../http/openapi/openapi.ts'
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../../http/servers/server.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import {
  createPublicDocuments,
  listedAt,
  DOCUMENT_CACHE_SECONDS,
  type PublicDocumentsOptions,
} from './public-documents.ts'
import { aboutDocuments, DOCUMENTS } from './endpoints.ts'

export interface DocumentServerOptions
  extends Omit<HttpServerOptions, 'bodyBytesMax'>, PublicDocumentsOptions {
  metrics: Metrics
}

const LISTING = '/owner-resources'
const BODY_BYTES_MAX = 4096
/** The header fields of documents that everybody may read, and any page too. */
const PUBLIC = {
  'cache-control': `public, max-age=${DOCUMENT_CACHE_SECONDS}`,
  ...ANY_ORIGIN,
}

const FOR_ALL = { config: { anyOrigin: true } } as const

/** The server of public documents, not yet listening. */
export function createDocumentServer(options: DocumentServerOptions): HttpServer {
  const server = createHttpServer({ ...options, bodyBytesMax: BODY_BYTES_MAX })
  const documents = createPublicDocuments(options)
  server.get(WELL_KNOWN.protectedResource, FOR_ALL, async (_request, reply) =>
    reply.headers(PUBLIC).send(documents.metadata('')),
  )
  server.get(`${WELL_KNOWN.protectedResource}/*`, FOR_ALL, async (request, reply) => {
    const rawPath = request.raw.url!.split('?', 1)[0]!
    const document = documents.metadata(rawPath.slice(WELL_KNOWN.protectedResource.length))
    return reply.headers(PUBLIC).send(document)
  })
  server.get('/jwks', FOR_ALL, async (_request, reply) => reply.headers(PUBLIC).send(documents.jwks))
  server.get('/owner-resources', async (request, reply) =>
    reply.header('cache-control', 'no-store').send(await documents.listing(request)),
  )
  const listing = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const rawPath = request.raw.url!.split('?', 1)[0]!
    const of = listedAt(rawPath.slice(LISTING.length))
    return reply.header('cache-control', 'no-store').send(await documents.listing(request, of))
  }
  server.get('/owner-resources/:owner', listing)
  server.get('/owner-resources/:owner/*', listing)
  server.get('/metrics', async (_request, reply) => {
    const { text, contentType } = await options.metrics.render()
    return reply.type(contentType).send(text)
  })
  serveEndpoints(server, openApiDocument(DOCUMENTS, aboutDocuments(options.publicUrl)), [OPENAPI_ENDPOINT])
  return server
}
