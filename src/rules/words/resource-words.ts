/**
 * Owns how a sentence names a resource: by the name that its server gave it, with the id beside it. Contract:
 * "Owner API" (`/owner/resources`). A decision is bound to the id, and two resources may have one name, so
 * the id is never left out.
 */
const NAME_CHARACTERS_MAX = 60

/** The names of resources by their ids. */
export type ResourceNames = ReadonlyMap<string, string>

export const NO_RESOURCE_NAMES: ResourceNames = new Map()

/** The names that say more than the ids. */
export function resourceNames(resources: Iterable<{ _id: string; name: string }>): ResourceNames {
  return new Map(
    [...resources].filter(({ _id, name }) => name !== '' && name !== _id).map(({ _id, name }) => [_id, name]),
  )
}

/** `"Portfolio" (alice/portfolio)`; undefined for a resource without a name. */
export function namedResource(id: string, names: ResourceNames): string | undefined {
  const name = names.get(id)
  if (name === undefined) return undefined
  const short = name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}…` : name
  // A quotation mark in the name cannot end it, so that nothing in it passes for the id.
  return `"${short.replaceAll('"', "'")}" (${id})`
}
