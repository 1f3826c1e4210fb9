/** The QR code that carries the request of a new device: ISO/IEC 18004, read back as its text says. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { correctionOf, qrCode, withRemainder } from '../../src/console/parts/qr.ts'

/** Of level M, by version: bytes of correction of each block, and the bytes of data of each. */
const LEVEL_M = [
  [10, [16]],
  [16, [28]],
  [26, [44]],
  [18, [32, 32]],
  [24, [43, 43]],
  [16, [27, 27, 27, 27]],
  [18, [31, 31, 31, 31]],
  [22, [38, 38, 39, 39]],
  [22, [36, 36, 36, 37, 37]],
  [26, [43, 43, 43, 43, 44]],
] as const
/** Where alignment patterns have their middles (ISO/IEC 18004, table E.1). */
const ALIGNED = [
  [],
  [6, 18],
  [6, 22],
  [6, 26],
  [6, 30],
  [6, 34],
  [6, 22, 38],
  [6, 24, 42],
  [6, 26, 46],
  [6, 28, 50],
]
/** The format of level M by mask, whole (table C.1). */
const FORMATS = [0x5412, 0x5125, 0x5e7c, 0x5b4b, 0x45f9, 0x40ce, 0x4f97, 0x4aa0]

/** The text of a code, read from its modules as a camera would; fails on whatever is not as it should be. */
function read(code: boolean[][]): string {
  const size = code.length
  const version = (size - 17) / 4
  const dark = (row: number, column: number): number => (code[row]![column] === true ? 1 : 0)
  const format = [0, 1, 2, 3, 4, 5, 7, 8]
    .map(row => dark(row, 8))
    .concat([7, 5, 4, 3, 2, 1, 0].map(column => dark(8, column)))
  const other = [...Array(8).keys()]
    .map(at => dark(8, size - 1 - at))
    .concat([...Array(7).keys()].map(at => dark(size - 7 + at, 8)))
  expect(other).toEqual(format)
  const mask = FORMATS.indexOf(format.reduce((bits, bit, at) => bits | (bit << at), 0))
  expect(mask).toBeGreaterThanOrEqual(0)
  const bits = bitsOf(code, version, mask)
  const words = Array.from({ length: Math.floor(bits.length / 8) }, (_none, at) =>
    parseInt(bits.slice(8 * at, 8 * at + 8), 2),
  )
  const [correction, sizes] = LEVEL_M[version - 1]!
  const blocks: number[][] = sizes.map(() => [])
  let at = 0
  for (let place = 0; place < Math.max(...sizes); place++)
    sizes.forEach((length, block) => place < length && blocks[block]!.push(words[at++]!))
  const corrections: number[][] = sizes.map(() => [])
  for (let place = 0; place < correction; place++) corrections.forEach(one => one.push(words[at++]!))
  blocks.forEach((block, place) =>
    expect(syndromes([...block, ...corrections[place]!], correction)).toEqual(Array(correction).fill(0)),
  )
  const data = blocks
    .flat()
    .map(byte => byte.toString(2).padStart(8, '0'))
    .join('')
  expect(data.slice(0, 4)).toBe('0100')
  const counted = version < 10 ? 8 : 16
  const length = parseInt(data.slice(4, 4 + counted), 2)
  const bytes = Array.from({ length }, (_none, one) =>
    parseInt(data.slice(4 + counted + 8 * one, 12 + counted + 8 * one), 2),
  )
  return Buffer.from(bytes).toString('utf8')
}

function bitsOf(code: boolean[][], version: number, mask: number): string {
  const size = code.length
  const centres = ALIGNED[version - 1]!
  const isAligned = (row: number, column: number): boolean =>
    centres.some(down =>
      centres.some(across => {
        const isCorner =
          (down === 6 || across === 6) && [down, across].every(one => one === 6 || one === size - 7)
        return !isCorner && Math.abs(row - down) <= 2 && Math.abs(column - across) <= 2
      }),
    )
  const isFixed = (row: number, column: number): boolean =>
    row === 6 ||
    column === 6 ||
    (row < 9 && (column < 9 || column > size - 9)) ||
    (row > size - 9 && column < 9) ||
    (version >= 7 && ((row < 6 && column > size - 12) || (column < 6 && row > size - 12))) ||
    isAligned(row, column)
  const turned = (i: number, j: number): boolean =>
    [
      (i + j) % 2,
      i % 2,
      j % 3,
      (i + j) % 3,
      (Math.trunc(i / 2) + Math.trunc(j / 3)) % 2,
      ((i * j) % 2) + ((i * j) % 3),
      (((i * j) % 2) + ((i * j) % 3)) % 2,
      (((i + j) % 2) + ((i * j) % 3)) % 2,
    ][mask] === 0
  let bits = ''
  let isUpwards = true
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right = 5
    for (let step = 0; step < size; step++)
      for (const column of [right, right - 1]) {
        const row = isUpwards ? size - 1 - step : step
        if (!isFixed(row, column)) bits += code[row]![column] === turned(row, column) ? '0' : '1'
      }
    isUpwards = !isUpwards
  }
  return bits
}

/** All zero where the word is one of the code: its values at the powers of 2, by tables of logarithms. */
function syndromes(word: readonly number[], count: number): number[] {
  const powers = [1]
  for (let power = 1; power < 255; power++)
    powers.push((powers[power - 1]! << 1) ^ (powers[power - 1]! > 127 ? 0x11d : 0))
  const product = (a: number, b: number): number =>
    a === 0 || b === 0 ? 0 : powers[(powers.indexOf(a) + powers.indexOf(b)) % 255]!
  return Array.from({ length: count }, (_none, power) =>
    word.reduce((value, one) => product(value, powers[power]!) ^ one, 0),
  )
}

describe('A QR code', () => {
  it('has the correction that the example of the standard has', () => {
    const data = '10 20 0c 56 61 80 ec 11 ec 11 ec 11 ec 11 ec 11'.split(' ').map(byte => parseInt(byte, 16))
    const wanted = 'a5 24 d4 c1 ed 36 c7 87 2c 55'.split(' ').map(byte => parseInt(byte, 16))
    expect(correctionOf(data, 10)).toEqual(wanted)
  })

  it('tells its format and its version as the tables of the standard have them', () => {
    for (const [mask, format] of FORMATS.entries())
      expect(withRemainder(mask, 0x537, 10) ^ 0x5412).toBe(format)
    const versions = [0x07c94, 0x085bc, 0x09a99, 0x0a4d3]
    for (const [at, version] of versions.entries()) expect(withRemainder(at + 7, 0x1f25, 12)).toBe(version)
    const seventh = qrCode('x'.repeat(122))!
    const bits = Array.from({ length: 18 }, (_none, at) => [Math.floor(at / 3), 34 + (at % 3)] as const)
    expect(
      bits.reduce((all, [row, column], at) => all | ((seventh[row]![column] === true ? 1 : 0) << at), 0),
    ).toBe(0x07c94)
    expect(
      bits.reduce((all, [row, column], at) => all | ((seventh[column]![row] === true ? 1 : 0) << at), 0),
    ).toBe(0x07c94)
  })

  it.each([...LEVEL_M.entries()])(
    'of version %i + 1 is read at its least and at its most',
    (at, [, sizes]) => {
      const most = sizes.reduce((all, one) => all + one, 0) - (at < 9 ? 2 : 3)
      const text = 'https://owner.example.com/#add=key_'.padEnd(most, 'Aa0-_').slice(0, most)
      const code = qrCode(text)!
      expect(code.length).toBe(4 * (at + 1) + 17)
      expect(read(code)).toBe(text)
      if (at < 9) expect(qrCode(`${text}x`)!.length).toBe(code.length + 4)
      else expect(qrCode(`${text}x`)).toBeUndefined()
    },
  )

  it('is read as the text that it is of, whatever that is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), text => {
        expect(read(qrCode(text)!)).toBe(text)
      }),
      { numRuns: 60 },
    )
  })

  it('has three large patterns, and a light line around each', () => {
    const code = qrCode('key_')!
    const size = code.length
    for (const [row, column] of [
      [0, 0],
      [0, size - 7],
      [size - 7, 0],
    ] as const)
      for (let down = -1; down <= 7; down++)
        for (let across = -1; across <= 7; across++) {
          const ring = Math.max(Math.abs(down - 3), Math.abs(across - 3))
          const module = code[row + down]?.[column + across]
          if (module !== undefined) expect(module).toBe(ring !== 2 && ring !== 4)
        }
    expect(code[size - 8]![8]).toBe(true)
  })
})
