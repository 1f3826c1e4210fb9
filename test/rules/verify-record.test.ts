/**
 * What is found in the record of one agent that somebody changed: docs/choices.md, "The file of a ledger";
 * docs/proof.md. Contract: "Events" (row 5).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planConsistency } from '../../src/rules/ledger/merkle.ts'
import { verifyRecord, type LedgerRecord, type ProvedEntry } from '../../src/verify/index.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import type { LedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import {
  findingsOf,
  known,
  knownReceipt,
  LATER_HOUR,
  OTHER_KEY,
  spoil,
  spoilText,
} from '../support/ledger-to-verify.ts'
import { headOf, ledgerFileOf, ORIGIN, proofBy, recordOf, sampleEntries } from '../support/sample-ledger.ts'

const entries = sampleEntries(600)
/** The agent whose entries stand at 2, 6, 10 and so on, up to 598. */
const HANDLE = 'jkt:1'
const honest = recordOf(entries, HANDLE)
const { found, sentences } = findingsOf(verifyRecord)
const withEntries = (all: readonly ProvedEntry[]): LedgerRecord => ({ ...honest, entries: all })
const at = (position: number): ProvedEntry => honest.entries.find(({ seq }) => seq === position)!
const changed = (position: number, change: Partial<ProvedEntry>): LedgerRecord =>
  withEntries(honest.entries.map(entry => (entry.seq === position ? { ...entry, ...change } : entry)))
const without = (...positions: number[]): LedgerRecord =>
  withEntries(honest.entries.filter(({ seq }) => !positions.includes(seq)))
/** The entries, and among them one of another agent, which its own proof proves. */
const withOther = honest.entries.toSpliced(76, 0, recordOf(entries, 'jkt:2').entries[75]!)
/** The proof of an entry with a hash behind its end. */
const longer = (position: number) => [...at(position).proof, at(2).proof[0]!]

describe('The record of an agent that is what the log signed', () => {
  it('has no fault, whatever the size of the ledger and whoever the agent is', () => {
    for (const size of [1, 2, 3, 10, 255, 256, 257, 300, 600])
      for (const handle of ['jkt:0', 'jkt:1', 'jkt:2']) {
        const record = recordOf(entries.slice(0, size), handle)
        if (record.entries.length > 0) expect([size, handle, found(record)]).toEqual([size, handle, []])
      }
    expect(honest.entries).toHaveLength(150)
  })

  it('has no fault where its last entries are left out: nothing but the next entry would show it', () => {
    expect(found(withEntries(honest.entries.slice(0, 100)))).toEqual([])
  })
})

describe('In the record of an agent, what somebody changes', () => {
  it.each<[string, LedgerRecord, unknown[][]]>([
    ['in the body of an entry', changed(302, { data_text: '{}' }), [['proof', 302, 302]]],
    ['in its salt', changed(302, { salt: Buffer.alloc(16) }), [['proof', 302, 302]]],
    ['in its time', changed(302, { ts: '2026-11-28T18:05:02.000Z' }), [['proof', 302, 302]]],
    ['in its kind', changed(302, { kind: 'approved' }), [['proof', 302, 302]]],
    ['in its agent', changed(302, { handle: 'jkt:9' }), [['proof', 302, 302]]],
    ['in its chain', changed(302, { prev: 294 }), [['proof', 302, 302]]],
    ['in a hash of its proof', changed(302, { proof: at(306).proof }), [['proof', 302, 302]]],
    ['in the length of it', changed(302, { proof: at(302).proof.slice(1) }), [['proof', 302, 302]]],
    ['behind the end of it', changed(302, { proof: longer(302) }), [['proof', 302, 302]]],
    [
      'in its position',
      changed(302, { seq: 303 }),
      [
        ['proof', 303, 303],
        ['gap', 302, 302],
      ],
    ],
    [
      'in the size of the head',
      { ...honest, checkpoint: honest.checkpoint.replace('\n600\n', '\n599\n') },
      [['unsigned']],
    ],
    ['in the head, which is a text', { ...honest, checkpoint: 'a head' }, [['unsigned']]],
    ['and signs with a key of his own', recordOf(entries, HANDLE, { key: OTHER_KEY }), [['unsigned']]],
    ['by an entry of another agent', withEntries(withOther), [['other_agent', 303, 303]]],
    ['by an entry twice', withEntries(honest.entries.toSpliced(75, 0, at(302))), [['order', 302, 302]]],
    ['in the order', withEntries(honest.entries.toSpliced(75, 2, at(306), at(302))), [['order', 302, 302]]],
    [
      'by an entry behind the head',
      withEntries([...honest.entries, { ...at(302), seq: 602 }]),
      [['beyond_head', 602, 602]],
    ],
    ['by leaving one out', without(302), [['gap', 302, 302]]],
    ['by leaving several out', without(302, 306, 310), [['gap', 310, 310]]],
    [
      'by leaving out two that stand apart',
      without(50, 302),
      [
        ['gap', 50, 50],
        ['gap', 302, 302],
      ],
    ],
    ['by leaving the first out', without(2), [['gap', 2, 2]]],
    ['by leaving all out', withEntries([]), [['gap']]],
  ])('%s is found', (_what, record, faults) => {
    expect(found(record)).toEqual(faults)
  })

  it('in the names of owner or agent is found at each entry', () => {
    const codes = (record: LedgerRecord) => found(record).map(([code]) => code)
    expect(codes({ ...honest, owner: 'bob' })).toEqual(honest.entries.map(() => 'proof'))
    expect(codes({ ...honest, handle: 'jkt:9' })).toEqual(honest.entries.map(() => 'other_agent'))
  })

  it('by leaving entries out is always found, as long as a later one is there', () => {
    const last = honest.entries.length - 1
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(last - 1), { minLength: 1 }), out => {
        const rest = honest.entries.filter((_, n) => !out.includes(n))
        return found(withEntries(rest)).some(([code]) => code === 'gap')
      }),
    )
  })

  it('in one byte of an entry or of its proof is always found', () => {
    const texts = ['ts', 'kind', 'family', 'handle', 'data_text'] as const
    const change = fc.record({
      what: fc.constantFrom('seq', 'proof', 'salt', 'count', 'prev', ...texts),
      which: fc.nat(honest.entries.length - 1),
      place: fc.nat(1_000),
      by: fc.integer({ min: 1, max: 255 }),
    })
    const spoiled = (entry: ProvedEntry, what: keyof ProvedEntry, place: number, by: number): unknown => {
      const value = entry[what]
      if (typeof value === 'number') return value ^ by
      if (typeof value === 'string') return spoilText(value, place, by)
      if (value instanceof Uint8Array) return spoil(value, place, by)
      const hashes = value as readonly Uint8Array[]
      const hash = place % hashes.length
      return hashes.with(hash, spoil(hashes[hash]!, place, by))
    }
    fc.assert(
      fc.property(change, ({ what, which, place, by }) => {
        const entry = honest.entries[which]!
        if (entry[what] === null) return true
        const entriesThen = honest.entries.with(which, { ...entry, [what]: spoiled(entry, what, place, by) })
        const codes = found(withEntries(entriesThen)).map(([code]) => code)
        return codes.includes('proof') || codes.includes('beyond_head')
      }),
    )
    expect(found(honest)).toEqual([])
  })

  it('in the chain before the log signs it is found, whichever way it leads', () => {
    const chained = (prev: number) => {
      const all = entries.map(entry => (entry.seq === 306 ? { ...entry, prev } : entry))
      return recordOf(all, HANDLE)
    }
    expect(found(chained(298))).toEqual([['chain', 306, 306]])
    expect(sentences(chained(298))[0]).toContain('Entry 306 names entry 298 as the one before it of jkt:1')
    expect(found(chained(0))).toEqual([['chain', 306, 306]])
    expect(found(chained(306))).toEqual([['chain', 306, 306]])
    expect(found(chained(303))).toEqual([['gap', 303, 303]])
  })

  it('by showing the record of another ledger or authority is found', () => {
    const elsewhere = recordOf(entries, HANDLE, { origin: `${originBase('https://as.example')}MnOpQrStUvWx` })
    expect(found(elsewhere, { origin: ORIGIN })).toEqual([['other_origin']])
    expect(found(honest, { issuer: 'https://as.example.org' })).toEqual([['other_origin']])
    expect(found(honest, { origin: ORIGIN, issuer: 'https://as.example' })).toEqual([])
  })
})

describe('The record of an agent whose oldest entries the retention has deleted', () => {
  const rest = withEntries(honest.entries.filter(({ seq }) => seq > 256))

  it('is whole for whoever knows from where on it must be, and the sentence tells others what to do', () => {
    expect(found(rest, { first: 257 })).toEqual([])
    expect(found(rest, { first: 254 })).toEqual([['gap', 254, 254]])
    expect(sentences(rest)[0]).toMatch(/^Entry 254 is absent, which entry 258 names .*verify with --from 258/)
  })

  it('must have every entry after the first that is left, also below that position', () => {
    const gap = withEntries(rest.entries.filter(({ seq }) => seq !== 302))
    expect(found(gap, { first: 400 })).toEqual([['gap', 302, 302]])
    expect(sentences(gap, { first: 400 })[0]).toContain('No retention leaves a gap')
  })
})

describe('Beside the record of an agent, a head', () => {
  const older = headOf(entries.slice(0, 500))
  const { tiles } = ledgerFileOf(entries)
  const proofs = (head: LedgerHead, hashes: readonly Uint8Array[]) => new Map([[head.root, hashes]])

  it('of its size has its root, or shows a fork', () => {
    expect(found(honest, { heads: known(headOf(entries)) })).toEqual([])
    const forged = [...entries.slice(0, 599), { ...entries[599]!, data_text: '{}' }]
    expect(found(honest, { heads: known(headOf(forged)) })).toEqual([['fork', 1, 600]])
  })

  it('of a smaller size is unproved, unless the record is proved to continue it', () => {
    const heads = known(older)
    expect(found(honest, { heads })).toEqual([['unproved']])
    expect(sentences(honest, { heads })[0]).toMatch(
      /^The head of heads\.jsonl:1 covers 500 .*--fetch.*whole ledger/,
    )
    const proof = proofBy(planConsistency(500, 600), tiles)
    expect(found(honest, { heads, proofs: proofs(older, proof) })).toEqual([])
    expect(found(honest, { heads, proofs: proofs(older, proof.toReversed()) })).toEqual([['unproved']])
  })

  it('of a larger size is a rollback, unless it is proved to continue the record', () => {
    const early = recordOf(entries.slice(0, 500), HANDLE)
    const [later] = known(headOf(entries))
    expect(found(early, { heads: [later!] })).toEqual([['rollback', 501, 600]])
    const proof = proofBy(planConsistency(500, 600), tiles)
    expect(found(early, { heads: [later!], proofs: proofs(later!.head, proof) })).toEqual([])
  })

  it('of another origin is unproved, because the record has no entry of a restore', () => {
    const heads = known(headOf(entries.slice(0, 9), { origin: `${ORIGIN}/1764374400` }))
    expect(found(honest, { heads })).toEqual([['unproved']])
  })

  it('of another ledger is no head to compare with, and one that nobody signed accuses nobody', () => {
    const elsewhere = known(headOf(entries, { origin: `${ORIGIN}2` }))
    expect(found(honest, { heads: elsewhere })).toEqual([['other_ledger']])
    expect(found(honest, { heads: known(headOf(entries, { key: OTHER_KEY })) })).toEqual([['unsigned']])
  })
})

describe('Beside the record of an agent, a receipt', () => {
  const receipt = (position: number, claims: object = {}) =>
    knownReceipt(position, { sub: HANDLE, ...claims })
  const absent = (position: number, claims: object = {}) =>
    receipt(position, { agreement: 's256:none', ...claims })

  it('has its entry in it, or it was omitted, once the agent has later entries', () => {
    expect(found(honest, { receipts: [receipt(10), receipt(590)] })).toEqual([])
    expect(found(honest, { receipts: [absent(302)] })).toEqual([['omission']])
    expect(sentences(honest, { receipts: [absent(302)] })[0]).toMatch(
      /^The receipt of receipts\.txt:1 has no entry `promised` in this record of jkt:1, which has later entries/,
    )
    expect(found(honest, { receipts: [absent(590)] })).toEqual([['unproved']])
  })

  it('was omitted also if the record reaches the head that another one got in a later hour', () => {
    const later = (claims: object = {}) =>
      receipt(5, { sub: 'jkt:2', iat: LATER_HOUR + 300, ledger_head: headOf(entries), ...claims })
    expect(found(honest, { receipts: [absent(590), later()] })).toEqual([['omission']])
    expect(sentences(honest, { receipts: [absent(590), later()] })[0]).toContain(
      'unless the log signed nothing',
    )
    for (const claims of [
      { ledger_head: headOf(sampleEntries(601)) },
      { ledger_head: headOf(entries, { key: OTHER_KEY }) },
      { iat: LATER_HOUR + 30 },
      { owner: 'bob' },
    ])
      expect(found(honest, { receipts: [absent(590), later(claims)] })).toContainEqual(['unproved'])
  })

  it('of another agent is not looked for, and of others alone nothing is said', () => {
    expect(found(honest, { receipts: [receipt(10), absent(302, { sub: 'jkt:2' })] })).toEqual([])
    const others = [receipt(5, { sub: 'jkt:2' })]
    expect(found(honest, { receipts: others })).toEqual([['other_ledger']])
    expect(sentences(honest, { receipts: others })[0]).toContain('None of the receipts that you gave is of')
  })

  it.each([{ owner: 'bob' }, { iss: 'https://as.example.org' }])(
    'of another owner or authority, %o, says nothing about this record',
    claims => {
      expect(found(honest, { receipts: [receipt(10, claims)] })).toEqual([['other_ledger']])
    },
  )

  it('whose entry may be one that is absent proves nothing', () => {
    expect(found(without(302), { receipts: [receipt(310), absent(302)] })).toEqual([
      ['gap', 302, 302],
      ['unproved'],
    ])
    const rest = withEntries(honest.entries.filter(({ seq }) => seq > 256))
    expect(found(rest, { first: 257, receipts: [absent(302)] })).toEqual([['unproved']])
  })

  it('that is over a minute younger than the first entry that a retention has left was omitted', () => {
    const rest = withEntries(honest.entries.filter(({ seq }) => seq > 256))
    expect(found(rest, { first: 257, receipts: [absent(400)] })).toEqual([['omission']])
  })
})
