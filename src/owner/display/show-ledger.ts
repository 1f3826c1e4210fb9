/**
 * Owns how the ledger reads on a terminal: sentences in her time zone for a person, and every member in a
 * table for a file or another program. Contract: "Events" (row 5), "Owner API" (`GET /owner/ledger`).
 */
import { happenedAt, ledgerSentence, reportedText } from '../../rules/words/ledger-sentences.ts'
import {
  hanging,
  localTime,
  localZone,
  printable,
  printableTime,
  printableValue,
} from '../../terminal/printable.ts'
import { isJsonObject } from '../../wire/json.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { agentName, NO_NAMES, type DisplayNames } from './labels.ts'
import { columnsTable, type Column } from './columns.ts'
import { labelColumns } from './show.ts'

/**
 * The ledger: on a terminal `columns` wide one sentence per entry, otherwise one line of a table, in which
 * members of a particular kind come last, without nested records (`--json` has all).
 */
export function ledgerTable(
  entries: LedgerEntry[],
  columns?: number,
  names: DisplayNames = NO_NAMES,
): string {
  if (entries.length === 0) return 'Nothing is recorded.\n'
  if (columns !== undefined)
    return `Times of ${localZone()}. --wide shows every member of an entry.\n${entries.map(entry => ledgerLine(entry, columns, names)).join('')}`
  const all = ledgerColumns(entries, names)
  return columnsTable(entries, all, undefined)
}

/** One entry of the ledger, as a line by itself. */
export function ledgerLine(
  entry: LedgerEntry,
  columns: number | undefined,
  names: DisplayNames = NO_NAMES,
): string {
  if (columns !== undefined) return sentenceLine(entry, columns, names)
  const cells = ledgerColumns([entry], names).map(({ of, as }) =>
    as === 'time' ? printableTime(of(entry)) : of(entry),
  )
  return `${cells.map(printableValue).join('  ').trimEnd()}\n`
}

/** The time of a call is that of the call, not of its report. */
function sentenceLine(entry: LedgerEntry, columns: number, names: DisplayNames): string {
  const at = happenedAt(entry)
  const time = localTime(at.ms / 1_000, { precise: true })
  const sentence = sentenceOf(entry, names) ?? plainText(entry, names)
  const head = `${at.isWholeSecond ? time.replace(/\d{3}$/, '---') : time}  `
  const text = printable(sentence + reportedText(at))
  return `${hanging(head + text, head.length, columns)}\n`
}

function sentenceOf(entry: LedgerEntry, { labels, resources }: DisplayNames): string | undefined {
  return ledgerSentence(entry, handle => agentName(handle, labels), resources)
}

/** An entry of a kind that has no sentence. */
function plainText({ kind, handle, ...members }: LedgerEntry, { labels }: DisplayNames): string {
  const { seq: _seq, ts: _ts, family: _family, ...more } = members
  const who = typeof handle === 'string' ? ` ${agentName(handle, labels)}` : ''
  return `${kind}${who} ${moreText(more)}`.trimEnd()
}

function ledgerColumns(entries: readonly LedgerEntry[], { labels }: DisplayNames): Column<LedgerEntry>[] {
  return [
    { heading: 'seq', of: entry => entry.seq },
    { heading: 'time', of: entry => entry.ts, as: 'time' },
    { heading: 'kind', of: entry => entry.kind },
    { heading: 'family', of: entry => entry.family },
    { heading: 'handle', of: entry => entry.handle },
    ...labelColumns(entries, labels),
    {
      heading: 'more',
      of: ({ seq: _seq, ts: _ts, kind: _kind, family: _family, handle: _handle, ...more }) => moreText(more),
    },
  ]
}

function moreText(more: Record<string, unknown>): string {
  return Object.entries(more)
    .filter(([, value]) => value !== null && value !== undefined && value !== '' && !isJsonObject(value))
    .map(([name, value]) => `${printable(name)}=${printableValue(value)}`)
    .join(' ')
}
