/**
 * Owns the prefix of the names of tools, if a bridge serves several resources: the name of the owner, as the
 * resource's metadata has it. Contract: "What the service does"; "Resource metadata (RFC 9728)".
 */
import { join } from 'node:path'
import { createDurably } from '../../../files/durable-file.ts'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { fail } from '../../agent-error.ts'
import { readAll, readOne } from '../../store.ts'
import { unusable } from '../negotiation/state.ts'

export interface PrefixOptions {
  resources: readonly string[]
  /** The folder of the client's state. */
  folder: string
  /**
   * The name of the owner in the metadata of a resource; undefined if there is none for certain. Fails if
   * that cannot be known now.
   */
  ownerNameOf: (resource: string) => Promise<string | undefined>
}

/** Each ends with its separator, and is empty where there is one resource alone. */
export interface Prefixes {
  /**
   * The prefix of the names of one resource in a list. It is kept as soon as the metadata was read: then no
   * other resource ever has it, whichever are down, in whatever order. Before, it is lent: this process gives
   * it to no other resource either, but the metadata may replace it in a later list.
   */
  of: (resource: string) => Promise<string>
  /** Undefined if none is kept yet; asks no resource. */
  storedPrefix: (resource: string) => Promise<string | undefined>
}

/** It leaves room for a readable part of the tool's own name. */
const PREFIX_LENGTH_MAX = 20
const PREFIXES_MAX = 1000
/** A list waits no longer for the metadata of its resource, and for that of others. */
const METADATA_MILLISECONDS = 2000

export function openPrefixes({ resources, folder, ownerNameOf }: PrefixOptions): Prefixes {
  const { find, claim, lend } = openStore(join(folder, 'prefixes'))
  /** One is given after the other, so that the order of the resources decides between two of one name. */
  let turn: Promise<unknown> = Promise.resolve()
  const storedPrefix = async (resource: string): Promise<string | undefined> =>
    resources.length < 2 ? '' : find(resource)
  const readNames = (): Promise<(string | undefined)[]> =>
    Promise.all(
      resources.map(async resource =>
        (await storedPrefix(resource)) === undefined ? nameOf(resource, ownerNameOf) : undefined,
      ),
    )
  const give = async (target: string, names: readonly (string | undefined)[]): Promise<string> => {
    for (const [at, resource] of resources.entries()) {
      const name = names[at]
      if (name !== undefined && (await storedPrefix(resource)) === undefined) await claim(resource, name)
    }
    return (await storedPrefix(target)) ?? lend(target)
  }
  return {
    storedPrefix,
    of: async resource => {
      try {
        const before = await storedPrefix(resource)
        if (before !== undefined) return before
        const names = await readNames()
        const found = turn.then(() => give(resource, names))
        turn = found.catch(() => undefined)
        return await found
      } catch (error) {
        throw unusable(error)
      }
    },
  }
}

/**
 * The name that a resource is to keep: its owner's, or the last part of its address where the metadata names
 * none. Undefined if the metadata was not read, because a resource that is slow or down once must not keep a
 * makeshift for good.
 */
async function nameOf(
  resource: string,
  ownerNameOf: PrefixOptions['ownerNameOf'],
): Promise<string | undefined> {
  const owner = await waitAtMost(METADATA_MILLISECONDS, ownerNameOf(resource)).catch((): typeof LATE => LATE)
  if (owner === LATE) return undefined
  return plainName(owner === undefined || owner === '' ? lastPart(resource) : owner)
}

interface PrefixStore {
  find: (resource: string) => Promise<string | undefined>
  /** Keeps the first that is free for the resource. */
  claim: (resource: string, name: string) => Promise<void>
  /** The first that is free, until one is kept. */
  lend: (resource: string) => Promise<string>
}

function openStore(place: string): PrefixStore {
  const known = new Map<string, string>()
  /** The resource, by what was lent to it; it stays so, because a client may have an old list for long. */
  const lent = new Map<string, string>()
  const records = async (): Promise<{ resource: Json; prefix: string }[]> =>
    (await readAll<Json>(place)).flatMap(record =>
      isJsonObject(record) && typeof record['prefix'] === 'string'
        ? [{ resource: record['resource'] ?? null, prefix: record['prefix'] }]
        : [],
    )
  const isFree = (prefix: string, resource: string): boolean => (lent.get(prefix) ?? resource) === resource
  const exhausted = (): never =>
    fail('state_unusable', `${place} holds more prefixes than there are resources: remove it.`)
  return {
    find: async resource => {
      if (known.has(resource)) return known.get(resource)
      const own = (await records()).filter(record => record.resource === resource)
      // Two processes may each have given one at the same moment.
      const [first] = own.flatMap(({ prefix }) => (BEGINS_WELL.test(prefix) ? [prefix] : [])).toSorted()
      if (first !== undefined) known.set(resource, first)
      return first
    },
    claim: async (resource, name) => {
      for (const prefix of numbered(name).filter(one => isFree(one, resource))) {
        const file = `${prefix}.json`
        await createDurably(place, file, JSON.stringify({ prefix, resource }))
        const record = await readOne<Json>(join(place, file))
        if (isJsonObject(record) && record['resource'] === resource) return void known.set(resource, prefix)
      }
      exhausted()
    },
    lend: async resource => {
      const inUse = new Set((await records()).map(({ prefix }) => prefix))
      const prefix = numbered(plainName(lastPart(resource))).find(
        one => isFree(one, resource) && !inUse.has(one),
      )
      if (prefix === undefined) return exhausted()
      lent.set(prefix, resource)
      return prefix
    },
  }
}

function numbered(name: string): string[] {
  return Array.from({ length: PREFIXES_MAX }, (_, at) => (at === 0 ? `${name}_` : `${name}-${at + 1}_`))
}

/** The part of a foreign name that may begin a tool's name, which must begin with a letter. */
export function plainName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9-]/g, '-').replace(/^-+/, '')
  const headed = BEGINS_WELL.test(plain) ? plain : plain === '' ? 'owner' : `owner-${plain}`
  return headed.slice(0, PREFIX_LENGTH_MAX)
}

const BEGINS_WELL = /^[A-Za-z]/

/** Of the path, decoded if it can be: `https://…/mcp/alice` is `alice`. Without a path it is the host. */
export function lastPart(url: string): string {
  const { pathname, hostname } = new URL(url)
  const part = pathname.split('/').findLast(one => one !== '') ?? hostname
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
