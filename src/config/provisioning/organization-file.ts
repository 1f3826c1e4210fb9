/**
 * Owns the provisioning file of `usher organization`: the first charter, the administrators, and the
 * enforcement points that may ask. Contract: "The organization's authority" and "Authentication" (the
 * credential that the organization provisioned for an enforcement point).
 */
import { z } from 'zod'
import { charterFault } from '../../rules/organization/charter.ts'
import { parseCharter, type Charter } from '../../wire/organization/charter.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { administrator, readAdministrators, type ProvisionedAdministrator } from './administrators.ts'
import { readSecretFile, readYamlFile } from '../files.ts'
import { duplicates, issueSentences } from '../issues.ts'
import { faultless, refused, resourceUri } from './provisioned.ts'
import { ConfigFault, insecureUrlFault } from '../settings.ts'

const CREDENTIAL_LENGTH_MIN = 32
/** RFC 6750 §2.1, b64token. */
const CREDENTIAL = /^[A-Za-z0-9\-._~+/]{1,1024}=*$/

const pointResource = z.union([
  resourceUri,
  z.strictObject({
    resource: resourceUri.describe('The RFC 9728 `resource`.'),
    owner: z.string().regex(NAME_PATTERN, 'give the name of an owner').describe('Whose it is.'),
  }),
])

const enforcementPoint = z.strictObject({
  id: z
    .string()
    .regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-"')
    .describe('Its name in records.'),
  resources: z
    .array(pointResource)
    .min(1)
    .max(100_000)
    .describe(
      'The RFC 9728 `resource` of each owner that it enforces: what it may ask about. The last segment of the URL names the owner; write `{resource, owner}` if that is not her name.',
    ),
  jwks_uri: resourceUri
    .optional()
    .describe('URL at which it publishes the keys that it signs with; exactly one of this and the next two.'),
  credential: z
    .string()
    .optional()
    .describe(`The credential that it sends as Bearer, at least ${CREDENTIAL_LENGTH_MIN} random characters.`),
  credential_file: z.string().min(1).optional().describe('File that holds the credential as its only line.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const ORGANIZATION_FILE = z.strictObject({
  charter: z
    .record(z.string(), z.unknown())
    .optional()
    .describe(
      'The first charter, published if there is none yet; later ones are published at `/admin/charter`.',
    ),
  administrators: z
    .array(administrator('UMA_ORG_OIDC_ISSUER'))
    .default([])
    .describe('The administrators, as the file lists them now.'),
  enforcement_points: z
    .array(enforcementPoint)
    .default([])
    .describe('The enforcement points that may ask about members and grants, as the file lists them now.'),
})

/**
 * An enforcement point and what it enforces, as the file says now: by the RFC 9728 `resource` of each owner.
 * It proves itself in exactly one way.
 */
export interface OrganizationPoint {
  id: string
  /** The owner of each resource. */
  resources: ReadonlyMap<string, Owner>
  proof: { kind: 'keys'; jwks_uri: string } | { kind: 'credential'; sha256: Buffer }
}

/** The content of the file, judged as a whole. */
export interface ProvisionedOrganization {
  charter: Charter | undefined
  administrators: ProvisionedAdministrator[]
  enforcementPoints: OrganizationPoint[]
}

/** Reads and judges the file. Throws `ConfigFault` listing every fault with its place. */
export function loadOrganizationFile(path: string, devLoopback: boolean): ProvisionedOrganization {
  const result = ORGANIZATION_FILE.safeParse(readYamlFile('UMA_ORG_PROVISION', path))
  if (!result.success)
    throw new ConfigFault(
      issueSentences(result.error.issues, { schema: ORGANIZATION_FILE, name: 'UMA_ORG_PROVISION' }),
    )
  const { charter: charterValue, administrators: people, enforcement_points: points } = result.data
  const faults: string[] = []
  const charter = charterValue && refused(() => parseCharter(charterValue), faults)
  const meaning = charter && charterFault(charter)
  if (meaning !== undefined) faults.push(`${meaning}.`)
  const administrators = readAdministrators(people, faults)
  const enforcementPoints = readPoints(points, { faults, devLoopback })
  if (faults.length > 0) throw new ConfigFault(faults)
  return { charter, administrators, enforcementPoints }
}

interface OrganizationFileContext {
  faults: string[]
  devLoopback: boolean
}

function readPoints(entries: readonly PointEntry[], reading: OrganizationFileContext): OrganizationPoint[] {
  const points = entries.flatMap((point, i) => readPoint(point, `enforcement_points[${i}]`, reading) ?? [])
  const credentials = points.flatMap(({ proof }) =>
    proof.kind === 'credential' ? [proof.sha256.toString('hex')] : [],
  )
  reading.faults.push(
    ...duplicates(entries.map(({ id }) => id)).map(id => `enforcement_points: ${id} is listed twice.`),
    ...duplicates(entries.flatMap(({ jwks_uri }) => jwks_uri ?? [])).map(
      uri => `enforcement_points: ${uri} is listed twice; one set of keys is one enforcement point.`,
    ),
    ...(duplicates(credentials).length > 0
      ? ['enforcement_points: a credential is listed twice; each has one of its own.']
      : []),
  )
  return points
}

type PointEntry = z.output<typeof enforcementPoint>

function readPoint(
  entry: PointEntry,
  at: string,
  reading: OrganizationFileContext,
): OrganizationPoint | undefined {
  const { faults, devLoopback } = reading
  const { id, jwks_uri } = entry
  const resources = entry.resources.map(one =>
    typeof one === 'string' ? { resource: one, owner: one.slice(one.lastIndexOf('/') + 1) } : one,
  )
  const urls = resources.map(({ resource }) => resource)
  faults.push(
    ...duplicates(urls).map(resource => `${at}.resources: ${resource} is listed twice.`),
    ...[...urls, ...(jwks_uri === undefined ? [] : [jwks_uri])].flatMap(url =>
      insecureUrlFault(at, url, devLoopback),
    ),
    ...resources
      .filter(({ owner }) => !NAME_PATTERN.test(owner))
      .map(
        ({ resource }) =>
          `${at}.resources: ${resource} does not end with the name of an owner; write {resource, owner}.`,
      ),
  )
  const proof = readProof(entry, at, faults)
  if (proof === undefined) return undefined
  return { id, resources: new Map(resources.map(({ resource, owner }) => [resource, asOwner(owner)])), proof }
}

function readProof(
  { jwks_uri, credential, credential_file }: PointEntry,
  at: string,
  faults: string[],
): OrganizationPoint['proof'] | undefined {
  if ([jwks_uri, credential, credential_file].filter(one => one !== undefined).length !== 1) {
    faults.push(`${at}: give exactly one of jwks_uri, credential and credential_file.`)
    return undefined
  }
  if (jwks_uri !== undefined) return { kind: 'keys', jwks_uri }
  const name = `${at}.credential_file`
  const secret = credential ?? faultless(() => readSecretFile(name, credential_file!), faults)
  if (secret === undefined) return undefined
  // It is stored as a plain SHA-256, so it must be too random to guess; and it is sent unchanged, in a header
  // field.
  if (secret.length >= CREDENTIAL_LENGTH_MIN && CREDENTIAL.test(secret))
    return { kind: 'credential', sha256: sha256(secret) }
  faults.push(
    `${at}: the credential must be ${CREDENTIAL_LENGTH_MIN} to 1024 of the characters A-Z a-z 0-9 - . _ ~ + /, made at random.`,
  )
  return undefined
}
