/**
 * Owns reading the files that a configuration names. Contract: "Authentication": keys and secrets come from
 * files, and a file that cannot be used stops the start.
 */
import { accessSync, constants, mkdirSync, readFileSync } from 'node:fs'
import { parse, YAMLParseError } from 'yaml'
import { ExposedFile, readPrivateFileSync } from '../files/private-file.ts'
import { parseJsonObject } from '../wire/json.ts'
import { importPrivateJwk, type PrivateKey, type SigningAlg } from '../wire/keys.ts'
import { ConfigFault } from './settings.ts'

/** The bytes of a file. Throws `ConfigFault` naming the setting when it cannot be read. */
export function readFile(name: string, path: string, read: (path: string) => Buffer = readFileSync): Buffer {
  try {
    return read(path)
  } catch (error) {
    if (error instanceof ExposedFile) throw new ConfigFault([`${name}: ${error.message}`])
    throw new ConfigFault([
      `${name}: cannot read ${path} (${(error as NodeJS.ErrnoException).code ?? 'unreadable'}).`,
    ])
  }
}

/**
 * The bytes of a file that holds a private key or a secret; one that is open to others is a fault as well.
 */
function readPrivate(name: string, path: string): Buffer {
  return readFile(name, path, readPrivateFileSync)
}

/**
 * Makes a directory where it is missing. Throws `ConfigFault` naming the setting when it cannot be written.
 */
export function checkDirectory(name: string, path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new ConfigFault([
      `${name}: cannot write in ${path} (${(error as NodeJS.ErrnoException).code ?? 'unwritable'}). Give a directory that this process may write.`,
    ])
  }
}

/** Certificates or keys in PEM by what they are for: as they were read, and where they can be read again. */
export interface NamedCertificates<K extends string> {
  initial: Record<K, Buffer>
  files: Record<K, string>
}

/**
 * Reads each file, given as the name of the setting and the path; `key` is the one that is private. Throws
 * `ConfigFault` listing those that cannot be read.
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
  return {
    initial: Object.fromEntries(read) as Record<K, Buffer>,
    files: Object.fromEntries(entries.map(([what, [, path]]) => [what, path])) as Record<K, string>,
  }
}

/** The one line of a secret's file, without the line's end. */
export function readSecretFile(name: string, path: string): string {
  const secret = readPrivate(name, path)
    .toString('utf8')
    .replace(/\r?\n$/, '')
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
    return keys.map(jwk => importPrivateJwk(jwk, { alg }))
  } catch (error) {
    throw new ConfigFault([`${name}: ${path} cannot be used: ${(error as Error).message}`])
  }
}

/** The value of a YAML file: one document, no member named twice. */
export function readYamlFile(name: string, path: string): unknown {
  const text = readFile(name, path).toString('utf8')
  try {
    return parse(text, { uniqueKeys: true, version: '1.2' })
  } catch (error) {
    const why = error instanceof YAMLParseError ? error.message : (error as Error).message
    throw new ConfigFault([`${name}: ${path} is no usable YAML: ${why}`])
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
