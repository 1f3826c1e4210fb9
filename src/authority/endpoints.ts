/**
 * Everything that the authorization server serves, by listener, and what OpenAPI says of each as a whole.
 * Contract: "Endpoints".
 */
import { HEALTH, READY } from '../http/health.ts'
import type { Described, Endpoint } from '../http/endpoint.ts'
import { OPENAPI_ENDPOINT, type AboutListener } from '../http/openapi.ts'
import { SURFACE } from '../surface/surface.ts'
import { NOTICE } from './organization/notices.ts'
import { ACTIVITY } from './owner/activity.ts'
import type { OwnerApi } from './owner/api.ts'
import { BANNED_ORIGINS } from './owner/banned-origins.ts'
import { CONNECTIONS, OPERATORS } from './owner/connections.ts'
import { CREDENTIALS } from './owner/credentials.ts'
import { ENROLMENT } from './owner/enrolment.ts'
import { EVENTS } from './owner/events.ts'
import { ORGANIZATION } from './owner/organization.ts'
import { POLICIES } from './owner/policies.ts'
import { POLICY_PREVIEW } from './owner/preview.ts'
import { RESOURCE_SERVERS } from './owner/resource-servers.ts'
import { TIERS } from './owner/tiers.ts'
import { REGISTER } from './protection/registration.ts'
import { REGISTRY_ENDPOINT } from './registry/registry-health.ts'

export type Listener = 'public' | 'owner'

/** The owner API. */
export const OWNER_ENDPOINTS: readonly Endpoint<OwnerApi>[] = [
  ...ACTIVITY,
  EVENTS,
  ...TIERS,
  ...POLICIES,
  POLICY_PREVIEW,
  ...CONNECTIONS,
  ...OPERATORS,
  ...RESOURCE_SERVERS,
  ...BANNED_ORIGINS,
  ...ORGANIZATION,
  ENROLMENT,
  ...CREDENTIALS,
]

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

export const ENDPOINTS: Readonly<Record<Listener, readonly Described[]>> = {
  public: [...SURFACE, REGISTER, NOTICE, REGISTRY_ENDPOINT, ...EVERYWHERE],
  owner: [...EVERYWHERE, ...OWNER_ENDPOINTS],
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
