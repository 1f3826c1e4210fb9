/** Cosignatures of witnesses: C2SP `tlog-cosignature`. docs/choices.md, "Checkpoints of the ledger". */
import { verify } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { signCheckpoint, verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { cosign, readCosignature, verifyCosignatures } from '../../src/wire/ledger/cosignature.ts'
import { noteKeyId, parseNote, signatureLine, signNote } from '../../src/wire/ledger/signed-note.ts'
import { encodeVerifierKey, parseWitnessKey } from '../../src/wire/ledger/verifier-key.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import '../support/property-seed.ts'

const newKey = () => importPrivateJwk(generatePrivateJwk())
const [log, key, other] = [newKey(), newKey(), newKey()]
const NAME = 'witness.example/w1'
const witnessOf = (name: string, own: PrivateKey) =>
  parseWitnessKey(encodeVerifierKey({ name, type: 'cosignature', key: own }))
const WITNESS = witnessOf(NAME, key)
const ORIGIN = 'as.example/ledger/AbCdEfGhIjKl'
const NOTE = signCheckpoint({ origin: ORIGIN, size: 5, root: Buffer.alloc(32, 7) }, log)
const { text: TEXT } = parseNote(NOTE)
const TIME = 1_679_315_147
const lineOf = (time = TIME, by = { name: NAME, key }, text = TEXT) =>
  signatureLine(cosign(text, { ...by, time }))

describe('A cosignature', () => {
  it('signs a header, the time, and the whole text of the checkpoint', () => {
    const { keyId, signature } = cosign(TEXT, { name: NAME, key, time: TIME })
    expect(keyId).toEqual(noteKeyId(NAME, key, 'cosignature'))
    expect(signature).toHaveLength(72)
    expect(signature.readBigUInt64BE()).toBe(BigInt(TIME))
    const message = `cosignature/v1\ntime 1679315147\n${ORIGIN}\n5\n${Buffer.alloc(32, 7).toString('base64')}\n`
    expect(verify(null, Buffer.from(message), key.keyObject, signature.subarray(8))).toBe(true)
  })

  it('of the specification is read: name, id, and the time as the first eight bytes', () => {
    const { signatures } = parseNote(
      'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n' +
        '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n' +
        '— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n',
    )
    const { name, keyId, signature } = signatures[1]!
    expect([name, keyId.toString('hex'), signature.length]).toEqual([
      'witness.example.com/w1',
      '8d66cf3f',
      72,
    ])
    expect(signature.readBigUInt64BE()).toBe(1_679_315_147n)
  })

  it('stands behind the signature of the log, whose readers pass it over', () => {
    const note = NOTE + lineOf()
    expect(verifyCheckpoint(note, { origin: ORIGIN, keys: [log] }).size).toBe(5)
    expect(verifyCosignatures(note, [WITNESS])).toEqual([{ witness: NAME, time: TIME }])
  })

  it('is verified at whatever time it was made, up to the year 9999', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 253_402_300_799 }), time => {
        expect(verifyCosignatures(NOTE + lineOf(time), [WITNESS])).toEqual([{ witness: NAME, time }])
      }),
      { numRuns: 50 },
    )
    for (const time of [-1, 0.5, 253_402_300_800, Number.NaN]) expect(() => lineOf(time)).toThrow(RangeError)
  })

  it('counts once a witness, with its latest time, in the order of the witnesses', () => {
    const second = { name: 'second.example', key: other }
    const note = NOTE + lineOf(TIME + 5, second) + lineOf(TIME) + lineOf(TIME + 9) + lineOf(TIME + 1)
    expect(verifyCosignatures(note, [WITNESS, witnessOf(second.name, other)])).toEqual([
      { witness: NAME, time: TIME + 9 },
      { witness: second.name, time: TIME + 5 },
    ])
  })

  it('of another name or key says nothing of a witness', () => {
    const others = [lineOf(TIME, { name: 'a.example', key }), lineOf(TIME, { name: NAME, key: other })]
    expect(verifyCosignatures(NOTE + others.join(''), [WITNESS])).toEqual([])
    // As a note, not as a cosignature: it has another id.
    const plain = signNote(TEXT, { name: NAME, key })
    expect(verifyCosignatures(plain, [WITNESS])).toEqual([])
  })

  it('does not hold over another text, and then the whole note is refused', () => {
    const larger = TEXT.replace('\n5\n', '\n6\n')
    expect(() => verifyCosignatures(NOTE + lineOf() + lineOf(TIME, undefined, larger), [WITNESS])).toThrow(
      'a cosignature of witness.example/w1 does not hold',
    )
  })

  it('does not hold with any one bit of its time or its signature changed', () => {
    const { keyId, signature } = cosign(TEXT, { name: NAME, key, time: TIME })
    fc.assert(
      fc.property(fc.nat(8 * signature.length - 1), bit => {
        const changed = Buffer.from(signature)
        changed[Math.floor(bit / 8)]! ^= 1 << (bit % 8)
        const line = signatureLine({ name: NAME, keyId, signature: changed })
        expect(() => verifyCosignatures(NOTE + line, [WITNESS])).toThrow('does not hold')
      }),
      { numRuns: 200 },
    )
  })

  it.each([0, 8, 63, 64, 71, 73])('of %d bytes does not hold', length => {
    const signature = Buffer.alloc(length, 1)
    const line = signatureLine({ name: NAME, keyId: noteKeyId(NAME, key, 'cosignature'), signature })
    expect(() => verifyCosignatures(NOTE + line, [WITNESS])).toThrow(/^invalid_request: /)
  })
})

describe('The answer of a witness', () => {
  it('has its cosignature, the latest if there are several, and those of others are left out', () => {
    const another = lineOf(TIME + 9, { name: 'second.example', key: other })
    const lines = lineOf(TIME) + another + lineOf(TIME + 2) + lineOf(TIME + 1)
    expect(signatureLine(readCosignature(lines, TEXT, WITNESS))).toBe(lineOf(TIME + 2))
  })

  it.each<[string, string]>([
    ['is empty', ''],
    ['has no newline at its end', lineOf().trimEnd()],
    ['has the cosignature of another witness alone', lineOf(TIME, { name: 'second.example', key: other })],
    ['is over another checkpoint', lineOf(TIME, undefined, TEXT.replace('\n5\n', '\n6\n'))],
    ['begins with a text of its own', `more\n\n${lineOf()}`],
    ['begins with an empty line', `\n${lineOf()}`],
    ['is a page', '<html>no</html>\n'],
  ])('is refused where it %s', (_what, answer) => {
    expect(() => readCosignature(answer, TEXT, WITNESS)).toThrow(/^invalid_request: /)
  })
})
