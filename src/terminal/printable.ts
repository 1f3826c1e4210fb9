/**
 * Owns how text from others reaches a person's terminal. contract, "Agreement (claim_token, beat 3)": `reason` and its like
 * are shown to the owner, and are written by strangers; a terminal obeys what it is shown.
 */

// Controls (ESC among them), format characters (direction marks, zero widths, tags), separators of lines and paragraphs,
// halves of surrogate pairs, private use.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu

/** The text with every character that a terminal would act on, or hide, written as an escape: ESC is `\u{1b}`. */
export function printable(text: string): string {
  return text.replace(UNSEEN, mark => `\\u{${mark.codePointAt(0)!.toString(16)}}`)
}

/** The text as printable lines: its own line feeds are kept, everything else is escaped. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** JSON to be read by a person or a script: indented, and free of characters a terminal would act on. */
export function printableJson(value: unknown): string {
  const text = JSON.stringify(value, null, 2) ?? 'null'
  // Inside JSON text the escape must be JSON's own, so that the value stays what it was.
  return text.replace(UNSEEN, mark => (mark === '\n' ? mark : jsonEscape(mark)))
}

/** A time in seconds since the epoch or in ISO 8601 as `2026-11-21 09:30:00Z`; any other value printable as it is. */
export function printableTime(value: unknown): string {
  const date = new Date(typeof value === 'number' ? value * 1000 : String(value))
  if (value === null || value === undefined || value === '' || Number.isNaN(date.getTime()))
    return printableValue(value)
  return date
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z')
}

/** A JSON value as one printable line: text as it is, lists joined, nothing as `-`. */
export function printableValue(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (typeof value === 'string') return printable(value)
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(printableValue).join(', ')
  return printable(JSON.stringify(value) ?? '-')
}

/** A table with its columns aligned, one line per row; cells are made printable here. */
export function table(headings: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const cells = [
    headings.map(heading => printable(heading.toUpperCase())),
    ...rows.map(row => row.map(printableValue)),
  ]
  const widths = headings.map((_, column) => Math.max(...cells.map(row => lengthOf(row[column]))))
  const lines = cells.map(row =>
    row
      .map((cell, column) => cell + ' '.repeat(widths[column]! - lengthOf(cell)))
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}

/** A record with one `name  value` line per member that has a value. */
export function record(members: Readonly<Record<string, unknown>>, indent = ''): string {
  const named = Object.entries(members)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => [printable(name), value] as const)
  const width = Math.max(0, ...named.map(([name]) => name.length))
  return named.map(([name, value]) => `${indent}${name.padEnd(width)}  ${printableValue(value)}\n`).join('')
}

function lengthOf(cell: string | undefined): number {
  return Array.from(cell ?? '').length
}

function jsonEscape(mark: string): string {
  return Array.from(
    { length: mark.length },
    (_, i) => `\\u${mark.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')
}
