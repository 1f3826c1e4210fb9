/** The file of a ledger: docs/choices.md, "The file of a ledger". */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { verifyLedger, verifyRecord } from '../../src/verify/index.ts'
import { readLedgerExport, readLedgerFile } from '../../src/wire/ledger/ledger-file.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { LOG_KEY, ledgerFileOf, recordOf, sampleEntries, textOf } from '../support/sample-ledger.ts'

const read = (text: string) => readLedgerFile(text.split('\n'))
const file = ledgerFileOf(sampleEntries(20))
const [head = '', tile = '', entry = ''] = textOf(file).split('\n')
const refusalOf = async (text: string): Promise<string> =>
  read(text).then(
    () => 'it was read',
    (error: unknown) => (error instanceof Refusal ? error.message : String(error)),
  )
/** What is wrong with a file of either kind, one of whose bytes was changed: codes, or `refused`. */
const faultsIn = async (text: string): Promise<string[]> =>
  readLedgerExport(text.split('\n')).then(
    changed => {
      const verdict =
        'handle' in changed
          ? verifyRecord(changed, { keys: [LOG_KEY] })
          : verifyLedger(changed, { keys: [LOG_KEY] })
      return verdict.faults.map(({ code }) => code)
    },
    (error: unknown) => [error instanceof Refusal ? 'refused' : String(error)],
  )
/** A line with some members in place of its own. */
const line = (text: string, members: object) => JSON.stringify({ ...JSON.parse(text), ...members })

describe('The file of a ledger', () => {
  it('is read as it was written, whatever texts its entries have', async () => {
    const texts = ['{"a":"\\u00e9 é 😀"}', '\u2028\n"\\', '', '{']
    const entries = sampleEntries(texts.length).map((one, n) => ({ ...one, data_text: texts[n]! }))
    const strange = ledgerFileOf(entries)
    expect(await read(textOf(strange))).toEqual(strange)
    expect(await read(textOf(file))).toEqual(file)
  })

  it.each<[string, string[], string]>([
    ['no line', [], 'The file is empty'],
    ['no head', [tile, entry], 'Line 1 is none of a ledger'],
    ['another version', [line(head, { usher_ledger: 2 })], 'no ledger of version 1'],
    ['two heads', [head, head], 'Line 2 is none of a ledger'],
    ['a line that is no JSON', [head, '{'], 'Line 2 is none of a ledger'],
    ['a line that is no object', [head, '[]'], 'it is no object'],
    ['a member named twice', [head, entry.replace('{', '{"seq":1,')], 'Line 2 is none of a ledger'],
    ['a member that is not known', [head, line(entry, { note: 1 })], 'no reader knows, note'],
    ['a tile without hashes', [head, line(tile, { hashes: '' })], 'not 1 to 256 times 32 bytes'],
    ['a tile with half a hash', [head, line(tile, { hashes: 'AAAA' })], 'not 1 to 256 times 32 bytes'],
    ['a tile of no level', [head, line(tile, { level: 64 })], 'its level is above 63'],
    ['a position of 0', [head, line(entry, { seq: 0 })], 'its seq is no whole number from 1 on'],
    ['a count of 0', [head, line(entry, { count: 0 })], 'its count is no whole number from 1 on'],
    ['a short salt', [head, line(entry, { salt: 'AAAA' })], 'its salt is not 16 bytes'],
    ['a handle without prev', [head, line(entry, { prev: null })], 'it has prev exactly where'],
    ['prev without a handle', [head, line(entry, { handle: null })], 'it has prev exactly where'],
    ['a number for a text', [head, line(entry, { kind: 1 })], 'its kind is no text'],
  ])('with %s is refused, and the sentence says which line and why', async (_what, lines, sentence) => {
    expect(await refusalOf(lines.join('\n'))).toContain(sentence)
  })

  it('of which any byte was changed is refused, or something is found in it', async () => {
    await expectEachByteFound(textOf(file))
  })
})

describe('The record of one agent in a ledger', () => {
  const record = recordOf(sampleEntries(20), 'jkt:1')
  const [begin = '', first = ''] = textOf(record).split('\n')
  const readRecord = (...lines: string[]): Promise<string> =>
    readLedgerExport(lines).then(
      () => 'it was read',
      (error: unknown) => (error instanceof Refusal ? error.message : String(error)),
    )

  it('is read as it was written: it names the agent, and has a proof in place of tiles', async () => {
    expect(await readLedgerExport(textOf(record).split('\n'))).toEqual(record)
    expect(await readLedgerExport(textOf(file).split('\n'))).toEqual(file)
    expect(JSON.parse(begin)).toEqual({ usher_ledger: 1, ...record, entries: undefined })
    const alone = recordOf(sampleEntries(1), 'jkt:0')
    expect(alone.entries[0]!.proof).toEqual([])
    expect(await readLedgerExport(textOf(alone).split('\n'))).toEqual(alone)
  })

  it('is never taken for a whole ledger, because it proves less', async () => {
    expect(await refusalOf(textOf(record))).toContain('the record of jkt:1 alone')
  })

  it.each<[string, string[], string]>([
    ['a tile', [begin, tile], 'Line 2 is none of a ledger'],
    ['an entry without a proof', [begin, entry], 'it has no proof'],
    ['a proof in half a hash', [begin, line(first, { proof: 'AAAA' })], 'not 0 to 64 times 32 bytes'],
    [
      'a proof of any length',
      [begin, line(first, { proof: Buffer.alloc(65 * 32).toString('base64url') })],
      'not 0 to 64 times 32 bytes',
    ],
    ['a proof in a whole ledger', [head, first], 'no reader knows, proof'],
    ['a number for the agent', [line(begin, { handle: 1 })], 'its handle is no text'],
    ['a member that is not known', [line(begin, { note: 1 })], 'no reader knows, note'],
  ])('with %s is refused', async (_what, lines, sentence) => {
    expect(await readRecord(...lines)).toContain(sentence)
  })

  it('of which any byte was changed is refused, or something is found in it', async () => {
    await expectEachByteFound(textOf(record))
  })
})

async function expectEachByteFound(text: string): Promise<void> {
  const bytes = Buffer.from(text)
  await fc.assert(
    fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(6), async (at, bit) => {
      const faults = await faultsIn(
        Buffer.from(bytes.map((byte, n) => (n === at ? byte ^ (1 << bit) : byte))).toString(),
      )
      expect(faults).not.toEqual([])
      expect(faults.join()).toMatch(/^[a-z_,]+$/)
    }),
  )
}
