/** Paths of tiles: C2SP `tlog-tiles`. docs/choices.md, "Checkpoints of the ledger". */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeTileNumber, parseTilePath } from '../../src/wire/ledger/tile-path.ts'
import '../support/property-seed.ts'

describe('The path of a tile', () => {
  it.each<[string, string, ReturnType<typeof parseTilePath>]>([
    ['0', '000', { level: 0, index: 0, width: undefined }],
    ['0', 'x001/x234/067', { level: 0, index: 1_234_067, width: undefined }],
    ['63', '001.p/1', { level: 63, index: 1, width: 1 }],
    ['2', 'x001/000.p/255', { level: 2, index: 1_000, width: 255 }],
    ['0', 'x009/x007/x199/x254/x740/991', { level: 0, index: 2 ** 53 - 1, width: undefined }],
  ])('tile/%s/%s is read', (level, rest, read) => {
    expect(parseTilePath(level, rest)).toEqual(read)
    expect(rest.startsWith(encodeTileNumber(read!.index))).toBe(true)
  })

  it.each([
    ['00', '000'],
    ['64', '000'],
    ['-1', '000'],
    ['entries', '000'],
    ['0', ''],
    ['0', '0'],
    ['0', '1234'],
    ['0', '001/234'],
    ['0', 'x001/x234'],
    ['0', 'x000/001'],
    ['0', 'x001/234/'],
    ['0', '000.p/0'],
    ['0', '000.p/01'],
    ['0', '000.p/256'],
    ['0', '000.p/'],
    ['0', '000.p'],
    ['0', '../000'],
    ['0', 'x009/x007/x199/x254/x740/992'],
    ['0', 'x001/x001/x001/x001/x001/x001/001'],
  ])('tile/%s/%s is none', (level, rest) => {
    expect(parseTilePath(level, rest)).toBeUndefined()
  })

  it('has one spelling for each number', () => {
    fc.assert(
      fc.property(
        fc.maxSafeNat(),
        fc.nat(63),
        fc.option(fc.integer({ min: 1, max: 255 }), { nil: undefined }),
        (index, level, width) => {
          const rest = encodeTileNumber(index) + (width === undefined ? '' : `.p/${width}`)
          expect(parseTilePath(String(level), rest)).toEqual({ level, index, width })
        },
      ),
    )
  })
})
