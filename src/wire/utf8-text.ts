/**
 * Owns how a file that a person edits becomes text. Contract: "Owner API": what she is shown and what is kept
 * are the characters that somebody wrote. An editor that saves in another encoding would change them, or what
 * is compared with them, without a word.
 */
import { isUtf8 } from 'node:buffer'

/** For a sentence that begins with the file. */
export const NOT_UTF8 = 'is not in UTF-8: save it in that encoding'

/** The text of bytes in UTF-8, without a byte order mark; undefined if they are in another encoding. */
export function utf8Text(bytes: Buffer): string | undefined {
  // UTF-16 of plain letters is well-formed UTF-8, with NUL between them.
  if (!isUtf8(bytes) || bytes.includes(0)) return undefined
  return bytes.toString('utf8').replace(/^\uFEFF/, '')
}
