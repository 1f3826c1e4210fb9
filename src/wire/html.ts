/**
 * Owns text from others inside HTML. Contract: "Terms document" (plain-language HTML): a reader must see what
 * was written, and a browser must find nothing to act on.
 */

// Controls, format characters (bidi marks, zero widths, tags), line and paragraph separators, halves of
// surrogate pairs and private use; other characters that draw nothing (variation selectors, the fillers of
// Hangul, the joiner of graphemes), and the blank of Braille. A reader would not see them, or would see the
// rest in another order.
export const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Default_Ignorable_Code_Point}\u2800]/gu
const MARKUP = /[&<>"'`=]/g

/**
 * The text as HTML character data, usable in element content and quoted attributes; invisible characters
 * become `\u{202e}`.
 */
export function escapeHtml(text: string): string {
  return text
    .replace(UNSEEN, mark => `\\u{${mark.codePointAt(0)!.toString(16)}}`)
    .replace(MARKUP, mark => `&#${mark.codePointAt(0)};`)
}
