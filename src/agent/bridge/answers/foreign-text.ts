/**
 * Owns how text of strangers reaches a client or a terminal: escaped, and no longer than somebody would read.
 * Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed). Clients show
 * text as Markdown or HTML, so markup is escaped too.
 */
import { printable, printableLines } from '../../../terminal/printable.ts'

const LINE_LENGTH_MAX = 500
const TEXT_LENGTH_MAX = 4000

/** One line: controls and hidden characters as escapes, markup as entities, at most 500 characters. */
export function foreignLine(text: string): string {
  return withoutMarkup(printable(bounded(text, LINE_LENGTH_MAX)))
}

/** One line, never cut: for text that is shown whole or not at all. */
export function foreignWhole(text: string): string {
  return withoutMarkup(printable(text))
}

/** Several lines, at most so many characters, 4000 if left out. */
export function foreignText(text: string, max = TEXT_LENGTH_MAX): string {
  return withoutMarkup(printableLines(bounded(text, max)))
}

/**
 * Whether `foreignLine` shows the text as it is: a name that it would have to change is not used as a name.
 */
export function isPlain(text: string): boolean {
  const plain = withoutEmoji(text)
  return foreignLine(plain) === plain
}

/** Whether a name of a program's, which markup does nothing to, has no character that is hidden or obeyed. */
export function isVisible(name: string): boolean {
  const plain = withoutEmoji(name)
  return printable(plain) === plain
}

/** Emoji are one picture each, whatever joins their parts. */
const EMOJI = /\p{RGI_Emoji}/gv
function withoutEmoji(text: string): string {
  return text.replaceAll(EMOJI, '')
}

/**
 * Escapes tags, and links or images that fetch something or lead elsewhere than they say, including those
 * whose address is on its own line, `[name]: address`.
 */
function withoutMarkup(text: string): string {
  return text
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/\](?=[([:])/g, '] ')
}

function bounded(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text
}
