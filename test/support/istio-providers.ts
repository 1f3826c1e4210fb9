/**
 * Owns the two messages of Istio's MeshConfig that name an external authorizer. MeshConfig is no custom
 * resource, so there is no schema of it: these are its members as its reference documentation lists them, and
 * no others.
 */
import { z } from 'zod'

const duration = z.string().regex(/^\d+(?:\.\d+)?(?:h|m|s|ms)$/)
const host = z.string().regex(/^[a-z0-9.-]+(?:\/[a-z0-9.-]+)?$/)
const headers = z.array(z.string().regex(/^[a-z0-9-]+\*?$|^\*[a-z0-9-]+$/))

const common = {
  service: host,
  port: z.int().min(1).max(65_535),
  timeout: duration,
  failOpen: z.boolean(),
  clearRouteCache: z.boolean(),
  statusOnError: z.string().regex(/^[45]\d\d$/),
}
const body = { maxRequestBytes: z.int().positive(), allowPartialMessage: z.boolean().optional() }

const grpc = z.strictObject({
  ...common,
  includeRequestBodyInCheck: z.strictObject({ ...body, packAsBytes: z.boolean().optional() }),
})
const http = z.strictObject({
  ...common,
  pathPrefix: z.string().startsWith('/').optional(),
  includeRequestHeadersInCheck: headers.optional(),
  includeAdditionalHeadersInCheck: z.record(z.string(), z.string()).optional(),
  headersToUpstreamOnAllow: headers.optional(),
  headersToDownstreamOnDeny: headers.optional(),
  headersToDownstreamOnAllow: headers.optional(),
  includeRequestBodyInCheck: z.strictObject(body),
})

/** `extensionProviders`, each of one of the two kinds. */
export const ISTIO_PROVIDERS = z.strictObject({
  extensionProviders: z.array(
    z
      .strictObject({
        name: z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/),
        envoyExtAuthzGrpc: grpc.optional(),
        envoyExtAuthzHttp: http.optional(),
      })
      .refine(one => (one.envoyExtAuthzGrpc === undefined) !== (one.envoyExtAuthzHttp === undefined)),
  ),
})
