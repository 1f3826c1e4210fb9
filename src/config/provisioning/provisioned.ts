/**
 * Owns what the provisioning files of servers have in common: the form of texts, a resource server with its
 * secret, and the rule that one fault hides no other. Contract: "Authentication" (resource server at the
 * token endpoint).
 */
import { z } from 'zod'
import { sha256 } from '../../wire/encoding.ts'
import { Refusal } from '../../wire/refusal.ts'
import { readSecretFile } from '../files.ts'
import { ConfigFault, isPlainUrl, plainUrlWords } from '../settings.ts'

const SECRET_LENGTH_MIN = 16

/** Text that is shown to a person. */
export const label = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*$/u, 'give text without control characters')
    .regex(/\S/, 'give text that shows something')
export const visible = (max: number) =>
  z
    .string()
    .regex(new RegExp(`^[\\x21-\\x7e]{1,${max}}$`), `give 1 to ${max} visible ASCII characters, no spaces`)
export const scope = z
  .string()
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'give a scope of visible ASCII, no spaces, `"` or `\\`')
export const resourceUri = z
  .string()
  .max(2048)
  .refine(isPlainUrl, { error: ({ input }) => plainUrlWords(input) })

/** The name of a resource server, and the secret by which it proves itself. */
export const serverId = visible(255).describe('What it authenticates as at `/token`.')
export const serverSecret = {
  client_secret: z
    .string()
    .optional()
    .describe(
      `Its secret, at least ${SECRET_LENGTH_MIN} random characters; exactly one of this and the next.`,
    ),
  client_secret_file: z.string().min(1).optional().describe('File that holds the secret as its only line.'),
}

/**
 * The SHA-256 under which a resource server's secret is stored; undefined, with one more fault, if the secret
 * is missing or too weak.
 */
export function secretDigest(
  entry: { client_secret?: string | undefined; client_secret_file?: string | undefined },
  at: string,
  faults: string[],
): Buffer | undefined {
  const { client_secret, client_secret_file: file } = entry
  if ((client_secret === undefined) === (file === undefined)) {
    faults.push(`${at}: give exactly one of client_secret and client_secret_file.`)
    return undefined
  }
  const secret = client_secret ?? faultless(() => readSecretFile(`${at}.client_secret_file`, file!), faults)
  if (secret === undefined) return undefined
  // Stored as a plain SHA-256, so it must be too random to guess: a password would not do.
  if (secret.length >= SECRET_LENGTH_MIN && /^[\x20-\x7e]{1,1024}$/.test(secret)) return sha256(secret)
  faults.push(
    `${at}: the secret must be ${SECRET_LENGTH_MIN} to 1024 printable ASCII characters, made at random.`,
  )
  return undefined
}

/** The result of `read`; undefined, with its faults added, if the configuration is faulty. */
export function faultless<T>(read: () => T, faults: string[]): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error
    faults.push(...error.faults)
    return undefined
  }
}

/** The result of `read`; undefined, with one more fault that begins with `at`, if it is refused. */
export function refused<T>(read: () => T, faults: string[], at = ''): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    faults.push(`${at}${error.detail ?? error.message}`)
    return undefined
  }
}
