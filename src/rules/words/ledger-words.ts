/**
 * Owns which ledger entries the owner finds by words. Contract: "Owner API" (`GET /owner/ledger`): words of
 * any text in the entry.
 */

/**
 * The words of a search, each once. Case, and how a letter with an accent is composed, make no difference.
 */
export function wordsOf(text: string): string[] {
  return [...new Set(folded(text).split(/\s+/).filter(Boolean))]
}

/**
 * Whether each word, as `wordsOf` gives them, stands in some text of the value; names of members are none.
 */
export function holdsWords(value: unknown, words: readonly string[]): boolean {
  const texts = textsOf(value).map(folded)
  return words.every(word => texts.some(text => text.includes(word)))
}

function folded(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : []
}
