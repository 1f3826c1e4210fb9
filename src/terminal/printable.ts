/**
 * Owns how text from others reaches a person's terminal. Contract: "Agreement (claim_token, beat 3)":
 * `reason` and its like are shown to the owner, and strangers write them; a terminal obeys what it is shown.
 */

// Controls (ESC among them), format characters (direction marks, zero widths, tags), separators of lines and
// paragraphs, halves of surrogate pairs, private use; other characters that draw nothing (variation
// selectors, the fillers of Hangul, the joiner of graphemes), and the blank of Braille.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Default_Ignorable_Code_Point}\u2800]/gu

/**
 * The text with every character that a terminal would act on, or hide, written as an escape: ESC is `\u{1b}`.
 */
export function printable(text: string): string {
  return text.replace(UNSEEN, mark => `\\u{${mark.codePointAt(0)!.toString(16)}}`)
}

/** The text as printable lines: its own line feeds are kept, everything else is escaped. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** JSON for a person or a script: indented, and free of characters that a terminal would act on. */
export function printableJson(value: unknown): string {
  const text = JSON.stringify(value, null, 2) ?? 'null'
  // Inside JSON text the escape must be JSON's own, so that the value stays what it was.
  return text.replace(UNSEEN, mark => (mark === '\n' ? mark : jsonEscape(mark)))
}

/** JSON on one line, only in ASCII, so that nothing in it can act on a terminal. */
export function printableLine(value: unknown): string {
  return JSON.stringify(value).replace(/[^\x20-\x7e]/g, jsonEscape)
}

/**
 * A time in seconds since the epoch or in ISO 8601 as `2026-11-21 09:30:00Z`; any other value printable as it
 * is.
 */
export function printableTime(value: unknown): string {
  const date = new Date(typeof value === 'number' ? value * 1000 : String(value))
  if (value === null || value === undefined || value === '' || Number.isNaN(date.getTime()))
    return printableValue(value)
  return date
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z')
}

/** How a time is shown to a person; `precise` is for times that are compared with each other. */
export interface TimeForm {
  precise?: boolean
  /** An IANA name; that of this machine if left out. */
  zone?: string | undefined
}

/**
 * A time in seconds since the epoch or in ISO 8601, in the time zone of the reader: `2026-11-21 10:30`, or
 * `2026-11-21 10:30:00.125` if it must be precise; any other value printable as it is.
 */
export function localTime(value: unknown, { precise = false, zone }: TimeForm = {}): string {
  const date = new Date(typeof value === 'number' ? value * 1000 : String(value))
  if (value === null || value === undefined || value === '' || Number.isNaN(date.getTime()))
    return printableValue(value)
  const parts = new Intl.DateTimeFormat('en-GB', {
    ...(zone === undefined ? {} : { timeZone: zone }),
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hourCycle: 'h23',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  }).formatToParts(date)
  const of = (type: Intl.DateTimeFormatPartTypes): string =>
    parts.find(part => part.type === type)?.value ?? ''
  const minute = `${of('year')}-${of('month')}-${of('day')} ${of('hour')}:${of('minute')}`
  return precise ? `${minute}:${of('second')}.${of('fractionalSecond')}` : minute
}

/** The time zone of this machine: `Europe/Zurich`. */
export function localZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone
}

/** A JSON value as one printable line: text as it is, lists joined, nothing as `-`. */
export function printableValue(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (typeof value === 'string') return printable(value)
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(printableValue).join(', ')
  return printable(JSON.stringify(value) ?? '-')
}

/**
 * A table with its columns aligned, one line per row; cells are made printable here. `columns` limits its
 * width: long cells are cut, with `…` at their end, and if that is not enough, each row becomes its own
 * record.
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly unknown[])[],
  columns = Number.POSITIVE_INFINITY,
): string {
  const cells = [
    headings.map(heading => printable(heading.toUpperCase())),
    ...rows.map(row => row.map(printableValue)),
  ]
  const widths = widthsWithin(cells, columns)
  if (widths === undefined)
    return rows
      .map(row => record(Object.fromEntries(headings.map((heading, column) => [heading, row[column]]))))
      .join('\n')
  const lines = cells.map(row =>
    row
      .map((cell, column) => toWidth(cell, widths[column]!))
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

/** The text in lines of at most `columns` characters, broken at blanks; all but the first are indented. */
export function hanging(text: string, indent: number, columns: number): string {
  const lines: string[] = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1)!
    const isFirst = last.trim() === ''
    if (isFirst || lengthOf(last) + 1 + lengthOf(word) <= columns)
      lines[lines.length - 1] = isFirst ? last + word : `${last} ${word}`
    else lines.push(' '.repeat(indent) + word)
  }
  return lines.join('\n')
}

/** Marks where a cell was cut. */
export const CUT = '…'

/** No column becomes narrower than this, because the rest of a name must still identify it. */
const CUT_TO_MIN = 10
/** A time that was cut is useless. */
const NEVER_CUT = /^\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(Z|\.\d{3}))?$/

/**
 * How wide each column is so that a line is at most `columns` wide, the widest cut first; undefined if that
 * cannot be.
 */
function widthsWithin(cells: readonly (readonly string[])[], columns: number): number[] | undefined {
  const numbers = cells[0]!.map((_, column) => column)
  const widths = numbers.map(column => Math.max(...cells.map(row => lengthOf(row[column]))))
  const mayBeCut = numbers.map(column => !cells.some(row => NEVER_CUT.test(row[column] ?? '')))
  let excess = widths.reduce((sum, width) => sum + width + 2, -2) - columns
  while (excess > 0) {
    const widest = Math.max(...widths.filter((_, column) => mayBeCut[column]))
    if (widest <= CUT_TO_MIN) return undefined
    widths[widths.findIndex((width, column) => width === widest && mayBeCut[column])]!--
    excess--
  }
  return widths
}

function toWidth(cell: string, width: number): string {
  const missing = width - lengthOf(cell)
  if (missing >= 0) return cell + ' '.repeat(missing)
  return `${Array.from(cell)
    .slice(0, width - 1)
    .join('')}${CUT}`
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
