/**
 * Owns how text of strangers reaches a client or a terminal: escaped, and no longer than somebody would read.
 * Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed). Clients show
 * text as Markdown or HTML, so markup is escaped too.
 */
import { printable, printableLines } from '../../terminal/printable.ts'

const LINE_MAX = 500
const TEXT_MAX = 4000

/** One line: controls and hidden characters as escapes, markup as entities, at most 500 characters. */
export function foreignLine(text: string): string {
  return withoutMarkup(printable(bounded(text, LINE_MAX)))
}

/** One line, never cut: for text that is shown whole or not at all. */
export function foreignWhole(text: string): string {
  return withoutMarkup(printable(text))
}

/** Several lines, at most 4000 characters. */
export function foreignText(text: string): string {
  return withoutMarkup(printableLines(bounded(text, TEXT_MAX)))
}

/**
 * Whether `foreignLine` shows the text as it is: a name that it would have to change is not used as a name.
 */
export function isPlain(text: string): boolean {
  return foreignLine(text) === text
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
