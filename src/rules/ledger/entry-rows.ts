/**
 * What is kept of the entries of a ledger while they are read one after the other: where each stands, and in
 * which chain. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import type { LedgerFileEntry } from '../../wire/ledger/ledger-file.ts'

/** An entry's place in the ledger and in the chain of its agent. */
export interface EntryRow {
  position: number
  /** The position that it names as the one before it. Not used without a handle. */
  prev: number
  /** Null if it is in no chain. */
  handle: string | null
}

export interface EntryRows {
  /** Keeps the row of an entry, unless there is one at its position. @returns whether it was kept. */
  add: (entry: Pick<LedgerFileEntry, 'seq' | 'prev' | 'handle'>) => boolean
  has: (position: number) => boolean
  /** How many there are. */
  count: () => number
  /** All of them, by position. */
  inOrder: () => Generator<EntryRow, void>
}

/** No rows yet. Each that stands in order takes 24 bytes, and each handle is kept once. */
export function entryRows(): EntryRows {
  const positions: number[] = []
  const prevs: number[] = []
  const handles: (string | null)[] = []
  const names = new Map<string, string>()
  /** Those that came behind one with a greater position. */
  const late = new Map<number, EntryRow>()
  const nameOf = (handle: string): string => {
    if (!names.has(handle)) names.set(handle, handle)
    return names.get(handle)!
  }
  const has = (position: number): boolean =>
    positions[placeIn(positions, position)] === position || late.has(position)
  return {
    add: ({ seq: position, prev, handle }) => {
      const isChained = handle !== null && prev !== null
      const row = { position, prev: prev ?? 0, handle: isChained ? nameOf(handle) : null }
      if (position > (positions.at(-1) ?? 0)) {
        positions.push(position)
        prevs.push(row.prev)
        handles.push(row.handle)
        return true
      }
      if (has(position)) return false
      late.set(position, row)
      return true
    },
    has,
    count: () => positions.length + late.size,
    *inOrder() {
      const behind = [...late.values()].toSorted((one, other) => one.position - other.position)
      let next = 0
      for (const [n, position] of positions.entries()) {
        for (; next < behind.length && behind[next]!.position < position; next++) yield behind[next]!
        yield { position, prev: prevs[n]!, handle: handles[n]! }
      }
      yield* behind.slice(next)
    },
  }
}

/** The place of the first value in this order that is not less; behind the last one if there is none. */
function placeIn(sorted: readonly number[], value: number): number {
  let [from, to] = [0, sorted.length]
  while (from < to) {
    const middle = Math.floor((from + to) / 2)
    if (sorted[middle]! < value) from = middle + 1
    else to = middle
  }
  return from
}
