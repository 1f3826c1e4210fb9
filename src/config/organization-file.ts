/**
 * Owns the provisioning file of `usher organization`: the first charter, and who administers. contract, "The organization's
 * authority".
 */
import { z } from 'zod'
import { charterFault } from '../rules/charter.ts'
import { parseCharter, type Charter } from '../wire/charter.ts'
import { importPublicJwk, type PublicKey } from '../wire/keys.ts'
import { Refusal } from '../wire/refusal.ts'
import { readYamlFile } from './files.ts'
import { duplicates, issueSentence } from './issues.ts'
import { ConfigFault } from './settings.ts'

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
})

/** Somebody who may use the administration. */
export interface Administrator {
  name: string
  keys: PublicKey[]
  subjects: string[]
}

/** What the file declares, judged as a whole. */
export interface ProvisionedOrganization {
  charter: Charter | undefined
  administrators: Administrator[]
}

/** Reads and judges the file. Throws `ConfigFault` listing every fault with its place. */
export function loadOrganizationFile(path: string): ProvisionedOrganization {
  const result = ORGANIZATION_FILE.safeParse(readYamlFile('UMA_ORG_PROVISION', path))
  if (!result.success) throw new ConfigFault(result.error.issues.map(issueSentence))
  const { charter: given, administrators: people } = result.data
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
  if (faults.length > 0) throw new ConfigFault(faults)
  return { charter, administrators }
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
