/**
 * Owns how receipts read on a terminal. Contract: "Grant answer (beat 4)": both sides hold the receipt.
 */
import { RECEIPT_BYTES_MAX } from '../../wire/negotiation/receipt.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import type { ReceiptRecord } from '../../wire/owner/owner-api.ts'
import { Refusal } from '../../wire/refusal.ts'
import { columnsTable } from './columns.ts'
import { NO_NAMES, type DisplayNames } from './labels.ts'
import { labelColumns, resourceColumns } from './show.ts'

/** Receipts, one line each, with the result of verifying them if that was asked. */
export function receiptTable(
  records: ReceiptRecord[],
  columns?: number,
  { labels, resources }: DisplayNames = NO_NAMES,
  found?: string[],
): string {
  if (records.length === 0) return 'No receipt is kept.\n'
  return columnsTable<ReceiptRecord>(
    records,
    [
      { heading: 'seq', of: one => one.seq },
      { heading: 'issued', of: one => one.issued_at, as: 'time' },
      { heading: 'family', of: one => one.family, as: 'name' },
      { heading: 'grant', of: one => one.jti, shown: 'wide' },
      ...resourceColumns(records, resourceIn, { resources, onTerminal: columns !== undefined }),
      { heading: 'handle', of: one => one.handle, as: 'name' },
      ...labelColumns(records, labels),
      ...(found === undefined
        ? []
        : [{ heading: 'found', of: (one: ReceiptRecord) => found[records.indexOf(one)] }]),
    ],
    columns,
  )
}

/**
 * The resource, as the receipt names it; undefined if it cannot be read. The list names none. No signature is
 * verified here: that is the column beside it.
 */
function resourceIn({ receipt }: ReceiptRecord): string | undefined {
  try {
    const { resource_id } = parseJws(receipt, RECEIPT_BYTES_MAX).payload
    return typeof resource_id === 'string' ? resource_id : undefined
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}
