/**
 * Owns the last step of the story: what the owner's ledger must say about it. Contract: "Events" (row 5).
 */
import {
  happenedAt,
  ledgerSentence,
  readAll,
  reportedText,
  shortName,
  type LedgerEntry,
} from '../../owner/index.ts'
import { localTime } from '../../terminal/printable.ts'
import { until } from '../stack/child-process.ts'
import { expectEqual, expectThat, show, type Scene } from './scene.ts'

/**
 * What was decided and promised, in the order it happened; `touched` comes from reports, so at its own time.
 */
const DECISIONS = ['promised', 'connected', 'approved', 'promised', 'promised', 'approved', 'revoked']
const TOUCHES = ['place_trade', 'portfolio_read', 'portfolio_read', 'statement_read']

export async function tellLedger({ owner, handle }: Scene): Promise<string[]> {
  const entries = await until('the ledger to tell of every call that was let through', async () => {
    const found = await readAll(owner.ledger())
    return found.filter(({ kind }) => kind === 'touched').length >= TOUCHES.length && found
  })
  const mine = entries.filter(entry => entry.handle === handle)
  const touched = mine.filter(({ kind }) => kind === 'touched')
  expectEqual(
    'Every call let through is there, and no other.',
    touched.map(({ tool }) => show(tool)).toSorted((a, b) => a.localeCompare(b)),
    TOUCHES,
  )
  expectEqual(
    'What was promised and decided is there, in order.',
    mine.map(({ kind }) => kind).filter(kind => DECISIONS.includes(kind)),
    DECISIONS,
  )
  expectThat(
    'What was refused is there too.',
    entries.some(({ kind }) => kind === 'refused'),
    entries.map(({ kind }) => kind),
  )
  const revoked = mine.find(({ kind }) => kind === 'revoked')
  expectThat(
    'Every call came before she revoked, by the time of the call.',
    revoked !== undefined && touched.every(call => happenedAt(call).ms <= happenedAt(revoked).ms),
    touched.map(({ at_ms }) => at_ms),
  )
  expectThat(
    'Whatever belongs to a negotiation carries its family.',
    mine.every(entry => entry.kind === 'revoked' || entry.family !== undefined),
    mine.filter(entry => entry.family === undefined),
  )
  return [
    '→ GET /owner/ledger',
    ...entries.toSorted((a, b) => happenedAt(a).ms - happenedAt(b).ms).map(entry => `← ${line(entry)}`),
    '  Each call has the time at which the sidecar let it through: the last one came before she revoked.',
  ]
}

/** In her time zone, at the time of the call. */
function line(entry: LedgerEntry): string {
  const at = happenedAt(entry)
  const time = localTime(at.ms / 1_000, { precise: true }).slice('2026-11-21 '.length)
  const sentence = ledgerSentence(entry, handle => `Agent ${shortName(handle)}`)
  return `${time}  ${sentence ?? entry.kind}${reportedText(at)}`
}
