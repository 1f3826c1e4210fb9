/**
 * Whether what receipts promise is on record: a receipt's agreement has its entry `promised` before the
 * receipt exists. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5), "Grant answer (beat
 * 4)".
 */
import { parseJsonObject } from '../../wire/json.ts'
import type { Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type { LedgerFileEntry } from '../../wire/ledger/ledger-file.ts'
import { tagOfOrigin, verifyLedgerHead } from '../../wire/ledger/ledger-head.ts'
import type { ReceiptClaims } from '../../wire/negotiation/receipt.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import type { LedgerFault } from './ledger-faults.ts'

/** A receipt whose signature was verified, and words for where it is from. */
export interface ReceiptAt {
  claims: Pick<ReceiptClaims, 'iss' | 'owner' | 'sub' | 'agreement' | 'iat' | 'ledger_head'>
  from: string
}

/** A ledger that receipts are looked for in. */
export interface SearchedLedger {
  owner: string
  checkpoint: Checkpoint
  /** The keys of the log. */
  keys: readonly PublishedKey[]
  /** The agreements that its entries promise, as far as receipts name them. */
  agreements: ReadonlySet<string>
  /** The time of its latest entry, in milliseconds since the epoch; 0 if there is none. */
  latestMs: number
  /** The one agent whose entries these are; undefined: they are those of all. */
  handle?: string | undefined
  /**
   * From what time on no entry is absent, at any position or in the chain of that agent, in milliseconds
   * since the epoch; -Infinity: none is; Infinity: nobody can say.
   */
  completeFromMs: number
}

/** The clocks of an authority's processes may differ by so much. */
const SLACK_MS = 60_000
const HOUR_MS = 3_600_000

/**
 * Receipts whose entry is not in the ledger, though it reaches beyond the time of the receipt. In the record
 * of one agent those of others are not looked for; their heads say how far the record reaches.
 */
export function findOmissions(known: readonly ReceiptAt[], ledger: SearchedLedger): LedgerFault[] {
  const { owner, checkpoint, handle } = ledger
  const isMine = ({ claims }: ReceiptAt): boolean =>
    claims.owner === owner && tagOfOrigin(checkpoint.origin, claims.iss) !== undefined
  const mine = known.filter(isMine)
  const others = known.filter(one => !isMine(one)).map(one => otherLedger(one, ledger))
  const sought = mine.filter(({ claims }) => handle === undefined || claims.sub === handle)
  if (mine.length > 0 && sought.length === 0) return [...others, otherAgents(handle!)]
  const reach = reachOf(mine, ledger)
  const absent = sought.filter(({ claims }) => !ledger.agreements.has(claims.agreement))
  return [...others, ...absent.map(one => absenceOf(one, ledger, reach))]
}

function otherLedger({ claims, from }: ReceiptAt, { owner, checkpoint }: SearchedLedger): LedgerFault {
  const sentence = `The receipt of ${from} is of ${claims.owner} at ${claims.iss}, and this ledger is ${checkpoint.origin} of ${owner}: give receipts of this owner there.`
  return { code: 'other_ledger', from, sentence }
}

function otherAgents(handle: string): LedgerFault {
  const sentence = `None of the receipts that you gave is of ${handle}, whose record this is: give receipts of that agent, or verify the whole ledger.`
  return { code: 'other_ledger', sentence }
}

/** Until when everything promised is in a ledger, in milliseconds since the epoch: what says so, and when. */
interface LedgerReach {
  entries: number
  heads: number
}

/**
 * A ledger has what was promised before its latest entry. It has also what was promised before the hour of a
 * receipt whose head it covers, because that head is the last one that was signed before that hour.
 */
function reachOf(mine: readonly ReceiptAt[], { checkpoint, keys, latestMs }: SearchedLedger): LedgerReach {
  const covered = mine.filter(({ claims: { ledger_head: head } }) => {
    if (head === undefined || head.origin !== checkpoint.origin || head.size > checkpoint.size) return false
    try {
      return verifyLedgerHead(head, keys).size === head.size
    } catch (error) {
      if (error instanceof Refusal) return false
      throw error
    }
  })
  return {
    entries: latestMs,
    heads: covered.reduce((most, { claims }) => Math.max(most, hourOf(claims.iat)), 0),
  }
}

/** The hour (UTC) that had begun for certain when a receipt of this time (seconds) got its head. */
const hourOf = (iat: number): number => Math.floor((iat * 1_000 - SLACK_MS) / HOUR_MS) * HOUR_MS

function absenceOf({ claims, from }: ReceiptAt, ledger: SearchedLedger, reach: LedgerReach): LedgerFault {
  const { handle, completeFromMs } = ledger
  const { ledger_head: head, iat } = claims
  const place = handle === undefined ? 'this ledger' : `this record of ${handle}`
  const begins = `The receipt of ${from} has no entry \`promised\` in ${place}`
  const fault = (code: 'unproved' | 'omission', ends: string): LedgerFault => ({
    code,
    from,
    ...(head === undefined ? {} : { receiptOrigin: head.origin }),
    sentence: `${begins}, ${ends}`,
  })
  const after = iat * 1_000 + SLACK_MS
  if (Math.max(reach.entries, reach.heads) <= after)
    return fault(
      'unproved',
      'which ends before the receipt is a minute old: export it again when later entries are in it, or give a receipt of a later hour with it.',
    )
  if (iat * 1_000 - SLACK_MS <= completeFromMs)
    return fault(
      'unproved',
      'in which entries are absent: its entry may be one of them. Ask for a ledger that has them.',
    )
  return reach.entries > after
    ? fault(
        'omission',
        'which has later entries: it was left out, or a restore has lost it. Show the receipt to the authority.',
      )
    : fault(
        'omission',
        'which covers the head of a later hour in another receipt: it was left out, or a restore has lost it, unless the log signed nothing from the receipt until that hour. Show both to the authority.',
      )
}

/** The time of an entry, in milliseconds since the epoch; 0 if it has none. */
export const timeOf = ({ ts }: Pick<LedgerFileEntry, 'ts'>): number => Date.parse(ts) || 0

/**
 * Kinds whose entries have the time of what they count, which may be long before they were entered: of all
 * others that is about the same.
 */
const COUNTING = new Set(['refused', 'identity_refused', 'joint_refused'])

/** Whether what was promised over a minute after the time of this entry stands behind it. */
export const isTimely = ({ kind }: Pick<LedgerFileEntry, 'kind'>): boolean => !COUNTING.has(kind)

/** The agreement that an entry promises, if it is one that does. */
export function promiseIn({ kind, data_text }: LedgerFileEntry): string | undefined {
  if (kind !== 'promised') return undefined
  try {
    const { agreement } = parseJsonObject(data_text)
    return typeof agreement === 'string' ? agreement : undefined
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}
