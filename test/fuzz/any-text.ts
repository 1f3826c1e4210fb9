/**
 * Owns random texts of any characters. fast-check's own binary unit builds a table of all of Unicode per
 * arbitrary.
 */
import * as fc from 'fast-check'

const RANGES = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 0x7f }) },
  { weight: 1, arbitrary: fc.integer({ min: 0x80, max: 0xd7ff }) },
  { weight: 1, arbitrary: fc.integer({ min: 0xe000, max: 0x10ffff }) },
)

/** Well-formed text, mostly ASCII with its control characters. */
export function anyText(maxLength: number): fc.Arbitrary<string> {
  return fc.array(RANGES, { maxLength }).map(points => String.fromCodePoint(...points))
}
