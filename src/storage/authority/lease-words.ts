/**
 * Owns what sidecars that hold leases say in this process, for the acts here that wait for their word: those
 * look at once. A word decides nothing, because what counts is what Postgres has of it.
 * Contract: "What the service does" (revocation is immediate); docs/decisions/0021-leases.md.
 */

/** By the id of the sidecar, which no other has, of whatever owner. */
const listening = new Map<string, Set<(acknowledged: number) => void>>()

/** The words of some sidecars. */
interface Words {
  /** Resolves once each of them said here that it let go as often as it was asked. */
  readonly all: Promise<void>
  /** Listens no more. */
  readonly end: () => void
}

/** Says that Postgres took the word of a sidecar: `Infinity` from one that holds nothing any more. */
export function tellWord(id: string, acknowledged: number): void {
  for (const hear of listening.get(id) ?? []) hear(acknowledged)
}

/** Listens from now on to those who were asked. */
export function listenTo(asked: readonly { id: string; asked: number }[]): Words {
  const { promise: all, resolve } = Promise.withResolvers<void>()
  const unheard = new Set(asked.map(({ id }) => id))
  const ends = asked.map(one =>
    listen(one.id, acknowledged => {
      if (acknowledged >= one.asked) unheard.delete(one.id)
      if (unheard.size === 0) resolve()
    }),
  )
  return { all, end: () => ends.forEach(end => end()) }
}

function listen(id: string, hear: (acknowledged: number) => void): () => void {
  const those = listening.get(id) ?? new Set()
  listening.set(id, those.add(hear))
  return () => {
    those.delete(hear)
    if (those.size === 0) listening.delete(id)
  }
}
