/**
 * What the sidecar's own server answers, as OpenAPI says it. Its routes are in server.ts: one of them takes
 * the rest of the path, which a declaration cannot express. Contract: "Resource server enforcement point".
 */
import { z } from 'zod'
import type { Described } from '../../http/servers/endpoint.ts'
import { HEALTH, READY } from '../../http/servers/health.ts'
import { OPENAPI_ENDPOINT, RUNNING, signatureScheme, type AboutListener } from '../../http/openapi/openapi.ts'
import { WELL_KNOWN } from '../../wire/names.ts'

const text = z.string()
const JWK = z.looseObject({ kid: text.optional() }).meta({ id: 'PublicKey' })
const METADATA = z
  .looseObject({
    resource: text,
    authorization_servers: z.array(text).optional(),
    scopes_supported: z.array(text).optional(),
    jwks_uri: text,
    signed_metadata: text,
  })
  .meta({ id: 'ResourceMetadata' })
const LISTING = z
  .looseObject({
    owner: text,
    resources: z.array(z.looseObject({ _id: text, name: text, resource_scopes: z.array(text) })),
  })
  .meta({ id: 'OwnerResources' })

const OF_AUTHORITY = {
  credential: { names: ['authority'], refusal: 'invalid_token' },
} as const

/** All endpoints of the document server. */
export const DOCUMENTS: readonly Described[] = [
  {
    method: 'get',
    path: WELL_KNOWN.protectedResource,
    rows: ['sidecar-metadata'],
    summary: 'RFC 9728 metadata of no resource in particular',
    answers: { 200: { says: 'Signed, and kept for five minutes.', schema: METADATA } },
  },
  {
    method: 'get',
    path: `${WELL_KNOWN.protectedResource}/mcp/{owner}`,
    rows: ['sidecar-metadata'],
    summary: 'RFC 9728 metadata of a resource, at the path that the resource has',
    answers: { 200: { says: 'Signed, and kept for five minutes.', schema: METADATA } },
    refuses: { 404: ['not_found'] },
  },
  {
    method: 'get',
    path: '/jwks',
    rows: ['sidecar-jwks'],
    summary: 'The keys of the resource',
    answers: { 200: { says: 'The first signs.', schema: z.object({ keys: z.array(JWK) }) } },
  },
  {
    method: 'get',
    path: '/owner-resources',
    rows: ['sidecar-owner-resources'],
    summary: 'The listing of the only resource here that the asking authority governs',
    ...OF_AUTHORITY,
    answers: { 200: { says: 'Never kept.', schema: LISTING } },
  },
  {
    method: 'get',
    path: '/owner-resources/{owner}',
    rows: ['sidecar-owner-resources'],
    summary:
      'The listing of one owner whom the asking authority governs; if she has several resources, the path of one follows',
    ...OF_AUTHORITY,
    answers: { 200: { says: 'Never kept.', schema: LISTING } },
    refuses: { 400: ['invalid_request'], 404: ['not_found'] },
  },
  {
    method: 'get',
    path: '/metrics',
    rows: { addedUnder: 'Health' },
    summary: 'The numbers of this process, for Prometheus',
    answers: { 200: { says: 'In the text format of Prometheus.', type: 'text/plain' } },
  },
  HEALTH,
  READY,
  OPENAPI_ENDPOINT,
]

/** The general part of the document; `server` is its own address. */
export const aboutDocuments = (server: string): AboutListener => ({
  title: 'usher: sidecar',
  description: 'What the enforcement point publishes. Gateways ask it about calls by ext_authz, not here.',
  server,
  chapters: [
    {
      name: 'documents',
      description: 'The metadata of the resource, for anybody.',
      paths: ['/.well-known', '/jwks'],
    },
    {
      name: 'registry',
      description: 'What the authorization server of an owner reads of her resources.',
      paths: ['/owner-resources'],
    },
    RUNNING,
  ],
  securitySchemes: {
    authority: signatureScheme('An RFC 9421 signature by a key that the authorization server publishes.'),
  },
})
