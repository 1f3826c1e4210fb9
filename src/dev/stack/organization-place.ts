/**
 * Owns the organization of a local stack: the files that a deployment writes too, and its processes.
 * Contract: "The organization's authority": each replica is a process of its own, all on one database that
 * nobody else has.
 */
import { randomBytes } from 'node:crypto'
import { stringify } from 'yaml'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../wire/signatures/keys.ts'
import { OWNER, writePrivate } from './household.ts'
import type { IdentityProvider } from './identity-provider.ts'
import { freePorts } from './ports.ts'

/** The resources of alice that it claims; of these it shares only her portfolio. */
export const CLAIMED = [`${OWNER}/portfolio`, `${OWNER}/trades`, `${OWNER}/account`] as const
/** How long access under it lasts at most, in seconds: less than her tier for reading says. */
export const CEILING_SECONDS = 900

/** The first charter. In an emergency, an agent may place one trade. */
const CHARTER = {
  name: 'Acme at work',
  claims: CLAIMED,
  roles: {
    staff: { name: 'Staff', grants: [`${OWNER}/portfolio`], delegation: 'any-agent' },
    traders: {
      name: 'Traders',
      grants: [`${OWNER}/portfolio`, `${OWNER}/trades`],
      delegation: 'any-agent',
    },
  },
  default_role: 'staff',
  envelope: {
    max_expires_in: CEILING_SECONDS,
    allowed_scopes: ['read', 'trade'],
    require_prohibited: ['passing it on'],
    always_ask: [],
  },
  break_glass: {
    enabled: true,
    resources: [`${OWNER}/trades`],
    max_expires_in: 300,
    require_reason: true,
    invokers: [],
  },
}

/** How the provider knows her. */
export const SUBJECT = `${OWNER}@acme.example`

/** What a stack with an organization is started with. */
export interface OrganizationOptions {
  /** An empty database. */
  databaseUrl: string
  /** How many replicas share it; 1 when left out. */
  replicas?: number | undefined
  /** Where everybody reaches them, for example a balancer of the caller; at the first of them if left out. */
  door?: string | undefined
  /** The provider that says for whom an agent acts. */
  identityProvider: IdentityProvider
}

/** The organization of a stack, as everybody else needs to know it. */
export interface OrganizationPlace {
  issuer: string
  /** Where each replica is reached, and where its administration is. */
  replicas: { url: string; adminApi: string }[]
  /** The device key of `ines`, who administers, and its file. */
  adminKey: PrivateKey
  adminKeyFile: string
  identityProvider: IdentityProvider
  /** What the sidecar of a route proves itself by. */
  route: { issuer: string; credential: string; resources: readonly string[] }
  /** The environment of one replica, besides what every party gets. */
  environment(replica: number): Record<string, string>
}

/** Writes its keys and its provisioning file, and chooses where it listens. */
export async function placeOrganization(
  directory: string,
  options: OrganizationOptions,
  { issuer: as_uri, resource }: { issuer: string; resource: string },
): Promise<OrganizationPlace> {
  const { databaseUrl, replicas = 1, identityProvider } = options
  const ports = await freePorts(2 * replicas)
  const places = Array.from({ length: replicas }, (_, at) => ({
    listen: `127.0.0.1:${ports[2 * at]}`,
    admin: `127.0.0.1:${ports[2 * at + 1]}`,
  }))
  const issuer = options.door ?? `http://${places[0]!.listen}`
  const adminJwk = generatePrivateJwk()
  const adminKey = importPrivateJwk(adminJwk)
  const credential = randomBytes(24).toString('base64url')
  const provision = {
    charter: {
      ...CHARTER,
      identity_provider: { issuer: identityProvider.issuer, subjects: { [OWNER]: SUBJECT } },
    },
    administrators: [{ name: 'ines', device_keys: [publicJwk(adminKey)] }],
    enforcement_points: [{ id: 'gateway', resources: [{ resource, owner: OWNER }], credential }],
  }
  const keys = JSON.stringify({ keys: [generatePrivateJwk()] })
  const keysFile = await writePrivate(directory, 'organization-keys.json', keys)
  const provisionFile = await writePrivate(directory, 'organization.yaml', stringify(provision))
  return {
    issuer,
    replicas: places.map(({ listen, admin }) => ({ url: `http://${listen}`, adminApi: `http://${admin}` })),
    adminKey,
    adminKeyFile: await writePrivate(directory, 'admin-key.json', `${JSON.stringify(adminJwk)}\n`),
    identityProvider,
    route: { issuer, credential, resources: [`${OWNER}/*`] },
    environment: replica => ({
      DATABASE_URL: databaseUrl,
      UMA_ORG_ISSUER: issuer,
      UMA_ORG_ID: 'acme',
      UMA_ORG_NAME: 'Acme',
      UMA_ORG_LISTEN: places[replica]!.listen,
      UMA_ORG_ADMIN_LISTEN: places[replica]!.admin,
      UMA_ORG_METRICS_LISTEN: '127.0.0.1:0',
      UMA_ORG_KEYS_FILE: keysFile,
      UMA_ORG_PROVISION: provisionFile,
      UMA_ORG_AUTHORITIES: as_uri,
      // Only the end of the stack waits for it.
      UMA_ORG_DRAIN_MS: '0',
    }),
  }
}
