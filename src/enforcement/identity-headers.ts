/**
 * Owns the header fields by which a tool's server learns who calls, and the rules by which no caller can
 * forge them. Contract: "Resource server enforcement point"; docs/choices.md: every `x-uma-*` that a client
 * sent is removed from every allowed call.
 */
import { BoundedMap } from '../limits/bounded-map.ts'
import { UPSTREAM_HEADER, UPSTREAM_HEADER_PREFIX } from '../wire/names.ts'
import type { Allowed } from './call.ts'
import type { HeaderLines } from './request/header-lines.ts'

// Servers that pass header fields on as variables treat `_` and `-` alike, and some of them any other sign
// too.
const OURS = Object.values(UPSTREAM_HEADER)
const OURS_UNSEEN = [...OURS, ...OURS.map(name => name.replaceAll('-', '_'))]

/**
 * The fields to set on a request that is let through, and the names to remove from it. An empty value cannot
 * be set (proxies drop it, and the client's copy survives), so its name is removed. Our own names are removed
 * even if we did not see them, because a proxy may show us only some fields. A name that is set is never also
 * removed, because proxies remove last.
 */
export function upstreamHeaders(
  outcome: Allowed,
  received: HeaderLines,
): { set: [name: string, value: string][]; remove: string[] } {
  const set: [name: string, value: string][] = []
  const remove = new Set<string>(OURS_UNSEEN)
  for (const name of received.keys()) if (isClientCopy(name)) remove.add(name)
  for (const name of outcome.remove) remove.add(name.toLowerCase())
  for (const [rawName, value] of Object.entries(outcome.headers)) {
    const name = rawName.toLowerCase()
    if (value === '') remove.add(name)
    else set.push([name, value])
  }
  for (const [name] of set) remove.delete(name)
  return { set, remove: [...remove] }
}

function isClientCopy(name: string): boolean {
  return foldedName(name).startsWith(UPSTREAM_HEADER_PREFIX)
}

/** The same few names come with every call; other names must not fill memory. */
const KEPT = { names: 1_000, characters: 64 }
const folded = new BoundedMap<string, string>(KEPT.names)

/**
 * A lower-case field name as servers see it that pass fields on as variables: every character that a variable
 * name cannot contain becomes the same sign.
 */
export function foldedName(name: string): string {
  const known = folded.get(name)
  if (known !== undefined) return known
  const result = name.replaceAll(/[^a-z0-9]/g, '-')
  if (name.length <= KEPT.characters) folded.set(name, result)
  return result
}
