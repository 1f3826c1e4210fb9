/**
 * Owns what is wrong with the namespaces that a file lists for owners. Contract: "What the service does"
 * (every owner-scoped artifact carries its owner): what a resource id begins with must name one owner, and
 * always the same.
 */
interface NamespaceOwner {
  readonly owner: string
  readonly namespaces: readonly string[]
}

/** A sentence for each namespace that is listed for two owners, twice for one, or that is an owner's name. */
export function namespaceFaults(owners: readonly NamespaceOwner[]): string[] {
  const names = new Set(owners.map(({ owner }) => owner))
  const holders = new Map<string, string>()
  return owners.flatMap(({ owner, namespaces }) =>
    namespaces.flatMap(namespace => {
      if (names.has(namespace))
        return [`namespaces of ${owner}: ${namespace} is the name of an owner; ids below it are hers.`]
      const holder = holders.get(namespace)
      holders.set(namespace, holder ?? owner)
      if (holder === undefined) return []
      return holder === owner
        ? [`namespaces of ${owner}: ${namespace} is listed twice.`]
        : [`namespaces: ${namespace} is listed for ${holder} and for ${owner}; it belongs to one owner.`]
    }),
  )
}
