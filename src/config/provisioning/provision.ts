/**
 * Owns the provisioning file of `usher authority`: what it may say, and every fault in it. Contract: "Policy
 * vocabulary and tiers", "Resource server establishment" (if the pair was provisioned together) and
 * "Authentication".
 */
import { z } from 'zod'
import { CONSEQUENCES } from '../../rules/permission.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import { TERMS_SECONDS_MAX, tierFault } from '../../rules/tier.ts'
import { importPublicJwk, type PublicKey } from '../../wire/signatures/keys.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { isBelow } from '../../wire/resources/owner-resources.ts'
import { readYamlFile } from '../files.ts'
import { duplicates, issueSentences } from '../issues.ts'
import { namespaceFaults } from './namespaces.ts'
import { isRealmIssuer } from '../oidc.ts'
import { label, refused, resourceUri, scope, serverId, visible } from './provisioned.ts'
import { readServerProof, serverProof, type ProvisionedProof } from './server-proof.ts'
import { ConfigFault, insecureUrlFault } from '../settings.ts'

const NAMESPACES_MAX = 100

const ownerName = z
  .string()
  .regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit')

const deviceKey = z.strictObject({
  name: label(100).describe('Her name for the device.'),
  jwk: z
    .record(z.string(), z.unknown())
    .describe('Its public Ed25519 key, as a JWK; `usher owner key` prints it.'),
})

const login = z.strictObject({
  name: label(100).describe('Her name for the login.'),
  issuer: z
    .string()
    .refine(isRealmIssuer, 'give the issuer exactly as the realm writes it')
    .describe('The realm, as `UMA_AS_OIDC_ISSUER` names it.'),
  subject: z
    .string()
    .max(255)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'give the subject as tokens of the realm name it')
    .describe('Her `sub` in access tokens of that realm, never an address or a name.'),
})

const resourceServer = z.strictObject({
  client_id: serverId,
  name: label(200).describe('The name that the owner sees.'),
  ...serverProof,
  resource_uri: resourceUri.describe(
    'The RFC 9728 `resource` it serves for her: the `aud` of every grant it may introspect.',
  ),
  publishes: z
    .boolean()
    .default(false)
    .describe(
      'Also pull its resources from the listing that it publishes there. The listing then decides about each resource that it names, even about one declared below.',
    ),
})

const resource = z.strictObject({
  id: visible(256).describe(
    'Its id, `<owner>/…` or below one of `namespaces`, as the resource server names it.',
  ),
  client_id: visible(255).describe('The resource server of hers that publishes it.'),
  name: label(200).describe('The name that the owner sees.'),
  type: visible(400).optional().describe('Its kind.'),
  resource_scopes: z.array(scope).min(1).max(50).describe('Scopes that can be asked for.'),
  consequence: z
    .enum(CONSEQUENCES)
    .optional()
    .describe('Consequence class of its gravest operation; left out = undescribed.'),
})

const rule = z.strictObject({
  when: z.array(z.string().max(200)).describe('Conditions of the policy vocabulary, all of which must hold.'),
  then: z.enum(['auto', 'ask', 'refuse']).describe('What follows.'),
})

const terms = z.strictObject({
  purpose: label(1000).describe('The purpose of the access.'),
  scope: z.array(scope).min(1).max(50).describe('Scopes that are offered.'),
  expires_in: z.int().min(1).max(TERMS_SECONDS_MAX).describe('Longest life of a grant, in seconds.'),
  prohibited: z
    .array(label(500))
    .max(100)
    .default([])
    .describe('The things that the agent must promise not to do.'),
})

const tier = z.strictObject({
  id: z.string().describe('Its id, part of the `template_id` of its terms.'),
  name: label(200).describe('Its name for the owner and in the terms.'),
  resources: z
    .array(visible(256))
    .max(1000)
    .describe('The resources it governs; a resource has one tier at most.'),
  ask_me: z.boolean().default(false).describe('Ask her about every operation; its grants are single-use.'),
  rules: z.array(rule).default([]).describe('Rules that change its answer.'),
  clearance: z
    .record(z.string(), z.array(z.string()))
    .default({})
    .describe('Accepted values by clearance claim; empty = none needed.'),
  terms: terms.describe('The terms it offers.'),
})

const owner = z.strictObject({
  owner: ownerName.describe('Her name: part of every resource id, template id and path of hers.'),
  namespaces: z
    .array(ownerName)
    .max(NAMESPACES_MAX)
    .default([])
    .describe(
      'Further names that her resource ids may begin with. Each belongs to one owner for ever, and is no owner’s name.',
    ),
  device_keys: z.array(deviceKey).default([]).describe('Keys that may sign requests to the owner API.'),
  logins: z
    .array(login)
    .default([])
    .describe('Logins whose access tokens may make requests to the owner API.'),
  resource_servers: z.array(resourceServer).default([]).describe('Resource servers with protection access.'),
  resources: z
    .array(resource)
    .default([])
    .describe('Resources registered without asking the resource server.'),
  tiers: z.array(tier).default([]).describe('Her tiers; a resource without one is denied.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const PROVISION_FILE = z.strictObject({
  owners: z.array(owner).min(1).describe('The owners who are served here.'),
})

type OwnerEntry = z.output<typeof owner>

/** A tier whose `terms.per_operation` is `ask_me`: because the file should say each thing only once. */
export type ProvisionedTier = OwnerEntry['tiers'][number] & { terms: { per_operation: boolean } }

/** One owner to provision, judged as a whole; secrets are already hashed (SHA-256). */
export interface ProvisionedOwner {
  owner: string
  namespaces: string[]
  device_keys: { name: string; key: PublicKey }[]
  logins: OwnerEntry['logins']
  resource_servers: (ProvisionedProof & {
    client_id: string
    name: string
    resource_uri: string
    publishes: boolean
  })[]
  resources: OwnerEntry['resources']
  tiers: ProvisionedTier[]
}

/**
 * Reads and judges the file. `realmIssuer` is the realm whose tokens are accepted, if any, because a login at
 * another realm would be useless. Throws `ConfigFault` listing every fault with its place.
 */
export function loadProvisionFile(
  path: string,
  devLoopback: boolean,
  realmIssuer?: string,
): ProvisionedOwner[] {
  const result = PROVISION_FILE.safeParse(readYamlFile('UMA_AS_PROVISION', path))
  if (!result.success)
    throw new ConfigFault(
      issueSentences(result.error.issues, { schema: PROVISION_FILE, name: 'UMA_AS_PROVISION' }),
    )
  const faults: string[] = []
  const entries = result.data.owners
  const reading = { faults, devLoopback, realmIssuer }
  const owners = entries.map((entry, i) => readOwner(entry, `owners[${i}]`, reading))
  faults.push(
    ...duplicates(entries.map(({ owner }) => owner)).map(name => `owners: ${name} is listed twice.`),
    ...namespaceFaults(entries),
    // One key names one owner: the owner that a signature acts for must never depend on the request.
    ...duplicates(owners.flatMap(({ device_keys }) => device_keys.map(({ key }) => key.thumbprint))).map(
      kid => `device_keys: the key ${kid} is listed twice; a device key belongs to one owner.`,
    ),
    ...duplicates(entries.flatMap(({ logins }) => logins.map(loginName))).map(
      login => `logins: ${login} is listed twice; a login belongs to one owner.`,
    ),
  )
  if (faults.length > 0) throw new ConfigFault(faults)
  return owners
}

function loginName({ issuer, subject }: { issuer: string; subject: string }): string {
  return `${JSON.stringify(subject)} at ${issuer}`
}

interface OwnersFileContext {
  faults: string[]
  devLoopback: boolean
  realmIssuer: string | undefined
}

function readOwner(ownerEntry: OwnerEntry, at: string, reading: OwnersFileContext): ProvisionedOwner {
  reading.faults.push(...listFaults(ownerEntry, at), ...loginFaults(ownerEntry, at, reading.realmIssuer))
  return {
    owner: ownerEntry.owner,
    namespaces: ownerEntry.namespaces,
    device_keys: ownerEntry.device_keys.flatMap((entry, i) =>
      readDeviceKey(entry, `${at}.device_keys[${i}]`, reading),
    ),
    logins: ownerEntry.logins,
    resource_servers: ownerEntry.resource_servers.flatMap((entry, i) =>
      readResourceServer(entry, `${at}.resource_servers[${i}]`, reading),
    ),
    resources: ownerEntry.resources,
    tiers: readTiers(ownerEntry, at, reading),
  }
}

function loginFaults(ownerEntry: OwnerEntry, at: string, realmIssuer: string | undefined): string[] {
  if (realmIssuer === undefined) return []
  return ownerEntry.logins.flatMap(({ issuer }, i) =>
    issuer === realmIssuer
      ? []
      : [`${at}.logins[${i}].issuer: it must be written as UMA_AS_OIDC_ISSUER is, ${realmIssuer}.`],
  )
}

function listFaults(ownerEntry: OwnerEntry, at: string): string[] {
  const servers = new Set(ownerEntry.resource_servers.map(({ client_id }) => client_id))
  const twice = (member: string, names: string[]) =>
    duplicates(names).map(name => `${at}.${member}: ${name} is listed twice.`)
  return [
    ...twice(
      'resource_servers',
      ownerEntry.resource_servers.map(({ client_id }) => client_id),
    ),
    ...twice(
      'resources',
      ownerEntry.resources.map(({ id }) => id),
    ),
    ...twice(
      'tiers',
      ownerEntry.tiers.map(({ id }) => id),
    ),
    ...ownerEntry.resources.flatMap(({ id, client_id }, i) => [
      ...(isBelow(id, [ownerEntry.owner, ...ownerEntry.namespaces])
        ? []
        : [
            `${at}.resources[${i}].id: it must start with ${ownerEntry.owner}/ or one of her namespaces, and continue.`,
          ]),
      ...(servers.has(client_id)
        ? []
        : [
            `${at}.resources[${i}].client_id: no resource server ${client_id} is listed for ${ownerEntry.owner}.`,
          ]),
    ]),
  ]
}

function readDeviceKey(
  entry: OwnerEntry['device_keys'][number],
  at: string,
  { faults }: OwnersFileContext,
): ProvisionedOwner['device_keys'] {
  const key = refused(() => importPublicJwk(entry.jwk), faults, `${at}.jwk: `)
  return key === undefined ? [] : [{ name: entry.name, key }]
}

function readResourceServer(
  entry: OwnerEntry['resource_servers'][number],
  at: string,
  { faults, devLoopback }: OwnersFileContext,
): ProvisionedOwner['resource_servers'] {
  faults.push(...insecureUrlFault(`${at}.resource_uri`, entry.resource_uri, devLoopback))
  const proof = readServerProof(entry, at, faults)
  if (proof === undefined) return []
  const { client_id, name, resource_uri, publishes } = entry
  return [{ client_id, name, resource_uri, publishes, ...proof }]
}

function readTiers(ownerEntry: OwnerEntry, at: string, { faults }: OwnersFileContext): ProvisionedTier[] {
  const governed = new Map<string, string>()
  return ownerEntry.tiers.map((entry, i) => {
    const tier = { ...entry, terms: { ...entry.terms, per_operation: entry.ask_me } }
    const registered = ownerEntry.resources.map(({ id, resource_scopes, consequence }) => ({
      resource_id: id,
      resource_scopes,
      consequence,
      tier: governed.get(id),
    }))
    const fault = tierFault(tier, registered) ?? declaredAllowanceFault(tier)
    if (fault !== undefined) faults.push(`${at}.tiers[${i}].${fault}`)
    for (const id of tier.resources) governed.set(id, governed.get(id) ?? tier.id)
    return tier
  })
}

/** A file declares no allowance, so no tier of a file can name one. */
function declaredAllowanceFault({ rules }: OwnerEntry['tiers'][number]): string | undefined {
  const [named] = allowancesIn(rules)
  return named === undefined
    ? undefined
    : `rules: leave out \`operation.beyond:${named}\`: allowances are the owner's to make, and she names them in her tier.`
}
