/**
 * Owns the secret that a client of `--listen` has to know. Contract: "Authentication": a process that reaches
 * the loopback need not belong to the person whose keys and grants the bridge holds.
 */
import { timingSafeEqual } from 'node:crypto'
import { basename, dirname, resolve } from 'node:path'
import { createDurably } from '../../files/durable-file.ts'
import { ExposedFile, readPrivateFile } from '../../files/private-file.ts'
import { UsageError } from '../../terminal/command.ts'
import { encodeBase64url, sha256 } from '../../wire/encoding.ts'

const TOKEN = /^[A-Za-z0-9._~+/-]{32,512}$/

/**
 * The secret in that file, which is made if it does not exist; without a file, a secret for this start only.
 * `told`: what a person must know about it. Fails with `UsageError` if the file contains no secret, or is
 * readable by others.
 */
export async function listenToken(file: string | undefined): Promise<{ token: string; told: string }> {
  const fresh = encodeBase64url(crypto.getRandomValues(new Uint8Array(32)))
  if (file === undefined)
    return { token: fresh, told: `clients send the header Authorization: Bearer ${fresh}` }
  const path = resolve(file)
  try {
    const kept = await readPrivateFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    if (kept === undefined) await createDurably(dirname(path), basename(path), `${fresh}\n`)
    const token = (kept ?? (await readPrivateFile(path))).toString('utf8').trim()
    if (!TOKEN.test(token))
      throw new UsageError(`${path} holds no secret: 32 letters and digits or more, on one line.`)
    return { token, told: `clients send the header Authorization: Bearer, and what is in ${path}` }
  } catch (error) {
    if (error instanceof UsageError) throw error
    const why = error instanceof ExposedFile ? error.message : `${path} cannot be used: ${codeOf(error)}.`
    throw new UsageError(why, { cause: error })
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'it is no file'
}

/** Whether a request carries it. The comparison takes the same time for a nearly right one. */
export function carries(authorization: string | undefined, token: string): boolean {
  const [, given] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? []
  return given !== undefined && timingSafeEqual(sha256(given), sha256(token))
}
