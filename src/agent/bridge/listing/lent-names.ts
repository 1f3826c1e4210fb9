/**
 * Owns the names of tools that were listed under a prefix which is not kept yet: how long they lead on, and
 * when the list is made anew. Contract: "What the service does": each tool that was listed can be called.
 */
import { BoundedMap } from '../../../limits/bounded-map.ts'
import type { Prefixes } from './prefixes.ts'
import type { ListedTool } from './tools.ts'
import { RETRY_MILLISECONDS, RETRY_MILLISECONDS_MAX } from '../bounds.ts'

type Place = Pick<ListedTool, 'resource' | 'tool'>

export interface LentNames {
  /** Takes note of the list of a resource, as it is shown under that prefix. */
  note(resource: string, prefix: string, shown: readonly ListedTool[]): Promise<void>
  /** The tool behind a name that was lent; undefined for all other names. */
  placeOf(name: string): Place | undefined
  close(): void
}

const NAMES_MAX = 10_000

/**
 * A lent name still leads to its tool after the resource has a prefix to keep, because a client continues
 * with the list that it has. `onMoved` is called when the prefix of a resource is another than the one that
 * was lent.
 */
export function openLentNames(prefixes: Prefixes, onMoved: (resource: string) => void): LentNames {
  const places = new BoundedMap<string, Place>(NAMES_MAX)
  const timers = new Map<string, NodeJS.Timeout>()
  let closed = false
  const later = (resource: string, lent: string, milliseconds: number): void => {
    const again = async (): Promise<void> => {
      const prefix = await prefixes.of(resource).catch(() => lent)
      if (closed) return
      if ((await prefixes.storedPrefix(resource)) === undefined)
        return later(resource, lent, Math.min(milliseconds * 2, RETRY_MILLISECONDS_MAX))
      timers.delete(resource)
      if (prefix !== lent) onMoved(resource)
    }
    timers.set(resource, setTimeout(() => void again(), milliseconds).unref())
  }
  return {
    note: async (resource, prefix, shown) => {
      if ((await prefixes.storedPrefix(resource)) === prefix) return
      for (const { name, tool } of shown) places.set(name, { resource, tool })
      // Nobody else would ask: many clients read the list once, and then wait for `list_changed`.
      if (!timers.has(resource) && !closed) later(resource, prefix, RETRY_MILLISECONDS)
    },
    placeOf: name => places.get(name),
    close: () => {
      closed = true
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}
