/**
 * Owns how heads of ledgers are printed (`usher sidecar heads`). Contract: "Events" (row 5); docs/choices.md,
 * "Heads that others keep".
 */
import type { LedgerHead } from '../wire/ledger/ledger-head.ts'
import { printableTime, table } from './printable.ts'

/** A head, about whom it is, and when it was received, in seconds since the epoch. */
export interface HeadLine {
  owner: string
  received_at: number
  ledger_head: LedgerHead
}

/** A table for people, `columns` wide; with `json`, one object a line, with all that was received. */
export function headsText(
  heads: readonly HeadLine[],
  { json = false, columns }: { json?: boolean | undefined; columns?: number | undefined } = {},
): string {
  if (json) return heads.map(one => `${JSON.stringify(one)}\n`).join('')
  if (heads.length === 0) return 'No authority sent a head of a ledger in the last seven days.\n'
  return table(
    ['owner', 'received', 'size', 'root', 'origin'],
    heads.map(({ owner, received_at, ledger_head: { origin, size, root } }) => [
      owner,
      printableTime(received_at),
      size,
      root,
      origin,
    ]),
    columns,
  )
}
