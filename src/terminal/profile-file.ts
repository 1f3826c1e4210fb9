/**
 * Owns the profile beside a device key: which server the key is enrolled at. Contract: "Authentication": each
 * request is signed over the issuer, so whoever could write this file could send requests elsewhere.
 */
import { mkdir, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { writeDurably } from '../files/durable-file.ts'
import { ExposedFile, readPrivateFile } from '../files/private-file.ts'
import { isJsonObject, parseJson } from '../wire/json.ts'
import { Refusal } from '../wire/refusal.ts'
import { UsageError } from './command.ts'
import { printableJson } from './printable.ts'

/** `api` is left out if the metadata of the issuer says where it is. */
export interface StoredProfile {
  issuer: string
  api?: string | undefined
}

/** The profile of the key at `keyPath`: `owner-key.json` has `owner-key.profile.json`. */
export function profilePath(keyPath: string): string {
  return `${keyPath.replace(/\.json$/, '')}.profile.json`
}

/** Undefined if there is none. One that others could write, or that is none, is a `UsageError`. */
export async function readProfile(path: string): Promise<StoredProfile | undefined> {
  try {
    const json = parseJson(await readPrivateFile(path))
    const { issuer, api } = isJsonObject(json) ? json : {}
    if (typeof issuer !== 'string' || (api !== undefined && typeof api !== 'string'))
      throw new UsageError(`${path} is no profile: remove it with \`usher owner profile --forget\`.`)
    return { issuer, api }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    if (cause instanceof UsageError) throw cause
    if (cause instanceof ExposedFile)
      throw new UsageError(`The profile is not used: ${cause.message}`, { cause })
    const why = cause instanceof Refusal ? 'it is no JSON' : (cause as NodeJS.ErrnoException).code
    throw new UsageError(`The profile ${path} cannot be read (${why}).`, { cause })
  }
}

/** Writes it, readable by its user alone, in place of an earlier one. */
export async function writeProfile(path: string, profile: StoredProfile): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await writeDurably(dirname(path), basename(path), `${printableJson(profile)}\n`)
}

/** Removes it, if there is one. */
export async function removeProfile(path: string): Promise<void> {
  await rm(path, { force: true })
}
