/**
 * Owns what the servers behind the bridge said of themselves when they were reached last. It is kept, so that
 * the first answer to a client waits for a server only if that was never reached. Contract: "What the service
 * does": the client is unmodified, and reads it there and nowhere else.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { refuseExposedFolder } from '../../../files/private-file.ts'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { fileName } from '../../store.ts'
import type { ServerIntroduction } from '../greeting.ts'
import type { Upstream } from '../upstream/upstream.ts'

/** What each server says of itself. */
export interface Introductions {
  /**
   * Of each resource, in their order. A server that was never reached is waited for, a second at most, and
   * otherwise says nothing.
   */
  all: () => Promise<ServerIntroduction[]>
  /** The server was reached: what it says is kept for the next start. Never rejects. */
  note: (resource: string) => Promise<void>
}

const FIRST_MILLISECONDS_MAX = 1000

/** `folder` is that of the client's state; a server that was never reached is waited for `firstMs`. */
export function openIntroductions(of: {
  resources: readonly string[]
  folder: string
  upstreamOf: (resource: string) => Pick<Upstream, 'introduction'>
  firstMs?: number
}): Introductions {
  const { firstMs = FIRST_MILLISECONDS_MAX } = of
  const place = join(of.folder, 'introductions')
  const known = new Map<string, string>()
  const ask = async (resource: string): Promise<ServerIntroduction> => {
    const introduction = { resource, ...(await of.upstreamOf(resource).introduction()) }
    const text = JSON.stringify(introduction)
    if (known.get(resource) === text) return introduction
    known.set(resource, text)
    await keep(resource, text).catch(() => undefined)
    return introduction
  }
  /** No rename as elsewhere: a copy that is lost or cut costs one wait. */
  const keep = async (resource: string, text: string): Promise<void> => {
    refuseExposedFolder(of.folder)
    await mkdir(place, { recursive: true, mode: 0o700 })
    await writeFile(join(place, fileName(resource)), text, { mode: 0o600 })
  }
  const load = async (resource: string): Promise<ServerIntroduction | undefined> => {
    refuseExposedFolder(of.folder)
    const json = JSON.parse(await readFile(join(place, fileName(resource)), 'utf8')) as Json
    if (!isJsonObject(json)) return undefined
    const { serverInfo, instructions } = json
    return {
      resource,
      serverInfo: isJsonObject(serverInfo) ? serverInfo : undefined,
      instructions: typeof instructions === 'string' ? instructions : undefined,
    }
  }
  const one = async (resource: string): Promise<ServerIntroduction> => {
    const before = await load(resource).catch(() => undefined)
    if (before !== undefined) return before
    const first = await waitAtMost(firstMs, ask(resource)).catch((): typeof LATE => LATE)
    return first === LATE ? { resource, serverInfo: undefined, instructions: undefined } : first
  }
  return {
    all: () => Promise.all(of.resources.map(one)),
    note: async resource => void (await ask(resource).catch(() => undefined)),
  }
}
