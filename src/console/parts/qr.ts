/**
 * Owns QR codes (ISO/IEC 18004) of short texts: bytes, error correction of level M, versions 1 to 10.
 * Contract: "Authentication": a person adds another device by carrying its request there, and a camera can do
 * that, too.
 */
import { utf8 } from '../bytes.ts'

/** For level M: the error-correction bytes of each block, and the number of data bytes in each block. */
const BLOCKS: readonly [correction: number, data: readonly number[]][] = [
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
]
/** The middle row of alignment patterns, if a version has three of them. */
const MIDDLE: Readonly<Record<number, number>> = { 7: 22, 8: 24, 9: 26, 10: 28 }
const LEVEL_M = 0b00
const PADDING = [0xec, 0x11]

/** One of eight masks: whether it inverts the module at this place. */
const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (row, column) => (row + column) % 2 === 0,
  row => row % 2 === 0,
  (_row, column) => column % 3 === 0,
  (row, column) => (row + column) % 3 === 0,
  (row, column) => (Math.floor(row / 2) + Math.floor(column / 3)) % 2 === 0,
  (row, column) => ((row * column) % 2) + ((row * column) % 3) === 0,
  (row, column) => (((row * column) % 2) + ((row * column) % 3)) % 2 === 0,
  (row, column) => (((row + column) % 2) + ((row * column) % 3)) % 2 === 0,
]

/**
 * Rows of modules, dark ones true, without the quiet zone of four around them; undefined if the text is too
 * long.
 */
export function qrCode(text: string): boolean[][] | undefined {
  const bytes = utf8(text)
  const place = BLOCKS.findIndex(([, data], at) => bytes.length <= sum(data) - (at < 9 ? 2 : 3))
  if (place < 0) return undefined
  const version = place + 1
  const words = interleaved(dataOf(bytes, version), version)
  const candidates = MASKS.map((_mask, mask) => drawn(words, version, mask))
  return candidates.reduce((best, one) => (penaltyOf(one) < penaltyOf(best) ? one : best))
}

/** Mode, length, bytes and padding, as bytes of data. */
function dataOf(bytes: Uint8Array, version: number): number[] {
  const size = sum(BLOCKS[version - 1]![1])
  const head = version < 10 ? [4, bytes.length >> 4, bytes.length & 15] : lengthOf16(bytes.length)
  const nibbles = [...head, ...[...bytes].flatMap(byte => [byte >> 4, byte & 15]), 0]
  if (nibbles.length % 2 === 1) nibbles.push(0)
  const data: number[] = []
  for (let at = 0; at + 1 < nibbles.length && data.length < size; at += 2)
    data.push((nibbles[at]! << 4) | nibbles[at + 1]!)
  for (let at = 0; data.length < size; at++) data.push(PADDING[at % 2]!)
  return data
}

function lengthOf16(length: number): number[] {
  return [4, 0, (length >> 8) & 15, (length >> 4) & 15, length & 15]
}

/** The bytes of the blocks, interleaved, data first. */
function interleaved(data: readonly number[], version: number): number[] {
  const [correction, sizes] = BLOCKS[version - 1]!
  let from = 0
  const blocks = sizes.map(size => data.slice(from, (from += size)))
  const corrections = blocks.map(block => correctionOf(block, correction))
  const inTurn = (all: readonly number[][]): number[] =>
    Array.from({ length: Math.max(...all.map(one => one.length)) }, (_none, at) =>
      all.flatMap(one => (at < one.length ? [one[at]!] : [])),
    ).flat()
  return [...inTurn(blocks), ...inTurn(corrections)]
}

/** So many bytes of Reed-Solomon correction over GF(256), x^8 + x^4 + x^3 + x^2 + 1. */
export function correctionOf(block: readonly number[], count: number): number[] {
  let generator = [1]
  for (let power = 0, root = 1; power < count; power++, root = times(root, 2))
    generator = [...generator, 0].map((one, at) => one ^ times(generator[at - 1] ?? 0, root))
  const rest = [...block, ...Array<number>(count).fill(0)]
  for (let at = 0; at < block.length; at++) {
    const factor = rest[at]!
    generator.forEach((one, place) => (rest[at + place]! ^= times(one, factor)))
  }
  return rest.slice(block.length)
}

function times(one: number, other: number): number {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ (product >> 7 === 1 ? 0x11d : 0)
    if (((other >> bit) & 1) === 1) product ^= one
  }
  return product
}

/** The bits and their remainder (BCH) by a generator of this many bits more. */
export function withRemainder(bits: number, generator: number, extra: number): number {
  let rest = bits << extra
  for (let bit = 31 - Math.clz32(rest); bit >= extra; bit = 31 - Math.clz32(rest))
    rest ^= generator << (bit - extra)
  return (bits << extra) | rest
}

function drawn(words: readonly number[], version: number, mask: number): boolean[][] {
  const size = 4 * version + 17
  const modules = Array.from({ length: size }, () => Array<boolean | undefined>(size).fill(undefined))
  const put = (row: number, column: number, isDark: boolean): void => {
    if (row >= 0 && row < size && column >= 0 && column < size) modules[row]![column] = isDark
  }
  drawPatterns(put, version, size)
  drawFormat(put, mask, size)
  if (version >= 7) drawVersion(put, version, size)
  const turns = MASKS[mask]!
  let bit = 0
  for (const [row, column] of path(size)) {
    if (modules[row]![column] !== undefined) continue
    const isSet = (((words[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1
    modules[row]![column] = isSet !== turns(row, column)
    bit++
  }
  return modules as boolean[][]
}

type Put = (row: number, column: number, isDark: boolean) => void

function drawPatterns(put: Put, version: number, size: number): void {
  for (let at = 0; at < size; at++) {
    put(6, at, at % 2 === 0)
    put(at, 6, at % 2 === 0)
  }
  for (const [row, column] of [
    [3, 3],
    [3, size - 4],
    [size - 4, 3],
  ] as const)
    square(4, (down, across) => {
      const ring = Math.max(Math.abs(down), Math.abs(across))
      put(row + down, column + across, ring !== 2 && ring !== 4)
    })
  const last = size - 7
  const places = version === 1 ? [] : [6, ...(MIDDLE[version] === undefined ? [] : [MIDDLE[version]]), last]
  for (const row of places)
    for (const column of places) {
      // There are the three large ones.
      if ([row, column].every(one => one === 6 || one === last) && (row === 6 || column === 6)) continue
      square(2, (down, across) =>
        put(row + down, column + across, Math.max(Math.abs(down), Math.abs(across)) !== 1),
      )
    }
}

function square(radius: number, visit: (down: number, across: number) => void): void {
  for (let down = -radius; down <= radius; down++)
    for (let across = -radius; across <= radius; across++) visit(down, across)
}

/** Twice: around the upper left pattern, and beside the two others. */
function drawFormat(put: Put, mask: number, size: number): void {
  const bits = withRemainder((LEVEL_M << 3) | mask, 0b10100110111, 10) ^ 0b101010000010010
  for (let at = 0; at < 15; at++) {
    const isDark = ((bits >> at) & 1) === 1
    const near = at < 6 ? at : at < 8 ? at + 1 : undefined
    if (near !== undefined) put(near, 8, isDark)
    else put(8, at === 8 ? 7 : 14 - at, isDark)
    if (at < 8) put(8, size - 1 - at, isDark)
    else put(size - 15 + at, 8, isDark)
  }
  put(size - 8, 8, true)
}

function drawVersion(put: Put, version: number, size: number): void {
  const bits = withRemainder(version, 0b1111100100101, 12)
  for (let at = 0; at < 18; at++) {
    const isDark = ((bits >> at) & 1) === 1
    put(Math.floor(at / 3), size - 11 + (at % 3), isDark)
    put(size - 11 + (at % 3), Math.floor(at / 3), isDark)
  }
}

/** Two columns at a time from the right, up and down in turn, past the column of the timing pattern. */
function* path(size: number): Generator<[row: number, column: number]> {
  for (let pair = 0, right = size - 1; right > 0; pair++, right -= right === 8 ? 3 : 2)
    for (let step = 0; step < size; step++)
      for (const column of [right, right - 1]) yield [pair % 2 === 0 ? size - 1 - step : step, column]
}

/**
 * How hard it is to read: it counts runs, squares, what looks like a large pattern, and an imbalance of dark
 * and light.
 */
function penaltyOf(modules: readonly boolean[][]): number {
  const columns = modules.map((_row, at) => modules.map(row => row[at]!))
  const lines = [...modules, ...columns].map(line => line.map(Number).join(''))
  let penalty = 0
  for (const line of lines) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) penalty += run.length - 2
    penalty += 40 * (line.match(/(?=00001011101|10111010000)/g)?.length ?? 0)
  }
  for (let row = 0; row + 1 < modules.length; row++)
    for (let column = 0; column + 1 < modules.length; column++) {
      const here = modules[row]![column]
      if (
        here === modules[row]![column + 1] &&
        here === modules[row + 1]![column] &&
        here === modules[row + 1]![column + 1]
      )
        penalty += 3
    }
  const dark = lines.slice(0, modules.length).join('').replaceAll('0', '').length
  return penalty + 10 * Math.floor(Math.abs((100 * dark) / modules.length ** 2 - 50) / 5)
}

function sum(all: readonly number[]): number {
  return all.reduce((total, one) => total + one, 0)
}
