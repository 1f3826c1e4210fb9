/**
 * Owns the suggestion for a misspelt name. Contract: "Limits": a fault of a configuration says what to do
 * about it.
 */

/** If names differ by more than this, it is another name and not a slip. */
const SLIPS_MAX = 2

/** `; did you mean …?` for the name in `known` that is most similar to `word`; empty if none is similar. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const most = Math.min(SLIPS_MAX, Math.floor(word.length / 3))
  let best: { name: string; slips: number } | undefined
  for (const name of known) {
    const slips = distance(word, name)
    if (slips <= most && (best === undefined || slips < best.slips)) best = { name, slips }
  }
  return best === undefined ? '' : `; did you mean ${best.name}?`
}

/** How many letters must be added, left out or changed to make one of the other (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let k = 1; k <= other.length; k++)
      next[k] = Math.min(next[k - 1]! + 1, row[k]! + 1, row[k - 1]! + (one[i - 1] === other[k - 1] ? 0 : 1))
    row = next
  }
  return row[other.length]!
}
