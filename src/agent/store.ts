/**
 * Owns what an agent keeps between calls: its receipts, and the standing grants it may use again. Contract:
 * "Grant answer (beat 4)": both sides hold the receipt; "Single-use grant": spent exactly once, so never
 * kept.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeDurably } from '../files/durable-file.ts'
import { encodeBase64url, sha256 } from '../wire/encoding.ts'

/** A grant as the agent holds it: the RPT, and those of its verified claims that say when it may be used. */
export interface Grant {
  access_token: string
  jti: string
  /** The RFC 9728 `resource` value it is for. */
  resource: string
  as_uri: string
  family: string
  permissions: { resource_id: string; resource_scopes: string[] }[]
  /** Seconds since the epoch. */
  exp: number
  contract: string
  single_use: boolean
}

/** A verified receipt, with what a person needs to see in a list. `at` is in seconds since the epoch. */
export interface StoredReceipt {
  receipt: string
  family: string
  contract: string
  owner: string
  as_uri: string
  resource: string
  tool: string
  template_id: string
  terms_uri: string
  rpt: string
  at: number
}

/** What the agent learnt about a tool from its last negotiation: the resource and scopes its calls need. */
export interface ToolNeed {
  resource: string
  tool: string
  resource_id: string
  scopes: string[]
}

/** The store of an agent. A lookup of an unknown key returns nothing, and is never an error. */
export interface AgentStore {
  keepReceipt(receipt: StoredReceipt): Promise<void>
  receipts(): Promise<StoredReceipt[]>
  keepGrant(grant: Grant): Promise<void>
  dropGrant(grant: Grant): Promise<void>
  grants(resource: string): Promise<Grant[]>
  keepNeed(need: ToolNeed): Promise<void>
  need(resource: string, tool: string): Promise<ToolNeed | undefined>
}

/** A store that lasts as long as the process. */
export function memoryStore(): AgentStore {
  const receipts: StoredReceipt[] = []
  const grants = new Map<string, Grant>()
  const needs = new Map<string, ToolNeed>()
  return {
    keepReceipt: async receipt => void receipts.push(receipt),
    receipts: async () => [...receipts],
    keepGrant: async grant => void grants.set(grant.jti, grant),
    dropGrant: async grant => void grants.delete(grant.jti),
    grants: async resource => [...grants.values()].filter(grant => grant.resource === resource),
    keepNeed: async need => void needs.set(needName(need.resource, need.tool), need),
    need: async (resource, tool) => needs.get(needName(resource, tool)),
  }
}

/**
 * A store in a directory that only its user can read: `receipts/`, `grants/` and `needs/`, one JSON file
 * each, written completely or not at all. A grant there is useless without the key that it is bound to.
 */
export function fileStore(directory: string): AgentStore {
  const folder = (name: string): string => join(directory, name)
  return {
    keepReceipt: receipt => writeWhole(folder('receipts'), fileName(receipt.rpt), receipt),
    receipts: async () => {
      const receipts = await readAll<StoredReceipt>(folder('receipts'))
      return receipts.sort((a, b) => a.at - b.at)
    },
    keepGrant: grant => writeWhole(folder('grants'), fileName(grant.jti), grant),
    dropGrant: grant => rm(join(folder('grants'), fileName(grant.jti)), { force: true }),
    grants: async resource =>
      (await readAll<Grant>(folder('grants'))).filter(grant => grant.resource === resource),
    keepNeed: need => writeWhole(folder('needs'), fileName(needName(need.resource, need.tool)), need),
    need: async (resource, tool) =>
      readOne<ToolNeed>(join(folder('needs'), fileName(needName(resource, tool)))),
  }
}

function needName(resource: string, tool: string): string {
  return JSON.stringify([resource, tool])
}

/** Names come from others (a `jti`, a tool), so the file is named by their hash. */
export function fileName(name: string): string {
  return `${encodeBase64url(sha256(name))}.json`
}

/**
 * Writes a JSON file completely or not at all, readable only by its user; it survives a crash of the machine.
 */
export async function writeWhole(directory: string, name: string, value: unknown): Promise<void> {
  await writeDurably(directory, name, `${JSON.stringify(value, null, 2)}\n`)
}

/** Every value in a directory, in the order of the files' names. */
export async function readAll<T>(directory: string): Promise<T[]> {
  let names: string[]
  try {
    names = readdirSync(directory)
  } catch {
    return []
  }
  const read = names.filter(name => name.endsWith('.json') && !name.startsWith('.'))
  const values = await Promise.all(read.sort().map(name => readOne<T>(join(directory, name))))
  return values.filter(value => value !== undefined)
}

/**
 * A missing or damaged file counts as never written: the agent negotiates again. It is read synchronously,
 * because it is small and read with every call: by the threads of Node it took seven times as long on a busy
 * machine.
 */
export async function readOne<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch {
    return undefined
  }
}
