/**
 * Owns what stands before the names of tools where a bridge serves several resources: the name of the owner,
 * as the resource's metadata has it. Contract: "What the service does"; "Resource metadata (RFC 9728)".
 */
import { join } from 'node:path'
import { createDurably } from '../../files/durable-file.ts'
import { waitAtMost } from '../../limits/patience.ts'
import { isJsonObject, type Json } from '../../wire/json.ts'
import { fail } from '../agent-error.ts'
import { readAll, readOne } from '../store.ts'
import { unusable } from './state.ts'

export interface PrefixOptions {
  resources: readonly string[]
  /** The folder of the client's state. */
  folder: string
  /** The name of the owner in the metadata of a resource; undefined if there is none. May fail. */
  ownerNameOf: (resource: string) => Promise<string | undefined>
}

/** Each ends with its separator, and is empty where there is one resource alone. */
export interface Prefixes {
  /** Given once, and kept: no other resource ever has it, whichever are down, in whatever order. */
  of: (resource: string) => Promise<string>
  /** Undefined if none was given yet; asks no resource. */
  given: (resource: string) => Promise<string | undefined>
}

/** It leaves room for a readable part of the tool's own name. */
const PREFIX_MAX = 20
const PREFIXES_MAX = 1000
/** The first list of a resource waits no longer for its metadata, and for that of others. */
const METADATA_MILLISECONDS = 2000

export function openPrefixes({ resources, folder, ownerNameOf }: PrefixOptions): Prefixes {
  const place = join(folder, 'prefixes')
  const known = new Map<string, string>()
  /** One is given after the other, so that the order of the resources decides between two of one name. */
  let turn: Promise<unknown> = Promise.resolve()
  const nameOf = async (resource: string): Promise<string | undefined> => {
    const owner = await waitAtMost(
      METADATA_MILLISECONDS,
      ownerNameOf(resource).catch(() => undefined),
    )
    return typeof owner === 'string' && owner !== '' ? plainName(owner) : undefined
  }
  const given = async (resource: string): Promise<string | undefined> => {
    if (resources.length < 2) return ''
    if (known.has(resource)) return known.get(resource)
    const kept = (await readAll<Json>(place)).flatMap(record =>
      isJsonObject(record) && record['resource'] === resource && typeof record['prefix'] === 'string'
        ? [record['prefix']]
        : [],
    )
    // Two processes may each have given one at the same moment.
    const [first] = kept.toSorted()
    if (first !== undefined) known.set(resource, first)
    return first
  }
  const claim = async (resource: string, name: string): Promise<void> => {
    for (let count = 1; count <= PREFIXES_MAX; count++) {
      const prefix = count === 1 ? `${name}_` : `${name}-${count}_`
      const file = `${prefix}.json`
      await createDurably(place, file, JSON.stringify({ prefix, resource }))
      const record = await readOne<Json>(join(place, file))
      if (isJsonObject(record) && record['resource'] === resource) return void known.set(resource, prefix)
    }
    fail('state_unusable', `${place} holds more prefixes than there are resources: remove it.`)
  }
  const namesFor = (wanted: string): Promise<(string | undefined)[]> =>
    Promise.all(
      resources.map(async resource => ((await given(resource)) === undefined ? nameOf(resource) : undefined)),
    ).then(names =>
      resources.map(
        (resource, at) => names[at] ?? (resource === wanted ? plainName(lastPart(resource)) : undefined),
      ),
    )
  const give = async (wanted: string, names: readonly (string | undefined)[]): Promise<string> => {
    for (const [at, resource] of resources.entries()) {
      const name = names[at]
      if (name !== undefined && (await given(resource)) === undefined) await claim(resource, name)
    }
    return known.get(wanted)!
  }
  return {
    given,
    of: async resource => {
      try {
        const before = await given(resource)
        if (before !== undefined) return before
        const names = await namesFor(resource)
        const found = turn.then(() => give(resource, names))
        turn = found.catch(() => undefined)
        return await found
      } catch (error) {
        throw unusable(error)
      }
    },
  }
}

/** The part of a foreign name that may stand in the name of a tool. */
export function plainName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9-]/g, '-').slice(0, PREFIX_MAX)
}

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
