/**
 * Owns how foreign text is shown: complete and unchanged, but with characters that a reader could not see, or
 * would see in another order, written out and flagged. Contract: "Owner API": nothing is summarized.
 */
import { UNSEEN } from '../../wire/html.ts'

type Flag = 'unseen' | 'mixed' | 'foreign' | 'long'

/** A longer text is not read at a glance, and is shown complete in its own box. */
const LONG = 400

/** The characters that wire/html.ts escapes, and many marks on one letter. */
const HIDDEN = new RegExp(`${UNSEEN.source}|(?<=\\p{M}{3})\\p{M}`, 'gu')
/** The same, and blanks at the ends of a name, where no letter beside them shows that they are there. */
const HIDDEN_IN_NAME = new RegExp(`${HIDDEN.source}|^\\s+|\\s+$`, 'gu')
/** Letters of two alphabets that look alike, in one word. */
const LOOKALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u
const LATIN = /\p{Script=Latin}/u

interface TextPart {
  text: string
  isEscaped: boolean
}

/** A text as it is shown. `isName`: it is identified by its letters, like an address. */
export function analyse(text: string, isName = false): { parts: TextPart[]; flags: Flag[] } {
  const parts: TextPart[] = []
  let end = 0
  // Blanks between letters are visible by these letters; blanks in a text that has nothing else are not.
  for (const match of text.matchAll(hiddenIn(text, isName))) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), isEscaped: false })
    parts.push({ text: written(match[0]), isEscaped: true })
    end = match.index + match[0].length
  }
  if (end < text.length) parts.push({ text: text.slice(end), isEscaped: false })
  const flags: Flag[] = []
  if (parts.some(part => part.isEscaped)) flags.push('unseen')
  if (text.split(/[^\p{L}\p{M}]+/u).some(word => LATIN.test(word) && LOOKALIKE.test(word)))
    flags.push('mixed')
  else if (isName && /[^\x20-\x7e]/.test(text)) flags.push('foreign')
  if (text.length > LONG) flags.push('long')
  return { parts, flags }
}

function hiddenIn(text: string, isName: boolean): RegExp {
  if (!/\S/u.test(text)) return /\s/gu
  return isName ? HIDDEN_IN_NAME : HIDDEN
}

function written(hidden: string): string {
  return Array.from(hidden, mark => `\\u{${mark.codePointAt(0)!.toString(16)}}`).join('')
}
