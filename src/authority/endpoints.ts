/**
 * Everything that the authorization server serves, by listener, and what OpenAPI says of each as a whole. Contract: "Endpoints".
 */
import { HEALTH, READY } from '../http/health.ts'
import type { Described } from '../http/endpoint.ts'
import { OPENAPI_ENDPOINT, type AboutListener } from '../http/openapi.ts'
import { PUBLIC_OPERATIONS } from './operations.ts'
import { OWNER_OPERATIONS } from './owner/operations.ts'
import { REGISTRY_ENDPOINT } from './registry/registry-health.ts'

export type Listener = 'public' | 'owner'

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

export const ENDPOINTS: Readonly<Record<Listener, readonly Omit<Described, 'rows'>[]>> = {
  public: [...PUBLIC_OPERATIONS, REGISTRY_ENDPOINT, ...EVERYWHERE],
  owner: [...EVERYWHERE, ...OWNER_OPERATIONS],
}

const securitySchemes = {
  pat: { type: 'http', scheme: 'bearer', description: 'A PAT of the resource server.' },
  owner: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description:
      'An RFC 9421 signature by an enrolled device key over @method, @authority (the issuer’s), @path, ' +
      '@query where there is a query, and content-digest where there is a body; keyid names the key.',
  },
  bearer: { type: 'http', scheme: 'bearer', description: "An access token of the owner's OIDC realm." },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description: 'An RFC 9421 signature by a key published at the origin of the resource.',
  },
}

/** What a listener's document says of it as a whole; `server` is its own address. */
export const aboutListener = {
  public: (server: string): AboutListener => ({
    title: 'usher: authorization server',
    server,
    securitySchemes,
  }),
  owner: (server: string): AboutListener => ({ title: 'usher: owner API', server, securitySchemes }),
}
