/**
 * Everything that an organization serves, by listener, and what OpenAPI says of each as a whole. Contract:
 * "The organization's authority".
 */
import type { Described, Endpoint } from '../http/servers/endpoint.ts'
import { HEALTH, READY } from '../http/servers/health.ts'
import {
  deviceKeyScheme,
  OPENAPI_ENDPOINT,
  RUNNING,
  signatureScheme,
  type AboutListener,
} from '../http/openapi/openapi.ts'
import { AGENTS } from './admin/agents.ts'
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

export type OrganizationListener = 'public' | 'admin'

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

export const ADMIN_ENDPOINTS: readonly Endpoint<Administration>[] = [
  ...CHARTER,
  ...ROLES,
  ...MEMBERS,
  ...AGENTS,
  ...INVITES,
  ...BREAK_GLASS_WINDOWS,
]

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

export const ENDPOINTS: Readonly<Record<OrganizationListener, readonly Described[]>> = {
  public: [...PUBLIC_ENDPOINTS, ...EVERYWHERE],
  admin: [...ADMIN_ENDPOINTS, ...EVERYWHERE],
}

const securitySchemes = {
  membership: { type: 'http', scheme: 'bearer', description: 'A membership token, beside the signature.' },
  signature: signatureScheme(
    'An RFC 9421 signature by a key that the member’s authority publishes; it covers authorization.',
  ),
  enforcement: {
    type: 'http',
    scheme: 'bearer',
    description: 'The credential that the organization provisioned for an enforcement point.',
  },
  agent_key: signatureScheme(
    'An RFC 9421 signature, over content-digest too, by the key that the body names as agent_jwk.',
  ),
  enforcement_signature: signatureScheme(
    'An RFC 9421 signature by a key that a provisioned enforcement point publishes.',
  ),
  admin: deviceKeyScheme('an administrator’s'),
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: "An access token of the organization's OIDC realm.",
  },
}

const PUBLIC_CHAPTERS = [
  { name: 'discovery', description: 'Metadata and keys, for anybody.', paths: ['/.well-known', '/jwks'] },
  {
    name: 'members',
    description: 'Joining, leaving, and what a member is held to.',
    paths: ['/member', '/decision'],
  },
  {
    name: 'enforcement',
    description: 'What enforcement points of the organization ask.',
    paths: ['/membership', '/introspect', '/consume'],
  },
  {
    name: 'emergencies',
    description: 'One call in a window that an administrator opened.',
    paths: ['/break-glass'],
  },
]

const ADMIN_CHAPTERS = [
  {
    name: 'charter',
    description: 'What the organization claims, and its versions.',
    paths: ['/admin/charter'],
  },
  { name: 'roles', description: 'What a role lets agents do.', paths: ['/admin/roles'] },
  {
    name: 'members',
    description: 'Who belongs to it, and their agents at what it governs.',
    paths: ['/admin/members'],
  },
  {
    name: 'invitations',
    description: 'Codes to join with.',
    paths: ['/admin/invites', '/admin/join-code'],
  },
  {
    name: 'activity',
    description: 'What happened, and windows for emergencies.',
    paths: ['/admin/activity', '/admin/break-glass'],
  },
]

/** The general part of a listener's document; `server` is its own address. */
export const aboutListener = {
  public: (server: string): AboutListener => ({
    title: 'usher: organization',
    description: 'What the authorization servers of members, enforcement points and agents ask of it.',
    server,
    chapters: [...PUBLIC_CHAPTERS, RUNNING],
    securitySchemes,
  }),
  admin: (server: string): AboutListener => ({
    title: "usher: organization's administration",
    description: 'What its administrators do.',
    server,
    chapters: [...ADMIN_CHAPTERS, RUNNING],
    securitySchemes,
  }),
}
