/**
 * Owns `usher owner receipts`: what agents signed and the authority counter-signed, and whether it holds.
 * Contract: "Grant answer (beat 4)": both sides hold the receipt.
 */
import type { Command } from 'commander'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import { verifyReceipt } from '../../wire/negotiation/receipt.ts'
import { Refusal } from '../../wire/refusal.ts'
import { readAll } from '../../client/exchange.ts'
import { wholeNumber } from '../../client/program.ts'
import { ApiError } from '../../client/api-error.ts'
import { nameOf } from '../../client/names.ts'
import type { ReceiptsQuery } from '../client.ts'
import type { ReceiptRecord } from '../../wire/owner/owner-api.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { namesOf } from '../display/labels.ts'
import { receiptTable } from '../display/show-receipts.ts'

interface ReceiptsOptions {
  family?: string
  after?: number
  limit?: number
  verify?: boolean
}

/** Adds the command. */
export function addReceipts(program: Command, action: OwnerAction): void {
  program
    .command('receipts')
    .option('--family <family>', 'of this negotiation only; the beginning of its name will do')
    .option('--after <seq>', 'receipts after this one', wholeNumber)
    .option('--limit <count>', 'at most this number', wholeNumber)
    .option(
      '--verify',
      "check each against the authority's published keys, and the agreement in it against the agent's",
    )
    .description('what agents signed and what they were granted for it, counter-signed, oldest first')
    .action(action((session, options: ReceiptsOptions) => receipts(session, options)))
}

async function receipts(session: OwnerSession, options: ReceiptsOptions): Promise<void> {
  const { client } = session
  const { verify, ...query } = options
  const records = await receiptsOf(session, query)
  const names = await namesOf(session)
  if (verify !== true) return tell(session, records, (all, columns) => receiptTable(all, columns, names))
  const { issuer } = client.access
  const keys = await client.publishedKeys()
  const verdicts = records.map(record => ({ record, fault: faultOf(record, keys, issuer) }))
  tell(
    session,
    verdicts.map(({ record, fault }) => ({ ...record, verified: fault === undefined, fault: fault ?? null })),
    (checked, columns) =>
      receiptTable(
        records,
        columns,
        names,
        checked.map(({ fault }) => fault ?? 'verified'),
      ),
  )
  const bad = verdicts.filter(({ fault }) => fault !== undefined).length
  if (bad > 0)
    throw new ApiError(
      'receipt_unverified',
      `Of ${records.length} receipts ${bad} do not hold: keep what was printed, and ask the authority.`,
    )
}

/** If no receipt has this family, it may be the beginning of one. */
async function receiptsOf({ client }: OwnerSession, query: ReceiptsQuery): Promise<ReceiptRecord[]> {
  const found = await readAll(client.receipts(query))
  const { family: name, ...others } = query
  if (found.length > 0 || name === undefined) return found
  const all = await readAll(client.receipts({ ...others, limit: undefined }))
  const family = nameOf(
    name,
    all.map(one => one.family),
  )
  return family === undefined ? found : all.filter(one => one.family === family).slice(0, others.limit)
}

/** The fault of a receipt, or of what the list says about it. */
function faultOf(record: ReceiptRecord, keys: PublishedKey[], issuer: string): string | undefined {
  try {
    const { claims } = verifyReceipt(record.receipt, keys, { issuer, now: Math.floor(Date.now() / 1_000) })
    const signedIds = [claims.family, claims.rpt, claims.sub]
    return String(signedIds) === String([record.family, record.jti, record.handle])
      ? undefined
      : 'The list names another negotiation, grant or agent than the receipt.'
  } catch (error) {
    if (error instanceof Refusal) return error.detail ?? error.message
    throw error
  }
}
