/**
 * Owns the provisioning file of `usher organization`: the first charter, who administers, and which
 * enforcement points may ask. Contract: "The organization's authority" and "Authentication" (the credential
 * that the organization provisioned for an enforcement point).
 */
import { z } from 'zod'
import { charterFault } from '../rules/charter.ts'
import { parseCharter, type Charter } from '../wire/charter.ts'
import { sha256 } from '../wire/encoding.ts'
import { asOwner, type Owner } from '../wire/identifiers.ts'
import { importPublicJwk, type PublicKey } from '../wire/keys.ts'
import { NAME_PATTERN } from '../wire/names.ts'
import { Refusal } from '../wire/refusal.ts'
import { readSecretFile, readYamlFile } from './files.ts'
import { duplicates, issueSentence } from './issues.ts'
import { ConfigFault, insecureUrlFault, isPlainUrl } from './settings.ts'

const CREDENTIAL_LENGTH_MIN = 32
/** RFC 6750 §2.1, b64token. */
const CREDENTIAL = /^[A-Za-z0-9\-._~+/]{1,1024}=*$/

const name = z
  .string()
  .max(100)
  .regex(/^(?=.*\S)\P{Cc}+$/u, 'give text that shows something, without control characters')

const administrator = z.strictObject({
  name: name.describe('Under which name members and the record are told of what is done.'),
  device_keys: z
    .array(z.record(z.string(), z.unknown()))
    .default([])
    .describe('Public Ed25519 keys, as JWKs, whose signatures are taken.'),
  subjects: z
    .array(z.string().min(1).max(255))
    .default([])
    .describe('Who he is at the realm of `UMA_ORG_OIDC_ISSUER`: the `sub` of his access tokens.'),
})

const resourceUrl = z
  .string()
  .max(2048)
  .refine(isPlainUrl, 'give an absolute URL without userinfo, query, fragment or trailing slash')

const pointResource = z.union([
  resourceUrl,
  z.strictObject({
    resource: resourceUrl.describe('The RFC 9728 `resource`.'),
    owner: z.string().regex(NAME_PATTERN, 'give the name of an owner').describe('Whose it is.'),
  }),
])

const enforcementPoint = z.strictObject({
  id: z
    .string()
    .regex(NAME_PATTERN, 'give 1 to 64 letters, digits, ".", "_" or "-"')
    .describe('What records call it.'),
  resources: z
    .array(pointResource)
    .min(1)
    .max(100_000)
    .describe(
      'The RFC 9728 `resource` of each owner that it enforces: what it may ask about. Whose it is says the last segment of the URL; write `{resource, owner}` where that is not her name.',
    ),
  jwks_uri: resourceUrl
    .optional()
    .describe('Where it publishes the keys that it signs with; exactly one of this and the next two.'),
  credential: z
    .string()
    .optional()
    .describe(`What it sends as Bearer, at least ${CREDENTIAL_LENGTH_MIN} random characters.`),
  credential_file: z.string().min(1).optional().describe('File that holds the credential as its only line.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const ORGANIZATION_FILE = z.strictObject({
  charter: z
    .record(z.string(), z.unknown())
    .optional()
    .describe(
      'The first charter, published where there is none yet; later ones are published at `/admin/charter`.',
    ),
  administrators: z
    .array(administrator)
    .default([])
    .describe('Who may use the administration: as the file says now.'),
  enforcement_points: z
    .array(enforcementPoint)
    .default([])
    .describe('Who may ask about members and grants, as the file says now.'),
})

/** Somebody who may use the administration. */
export interface Administrator {
  name: string
  keys: PublicKey[]
  subjects: string[]
}

/** Who enforces, and what: by the RFC 9728 `resource` of each owner. It proves itself in exactly one way. */
export interface EnforcementPoint {
  id: string
  /** Whose each resource is. */
  resources: ReadonlyMap<string, Owner>
  proof: { kind: 'keys'; jwks_uri: string } | { kind: 'credential'; sha256: Buffer }
}

/** What the file declares, judged as a whole. */
export interface ProvisionedOrganization {
  charter: Charter | undefined
  administrators: Administrator[]
  enforcementPoints: EnforcementPoint[]
}

/** Reads and judges the file. Throws `ConfigFault` listing every fault with its place. */
export function loadOrganizationFile(path: string, devLoopback: boolean): ProvisionedOrganization {
  const result = ORGANIZATION_FILE.safeParse(readYamlFile('UMA_ORG_PROVISION', path))
  if (!result.success) throw new ConfigFault(result.error.issues.map(issueSentence))
  const { charter: given, administrators: people, enforcement_points: points } = result.data
  const faults: string[] = []
  const charter = given && refused(() => parseCharter(given), faults)
  const meaning = charter && charterFault(charter)
  if (meaning !== undefined) faults.push(`${meaning}.`)
  const administrators = people.map((person, i) => ({
    name: person.name,
    subjects: person.subjects,
    keys: person.device_keys.flatMap(
      (jwk, k) =>
        refused(() => [importPublicJwk(jwk)], faults, `administrators[${i}].device_keys[${k}]: `) ?? [],
    ),
  }))
  const twice = (what: string, names: string[]) =>
    faults.push(...duplicates(names).map(one => `${what}: ${one} stands twice.`))
  twice(
    'administrators',
    people.map(person => person.name),
  )
  twice(
    'device_keys',
    administrators.flatMap(({ keys }) => keys.map(key => key.thumbprint)),
  )
  twice(
    'subjects',
    people.flatMap(({ subjects }) => subjects),
  )
  const enforcementPoints = readPoints(points, { faults, devLoopback })
  if (faults.length > 0) throw new ConfigFault(faults)
  return { charter, administrators, enforcementPoints }
}

interface Reading {
  faults: string[]
  devLoopback: boolean
}

function readPoints(given: readonly GivenPoint[], reading: Reading): EnforcementPoint[] {
  const points = given.flatMap((point, i) => readPoint(point, `enforcement_points[${i}]`, reading) ?? [])
  const credentials = points.flatMap(({ proof }) =>
    proof.kind === 'credential' ? [proof.sha256.toString('hex')] : [],
  )
  reading.faults.push(
    ...duplicates(given.map(({ id }) => id)).map(id => `enforcement_points: ${id} stands twice.`),
    ...duplicates(given.flatMap(({ jwks_uri }) => jwks_uri ?? [])).map(
      uri => `enforcement_points: ${uri} stands twice; one set of keys is one enforcement point.`,
    ),
    ...(duplicates(credentials).length > 0
      ? ['enforcement_points: a credential stands twice; each has one of its own.']
      : []),
  )
  return points
}

type GivenPoint = z.output<typeof enforcementPoint>

function readPoint(given: GivenPoint, at: string, reading: Reading): EnforcementPoint | undefined {
  const { faults, devLoopback } = reading
  const { id, jwks_uri } = given
  const resources = given.resources.map(one =>
    typeof one === 'string' ? { resource: one, owner: one.slice(one.lastIndexOf('/') + 1) } : one,
  )
  const urls = resources.map(({ resource }) => resource)
  faults.push(
    ...duplicates(urls).map(resource => `${at}.resources: ${resource} stands twice.`),
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
  const proof = readProof(given, at, faults)
  if (proof === undefined) return undefined
  return { id, resources: new Map(resources.map(({ resource, owner }) => [resource, asOwner(owner)])), proof }
}

function readProof(
  { jwks_uri, credential, credential_file }: GivenPoint,
  at: string,
  faults: string[],
): EnforcementPoint['proof'] | undefined {
  if ([jwks_uri, credential, credential_file].filter(one => one !== undefined).length !== 1) {
    faults.push(`${at}: give exactly one of jwks_uri, credential and credential_file.`)
    return undefined
  }
  if (jwks_uri !== undefined) return { kind: 'keys', jwks_uri }
  const name = `${at}.credential_file`
  const secret = credential ?? faultless(() => readSecretFile(name, credential_file!), faults)
  if (secret === undefined) return undefined
  // Kept as a plain SHA-256, so it must be too random to guess; and it is sent as it is, in a header field.
  if (secret.length >= CREDENTIAL_LENGTH_MIN && CREDENTIAL.test(secret))
    return { kind: 'credential', sha256: sha256(secret) }
  faults.push(
    `${at}: the credential must be ${CREDENTIAL_LENGTH_MIN} to 1024 of the characters A-Z a-z 0-9 - . _ ~ + /, made at random.`,
  )
  return undefined
}

function faultless<T>(read: () => T, faults: string[]): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error
    faults.push(...error.faults)
    return undefined
  }
}

function refused<T>(read: () => T, faults: string[], at = ''): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    faults.push(`${at}${error.detail ?? error.message}`)
    return undefined
  }
}
