/**
 * Owns the intersection of the terms of all holders of one resource. Contract: "Terms document" (on a jointly
 * held resource the intersection of all holders' terms) and "Tally for a jointly held resource": never wider
 * than any of them, in whatever order and however often they are folded.
 */

/** The members of terms that are folded; `expires_in` in seconds. */
export interface FoldedTerms {
  readonly expires_in: number
  readonly scope: readonly string[]
  readonly prohibited: readonly string[]
  readonly ask_me: boolean
  readonly per_operation: boolean
}

/**
 * The least `expires_in`, the scopes that all offer, and everything that any prohibits; asking and per
 * operation if any asks. Lists are sorted and without repetition, so that the same terms give the same text.
 * If no scope is left, there is nothing to offer.
 */
export function foldTerms(all: readonly [FoldedTerms, ...FoldedTerms[]]): FoldedTerms {
  return {
    expires_in: Math.min(...all.map(({ expires_in }) => expires_in)),
    scope: inOrder(all[0].scope.filter(one => all.every(({ scope }) => scope.includes(one)))),
    prohibited: inOrder(all.flatMap(({ prohibited }) => prohibited)),
    ask_me: all.some(({ ask_me }) => ask_me),
    per_operation: all.some(({ per_operation }) => per_operation),
  }
}

function inOrder(words: readonly string[]): string[] {
  return [...new Set(words)].toSorted()
}
