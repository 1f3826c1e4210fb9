/** The request `add-checkpoint`: C2SP `tlog-witness`. docs/choices.md, "Checkpoints of the ledger". */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ADD_CHECKPOINT_BYTES_MAX,
  encodeAddCheckpoint,
  encodeTreeSize,
  parseAddCheckpoint,
  parseTreeSize,
} from '../../src/wire/ledger/add-checkpoint.ts'
import '../support/property-seed.ts'

const HASH = Buffer.alloc(32, 9)
const LINE = `${HASH.toString('base64')}\n`
const parse = (body: string) => parseAddCheckpoint(Buffer.from(body))

describe('A request add-checkpoint', () => {
  it('of the specification is read', () => {
    const proof = [
      'PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=',
      'jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=',
      '5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=',
      '/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=',
    ]
    const note =
      'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n' +
      '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n'
    const body = `old 20852014\n${proof.join('\n')}\n\n${note}`
    const read = parse(body)
    expect(read).toEqual({
      oldSize: 20_852_014,
      proof: proof.map(line => Buffer.from(line, 'base64')),
      note,
    })
    expect(encodeAddCheckpoint(read)).toBe(body)
  })

  it('is read as it was written, whatever the size, the proof and the note', () => {
    const hash = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(
        fc.maxSafeNat(),
        fc.array(hash, { maxLength: 63 }),
        fc.string({ unit: 'grapheme' }),
        (oldSize, proof, note) => {
          expect(parse(encodeAddCheckpoint({ oldSize, proof, note }))).toEqual({
            oldSize,
            proof: proof.map(one => Buffer.from(one)),
            note,
          })
        },
      ),
    )
  })

  it('has at most 63 hashes, all of which fit into the longest body', () => {
    const proof = Array.from({ length: 63 }, () => HASH)
    const longest = encodeAddCheckpoint({ oldSize: Number.MAX_SAFE_INTEGER, proof, note: '' })
    expect(longest.length).toBeLessThan(ADD_CHECKPOINT_BYTES_MAX / 32)
    expect(parse(longest).proof).toHaveLength(63)
    expect(() => encodeAddCheckpoint({ oldSize: 1, proof: [...proof, HASH], note: '' })).toThrow(RangeError)
    expect(() => parse(`old 1\n${LINE.repeat(64)}\nnote`)).toThrow('more than 63 hashes')
  })

  it('has at most 128 KiB', () => {
    const empty = encodeAddCheckpoint({ oldSize: 1, proof: [], note: '' })
    const note = 'x'.repeat(ADD_CHECKPOINT_BYTES_MAX - empty.length)
    expect(parse(empty + note).note).toBe(note)
    expect(() => parse(`${empty}${note}x`)).toThrow(`more than ${ADD_CHECKPOINT_BYTES_MAX} bytes`)
  })

  it.each<[string, string]>([
    ['is empty', ''],
    ['has no empty line', `old 5\n${LINE}note`],
    ['begins with an empty line', `\n\nold 5\n\nnote`],
    ['has no old size', `${LINE}\nnote`],
    ['has another word', `new 5\n\nnote`],
    ['has an old size with a leading zero', `old 05\n\nnote`],
    ['has an old size with a sign', `old +5\n\nnote`],
    ['has an old size with two spaces', `old  5\n\nnote`],
    ['has an old size with a space behind it', `old 5 \n\nnote`],
    ['has an old size in other digits', `old ٥\n\nnote`],
    ['has an old size over 2^53 - 1', `old 9007199254740992\n\nnote`],
    ['has an old size of many digits', `old 10000000000000000\n\nnote`],
    ['has two old sizes', `old 5\nold 5\n\nnote`],
    ['has carriage returns', `old 5\r\n\r\nnote`],
    ['has a hash of 31 bytes', `old 5\n${HASH.subarray(1).toString('base64')}\n\nnote`],
    ['has a hash of 33 bytes', `old 5\n${Buffer.alloc(33).toString('base64')}\n\nnote`],
    ['has a hash in base64url', `old 5\n${Buffer.alloc(32, 255).toString('base64url')}=\n\nnote`],
    ['has a hash without padding', `old 5\n${LINE.replace('=', '')}\nnote`],
    ['has a hash in another spelling', `old 5\n${LINE.replace('k=', 'l=')}\nnote`],
    ['has a hash with a space before it', `old 5\n ${LINE}\nnote`],
  ])('is refused where it %s', (_what, body) => {
    expect(() => parse(body)).toThrow(/^invalid_request: Send a request add-checkpoint/)
  })

  it('is refused where it is not in UTF-8', () => {
    expect(() => parseAddCheckpoint(Buffer.from([...Buffer.from('old 5\n\n'), 0xff]))).toThrow('UTF-8')
  })

  it.each([-1, 0.5, 2 ** 53, Number.NaN])('is not written with the old size %d', oldSize => {
    expect(() => encodeAddCheckpoint({ oldSize, proof: [], note: '' })).toThrow(RangeError)
  })

  it('is not written with a hash of another length', () => {
    expect(() => encodeAddCheckpoint({ oldSize: 1, proof: [HASH.subarray(1)], note: '' })).toThrow(RangeError)
  })
})

describe('The size in an answer 409', () => {
  it.each([0, 7, Number.MAX_SAFE_INTEGER])('is read as it was written: %d', size => {
    expect(parseTreeSize(encodeTreeSize(size))).toBe(size)
    expect(encodeTreeSize(size)).toBe(`${size}\n`)
  })

  it.each(['', '5', '5\n\n', '05\n', ' 5\n', '-5\n', '5.0\n', '9007199254740992\n', '{"size":5}\n'])(
    'is none in %j',
    body => {
      expect(() => parseTreeSize(body)).toThrow(/^invalid_request: /)
    },
  )
})
