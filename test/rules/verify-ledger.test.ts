/**
 * What is found in a ledger that somebody changed: docs/choices.md, "The file of a ledger"; docs/proof.md.
 * Contract: "Events" (row 5).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deletedLeaf } from '../../src/rules/ledger/ledger-leaf.ts'
import { planConsistency } from '../../src/rules/ledger/merkle.ts'
import { verifyLedger, type LedgerKnowledge } from '../../src/verify/index.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import type { LedgerFile, LedgerFileEntry } from '../../src/wire/ledger/ledger-file.ts'
import {
  findingsOf,
  known,
  knownReceipt as receipt,
  LATER_HOUR,
  OTHER_KEY,
  spoil,
  spoilText,
} from '../support/ledger-to-verify.ts'
import {
  headOf,
  ledgerFileOf,
  leafOf,
  ORIGIN,
  OWNER,
  proofBy,
  sampleEntries,
  tilesOf,
} from '../support/sample-ledger.ts'

const entries = sampleEntries(600)
const honest = ledgerFileOf(entries)
const { found, sentences } = findingsOf(verifyLedger)
const changed = (position: number, change: Partial<LedgerFileEntry>): LedgerFileEntry[] =>
  entries.map(entry => (entry.seq === position ? { ...entry, ...change } : entry))
/** Entries numbered in the order in which they stand. */
const renumbered = (all: readonly LedgerFileEntry[]) => all.map((entry, n) => ({ ...entry, seq: n + 1 }))
const without = (position: number) => entries.filter(({ seq }) => seq !== position)
const withEntries = (all: readonly LedgerFileEntry[]): LedgerFile => ({ ...honest, entries: all })
const lie = changed(300, { data_text: '{"agreement":"s256:another"}' })
/** The tiles with one byte of one hash changed. */
const tileByte = (level: number, position: number) =>
  honest.tiles.map(tile => {
    const at = (position - 1 - tile.index * 256) * 32
    if (tile.level !== level || at < 0 || at >= tile.hashes.length) return tile
    return { ...tile, hashes: tile.hashes.map((byte, n) => (n === at ? byte ^ 1 : byte)) }
  })
const tilesOfLie = tilesOf(lie.map(entry => leafOf(entry)))

describe('A ledger that is what its log signed', () => {
  it('has no fault, whatever its size, and fits every head that was signed of it', () => {
    for (const size of [1, 2, 255, 256, 257, 600]) {
      const part = entries.slice(0, size)
      const heads = known(headOf(part.slice(0, Math.ceil(size / 2))), headOf(part))
      expect([size, found(ledgerFileOf(part), { heads, origin: ORIGIN })]).toEqual([size, []])
    }
  })

  it('has no fault beside heads of other ledgers', () => {
    const heads = known(headOf(entries.slice(0, 9)), headOf(entries.slice(0, 8), { origin: `${ORIGIN}2` }))
    expect(found(honest, { heads })).toEqual([])
  })
})

describe('What a thief with the database changes', () => {
  it.each<[string, LedgerFile, unknown[][], Partial<LedgerKnowledge>?]>([
    ['the body of an entry', withEntries(lie), [['entry', 300, 300]]],
    ['its salt', withEntries(changed(300, { salt: Buffer.alloc(16) })), [['entry', 300, 300]]],
    ['its time', withEntries(changed(300, { ts: '2026-11-28T18:05:00.000Z' })), [['entry', 300, 300]]],
    ['the agent of an entry', withEntries(changed(301, { handle: 'jkt:9' })), [['entry', 301, 301]]],
    ['the owner of all', { ...honest, owner: 'bob' }, [['entry', 1, 600]]],
    ['a leaf in a tile', { ...honest, tiles: tileByte(0, 300) }, [['leaf', 300, 300]]],
    ['a hash above the leaves', { ...honest, tiles: tileByte(1, 2) }, [['tile', 1]]],
    [
      'a body and its leaf',
      { ...withEntries(lie), tiles: [...tilesOfLie.slice(0, 3), ...honest.tiles.slice(3)] },
      [['root'], ['tile', 1]],
    ],
    ['a body and all hashes above it', { ...withEntries(lie), tiles: tilesOfLie }, [['root']]],
    [
      'a body here and a leaf there',
      { ...withEntries(lie), tiles: tileByte(0, 9) },
      [['root'], ['entry', 9, 9], ['entry', 300, 300], ['tile', 1]],
    ],
    ['all of it, signed by a key of his own', ledgerFileOf(lie, { key: OTHER_KEY }), [['unsigned']]],
    [
      'the size in the head',
      { ...honest, checkpoint: honest.checkpoint.replace('\n600\n', '\n599\n') },
      [['unsigned']],
    ],
    ['the head, which is a text', { ...honest, checkpoint: 'a head' }, [['unsigned']]],
    ['a tile, which is gone', { ...honest, tiles: honest.tiles.slice(1) }, [['tile', 1]]],
    [
      'a tile, which is there twice',
      { ...honest, tiles: [...honest.tiles, honest.tiles[0]!] },
      [['tile', 1]],
    ],
    ['the tiles, which are all gone', { ...honest, tiles: [] }, [['tile', 1]]],
  ])('%s is found', (_what, file, faults, knowledge) => {
    expect(found(file, knowledge)).toEqual(faults)
  })

  it.each<[string, LedgerFileEntry[], unknown[][]]>([
    ['one taken out', without(300), [['gap', 300, 300]]],
    ['the last taken out', entries.slice(0, 500), [['gap', 501, 600]]],
    [
      'one taken out, and the others numbered anew',
      renumbered(without(300)),
      [
        ['entry', 300, 599],
        ['gap', 600, 600],
      ],
    ],
    [
      'one put in, and the others numbered anew',
      renumbered(entries.toSpliced(299, 0, lie[299]!)),
      [
        ['entry', 300, 600],
        ['beyond_head', 601, 601],
      ],
    ],
    ['one put in with the number of another', entries.toSpliced(300, 0, lie[299]!), [['order', 300, 300]]],
    ['two in another order', entries.toSpliced(299, 2, entries[300]!, entries[299]!), [['order', 300, 300]]],
    [
      'two in place of each other',
      renumbered(entries.toSpliced(299, 2, entries[300]!, entries[299]!)),
      [['entry', 300, 301]],
    ],
    ['one put in behind the head', [...entries, { ...entries[0]!, seq: 601 }], [['beyond_head', 601, 601]]],
  ])('with entries of which %s is found', (_what, all, faults) => {
    expect(found(withEntries(all))).toEqual(faults)
  })

  it('and signs with the key of the log is found by whoever has a head of before', () => {
    const forged = ledgerFileOf(lie)
    expect(found(forged)).toEqual([])
    const heads = known(headOf(entries.slice(0, 299)), headOf(entries.slice(0, 300)), headOf(entries))
    expect(found(forged, { heads })).toEqual([
      ['fork', 1, 300],
      ['fork', 1, 600],
    ])
    expect(sentences(forged, { heads })[0]).toMatch(
      /^The head of heads\.jsonl:2 has another root for the first 300 entries/,
    )
  })

  it('and rolls back is found by whoever has a later head, unless it is proved to continue this one', () => {
    const older = ledgerFileOf(entries.slice(0, 500))
    const heads = known(headOf(entries))
    expect(found(older, { heads })).toEqual([['rollback', 501, 600]])
    const proof = proofBy(planConsistency(500, 600), honest.tiles)
    const proofs = (hashes: readonly Uint8Array[]) => new Map([[heads[0]!.head.root, hashes]])
    expect(found(older, { heads, proofs: proofs(proof) })).toEqual([])
    expect(found(older, { heads, proofs: proofs(proof.toReversed()) })).toEqual([['rollback', 501, 600]])
    const forged = ledgerFileOf(lie.slice(0, 500))
    expect(found(forged, { heads, proofs: proofs(proof) })).toEqual([['rollback', 501, 600]])
  })

  it('and shows the ledger of somebody else, or of another authority, is found', () => {
    const hers = ledgerFileOf(entries, { origin: `${originBase('https://as.example')}MnOpQrStUvWx` })
    expect(found(hers, { origin: ORIGIN })).toEqual([['other_origin']])
    expect(found(hers, { issuer: 'https://as.example' })).toEqual([])
    expect(found(hers, { issuer: 'https://as.example.org' })).toEqual([['other_origin']])
    expect(found(hers, { heads: known(headOf(entries)) })).toEqual([['other_ledger']])
  })

  it('in the chain of an agent before it is signed is found by the entry after it', () => {
    const chain = changed(302, { prev: entries[301]!.prev! - 4 })
    expect(found(ledgerFileOf(chain))).toEqual([['chain', 302, 302]])
    expect(sentences(ledgerFileOf(chain))[0]).toContain('Entry 302 names entry 294')
  })

  it('as a head that nobody signed accuses nobody', () => {
    const heads = known(headOf(lie, { key: OTHER_KEY }), { ...headOf(entries), sig: headOf(lie).sig })
    expect(found(honest, { heads })).toEqual([['unsigned'], ['unsigned']])
  })

  it('in one byte of a tile or of a body is always found', () => {
    const small = ledgerFileOf(entries.slice(0, 300))
    const texts = ['ts', 'kind', 'family', 'handle', 'data_text'] as const
    const change = fc.record({
      what: fc.constantFrom('tile', 'salt', 'count', 'prev', ...texts),
      which: fc.nat(299),
      at: fc.nat(8_191),
      by: fc.integer({ min: 1, max: 255 }),
    })
    fc.assert(
      fc.property(change, ({ what, which, at, by }) => {
        const { tiles } = small
        if (what === 'tile') {
          const place = which % tiles.length
          const tile = { ...tiles[place]!, hashes: spoil(tiles[place]!.hashes, at, by) }
          return found({ ...small, tiles: tiles.with(place, tile) }).length > 0
        }
        const entry = small.entries[which]!
        const value = entry[what]
        if (value === null) return true
        const spoiled =
          typeof value === 'number'
            ? value ^ by
            : typeof value === 'string'
              ? spoilText(value, at, by)
              : spoil(value, at, by)
        const all = small.entries.with(which, { ...entry, [what]: spoiled })
        return found({ ...small, entries: all }).some(([code]) => code === 'entry')
      }),
    )
    expect(found(small)).toEqual([])
  })
})

describe('A ledger whose oldest entries the retention has deleted', () => {
  const rest = withEntries(entries.slice(256))

  it('is whole for whoever knows from where on it must be', () => {
    expect(found(rest, { first: 257 })).toEqual([])
    expect(found(rest, { first: 256 })).toEqual([['gap', 256, 256]])
  })

  it('has a gap for whoever does not, and the sentence says what to do', () => {
    expect(found(rest)).toEqual([['gap', 1, 256]])
    expect(sentences(rest)[0]).toContain('verify with --from 257')
  })

  it('must have every entry after the first that is left', () => {
    expect(found(withEntries(entries.slice(256).filter(({ seq }) => seq !== 400)), { first: 257 })).toEqual([
      ['gap', 400, 400],
    ])
  })
})

describe('A ledger with entries that were deleted before there was a tree', () => {
  const leaves = entries.map(entry => leafOf(entry)).with(299, deletedLeaf(OWNER, 300))

  it('has no gap where its leaf says so, and one where it says it of another place', () => {
    const rest = without(300)
    expect(found(ledgerFileOf(rest, { leaves }))).toEqual([])
    const elsewhere = leaves.with(299, deletedLeaf(OWNER, 301))
    expect(found(ledgerFileOf(rest, { leaves: elsewhere }))).toEqual([['gap', 300, 300]])
  })

  it('has another entry than was signed where one was put in at such a place', () => {
    expect(found(ledgerFileOf(entries, { leaves }))).toEqual([['entry', 300, 300]])
  })
})

describe('A ledger after a restore', () => {
  const origin = `${ORIGIN}/1764374400`
  const before = entries.slice(0, 400)
  const restored = (data: object): LedgerFileEntry => ({
    ...entries[3]!,
    seq: 401,
    kind: 'restored',
    data_text: JSON.stringify(data),
  })
  const named = { origin: ORIGIN, size: 400, root: headOf(before).root }
  const after = ledgerFileOf([...before, restored(named)], { origin })

  it('has replaced the origin that its entry names, and what the restore knew is still there', () => {
    const heads = known(headOf(entries.slice(0, 300)))
    expect(found(after, { heads, origin: ORIGIN })).toEqual([['replaced', 401, 401]])
    expect(sentences(after, { heads })[0]).toContain('All 300 entries that it covers are still there')
    expect(found(after, { heads: known(headOf([...before, restored(named)], { origin })) })).toEqual([])
  })

  it('lacks what was signed after the backup: the sentence says which entries', () => {
    const heads = known(headOf(entries.slice(0, 500)))
    expect(found(after, { heads })).toEqual([['replaced', 401, 401]])
    expect(sentences(after, { heads })[0]).toContain('those from 401 on were lost or entered anew')
  })

  it('whose entry says that the restore knew more than stands before it is not believed in that', () => {
    const boast = ledgerFileOf([...before, restored({ ...named, size: 9_999 })], { origin })
    const heads = known(headOf(entries.slice(0, 450)))
    expect(found(boast, { heads })).toEqual([['replaced', 401, 401]])
    expect(sentences(boast, { heads })[0]).toContain('those from 401 on were lost or entered anew')
  })

  it('is a fork where it changed what the restore knew', () => {
    expect(found(after, { heads: known(headOf(lie.slice(0, 350))) })).toEqual([['fork', 1, 350]])
  })

  it.each<[string, object]>([
    ['no origin', {}],
    ['another origin', { ...named, origin: `${ORIGIN}/1` }],
  ])('whose entry names %s is a fork beside a head of the old one', (_what, data) => {
    const file = ledgerFileOf([...before, restored(data)], { origin })
    expect(found(file, { heads: known(headOf(before)) })).toEqual([['two_origins']])
  })
})

describe('A receipt', () => {
  it('has its entry in the ledger', () => {
    expect(found(honest, { receipts: [receipt(5), receipt(600)] })).toEqual([])
  })

  it('whose entry was never entered is an omission, once later entries are there', () => {
    expect(found(honest, { receipts: [receipt(301)] })).toEqual([['omission']])
    expect(found(honest, { receipts: [receipt(545, { agreement: 's256:none' })] })).toEqual([['unproved']])
  })

  it('whose entry was never entered is an omission by the receipt of a later hour, too', () => {
    const later = receipt(600, { iat: LATER_HOUR + 300, ledger_head: headOf(entries) })
    const absent = receipt(545, { agreement: 's256:none' })
    expect(found(honest, { receipts: [absent, later] })).toEqual([['omission']])
    expect(sentences(honest, { receipts: [absent, later] })[0]).toContain('of a later hour in another')
  })

  it.each<[string, object]>([
    ['covers more than the ledger', { ledger_head: headOf(sampleEntries(601)) }],
    ['is of another origin', { ledger_head: headOf(entries, { origin: `${ORIGIN}/1764374400` }) }],
    ['nobody signed', { ledger_head: headOf(entries, { key: OTHER_KEY }) }],
    ['is of the hour before, for all that clocks tell', { iat: LATER_HOUR + 30 }],
  ])('says nothing of others where its head %s', (_what, claims) => {
    const later = receipt(600, { iat: LATER_HOUR + 300, ledger_head: headOf(entries), ...claims })
    const absent = receipt(545, { agreement: 's256:none' })
    expect(found(honest, { receipts: [absent, later] })).toEqual([['unproved']])
  })

  it('whose entry was taken out is a gap, and nobody can say whose entry that is', () => {
    expect(found(withEntries(without(300)), { receipts: [receipt(300)] })).toEqual([
      ['gap', 300, 300],
      ['unproved'],
    ])
  })

  describe('where the retention has deleted what is older', () => {
    const rest = (all = entries) => ({ ...ledgerFileOf(all), entries: all.slice(256) })
    const none = (position: number) => [receipt(position, { agreement: 's256:none' })]

    it('is an omission if it is over a minute younger than the first entry that is left', () => {
      expect(found(rest(), { first: 257, receipts: [receipt(400)] })).toEqual([])
      expect(found(rest(), { first: 257, receipts: none(320) })).toEqual([['omission']])
      expect(found(rest(), { first: 257, receipts: none(316) })).toEqual([['unproved']])
      expect(found(rest(), { first: 257, receipts: none(100) })).toEqual([['unproved']])
    })

    it('is none where more is absent than that', () => {
      const file = { ...rest(), entries: rest().entries.filter(({ seq }) => seq !== 500) }
      expect(found(file, { first: 257, receipts: none(400) })).toEqual([['gap', 500, 500], ['unproved']])
    })

    it('is judged by no entry that counts what was refused, because it may have been entered much later', () => {
      const counting = entries.map(entry =>
        entry.seq > 256 && entry.seq <= 300 ? { ...entry, kind: 'refused' } : entry,
      )
      expect(found(rest(counting), { first: 257, receipts: none(350) })).toEqual([['unproved']])
      expect(found(rest(counting), { first: 257, receipts: none(365) })).toEqual([['omission']])
    })
  })

  it.each([{ owner: 'bob' }, { iss: 'https://as.example.org' }])(
    'of another owner or authority, %o, says nothing about this ledger',
    claims => {
      expect(found(honest, { receipts: [receipt(5, claims)] })).toEqual([['other_ledger']])
    },
  )
})
