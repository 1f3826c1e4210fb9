/** `usher verify heads`: docs/choices.md, "Heads that contradict each other". */
import { describe, expect, it } from 'vitest'
import { verifyHeads } from '../../src/terminal/verify-heads.ts'
import { signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import type { LedgerFile, LedgerFileEntry } from '../../src/wire/ledger/ledger-file.ts'
import { headOfCheckpoint, type LedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import {
  endOf,
  filesToVerify,
  ISSUER,
  KEYS,
  OTHER_KEY,
  RECEIPT_KEYS,
  signedReceipt,
} from '../support/ledger-to-verify.ts'
import {
  BEGINS_MS,
  headOf as headOfEntries,
  ledgerFileOf,
  LOG_KEY,
  ORIGIN,
  recordOf,
  sampleEntries,
  textOf,
} from '../support/sample-ledger.ts'

const { fileOf, linesOf } = filesToVerify('heads')

const headOf = (size: number, { root = size, origin = ORIGIN, by = LOG_KEY } = {}) =>
  headOfCheckpoint(signCheckpoint({ origin, size, root: Buffer.alloc(32, root) }, by), by.kid)
const line = (ledger_head: object) =>
  JSON.stringify({ owner: 'alice', authority: ISSUER, received_at: 1, ledger_head })
const receipt = (claims: object) => signJws({ typ: 'myterms-receipt+jws', payload: { ...claims } }, OTHER_KEY)

const judge = (options: { files: string[]; ledger?: string }, known: object = KEYS) => {
  const keys = fileOf(JSON.stringify(known))
  return endOf(terminal => verifyHeads({ ...options, keys }, { terminal, now: 1_800_000_000 }))
}
const verify = (...files: string[]) => judge({ files })

describe('Heads of ledgers that several people hold', () => {
  it('are in order where they are the same, from sidecars and from receipts', async () => {
    const head = headOf(5)
    const { code, printed } = await verify(
      linesOf(line(head), line(headOf(7, { origin: `${ORIGIN}2` }))),
      linesOf(receipt({ ledger_head: head }), receipt({})),
    )
    expect([code, printed]).toEqual([0, expect.stringContaining('none contradicts another')])
  })

  it('are a fork where one origin has two roots of one size: the places of both are named', async () => {
    const [mine, hers] = [linesOf(line(headOf(5))), linesOf(receipt({ ledger_head: headOf(5, { root: 9 }) }))]
    const { code, printed } = await verify(mine, hers)
    expect(code).toBe(1)
    expect(printed).toMatch(/^fork: as\.example\/ledger\/AbCdEfGhIjKl has 2 ledgers of 5 entries/)
    expect(printed).toContain(`${mine}:1`)
    expect(printed).toContain(`${hers}:1`)
  })

  it('are unproved where their sizes differ', async () => {
    const { code, printed } = await verify(linesOf(line(headOf(12)), line(headOf(5))))
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(/^unproved: .* with 5, 12 entries .*ask its authority.* 12 \(.*:1\); 5 \(.*:2\)/),
    ])
  })

  it('are a fork where a ledger has two origins, unless a restore is on record', async () => {
    const { code, printed } = await verify(
      linesOf(line(headOf(5)), line(headOf(5, { origin: `${ORIGIN}/1764374400` }))),
    )
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(
        /^two origins: as\.example\/ledger\/AbCdEfGhIjKl has 2 origins: .*unless an entry `restored`/,
      ),
    ])
  })

  it.each<[string, object]>([
    ['another key', headOf(5, { by: OTHER_KEY })],
    ['nobody', { ...headOf(5), sig: headOf(6).sig }],
  ])('say nothing where %s signed one: it makes no fork', async (_who, head) => {
    const path = linesOf(line(headOf(5, { root: 9 })), line(head))
    const { code, printed } = await verify(path)
    expect(code).toBe(1)
    expect(printed).toMatch(new RegExp(`^unsigned: .*heads-\\d+\\.jsonl:2: this head says nothing`))
    expect(printed).not.toContain('fork')
  })

  it.each<[string, string[], RegExp]>([
    ['no head', [receipt({})], /no head of a ledger/],
    ['another text', ['a head'], /heads-\d+\.jsonl:1 is neither a receipt nor a line/],
    ['a head that is none', [line({ ...headOf(5), size: -1 })], /heads-\d+\.jsonl:1 is neither/],
  ])('are refused as wrong usage where a file has %s', async (_what, lines, sentence) => {
    const { code, said } = await verify(linesOf(...lines))
    expect(said).toMatch(sentence)
    expect(code).toBe(2)
  })
})

describe('Heads beside a ledger that its owner exported', () => {
  const entries = sampleEntries(300)
  const at = (size: number): LedgerHead => headOfEntries(entries.slice(0, size))
  const lie = entries.with(199, { ...entries[199]!, data_text: '{}' })
  const whole = ledgerFileOf(entries)
  const exported = (file: LedgerFile): string => fileOf(textOf(file))
  const beside = (file: LedgerFile, ...heads: object[]) =>
    judge({ files: [linesOf(...heads.map(line))], ledger: exported(file) })

  it('are in order where they are heads of it, whatever their sizes, which nothing proves without it', async () => {
    const heads = [at(1), at(12), at(299), at(300)]
    const { code, printed } = await beside(whole, ...heads)
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(/Those of .* are heads of the ledger in .*\n$/),
    ])
    expect((await verify(linesOf(...heads.map(line)))).printed).toMatch(/^unproved: .* with 1, 12, 299, 300/)
  })

  it.each<[string, LedgerHead[], RegExp]>([
    [
      'are a fork where it has another root at the size of one',
      [at(12), headOfEntries(lie)],
      /^fork: .* has another root for its first 300 entries in .*:2 than in .*Keep both\.\n$/,
    ],
    [
      'are one fork where several people hold the same other root',
      [headOfEntries(lie), headOfEntries(lie)],
      /^fork: .*:1, .*:2 than in [^\n]*\n$/,
    ],
    [
      'are a fork of each other and of it',
      [at(250), headOfEntries(lie.slice(0, 250))],
      /^fork: .* has 2 ledgers of 250 entries.*\nfork: .*first 250 entries in .*:2 than in [^\n]*\n$/,
    ],
    [
      'are unproved where one covers more: whose it is, and who can prove it',
      [at(12), headOfEntries(sampleEntries(400))],
      /^unproved: .* with 300, 400 entries .*export the ledger again, or ask its authority.* 300 \(.*\); 400 \(.*:2\)\.\n$/,
    ],
    [
      'are no heads to compare where all are of other ledgers',
      [headOf(5, { origin: `${ORIGIN}2` })],
      /^other_ledger: .*None of the heads that you gave is of/,
    ],
  ])('%s', async (_what, heads, finding) => {
    const { code, printed } = await beside(whole, ...heads)
    expect([code, printed]).toEqual([1, expect.stringMatching(finding)])
  })

  it.each<[string, LedgerFile, string]>([
    ['that another key signed', ledgerFileOf(entries, { key: OTHER_KEY }), 'unsigned'],
    ['with another root', { ...ledgerFileOf(lie), checkpoint: whole.checkpoint }, 'root'],
    ['that lacks tiles', { ...whole, tiles: whole.tiles.slice(1) }, 'tile'],
  ])('are not judged by a ledger %s: it accuses nobody of a fork', async (_what, file, kind) => {
    const { code, printed } = await beside(file, at(250), at(300))
    expect([code, printed]).toEqual([1, expect.stringMatching(`^${kind}: .*compared without it`)])
    expect(printed).toMatch(/^unproved: .* with 250, 300 entries/m)
    expect(printed).not.toContain('fork')
  })

  it('are judged by its leaves, though entries are absent or changed in it', async () => {
    const changed = { ...whole, entries: lie.slice(100) }
    expect(await beside(changed, at(12), at(300))).toMatchObject({ code: 0 })
  })

  it('are wrong usage beside the record of one agent, which has no leaves of others', async () => {
    const record = fileOf(textOf(recordOf(entries, 'jkt:1')))
    const { code, said } = await judge({ files: [linesOf(line(at(12)))], ledger: record })
    expect([code, said]).toEqual([2, expect.stringContaining('without --handle')])
  })
})

describe('Heads of two origins beside a ledger', () => {
  const entries = sampleEntries(500)
  const RESTORED = `${ORIGIN}/1795890000`
  const before = (size: number, all = entries) => headOfEntries(all.slice(0, size))
  /** The ledger after a restore that knew of 400 entries, and whose entry has this data. */
  const after = (data: object = { origin: ORIGIN, size: 400, root: before(400).root }): LedgerFile => {
    const entry: LedgerFileEntry = {
      ...entries[3]!,
      seq: 401,
      ts: new Date(BEGINS_MS + 900_000).toISOString(),
      kind: 'restored',
      data_text: JSON.stringify(data),
    }
    return ledgerFileOf([...entries.slice(0, 400), entry], { origin: RESTORED })
  }
  const restored = headOfEntries(after().entries, { origin: RESTORED })
  const beside = (file: LedgerFile, ...heads: object[]) =>
    judge({ files: [linesOf(...heads.map(line))], ledger: fileOf(textOf(file)) })

  it('are of one that was replaced where its entry `restored` names the older: once for all of that origin', async () => {
    const { code, printed } = await beside(after(), before(300), before(350), restored)
    expect(code).toBe(1)
    expect(printed).toMatch(
      /^replaced: The head of .*:2 is of .*, which a restore has replaced \(entry 401\)\. All 350 .* Heads of that origin are in .*:1, .*:2\.\n$/,
    )
  })

  it('are unproved beyond what the restore knew, and the largest says what was lost', async () => {
    const { code, printed } = await beside(after(), before(300), before(450), before(480))
    expect(code).toBe(1)
    expect(printed).toMatch(/^replaced: The head of .*:3 .*those from 401 on were lost/)
    expect(printed).toMatch(/^unproved: .* with 450, 480 entries/m)
  })

  it('are a fork where the restore kept less than its entry says', async () => {
    const lie = entries.with(199, { ...entries[199]!, data_text: '{}' })
    expect((await beside(after(), before(350, lie))).printed).toMatch(/^fork: .* first 350 entries/)
  })

  it('are a fork where no entry names the older, and unproved where the ledger is of before the restore', async () => {
    const { code, printed } = await beside(after({}), before(300))
    expect([code, printed]).toEqual([1, expect.stringMatching(/^fork: .*which no entry `restored` names/)])
    const older = ledgerFileOf(entries)
    const later = await beside(older, before(300), restored)
    expect([later.code, later.printed]).toEqual([
      1,
      expect.stringMatching(/^unproved: .*which began later\. .*export the ledger again\.\n$/),
    ])
  })

  it('are unproved where entries are absent or changed, of which `restored` may be one', async () => {
    const whole = after()
    const changed = whole.entries.with(400, { ...whole.entries[400]!, data_text: '{}' })
    for (const all of [whole.entries.slice(0, 400), changed]) {
      const { code, printed } = await beside({ ...whole, entries: all }, before(300))
      expect([code, printed]).toEqual([1, expect.stringMatching(/^unproved: .*absent or changed.*\n$/)])
    }
  })

  it('with receipts say whose entries are gone, as far as keys of the authority verify them', async () => {
    const lost = signedReceipt(450, { ledger_head: before(450) })
    const files = [linesOf(line(before(300))), linesOf('', lost)]
    const ledger = fileOf(textOf(after()))
    expect((await judge({ files, ledger }, RECEIPT_KEYS)).printed).toMatch(
      /^replaced: .*The entries of these receipts are not in .*: .*:2\.\n$/,
    )
    const unknown = (await judge({ files, ledger })).printed
    expect(unknown).toMatch(/^replaced: .*No key of the authority that you gave verifies .* of .*:2/)
    expect(unknown).not.toContain('The entries of these receipts')
  })
})
