/**
 * Owns how files name administrators: as people with device keys, or with logins of a realm. Contract:
 * "Authentication".
 */
import { z } from 'zod'
import { importPublicJwk, type PublicKey } from '../../wire/signatures/keys.ts'
import { readYamlFile } from '../files.ts'
import { duplicates, issueSentences } from '../issues.ts'
import { refused } from './provisioned.ts'
import { ConfigFault } from '../settings.ts'

const name = z
  .string()
  .max(100)
  .regex(/^(?=.*\S)\P{Cc}+$/u, 'give text that shows something, without control characters')

/** One administrator; `realm` is the setting that names the issuer of his tokens. */
export const administrator = (realm: string) =>
  z.strictObject({
    name: name.describe('The name that members and the record see beside each act.'),
    device_keys: z
      .array(z.record(z.string(), z.unknown()))
      .default([])
      .describe('Public Ed25519 keys, as JWKs, whose signatures are taken.'),
    subjects: z
      .array(z.string().min(1).max(255))
      .default([])
      .describe(`His \`sub\` in access tokens of the realm of \`${realm}\`.`),
  })

/** Somebody who may use an administration. */
export interface ProvisionedAdministrator {
  name: string
  keys: PublicKey[]
  subjects: string[]
}

/** Reads them; faults are added to `faults`, each with its place. */
export function readAdministrators(
  people: readonly z.output<ReturnType<typeof administrator>>[],
  faults: string[],
): ProvisionedAdministrator[] {
  const administrators = people.map((person, i) => ({
    name: person.name,
    subjects: person.subjects,
    keys: person.device_keys.flatMap((jwk, k) =>
      readKey(jwk, `administrators[${i}].device_keys[${k}]: `, faults),
    ),
  }))
  const twice = (what: string, names: string[]) =>
    faults.push(...duplicates(names).map(one => `${what}: ${one} is listed twice.`))
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
  return administrators
}

function readKey(jwk: Record<string, unknown>, at: string, faults: string[]): PublicKey[] {
  const key = refused(() => importPublicJwk(jwk), faults, at)
  return key === undefined ? [] : [key]
}

/** The file that `UMA_AS_ADMINISTRATORS` names; descriptions become docs/configuration.md. */
export const ADMINISTRATORS_FILE = z.strictObject({
  administrators: z
    .array(administrator('UMA_AS_ADMIN_OIDC_ISSUER'))
    .min(1)
    .describe(
      'The administrators who may add, suspend and remove owners, as the file lists them at the start.',
    ),
})

/** Reads and judges that file. Throws `ConfigFault` listing every fault with its place. */
export function loadAdministratorsFile(path: string): ProvisionedAdministrator[] {
  const of = { schema: ADMINISTRATORS_FILE, name: 'UMA_AS_ADMINISTRATORS' }
  const result = ADMINISTRATORS_FILE.safeParse(readYamlFile(of.name, path))
  if (!result.success) throw new ConfigFault(issueSentences(result.error.issues, of))
  const faults: string[] = []
  const administrators = readAdministrators(result.data.administrators, faults)
  if (faults.length > 0) throw new ConfigFault(faults)
  return administrators
}
