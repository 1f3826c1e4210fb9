/**
 * A ledger that is verified while its lines are read: docs/choices.md, "The file of a ledger". Contract:
 * "Events" (row 5).
 */
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planConsistency } from '../../src/rules/ledger/merkle.ts'
import { ledgerJudge } from '../../src/rules/ledger/verify-ledger.ts'
import {
  Refusal,
  verifyLedger,
  verifyLedgerLines,
  verifyRecord,
  type LedgerFault,
  type LedgerKnowledge,
} from '../../src/verify/index.ts'
import type { LedgerFile, LedgerFileEntry, LedgerRecord } from '../../src/wire/ledger/ledger-file.ts'
import {
  BEGINS_MS,
  headOf,
  LOG_KEY,
  ledgerFileOf,
  OWNER,
  proofBy,
  recordOf,
  sampleEntries,
  textOf,
} from '../support/sample-ledger.ts'
import '../support/property-seed.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const entries = sampleEntries(600)
const honest = ledgerFileOf(entries)
/** A head and a receipt that the ledger fits, and one of each that it does not. */
const KNOWLEDGE: LedgerKnowledge = {
  keys: [LOG_KEY],
  heads: [entries.slice(0, 300), entries.slice(1, 300)].map((some, n) => ({
    head: headOf(some),
    from: `heads.jsonl:${n + 1}`,
  })),
  receipts: ['s256:300', 's256:none'].map((agreement, n) => ({
    claims: {
      iss: 'https://as.example',
      owner: OWNER as never,
      sub: 'jkt:0' as never,
      agreement,
      iat: (BEGINS_MS + 300_000) / 1_000,
    },
    from: `receipts.txt:${n + 1}`,
  })),
}
const codes = (faults: readonly LedgerFault[]) => faults.map(({ code }) => code)
const linesOf = (file: LedgerFile | LedgerRecord) => textOf(file).trimEnd().split('\n')

/** How many of these are still in memory, after all that nobody holds was collected. */
async function countHeld(references: readonly WeakRef<object>[]): Promise<number> {
  // A reference that was made in this turn holds its object until the turn is over.
  await turn()
  collectGarbage()
  return references.filter(reference => reference.deref() !== undefined).length
}

/** What somebody changes in an entry, or that it is absent. */
const CHANGES = {
  body: entry => ({ ...entry, data_text: '{}' }),
  agent: entry => ({ ...entry, handle: 'jkt:9', prev: 0 }),
  chain: entry => ({ ...entry, prev: entry.prev === null ? null : Math.max(0, entry.prev - 4) }),
  absence: () => undefined,
} satisfies Record<string, (entry: LedgerFileEntry) => LedgerFileEntry | undefined>

describe('A ledger that is verified line by line', () => {
  it('is held by its places and hashes: of its entries there is none in memory when the last one has come', async () => {
    const judge = ledgerJudge(honest, KNOWLEDGE)
    for (const tile of honest.tiles) judge.tile(tile)
    const references = entries.flatMap(entry => {
      const copy = { ...entry, salt: Buffer.from(entry.salt) }
      judge.entry(copy)
      return [new WeakRef<object>(copy), new WeakRef<object>(copy.salt)]
    })
    expect(await countHeld(references)).toBe(0)
    expect(codes(judge.verdict().faults)).toEqual(['fork', 'omission'])
  })

  it('has the same faults in whatever order its tiles and entries come, and those of the order beside them', () => {
    const some = entries.slice(0, 300)
    const kinds = Object.keys(CHANGES) as (keyof typeof CHANGES)[]
    const change = fc.record({ at: fc.nat(299), kind: fc.constantFrom(...kinds), isSigned: fc.boolean() })
    const keys = fc.array(fc.nat(), { minLength: 400, maxLength: 400 })
    fc.assert(
      fc.property(fc.array(change, { maxLength: 4 }), keys, (changes, order) => {
        const changed = (isSigned: boolean) =>
          some.flatMap((entry, n) => {
            const mine = changes.filter(one => one.at === n && (one.isSigned || !isSigned))
            const made = mine.reduce<LedgerFileEntry | undefined>(
              (before, { kind }) => before && CHANGES[kind](before),
              entry,
            )
            return made ?? (isSigned ? [entry] : [])
          })
        const file = { ...ledgerFileOf(changed(true)), entries: changed(false) }
        const judge = ledgerJudge(file, KNOWLEDGE)
        const parts = [
          ...file.tiles.map(tile => () => judge.tile(tile)),
          ...file.entries.map(entry => () => judge.entry(entry)),
        ]
        const places = parts.map((_, n) => n).toSorted((one, other) => order[one]! - order[other]!)
        for (const place of places) parts[place]!()
        const inOrder = verifyLedger(file, KNOWLEDGE)
        const { checkpoint, faults } = judge.verdict()
        expect(checkpoint).toEqual(inOrder.checkpoint)
        expect(faults.filter(({ code }) => code !== 'order')).toEqual(inOrder.faults)
      }),
      { numRuns: 40 },
    )
  })

  it('is judged as the same ledger is in memory, and so is the record of an agent', async () => {
    const lie = { ...honest, entries: entries.with(299, { ...entries[299]!, data_text: '{}' }) }
    for (const file of [honest, lie]) {
      const read = await verifyLedgerLines(linesOf(file), () => KNOWLEDGE)
      expect(read).toMatchObject({ start: { owner: OWNER, handle: undefined }, entries: 600, last: 600 })
      expect(read.verdict()).toEqual(verifyLedger(file, KNOWLEDGE))
    }
    const record = recordOf(entries, 'jkt:1')
    const handles: (string | undefined)[] = []
    const read = await verifyLedgerLines(linesOf(record), ({ handle }) => {
      handles.push(handle)
      return KNOWLEDGE
    })
    expect(handles).toEqual(['jkt:1'])
    expect(read).toMatchObject({ entries: 150, last: 598 })
    expect(read.verdict()).toEqual(verifyRecord(record, KNOWLEDGE))
  })

  it('has its verdict by proofs that come after its lines', async () => {
    const older = ledgerFileOf(entries.slice(0, 500))
    const later = headOf(entries)
    const heads = [{ head: later, from: 'heads.jsonl:1' }]
    const read = await verifyLedgerLines(linesOf(older), () => ({ keys: [LOG_KEY], heads }))
    expect(codes(read.verdict().faults)).toEqual(['rollback'])
    const proof = proofBy(planConsistency(500, 600), honest.tiles)
    expect(read.verdict(new Map([[later.root, proof]])).faults).toEqual([])
  })

  it.each<[string, string[], string]>([
    ['there is none', [], 'The file is empty'],
    ['one is of no ledger', [...linesOf(honest).slice(0, 5), '{}'], 'Line 6 is none of a ledger'],
    ['one has no signed head', [linesOf(honest)[1]!], 'Line 1 is none of a ledger'],
  ])('is refused where of its lines %s, and nothing is judged', async (_what, lines, sentence) => {
    const refusal: unknown = await verifyLedgerLines(lines, () => KNOWLEDGE).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(Refusal)
    expect(String(refusal)).toContain(sentence)
  })
})
