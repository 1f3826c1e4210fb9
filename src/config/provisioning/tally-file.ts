/**
 * Owns the provisioning file of `usher tally`: the accounts it counts for, the holders of each with their
 * weights, and the resources that are registered below it. Contract: "Tally for a jointly held resource" and
 * "Authentication" (resource server at the token endpoint).
 */
import { z } from 'zod'
import { mandateDocument } from '../../rules/joint/mandate-document.ts'
import { mandateFault } from '../../rules/joint/mandate.ts'
import { CONSEQUENCES } from '../../rules/permission.ts'
import { MANDATE_BYTES_MAX, RESOURCES_MAX } from '../../wire/document-bounds.ts'
import { parseMandate, type Mandate } from '../../wire/joint/mandate.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { isBelow } from '../../wire/resources/owner-resources.ts'
import { readYamlFile } from '../files.ts'
import { duplicates, issueSentences } from '../issues.ts'
import {
  label,
  refused,
  resourceUri,
  scope,
  secretDigest,
  serverId,
  serverSecret,
  visible,
} from './provisioned.ts'
import { ConfigFault, insecureUrlFault } from '../settings.ts'

const consequence = z.enum(CONSEQUENCES)

const resourceServer = z.strictObject({
  client_id: serverId,
  ...serverSecret,
  resource_uri: resourceUri.describe(
    'The RFC 9728 `resource` that it serves: the `aud` of every grant it may introspect.',
  ),
})

const resource = z.strictObject({
  id: visible(256).describe('Its id, `<account>/…`, as the resource server names it.'),
  client_id: visible(255).describe('The resource server that publishes it.'),
  name: label(200).describe('The name that holders see.'),
  type: visible(400).optional().describe('Its kind.'),
  resource_scopes: z.array(scope).min(1).max(50).describe('Scopes that can be asked for.'),
  consequence: consequence.optional().describe('Class of its gravest operation; left out = undescribed.'),
  tools: z
    .record(z.string(), consequence)
    .optional()
    .describe('Classes by tool, if they differ within the resource.'),
})

const account = z.strictObject({
  account: z
    .string()
    .regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit')
    .describe('Its name: part of every resource id and template id.'),
  resources: z
    .array(z.string())
    .describe('Patterns of the ids of jointly held resources; each begins with the account.'),
  holders: z
    .array(
      z.strictObject({
        owner: z.string().describe('By which name her authorization server knows her.'),
        issuer: z.string().describe('That authorization server, which signs for her.'),
        weight: z.int().describe('How much she counts, 1 to 1000.'),
      }),
    )
    .describe('The holders, who decide: 2 to 16.'),
  rule: z
    .strictObject({
      kind: z.enum(['all', 'any', 'threshold']).describe('Who must allow.'),
      threshold: z.int().optional().describe('The weight that it takes; left out for `all` and `any`.'),
    })
    .describe('How many it takes.'),
  resource_servers: z.array(resourceServer).default([]).describe('Resource servers with protection access.'),
  registered: z.array(resource).default([]).describe('Resources that can be asked for.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const TALLY_FILE = z.strictObject({
  accounts: z.array(account).min(1).describe('The accounts that this tally counts for.'),
})

type AccountEntry = z.output<typeof account>

/** One account, judged as a whole; secrets are already hashed (SHA-256). */
export interface ProvisionedAccount {
  mandate: Mandate
  resource_servers: { client_id: string; resource_uri: string; secret_sha256: Buffer }[]
  registered: AccountEntry['registered']
}

interface TallyFileContext {
  issuer: string
  devLoopback: boolean
  faults: string[]
}

/** Reads and judges the file. Throws `ConfigFault` listing every fault with its place. */
export function loadTallyFile(path: string, of: Omit<TallyFileContext, 'faults'>): ProvisionedAccount[] {
  const result = TALLY_FILE.safeParse(readYamlFile('UMA_TALLY_PROVISION', path))
  if (!result.success)
    throw new ConfigFault(
      issueSentences(result.error.issues, { schema: TALLY_FILE, name: 'UMA_TALLY_PROVISION' }),
    )
  const entries = result.data.accounts
  const reading: TallyFileContext = { issuer: of.issuer, devLoopback: of.devLoopback, faults: [] }
  const accounts = entries.flatMap((entry, i) => readAccount(entry, `accounts[${i}]`, reading))
  reading.faults.push(
    ...duplicates(entries.map(one => one.account)).map(name => `accounts: ${name} is listed twice.`),
  )
  if (reading.faults.length > 0) throw new ConfigFault(reading.faults)
  return accounts
}

function readAccount(entry: AccountEntry, at: string, reading: TallyFileContext): ProvisionedAccount[] {
  const { resource_servers, registered } = entry
  reading.faults.push(...listFaults(entry, at))
  const mandate = readMandate(entry, at, reading)
  const servers = resource_servers.flatMap((one, i) =>
    readServer(one, `${at}.resource_servers[${i}]`, reading),
  )
  if (mandate === undefined) return []
  reading.faults.push(...sizeFaults(mandate, registered, at))
  return [{ mandate, resource_servers: servers, registered }]
}

/** Holders' servers and sidecars read the mandate with what is registered, as one document. */
function sizeFaults(mandate: Mandate, registered: AccountEntry['registered'], at: string): string[] {
  const listed = registered.map(({ id, ...rest }) => ({ ...rest, resource_id: id }))
  const bytes = Buffer.byteLength(JSON.stringify(mandateDocument(mandate, listed)))
  if (bytes <= MANDATE_BYTES_MAX && registered.length <= RESOURCES_MAX) return []
  const counts = `${registered.length} resources in ${bytes} bytes`
  return [
    `${at}.registered: keep it within ${RESOURCES_MAX} resources, and the account's document within ${MANDATE_BYTES_MAX} bytes: it has ${counts}, and nobody would read that.`,
  ]
}

function readMandate(
  entry: AccountEntry,
  at: string,
  { issuer, faults }: TallyFileContext,
): Mandate | undefined {
  const { account: name, resources, holders, rule } = entry
  const mandate = refused(
    () => parseMandate({ account: name, tally: issuer, resources, holders, rule }),
    faults,
    `${at}: `,
  )
  const fault = mandate && mandateFault(mandate)
  if (fault !== undefined) faults.push(`${at}.${fault}.`)
  return mandate
}

function listFaults({ account: name, resource_servers, registered }: AccountEntry, at: string): string[] {
  const servers = resource_servers.map(({ client_id }) => client_id)
  const ids = registered.map(({ id }) => id)
  return [
    ...duplicates(servers).map(one => `${at}.resource_servers: ${one} is listed twice.`),
    ...duplicates(ids).map(one => `${at}.registered: ${one} is listed twice.`),
    ...registered.flatMap(({ id, client_id }, i) => [
      ...(isBelow(id, [name])
        ? []
        : [`${at}.registered[${i}].id: it must start with ${name}/, and continue.`]),
      ...(servers.includes(client_id)
        ? []
        : [`${at}.registered[${i}].client_id: no resource server ${client_id} is listed for ${name}.`]),
    ]),
  ]
}

function readServer(
  entry: z.output<typeof resourceServer>,
  at: string,
  { faults, devLoopback }: TallyFileContext,
): ProvisionedAccount['resource_servers'] {
  const { client_id, resource_uri } = entry
  faults.push(...insecureUrlFault(`${at}.resource_uri`, resource_uri, devLoopback))
  const secret_sha256 = secretDigest(entry, at, faults)
  return secret_sha256 === undefined ? [] : [{ client_id, resource_uri, secret_sha256 }]
}
