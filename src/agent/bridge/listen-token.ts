/**
 * Owns the secret that a client of `--listen` has to know. Contract: "Authentication": a process that reaches
 * the loopback need not belong to the person whose keys and grants the bridge holds.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { basename, dirname, resolve } from 'node:path'
import { createDurably } from '../../files/durable-file.ts'
import { ExposedFile, readPrivateFile } from '../../files/private-file.ts'
import { UsageError } from '../../terminal/command.ts'
import { encodeBase64url, sha256 } from '../../wire/encoding.ts'

const TOKEN_PATTERN = /^[A-Za-z0-9._~+/-]{32,512}$/
/** The name that a secret contains. */
export const CLIENT_NAME = /^[A-Za-z0-9_-]{1,64}$/

/**
 * The secret in that file, which is made if it does not exist; without a file, a secret for this start only.
 * `notice`: what a person must know about it. Fails with `UsageError` if the file contains no secret, or is
 * readable by others.
 */
export async function listenToken(file: string | undefined): Promise<{ token: string; notice: string }> {
  const fresh = encodeBase64url(crypto.getRandomValues(new Uint8Array(32)))
  if (file === undefined)
    return { token: fresh, notice: `clients send the header Authorization: Bearer ${fresh}` }
  const path = resolve(file)
  try {
    const contents = await readPrivateFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    if (contents === undefined) await createDurably(dirname(path), basename(path), `${fresh}\n`)
    const token = (contents ?? (await readPrivateFile(path))).toString('utf8').trim()
    if (!TOKEN_PATTERN.test(token))
      throw new UsageError(`${path} holds no secret: 32 letters and digits or more, on one line.`)
    return { token, notice: `clients send the header Authorization: Bearer, and what is in ${path}` }
  } catch (error) {
    if (error instanceof UsageError) throw error
    const why = error instanceof ExposedFile ? error.message : `${path} cannot be used: ${codeOf(error)}.`
    throw new UsageError(why, { cause: error })
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'it is no file'
}

/** Who sent a request: a client with a secret of its own, by its name, or any that knows the bridge's. */
export interface BridgeCaller {
  name: string | undefined
}

/**
 * The secret of one client: it lets that client in under `name`, whatever it calls itself, and tells it none
 * of the others. It follows from the bridge's own secret, so that a bridge that runs knows it at once.
 */
export function clientSecret(token: string, name: string): string {
  return `${name}.${createHmac('sha256', token).update(`usher bridge client ${name}`).digest('base64url')}`
}

/** Whose secret a request carries. The comparison takes the same time for a nearly right one. */
export function callerOf(authorization: string | undefined, token: string): BridgeCaller | undefined {
  const [, secret] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? []
  if (secret === undefined) return undefined
  if (isSame(secret, token)) return { name: undefined }
  const name = secret.slice(0, Math.max(0, secret.lastIndexOf('.')))
  return CLIENT_NAME.test(name) && isSame(secret, clientSecret(token, name)) ? { name } : undefined
}

function isSame(secret: string, right: string): boolean {
  return timingSafeEqual(sha256(secret), sha256(right))
}
