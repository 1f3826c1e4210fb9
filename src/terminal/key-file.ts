/**
 * Owns private keys in files: one JWK per file, which only its user can read. Contract: "Authentication": the
 * agent's key and the owner's device key never leave the machine of their holder.
 */
import { mkdir, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ExposedFile, readPrivateFile } from '../files/private-file.ts'
import { parseJson, parseJsonObject } from '../wire/json.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../wire/signatures/keys.ts'
import {
  generateNotificationJwk,
  importNotificationKey,
  type NotificationKey,
} from '../wire/owner/notification-key.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { UsageError } from './command.ts'

/**
 * The private key in a file. A file that is missing, open to others or no Ed25519 JWK is a `UsageError` that
 * says what to do.
 */
export async function readKeyFile(path: string, makeWith: string): Promise<PrivateKey> {
  const bytes = await readKeyBytes(path, makeWith)
  return usable(path, () => importPrivateJwk(parseJson(bytes)))
}

/** The private keys in a file such as `writeNewKeySet` makes, in its order; throws like `readKeyFile`. */
export async function readKeySet(path: string): Promise<PrivateKey[]> {
  const bytes = await readKeyBytes(path, `usher keys new ${path}`)
  return usable(path, () => {
    const { keys } = parseJsonObject(bytes)
    if (!Array.isArray(keys) || keys.length === 0)
      refuse('invalid_request', 'it is no {"keys": [private JWK, …]}.')
    return keys.map(jwk => importPrivateJwk(jwk))
  })
}

async function readKeyBytes(path: string, makeWith: string): Promise<Buffer> {
  try {
    return await readPrivateFile(path)
  } catch (cause) {
    if (cause instanceof ExposedFile) throw new UsageError(`The key is not used: ${cause.message}`, { cause })
    const { code } = cause as NodeJS.ErrnoException
    const why =
      code === 'ENOENT'
        ? `There is no key at ${path}. Make one with: ${makeWith}`
        : `The key at ${path} cannot be read (${code}). Let this user read that file.`
    throw new UsageError(why, { cause })
  }
}

function usable<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`${path} holds no usable private key: ${cause.detail ?? cause.code}`, { cause })
  }
}

/**
 * Makes a key and writes it to a new file; refuses to overwrite an existing one, because a key is an
 * identity.
 */
export async function writeNewKey(path: string): Promise<PrivateKey> {
  const jwk = generatePrivateJwk()
  await writeNew(path, jwk)
  return importPrivateJwk(jwk)
}

/**
 * The same of a server's signing key, as `UMA_AS_KEYS_FILE` and its like take it: a set of one, to which
 * others are added.
 */
export async function writeNewKeySet(path: string): Promise<PrivateKey> {
  const jwk = generatePrivateJwk()
  await writeNew(path, { keys: [jwk] })
  return importPrivateJwk(jwk)
}

/** The same of the key by which an authority notifies owners. */
export async function writeNewNotificationKey(path: string): Promise<NotificationKey> {
  const jwk = generateNotificationJwk()
  await writeNew(path, jwk)
  return importNotificationKey(jwk)
}

async function writeNew(path: string, content: object): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(path, 'wx', 0o600).catch((cause: unknown) => {
    throw new UsageError(`${path} cannot be written, or is there already; a key is never written over.`, {
      cause,
    })
  })
  try {
    await file.writeFile(`${JSON.stringify(content, null, 2)}\n`)
    await file.sync()
  } catch (cause) {
    // Half a key would be in the way of a whole one.
    await rm(path, { force: true })
    const { code } = cause as NodeJS.ErrnoException
    throw new UsageError(`${path} cannot be written whole (${code}): make room there.`, { cause })
  } finally {
    await file.close()
  }
}
