/**
 * Owns how the provisioning file says that a resource server proves itself: by a secret, or by keys of its
 * own, so that nothing secret is copied and nothing is fetched from the server. Contract: "Authentication"
 * (resource server at the token endpoint).
 */
import { z } from 'zod'
import { KEYS_MAX } from '../../wire/document-bounds.ts'
import { isJsonObject, jsonIn } from '../../wire/json.ts'
import { importPublicJwk, publicJwk, type PublicJwk } from '../../wire/signatures/keys.ts'
import { readFile } from '../files.ts'
import { duplicates } from '../issues.ts'
import { faultless, refused, secretDigest, serverSecret, visible } from './provisioned.ts'

const keyId = visible(200)

export const serverProof = {
  client_secret: serverSecret.client_secret.describe(
    'Its secret, at least 16 random characters; exactly one of this and the next three.',
  ),
  client_secret_file: serverSecret.client_secret_file,
  jwks: z
    .strictObject({
      keys: z
        .array(z.record(z.string(), z.unknown()))
        .min(1)
        .max(KEYS_MAX)
        .describe('Public Ed25519 keys, as JWKs; `usher keys new` prints the one that it makes.'),
    })
    .optional()
    .describe(
      'The keys with which it signs its requests, in place of a secret (`signature: true` in the sidecar’s file). Nothing is fetched from it for that, wherever it is.',
    ),
  jwks_file: z
    .string()
    .min(1)
    .optional()
    .describe('File with such keys, `{"keys": [public JWK, …]}`, as the sidecar serves them at `/jwks`.'),
}

interface ProofEntry {
  client_secret?: string | undefined
  client_secret_file?: string | undefined
  jwks?: { keys: Record<string, unknown>[] } | undefined
  jwks_file?: string | undefined
}

/** By the SHA-256 of its secret, or by one of these keys, as they are stored. */
export type ProvisionedProof =
  | { secret_sha256: Buffer; client_keys?: undefined }
  | { secret_sha256: null; client_keys: PublicJwk[] }

/** How it proves itself; undefined, with one more fault, if the entry does not say it in exactly one way. */
export function readServerProof(
  entry: ProofEntry,
  at: string,
  faults: string[],
): ProvisionedProof | undefined {
  const { client_secret, client_secret_file, jwks, jwks_file: file } = entry
  const ways = [client_secret, client_secret_file, jwks, file].filter(one => one !== undefined)
  if (ways.length !== 1) {
    faults.push(`${at}: give exactly one of client_secret, client_secret_file, jwks and jwks_file.`)
    return undefined
  }
  if (jwks !== undefined) return keysProof(jwks.keys, `${at}.jwks`, faults)
  if (file !== undefined) {
    const keys = faultless(() => readKeySet(`${at}.jwks_file`, file, faults), faults)
    return keys === undefined ? undefined : keysProof(keys, `${at}.jwks_file`, faults)
  }
  const secret_sha256 = secretDigest(entry, at, faults)
  return secret_sha256 === undefined ? undefined : { secret_sha256 }
}

function readKeySet(name: string, path: string, faults: string[]): unknown[] | undefined {
  const set = jsonIn(readFile(name, path))
  const keys = isJsonObject(set) ? set['keys'] : undefined
  if (Array.isArray(keys) && keys.length > 0 && keys.length <= KEYS_MAX) return keys
  faults.push(`${name}: ${path} must be {"keys": [public JWK, …]}, with 1 to ${KEYS_MAX} keys.`)
  return undefined
}

/** A key that cannot be used is a fault of the file, because a mistyped key is nobody's. */
function keysProof(keys: readonly unknown[], at: string, faults: string[]): ProvisionedProof | undefined {
  const before = faults.length
  const client_keys = keys.flatMap((jwk, i) => readKey(jwk, `${at}.keys[${i}]`, faults))
  const kids = new Map(client_keys.map(({ x, kid }) => [x, kid]))
  faults.push(
    ...duplicates(client_keys.map(({ x }) => x)).map(x => `${at}: the key with the x ${x} is listed twice.`),
    ...duplicates([...kids.values()]).map(
      kid => `${at}: two keys have the kid ${kid}; a signature must name one key.`,
    ),
  )
  return faults.length > before ? undefined : { secret_sha256: null, client_keys }
}

function readKey(jwk: unknown, at: string, faults: string[]): (PublicJwk & { kid: string })[] {
  if (isJsonObject(jwk) && Object.hasOwn(jwk, 'd')) {
    faults.push(
      `${at}: it is a private key, which stays with the sidecar. Give its public half, which \`usher keys new\` printed and the sidecar serves at /jwks.`,
    )
    return []
  }
  const key = refused(() => importPublicJwk(jwk), faults, `${at}: `)
  if (key === undefined) return []
  const kid = keyId.safeParse((jwk as { kid?: unknown }).kid ?? key.thumbprint)
  if (kid.success) return [publicJwk(key, kid.data)]
  faults.push(`${at}.kid: give 1 to 200 visible ASCII characters, no spaces, or leave it out.`)
  return []
}
