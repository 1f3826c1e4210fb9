/**
 * Owns the file of `usher witness`: the authorities whose logs it takes, and the keys of those logs.
 * docs/details/witness.md. Contract: "Events" (row 5).
 */
import { z } from 'zod'
import type { WitnessedIssuer } from '../../rules/ledger/witness.ts'
import { KEYS_MAX } from '../../wire/document-bounds.ts'
import { isOriginIssuer, originBase } from '../../wire/ledger/checkpoint.ts'
import { parseJwks } from '../../wire/signatures/keys.ts'
import { readYamlFile } from '../files.ts'
import { duplicates, issueSentences } from '../issues.ts'
import { ConfigFault, insecureUrlFault } from '../settings.ts'

const NAME = 'UMA_WITNESS_LOGS'
const ORIGINS_MAX = 10_000

const issuer = z.strictObject({
  issuer: z.url().describe('The authority, as its `UMA_AS_ISSUER` says.'),
  log_keys: z
    .array(z.record(z.string(), z.unknown()))
    .min(1)
    .max(KEYS_MAX)
    .describe('The keys of its logs: the public JWKs that it publishes at `/ledger/jwks`.'),
  max_origins: z
    .int()
    .min(1)
    .max(100_000_000)
    .default(ORIGINS_MAX)
    .describe('How many of its logs are taken at most: one for each owner, and one more for each restore.'),
})

/** The schema of the YAML file; descriptions become docs/configuration.md. */
export const WITNESS_FILE = z.strictObject({
  issuers: z.array(issuer).min(1).describe('The authorities whose logs this witness takes.'),
})

/** An authority of the file. */
export interface ListedIssuer extends WitnessedIssuer {
  originsMax: number
}

/** Reads and judges the file. Throws `ConfigFault` listing every fault with its place. */
export function loadWitnessFile(path: string, { devLoopback }: { devLoopback: boolean }): ListedIssuer[] {
  const result = WITNESS_FILE.safeParse(readYamlFile(NAME, path))
  if (!result.success)
    throw new ConfigFault(issueSentences(result.error.issues, { schema: WITNESS_FILE, name: NAME }))
  const entries = result.data.issuers
  const faults = [
    ...entries.flatMap((entry, i) => issuerFaults(entry, `${NAME}: issuers[${i}]`, devLoopback)),
    // Two spellings of one name, such as http and https, would be one log with two sets of keys.
    ...duplicates(entries.map(one => originBase(one.issuer))).map(
      base => `${NAME}: issuers: the logs of ${base} are listed twice.`,
    ),
  ]
  if (faults.length > 0) throw new ConfigFault(faults)
  return entries.map(one => ({
    issuer: one.issuer,
    keys: parseJwks({ keys: one.log_keys }),
    originsMax: one.max_origins,
  }))
}

function issuerFaults(entry: z.output<typeof issuer>, at: string, devLoopback: boolean): string[] {
  const { issuer: address, log_keys } = entry
  const unusable = log_keys.findIndex(jwk => parseJwks({ keys: [jwk] }).length === 0)
  return [
    ...insecureUrlFault(`${at}.issuer`, address, devLoopback),
    ...(new URL(address).origin === address
      ? []
      : [`${at}.issuer: give scheme and authority only, as \`UMA_AS_ISSUER\` of that authority does.`]),
    ...(isOriginIssuer(address) ? [] : [`${at}.issuer: no log has a name with a space or \`+\`.`]),
    ...(unusable < 0
      ? []
      : [`${at}.log_keys[${unusable}]: give a public Ed25519 key, as the authority publishes it.`]),
  ]
}
