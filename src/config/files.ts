/**
 * Owns reading the files that a configuration names. Contract: "Authentication": keys and secrets come from
 * files, and a file that cannot be used stops the start.
 */
import { accessSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parse, YAMLParseError } from 'yaml'
import { ExposedFile, readPrivateFileSync } from '../files/private-file.ts'
import { KEYS_MAX } from '../wire/document-bounds.ts'
import { parseJsonObject } from '../wire/json.ts'
import { importPrivateJwk, type PrivateKey, type SigningAlg } from '../wire/signatures/keys.ts'
import { importNotificationKey, type NotificationKey } from '../wire/owner/notification-key.ts'
import { NOT_UTF8, utf8Text } from '../wire/utf8-text.ts'
import { certificateFault } from '../http/servers/certificates.ts'
import { ConfigFault } from './settings.ts'

const READ_REMEDIES: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'There is no such file: correct the path, or make it.'],
  ['EACCES', 'Let the user of this process read it.'],
  ['EISDIR', 'That is a folder: give the file in it.'],
])

/** The bytes of a file. Throws `ConfigFault` naming the setting when it cannot be read. */
export function readFile(name: string, path: string, read: (path: string) => Buffer = readFileSync): Buffer {
  try {
    return read(path)
  } catch (error) {
    if (error instanceof ExposedFile) throw new ConfigFault([`${name}: ${error.message}`])
    const { code = 'unreadable' } = error as NodeJS.ErrnoException
    const remedy = READ_REMEDIES.get(code) ?? 'Give a file that this process may read.'
    // A path that begins elsewhere than its writer meant is seen by its beginning.
    throw new ConfigFault([`${name}: cannot read ${resolve(path)} (${code}). ${remedy}`])
  }
}

/**
 * The bytes of a file that holds a private key or a secret; one that is open to others is a fault as well.
 */
function readPrivate(name: string, path: string): Buffer {
  return readFile(name, path, readPrivateFileSync)
}

/**
 * Makes a directory if it is missing; a check creates nothing, but tests whether it could. Throws
 * `ConfigFault` naming the setting when it cannot be written.
 */
export function checkDirectory(name: string, path: string, { make = true }: { make?: boolean } = {}): void {
  try {
    if (make) mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(make ? path : nearestThere(resolve(path)), constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new ConfigFault([
      `${name}: cannot write in ${path} (${(error as NodeJS.ErrnoException).code ?? 'unwritable'}). Give a directory that this process may write.`,
    ])
  }
}

/** The folder itself, or the first existing one above it. */
function nearestThere(path: string): string {
  return existsSync(path) ? path : nearestThere(dirname(path))
}

/** Certificates or keys in PEM by their use: as they were read, with their paths for reading them again. */
export interface NamedCertificates<K extends string> {
  initial: Record<K, Buffer>
  files: Record<K, string>
}

/**
 * Reads each file, given as the name of the setting and the path; `key` is the private one. Throws
 * `ConfigFault`, which lists those that cannot be read, or names those that cannot be used together.
 */
export function readCertificates<K extends string>(
  named: Record<K, [name: string, path: string]>,
): NamedCertificates<K> {
  const entries = Object.entries(named) as [K, [string, string]][]
  const read = collectFaults(
    entries.map(([what, [name, path]]) => () => [
      what,
      what === 'key' ? readPrivate(name, path) : readFile(name, path),
    ]),
  )
  const initial = Object.fromEntries(read) as Record<K, Buffer>
  const fault = certificateFault(initial)
  if (fault !== undefined)
    throw new ConfigFault([`${fault.parts.map(part => named[part as K][0]).join(' and ')}: ${fault.why}`])
  return {
    initial,
    files: Object.fromEntries(entries.map(([what, [, path]]) => [what, path])) as Record<K, string>,
  }
}

/** The one line of a secret's file, without the line's end. */
export function readSecretFile(name: string, path: string): string {
  const text = utf8Text(readPrivate(name, path))
  if (text === undefined) throw new ConfigFault([`${name}: ${path} ${NOT_UTF8}.`])
  const secret = text.replace(/\r?\n$/, '')
  if (secret === '' || /[\r\n]/.test(secret))
    throw new ConfigFault([`${name}: ${path} must hold the secret as its only line.`])
  return secret
}

/**
 * The ordered private keys of a `{keys: [JWK, …]}` file: the first signs, as `alg`, and all are published and
 * verified.
 */
export function readKeysFile(name: string, path: string, alg: SigningAlg): PrivateKey[] {
  const bytes = readPrivate(name, path)
  try {
    const { keys } = parseJsonObject(bytes)
    if (!Array.isArray(keys) || keys.length === 0) throw new Error('it is no {"keys": [private JWK, …]}')
    if (keys.length > KEYS_MAX)
      throw new Error(`it has ${keys.length} keys, and readers of the published set take ${KEYS_MAX}`)
    return keys.map(jwk => importPrivateJwk(jwk, { alg }))
  } catch (error) {
    throw new ConfigFault([
      `${name}: ${path} cannot be used: ${(error as Error).message} (\`usher keys new <file>\` makes one that can.)`,
    ])
  }
}

/**
 * The private keys of the log, of which the first signs. @throws ConfigFault if the file cannot be used, or
 * if one of them is among `others`: what a key signs elsewhere must never be taken for a checkpoint.
 */
export function readLogKeysFile(
  name: string,
  path: string,
  { others, alg }: { others: readonly PrivateKey[]; alg: SigningAlg },
): PrivateKey[] {
  const keys = readKeysFile(name, path, alg)
  const both = keys.find(key => others.some(({ x }) => x === key.x))
  if (both !== undefined)
    throw new ConfigFault([
      `${name}: ${path} has the key ${both.kid}, which also signs tokens. Take it out of that file: a key of the log signs nothing else. (\`usher keys new <file>\` makes one.)`,
    ])
  return keys
}

/** The private key for sending notifications, from a file with one JWK. */
export function readNotificationKeyFile(name: string, path: string): NotificationKey {
  const bytes = readPrivate(name, path)
  try {
    return importNotificationKey(parseJsonObject(bytes))
  } catch (error) {
    throw new ConfigFault([
      `${name}: ${path} cannot be used: ${(error as Error).message} (\`usher keys new-notification <file>\` makes one that can.)`,
    ])
  }
}

/** The value of a YAML file: one document, no member named twice. `bytes` are those that were read. */
export function readYamlFile(name: string, path: string, bytes = readFile(name, path)): unknown {
  const text = utf8Text(bytes)
  if (text === undefined) throw new ConfigFault([`${name}: ${path} ${NOT_UTF8}.`])
  try {
    return parse(text, { uniqueKeys: true, version: '1.2' })
  } catch (error) {
    const why = error instanceof YAMLParseError ? error.message : (error as Error).message
    throw new ConfigFault([`${name}: ${path} is no usable YAML. Correct it there: ${why.trimEnd()}`])
  }
}

/** Runs each reader and collects what they return; throws one `ConfigFault` with the faults of all. */
export function collectFaults<T>(readers: (() => T)[]): T[] {
  const faults: string[] = []
  const values = readers.flatMap(read => {
    try {
      return [read()]
    } catch (error) {
      if (!(error instanceof ConfigFault)) throw error
      faults.push(...error.faults)
      return []
    }
  })
  if (faults.length > 0) throw new ConfigFault(faults)
  return values
}
