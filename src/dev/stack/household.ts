/**
 * Owns the files of a local stack: alice's world as a provisioning file, the sidecar's file, and everybody's
 * keys. Contract: "Policy vocabulary and tiers" and "Authentication". These are the files that a deployment
 * writes too.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../wire/signatures/keys.ts'
import { generateNotificationJwk } from '../../wire/owner/notification-key.ts'

export const OWNER = 'alice'
export const CLIENT_ID = 'demo-tools'
/** The path of her resource at the gateway. */
export const RESOURCE_PATH = `/mcp/${OWNER}`

/** Her tools, each on its own resource; `tier` governs that resource. */
export const TOOLS = [
  {
    tool: 'portfolio_read',
    resource: 'portfolio',
    name: 'Portfolio',
    scope: 'read',
    consequence: 'reversible',
    tier: 'reading',
  },
  {
    tool: 'statement_read',
    resource: 'statements',
    name: 'Statements',
    scope: 'read',
    consequence: 'reversible',
    tier: 'statements',
  },
  {
    tool: 'place_trade',
    resource: 'trades',
    name: 'Trades',
    scope: 'trade',
    consequence: 'irreversible',
    tier: 'trading',
  },
  {
    tool: 'close_account',
    resource: 'account',
    name: 'The account itself',
    scope: 'close',
    consequence: 'irreversible',
    tier: undefined,
  },
] as const

const TIERS = [
  {
    id: 'reading',
    name: 'Reading',
    resources: [`${OWNER}/portfolio`],
    terms: {
      purpose: 'Know what the account holds',
      scope: ['read'],
      expires_in: 3600,
      prohibited: ['training models on it'],
    },
  },
  {
    id: 'statements',
    name: 'Statements',
    resources: [`${OWNER}/statements`],
    terms: {
      purpose: 'Answer one question about a statement',
      scope: ['read'],
      expires_in: 600,
      prohibited: ['training models on it', 'keeping a copy', 'passing it on'],
    },
  },
  {
    id: 'trading',
    name: 'Trading',
    resources: [`${OWNER}/trades`],
    ask_me: true,
    terms: {
      purpose: 'Place the one trade that was asked for',
      scope: ['trade'],
      expires_in: 300,
      prohibited: ['training models on it'],
    },
  },
]

/** Addresses as the files need them; every URL without a trailing slash. */
export interface HouseholdAddresses {
  issuer: string
  publicUrl: string
}

export interface Household {
  directory: string
  /** alice's device key, enrolled by the provisioning file. */
  ownerKey: PrivateKey
  /** `{keys: […]}` of the authority, and of the resource server. */
  authorityKeysFile: string
  notificationKeyFile: string
  resourceKeysFile: string
  provisionFile: string
  ownerKeyFile: string
  /** A key for an agent to be tried by hand. */
  agentKeyFile: string
  clientSecret: string
}

/**
 * Writes the keys and the provisioning file into `directory`. Private keys are readable by this user alone.
 */
export async function writeHousehold(directory: string, addresses: HouseholdAddresses): Promise<Household> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const ownerJwk = generatePrivateJwk()
  const ownerKey = importPrivateJwk(ownerJwk)
  const clientSecret = randomBytes(24).toString('base64url')
  const provision = {
    owners: [
      {
        owner: OWNER,
        device_keys: [{ name: 'demo laptop', jwk: publicJwk(ownerKey) }],
        resource_servers: [
          {
            client_id: CLIENT_ID,
            name: 'Brokerage tools',
            client_secret: clientSecret,
            resource_uri: addresses.publicUrl + RESOURCE_PATH,
          },
        ],
        resources: TOOLS.map(({ resource, name, scope, consequence }) => ({
          id: `${OWNER}/${resource}`,
          client_id: CLIENT_ID,
          name,
          type: 'brokerage',
          resource_scopes: [scope],
          consequence,
        })),
        tiers: TIERS,
      },
    ],
  }
  const writeJson = (file: string, value: unknown) =>
    writePrivate(directory, file, `${JSON.stringify(value, null, 2)}\n`)
  return {
    directory,
    ownerKey,
    clientSecret,
    authorityKeysFile: await writeJson('authority-keys.json', { keys: [generatePrivateJwk()] }),
    notificationKeyFile: await writeJson('notification-key.json', generateNotificationJwk()),
    resourceKeysFile: await writeJson('resource-keys.json', { keys: [generatePrivateJwk()] }),
    ownerKeyFile: await writeJson('owner-key.json', ownerJwk),
    agentKeyFile: await writeJson('agent-key.json', generatePrivateJwk()),
    provisionFile: await writePrivate(directory, 'provision.yaml', stringify(provision)),
  }
}

/** The TLS files of a sidecar: its certificate, and the CA of those who may ask it. */
export interface SidecarTls {
  certFile: string
  keyFile: string
  caFile: string
}

export interface SidecarPlace extends HouseholdAddresses {
  name: string
  check: string
  /** Where it also answers checks by HTTP, as envoy/envoy-http.yaml asks them; if left out, it does not. */
  checkHttp?: string | undefined
  http: string
  tls: SidecarTls | undefined
  challengesPerMinute: number
  drainMs: number
  /** The sidecar's default when left out. */
  deadlineMarginMs?: number | undefined
  /** The addresses of the authority, if it is not reached only at its issuer. */
  authorityAddresses?: string[] | undefined
  /** The directory in which reports of its calls survive a kill; if left out, they wait in memory. */
  stateDirectory?: string | undefined
  /** Whether it uses answers again under a lease; left out, it asks about every call. */
  liveness?: 'asked' | 'leased' | undefined
  /** The organization above her, as its route names it; left out, none is asked. */
  organization?: { issuer: string; credential: string; resources: readonly string[] } | undefined
  /** Further entries of `owners`, as they are in the file. */
  others?: readonly object[] | undefined
}

/** Writes the file of one sidecar and returns its path. */
export async function writeSidecarFile(household: Household, place: SidecarPlace): Promise<string> {
  const { tls, issuer, authorityAddresses = [] } = place
  const certificate = tls && { cert_file: tls.certFile, key_file: tls.keyFile }
  const settings = {
    public_url: place.publicUrl,
    listen: {
      check: place.check,
      http: place.http,
      ...(place.checkHttp !== undefined && { check_http: place.checkHttp }),
    },
    ...(place.checkHttp !== undefined && {
      check_http: { length_header: 'x-usher-length', peer_header: 'x-usher-peer' },
    }),
    ...(tls && { check_tls: { ...certificate, client_ca_file: tls.caFile }, http_tls: certificate }),
    ...(tls && { authority_ca_file: tls.caFile }),
    keys_file: household.resourceKeysFile,
    realm: 'tools',
    challenges_per_minute: place.challengesPerMinute,
    drain_ms: place.drainMs,
    ...(place.deadlineMarginMs !== undefined && { deadline_margin_ms: place.deadlineMarginMs }),
    ...(place.liveness !== undefined && { liveness: place.liveness }),
    ...(place.stateDirectory !== undefined && { reports: { state_dir: place.stateDirectory } }),
    ...(authorityAddresses.length > 0 && { authorities: [{ issuer, addresses: authorityAddresses }] }),
    owners: [
      {
        owner: OWNER,
        path: RESOURCE_PATH,
        authority: place.issuer,
        client_id: CLIENT_ID,
        client_secret: household.clientSecret,
        ...(place.organization && {
          organization: { ...place.organization, resources: [...place.organization.resources] },
        }),
        tools: TOOLS.map(({ tool, resource, scope, consequence }) => ({
          tool,
          resource_id: `${OWNER}/${resource}`,
          scopes: [scope],
          consequence,
        })),
      },
      ...(place.others ?? []),
    ],
  }
  return writePrivate(household.directory, `${place.name}.yaml`, stringify(settings))
}

/** Where an authority listens, its database, and its files. */
export interface AuthorityPlace {
  issuer: string
  /** The listener for agents as `host:port`, and below the one for owners. */
  listen: string
  ownerListen: string
  databaseUrl: string
  keysFile: string
  provisionFile: string
}

/** The environment of one process, besides what every party gets. */
export function authorityEnvironment(place: AuthorityPlace): Record<string, string> {
  return {
    DATABASE_URL: place.databaseUrl,
    UMA_AS_ISSUER: place.issuer,
    UMA_AS_LISTEN: place.listen,
    UMA_AS_OWNER_LISTEN: place.ownerListen,
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
    // Only the end of the stack waits for it.
    UMA_AS_DRAIN_MS: '0',
    UMA_AS_KEYS_FILE: place.keysFile,
    UMA_AS_PROVISION: place.provisionFile,
    UMA_AS_POLL_SECONDS: '1',
  }
}

/** Writes a file that only this user may read. @returns its path. */
export async function writePrivate(directory: string, file: string, text: string): Promise<string> {
  const path = join(directory, file)
  await writeFile(path, text, { mode: 0o600 })
  return path
}
