/**
 * Owns whether a reader knows an answer already. RFC 9110 §13.1.2 (`If-None-Match`). Contract: "Terms
 * document", "Tally for a jointly held resource" (documents that are cached).
 */

/**
 * Whether the field names this tag: `*`, or any of the tags listed, compared weakly, because a proxy that
 * re-encodes an answer weakens its tag.
 */
export function namesTag(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map(tag => tag.trim().replace(/^W\//, '')) ?? []
  return tags.includes('*') || tags.includes(etag)
}
