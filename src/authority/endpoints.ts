/**
 * Everything that the authorization server serves, by listener, and what OpenAPI says of each as a whole.
 * Contract: "Endpoints".
 */
import { HEALTH, READY } from '../http/servers/health.ts'
import type { Described, Endpoint } from '../http/servers/endpoint.ts'
import {
  deviceKeyScheme,
  OPENAPI_ENDPOINT,
  RUNNING,
  signatureScheme,
  type AboutListener,
} from '../http/openapi/openapi.ts'
import { SURFACE, SURFACE_CHAPTERS } from '../surface/surface.ts'
import { ADMINISTERED } from './organization/administered.ts'
import { ADMINISTRATION } from './organization/administration.ts'
import type { Administered } from './organization/administrator.ts'
import { QUOTE_ENDPOINT } from './joint/quote.ts'
import { VERDICT_ENDPOINT } from './joint/verdict.ts'
import { NOTICE } from './organization/notices.ts'
import { CONSISTENCY } from './ledger/consistency.ts'
import { LOG_KEYS } from './ledger/log-keys.ts'
import { CHECKPOINT } from './owner/checkpoint.ts'
import { REVOCATION_ENDPOINT } from './owner/revocations.ts'
import { LEDGER } from './owner/ledger.ts'
import { PENDING } from './owner/pending/pending.ts'
import { RECEIPTS } from './owner/receipts.ts'
import type { OwnerApi } from './owner/api.ts'
import { BANNED_ORIGINS } from './owner/servers/banned-origins.ts'
import { BLOCKED_AGENTS } from './owner/agents/blocked-agents.ts'
import { CONNECTIONS } from './owner/agents/connections.ts'
import { OPERATORS } from './owner/agents/operators.ts'
import { CREDENTIALS } from './owner/credentials/credentials.ts'
import { ENROLMENT } from './owner/credentials/enrolment.ts'
import { EVENTS } from './owner/events/events.ts'
import { EXPORT } from './owner/export.ts'
import { JOINT } from './owner/joint.ts'
import { NOTIFICATIONS } from './owner/notifications.ts'
import { ORGANIZATION } from './owner/organization.ts'
import { PASSKEYS } from './owner/credentials/passkeys.ts'
import { ALLOWANCES } from './owner/policies/allowances.ts'
import { POLICIES } from './owner/policies/tier-commands.ts'
import { POLICY_PREVIEW } from './owner/policies/preview.ts'
import { RECOVERIES } from './owner/credentials/recovery.ts'
import { RESOURCE_SERVERS } from './owner/servers/resource-servers.ts'
import { TIERS } from './owner/policies/tier-queries.ts'
import { LEASES } from './protection/leases.ts'
import { REGISTER } from './protection/registration.ts'
import { REGISTRY_ENDPOINT } from './registry/registry-health.ts'

export type AuthorityListener = 'public' | 'owner'

export const OWNER_ENDPOINTS: readonly Endpoint<OwnerApi>[] = [
  ...PENDING,
  ...LEDGER,
  ...RECEIPTS,
  EVENTS,
  ...TIERS,
  ...POLICIES,
  POLICY_PREVIEW,
  ...ALLOWANCES,
  ...CONNECTIONS,
  ...BLOCKED_AGENTS,
  ...OPERATORS,
  ...RESOURCE_SERVERS,
  ...BANNED_ORIGINS,
  ...ORGANIZATION,
  ENROLMENT,
  ...CREDENTIALS,
  ...PASSKEYS,
  ...RECOVERIES,
  ...NOTIFICATIONS,
  EXPORT,
]

/** The acts of administrators of an organization on its members, on the same listener. */
export const ADMINISTERED_ENDPOINTS: readonly Endpoint<Administered>[] = [...ADMINISTERED, ...ADMINISTRATION]

/** Her acts on accounts that she holds with others, if a tally is listed. */
export const JOINT_OWNER_ENDPOINTS: readonly Endpoint<OwnerApi>[] = JOINT

const EVERYWHERE = [HEALTH, READY, OPENAPI_ENDPOINT]

export const ENDPOINTS: Readonly<Record<AuthorityListener, readonly Described[]>> = {
  public: [...SURFACE, ...LEASES, REGISTER, NOTICE, REGISTRY_ENDPOINT, ...EVERYWHERE],
  owner: [...EVERYWHERE, ...OWNER_ENDPOINTS, ...ADMINISTERED_ENDPOINTS],
}

/** The additional endpoints of a listener, if a tally is listed. */
export const JOINT_ENDPOINTS: Readonly<Record<AuthorityListener, readonly Described[]>> = {
  public: [QUOTE_ENDPOINT, VERDICT_ENDPOINT],
  owner: JOINT_OWNER_ENDPOINTS,
}

/** What of the log an owner reads, if there are keys of the log. */
export const LOG_OWNER_ENDPOINTS = [...CHECKPOINT, REVOCATION_ENDPOINT]

/** The additional endpoints of a listener, if there are keys of the log. */
export const LOG_ENDPOINTS: Readonly<Record<AuthorityListener, readonly Described[]>> = {
  public: [LOG_KEYS, CONSISTENCY],
  owner: LOG_OWNER_ENDPOINTS,
}

const securitySchemes = {
  pat: { type: 'http', scheme: 'bearer', description: 'A PAT of the resource server.' },
  owner: deviceKeyScheme('an enrolled'),
  bearer: { type: 'http', scheme: 'bearer', description: "An access token of the owner's OIDC realm." },
  organization_admin: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An ext-org-admin+jwt that her organization signed for this one request.',
  },
  signature: signatureScheme('An RFC 9421 signature by a key published at the origin of the resource.'),
}

const PUBLIC_CHAPTERS = [
  {
    name: 'leases',
    description: 'Sidecars that use answers about grants again for a moment, with their PAT.',
    paths: ['/leases'],
  },
  {
    name: 'registration',
    description: 'Resource servers that ask to be admitted, and how their registries are.',
    paths: ['/rs', '/health/registry'],
  },
  {
    name: 'organizations',
    description: 'Notices of an organization about its members.',
    paths: ['/org/notice'],
  },
  { name: 'joint holding', description: 'Questions of a tally to a holder.', paths: ['/joint'] },
  {
    name: 'ledgers',
    description: 'What others check of ledgers, if there are keys of the log.',
    paths: ['/ledger'],
  },
]

const OWNER_CHAPTERS = [
  {
    name: 'decisions',
    description: 'Items that wait for her, and her decisions.',
    paths: ['/owner/pending', '/owner/events'],
  },
  {
    name: 'records',
    description:
      'What happened, what was signed, and the export of everything that the authority has of her.',
    paths: ['/owner/ledger', '/owner/receipts', '/owner/export'],
  },
  {
    name: 'policy',
    description: 'Her tiers, the words of their rules, what they govern, and her allowances.',
    paths: ['/owner/policies', '/owner/policy-vocabulary', '/owner/resources', '/owner/allowances'],
  },
  {
    name: 'connections',
    description: 'Agents that she let in, and the operators behind them.',
    paths: ['/owner/connections', '/owner/operators', '/owner/revocations'],
  },
  {
    name: 'resource servers',
    description: 'Servers that hold her resources, and servers that ask to.',
    paths: ['/owner/resource-servers'],
  },
  {
    name: 'membership',
    description: 'The organization above her.',
    paths: ['/owner/organization'],
  },
  {
    name: 'credentials',
    description: 'How she proves herself.',
    paths: ['/owner/enrolment', '/owner/device-keys', '/owner/passkeys', '/owner/logins', '/owner/recovery'],
  },
  {
    name: 'notifications',
    description: 'Addresses that get a message, outside of her page, when something waits.',
    paths: ['/owner/notifications'],
  },
  {
    name: 'joint holding',
    description: 'Accounts that she holds with others, if a tally is listed.',
    paths: ['/owner/joint'],
  },
  {
    name: "organization's administration",
    description: 'What administrators of an organization do at its members.',
    paths: ['/org/admin'],
  },
]

/** The general part of a listener's document; `server` is its own address. */
export const aboutListener = {
  public: (server: string): AboutListener => ({
    title: 'usher: authorization server',
    description: 'What agents, resource servers and anybody may ask of the authorization server of owners.',
    server,
    chapters: [...SURFACE_CHAPTERS, ...PUBLIC_CHAPTERS, RUNNING],
    securitySchemes,
  }),
  owner: (server: string): AboutListener => ({
    title: 'usher: owner API',
    description: 'What an owner does at her authorization server, and what administrators do at its members.',
    server,
    chapters: [...OWNER_CHAPTERS, RUNNING],
    securitySchemes,
  }),
}
