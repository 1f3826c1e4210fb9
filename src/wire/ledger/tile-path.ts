/**
 * The path of a tile (C2SP `tlog-tiles`): its level, its number in groups of three digits, and its width
 * where it is not full. Contract: "Events" (row 5); docs/choices.md, "Checkpoints of the ledger".
 */

/** `width` counts the hashes of a tile that is not full; undefined if it is. */
export interface TilePath {
  level: number
  index: number
  width: number | undefined
}

/** How many hashes a full tile has. */
const FULL = 256
const LEVEL_MAX = 63
const LEVEL = /^(?:0|[1-9]\d?)$/
const NUMBER = /^((?:x\d{3}\/)*\d{3})(?:\.p\/([1-9]\d{0,2}))?$/
/** So many groups of three digits hold every number of a tile. */
const GROUPS_MAX = 6

/** The number as it is in a path: `x001/x234/067` for 1234067. */
export function encodeTileNumber(index: number): string {
  const digits = String(index)
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/\d{3}/g)!
  return groups.map((group, n) => (n < groups.length - 1 ? `x${group}` : group)).join('/')
}

/** A tile's path behind `tile/`, given as its level and all that follows; undefined if it is none. */
export function parseTilePath(level: string, rest: string): TilePath | undefined {
  const [, number, width] = NUMBER.exec(rest) ?? []
  if (number === undefined || !LEVEL.test(level) || Number(level) > LEVEL_MAX) return undefined
  const groups = number.replaceAll('x', '').split('/')
  const index = Number(groups.join(''))
  if (groups.length > GROUPS_MAX || !Number.isSafeInteger(index) || encodeTileNumber(index) !== number)
    return undefined
  if (width !== undefined && Number(width) >= FULL) return undefined
  return { level: Number(level), index, width: width === undefined ? undefined : Number(width) }
}
