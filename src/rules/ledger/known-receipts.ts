/**
 * Whether what receipts promise is on record: a receipt's agreement has its entry `promised` before the
 * receipt exists. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5), "Grant answer (beat
 * 4)".
 */
import { parseJsonObject } from '../../wire/json.ts'
import type { LedgerFileEntry } from '../../wire/ledger/ledger-file.ts'
import { tagOfOrigin } from '../../wire/ledger/ledger-head.ts'
import type { ReceiptClaims } from '../../wire/negotiation/receipt.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { LedgerFault } from './ledger-faults.ts'

/** A receipt whose signature was verified, and words for where it is from. */
export interface ReceiptAt {
  claims: Pick<ReceiptClaims, 'iss' | 'owner' | 'agreement' | 'iat'>
  from: string
}

/** A ledger that receipts are looked for in. */
export interface SearchedLedger {
  owner: string
  origin: string
  /** Those that are what was signed, by position. */
  entries: ReadonlyMap<number, LedgerFileEntry>
  /** Whether every position has an entry. */
  isComplete: boolean
}

/** The clocks of an authority's processes may differ by so much. */
const SLACK_MS = 60_000

/** Receipts whose entry is not in the ledger, though it reaches beyond the time of the receipt. */
export function findOmissions(known: readonly ReceiptAt[], ledger: SearchedLedger): LedgerFault[] {
  if (known.length === 0) return []
  const promises = [...ledger.entries.values()].filter(({ kind }) => kind === 'promised')
  const agreements = new Set(promises.map(({ data_text }) => agreementOf(data_text)))
  const reaches = [...ledger.entries.values()].reduce(
    (most, { ts }) => Math.max(most, Date.parse(ts) || 0),
    0,
  )
  return known.flatMap(one => faultOf(one, ledger, { agreements, reaches }) ?? [])
}

function faultOf(
  { claims, from }: ReceiptAt,
  { owner, origin, isComplete }: SearchedLedger,
  { agreements, reaches }: { agreements: ReadonlySet<string | undefined>; reaches: number },
): LedgerFault | undefined {
  if (claims.owner !== owner || tagOfOrigin(origin, claims.iss) === undefined) {
    const sentence = `The receipt of ${from} is of ${claims.owner} at ${claims.iss}, and this ledger is ${origin} of ${owner}: give receipts of this owner there.`
    return { code: 'other_ledger', sentence }
  }
  if (agreements.has(claims.agreement)) return undefined
  const begins = `The receipt of ${from} has no entry \`promised\` in this ledger`
  if (reaches <= claims.iat * 1_000 + SLACK_MS)
    return {
      code: 'unproved',
      sentence: `${begins}, which ends before the receipt is a minute old: export it again when later entries are in it.`,
    }
  if (!isComplete)
    return {
      code: 'unproved',
      sentence: `${begins}, in which entries are absent: its entry may be one of them. Ask for a ledger that has them.`,
    }
  return {
    code: 'omission',
    sentence: `${begins}, which has later entries: it was left out, or a restore has lost it. Show the receipt to the authority.`,
  }
}

function agreementOf(text: string): string | undefined {
  try {
    const { agreement } = parseJsonObject(text)
    return typeof agreement === 'string' ? agreement : undefined
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}
