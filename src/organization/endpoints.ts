/**
 * Everything that an organization serves, by listener, and what OpenAPI says of each as a whole. Contract:
 * "The organization's authority".
 */
import type { Described, Endpoint } from '../http/endpoint.ts'
import { HEALTH, READY } from '../http/health.ts'
import { OPENAPI_ENDPOINT, type AboutListener } from '../http/openapi.ts'
import { BREAK_GLASS_WINDOWS } from './admin/break-glass.ts'
import { CHARTER } from './admin/charter.ts'
import { INVITES } from './admin/invites.ts'
import { MEMBERS } from './admin/members.ts'
import { ROLES } from './admin/roles.ts'
import { BREAK_GLASS } from './break-glass/endpoint.ts'
import type { Administration, Organization } from './context.ts'
import { DISCOVERY } from './discovery.ts'
import { DECISIONS } from './decision.ts'
import { CLEARANCE } from './member/clearance.ts'
import { COMPLIANCE } from './member/compliance.ts'
import { ENVELOPE } from './member/envelope.ts'
import { INVITATION } from './member/invitation.ts'
import { MEMBERSHIP } from './member/membership.ts'
import { SIGNED_GRANTS } from './points/grants.ts'
import { ENFORCED_MEMBERSHIP } from './points/membership.ts'

export type Listener = 'public' | 'admin'

export const PUBLIC_ENDPOINTS: readonly Endpoint<Organization>[] = [
  ...DISCOVERY,
  ...MEMBERSHIP,
  ...ENVELOPE,
  ...INVITATION,
  ...CLEARANCE,
  ...COMPLIANCE,
  ...ENFORCED_MEMBERSHIP,
  ...SIGNED_GRANTS,
  ...BREAK_GLASS,
  ...DECISIONS,
]

/** The administration. */
export const ADMIN_ENDPOINTS: readonly Endpoint<Administration>[] = [
  ...CHARTER,
  ...ROLES,
  ...MEMBERS,
  ...INVITES,
  ...BREAK_GLASS_WINDOWS,
]

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

export const ENDPOINTS: Readonly<Record<Listener, readonly Described[]>> = {
  public: [...PUBLIC_ENDPOINTS, ...EVERYWHERE],
  admin: [...ADMIN_ENDPOINTS, ...EVERYWHERE],
}

const securitySchemes = {
  membership: { type: 'http', scheme: 'bearer', description: 'A membership token, beside the signature.' },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description:
      'An RFC 9421 signature by a key that the member’s authority publishes; it covers authorization.',
  },
  enforcement: {
    type: 'http',
    scheme: 'bearer',
    description: 'The credential that the organization provisioned for an enforcement point.',
  },
  agent_key: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description:
      'An RFC 9421 signature, over content-digest too, by the key that the body names as agent_jwk.',
  },
  enforcement_signature: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description: 'An RFC 9421 signature by a key that a provisioned enforcement point publishes.',
  },
  admin: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description:
      'An RFC 9421 signature by an administrator’s device key over @method, @authority (the issuer’s), @path, ' +
      '@query where there is a query, and content-digest where there is a body; keyid names the key.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: "An access token of the organization's OIDC realm.",
  },
}

/** What a listener's document says of it as a whole; `server` is its own address. */
export const aboutListener = {
  public: (server: string): AboutListener => ({ title: 'usher: organization', server, securitySchemes }),
  admin: (server: string): AboutListener => ({
    title: "usher: organization's administration",
    server,
    securitySchemes,
  }),
}
