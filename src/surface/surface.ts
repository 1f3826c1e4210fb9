/**
 * Everything that an authorization server serves to agents, resource servers and the public, on top of what
 * its party provides. Contract: "Owner's authorization server: public", "Token endpoint", "Protection API".
 */
import type { Endpoint } from '../http/servers/endpoint.ts'
import type { AboutListener } from '../http/openapi/openapi.ts'
import { AUDIT_ACCESS, type AccessReportEndpoint } from './access-reports.ts'
import { DISCOVERY, type Discovery } from './discovery.ts'
import { CONSUME, INTROSPECT, type IntrospectionEndpoint } from './introspection.ts'
import type { Issuer } from './issuer.ts'
import { PERM, type PermissionEndpoint } from './permission.ts'
import { ROSTER_OF_TERMS, TERMS_DOCUMENT, type Terms } from './terms.ts'
import { TOKEN, type TokenEndpoint } from './token/token.ts'

/** What a party provides; each endpoint sees its own part. */
export type Surface = { issuer: Issuer } & Discovery &
  Terms &
  TokenEndpoint &
  PermissionEndpoint &
  IntrospectionEndpoint &
  AccessReportEndpoint

export const SURFACE: readonly Endpoint<Surface>[] = [
  ...DISCOVERY,
  ROSTER_OF_TERMS,
  TERMS_DOCUMENT,
  TOKEN,
  PERM,
  INTROSPECT,
  CONSUME,
  AUDIT_ACCESS,
]

/** How OpenAPI groups them. */
export const SURFACE_CHAPTERS: AboutListener['chapters'] = [
  {
    name: 'discovery',
    description: 'Metadata, keys and terms, for anybody.',
    paths: ['/.well-known', '/jwks', '/terms', '/authorize'],
  },
  {
    name: 'negotiation',
    description: 'An agent presents a ticket, agrees to terms, and collects its grant.',
    paths: ['/token'],
  },
  {
    name: 'protection',
    description: 'Requests of an enforcement point, with its PAT.',
    paths: ['/perm', '/introspect', '/consume', '/audit'],
  },
]
