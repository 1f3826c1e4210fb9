/**
 * Signed notes and checkpoints: C2SP `signed-note`, `tlog-checkpoint`. docs/choices.md, "Checkpoints of the
 * ledger".
 */
import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  isOriginIssuer,
  originBase,
  signCheckpoint,
  verifyCheckpoint,
} from '../../src/wire/ledger/checkpoint.ts'
import {
  isNoteKeyName,
  noteKeyId,
  parseNote,
  signNote,
  verifyNote,
} from '../../src/wire/ledger/signed-note.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import '../support/property-seed.ts'

interface GoNote {
  name: string
  seed: number
  x: string
  text: string
  note: string
}
const GO = JSON.parse(readFileSync('test/wire/signed-notes.json', 'utf8')) as {
  notes: GoNote[]
  changed: { change: string; note: string; opens: boolean }[]
}
/** A key whose seed is this byte 32 times. */
const keyOf = ({ seed, x }: GoNote) =>
  importPrivateJwk({ kty: 'OKP', crv: 'Ed25519', x, d: Buffer.alloc(32, seed).toString('base64url') })

const key = importPrivateJwk(generatePrivateJwk())
const other = importPrivateJwk(generatePrivateJwk())
const originOf = (issuer: string, tag: string) => originBase(issuer) + tag
const ORIGIN = originOf('https://as.example', 'AbCdEfGhIjKl')
const ROOT = Buffer.alloc(32, 7)

describe('A signed note', () => {
  it.each(GO.notes)('of Go is the one that is written here, byte for byte: $name, $seed', one => {
    expect(signNote(one.text, { name: one.name, key: keyOf(one) })).toBe(one.note)
    expect(verifyNote(one.note, { name: one.name, keys: [keyOf(one)] })).toBe(one.text)
  })

  const second = GO.notes[1]!
  it.each(GO.changed)('opens where it opens for Go, with a change: $change', ({ note, opens }) => {
    const verify = () => verifyNote(Buffer.from(note, 'base64'), { name: second.name, keys: [keyOf(second)] })
    if (opens) expect(verify()).toBe(second.text)
    else expect(verify).toThrow(/^invalid_request: Send /)
  })

  it('of the specification is read: empty lines in its text, and the key by its name and number', () => {
    const text = 'Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n'
    const line =
      '— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n'
    const read = parseNote(`${text}\n${line}`)
    expect(read.text).toBe(text)
    expect(read.signatures.map(({ name, keyId }) => [name, keyId.toString('hex')])).toEqual([
      ['quasimodo.example/salvatore', '367ba04b'],
    ])
    expect(read.signatures[0]!.signature).toHaveLength(64)
  })

  it('has at most a hundred signatures, and those of unknown keys are passed over', () => {
    const note = signNote('text\n', { name: 'log.example', key })
    const line = signNote('text\n', { name: 'witness.example', key: other }).slice('text\n\n'.length)
    const keys = { name: 'log.example', keys: [key] }
    expect(verifyNote(note + line.repeat(99), keys)).toBe('text\n')
    expect(() => verifyNote(note + line.repeat(100), keys)).toThrow('more than 100 signatures')
  })

  it('does not hold with one signature of a known key that is not its own, though another one holds', () => {
    const note = signNote('text\n', { name: 'log.example', key })
    const forged = Buffer.concat([noteKeyId('log.example', key), Buffer.alloc(64, 1)]).toString('base64')
    expect(() =>
      verifyNote(`${note}— log.example ${forged}\n`, { name: 'log.example', keys: [key] }),
    ).toThrow('does not hold')
  })

  it.each(['', 'a b', 'a+b', 'a\u00a0b', 'a\u2003b', 'a\nb', 'a\u0085b', 'a\ud800'])(
    'has no key with a name of this kind: %j',
    name => {
      expect(isNoteKeyName(name)).toBe(false)
      expect(() => signNote('text\n', { name, key })).toThrow(RangeError)
    },
  )

  it.each(['', 'no newline', 'a\tb\n', 'a\rb\n', '\ud800\n'])(
    'is not written over a text that no reader takes: %j',
    text => {
      expect(() => signNote(text, { name: 'log.example', key })).toThrow(RangeError)
    },
  )
})

describe('A checkpoint', () => {
  it('of the specification is read', () => {
    const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'
    const line =
      '— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n'
    const read = parseNote(`${text}\n${line}`)
    expect(read.signatures[0]!.name).toBe(read.text.split('\n')[0])
    expect(
      signCheckpoint(
        {
          origin: 'example.com/behind-the-sofa',
          size: 20_852_163,
          root: Buffer.from('CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=', 'base64'),
        },
        key,
      ).split('\n\n')[0],
    ).toBe(text.trimEnd())
  })

  it('names its owner by the issuer without the scheme and her routing tag, and so does its key', () => {
    expect(ORIGIN).toBe('as.example/ledger/AbCdEfGhIjKl')
    expect(originOf('http://127.0.0.1:9100', 'x')).toBe('127.0.0.1:9100/ledger/x')
    const note = signCheckpoint({ origin: ORIGIN, size: 5, root: ROOT }, key)
    expect(note.split('\n').slice(0, 4)).toEqual([ORIGIN, '5', ROOT.toString('base64'), ''])
    expect(note).toContain(`\n— ${ORIGIN} `)
  })

  it.each<[boolean, string]>([
    [true, 'https://as.example'],
    [true, 'http://127.0.0.1:9100'],
    [false, 'https://a+s.example'],
    [false, 'https://a s.example'],
  ])('can be written (%s) for the issuer %s', (can, issuer) => {
    expect(isOriginIssuer(issuer)).toBe(can)
  })

  it('is read as it was signed, whatever its size and root, by any published key of its log', () => {
    fc.assert(
      fc.property(
        fc.maxSafeNat(),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.stringMatching(/^[A-Za-z0-9_-]{1,20}$/),
        (size, root, tag) => {
          const origin = originOf('https://as.example', tag)
          const note = signCheckpoint({ origin, size, root }, key)
          expect(verifyCheckpoint(note, { origin, keys: [other, key] })).toEqual({
            origin,
            size,
            root: Buffer.from(root),
          })
        },
      ),
    )
  })

  it('does not hold with any one byte changed', () => {
    const note = Buffer.from(signCheckpoint({ origin: ORIGIN, size: 1_234, root: ROOT }, key))
    fc.assert(
      fc.property(fc.nat(note.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(note)
        changed[at]! ^= change
        expect(() => verifyCheckpoint(changed, { origin: ORIGIN, keys: [key] })).toThrow(
          /^invalid_request: Send /,
        )
      }),
      { numRuns: 500 },
    )
  })

  it.each<[string, string]>([
    ['another origin', `as.example/ledger/other\n5\n${ROOT.toString('base64')}\n`],
    ['a leading zero', `${ORIGIN}\n05\n${ROOT.toString('base64')}\n`],
    ['a sign', `${ORIGIN}\n+5\n${ROOT.toString('base64')}\n`],
    ['more leaves than a number counts', `${ORIGIN}\n9007199254740992\n${ROOT.toString('base64')}\n`],
    ['a root of 31 bytes', `${ORIGIN}\n5\n${ROOT.subarray(1).toString('base64')}\n`],
    ['a root in another spelling', `${ORIGIN}\n5\n${ROOT.toString('base64').replace('c=', 'd=')}\n`],
    ['a root in base64url', `${ORIGIN}\n5\n${Buffer.alloc(32, 255).toString('base64url')}\n`],
    ['an extension line', `${ORIGIN}\n5\n${ROOT.toString('base64')}\nmore\n`],
    ['an empty line behind', `${ORIGIN}\n5\n${ROOT.toString('base64')}\n\n`],
    ['two lines', `${ORIGIN}\n5\n`],
  ])('is none with %s, though the key of its log signed it', (_what, text) => {
    const note = signNote(text, { name: ORIGIN, key })
    expect(() => verifyCheckpoint(note, { origin: ORIGIN, keys: [key] })).toThrow(/^invalid_request: Send /)
  })

  it('does not hold by another key, or for another origin', () => {
    const note = signCheckpoint({ origin: ORIGIN, size: 5, root: ROOT }, key)
    expect(() => verifyCheckpoint(note, { origin: ORIGIN, keys: [other] })).toThrow('a known key')
    expect(() => verifyCheckpoint(note, { origin: `${ORIGIN}/1`, keys: [key] })).toThrow('a known key')
  })

  it.each([-1, 0.5, 2 ** 53, Number.NaN])('is not written of %d leaves', size => {
    expect(() => signCheckpoint({ origin: ORIGIN, size, root: ROOT }, key)).toThrow(RangeError)
  })
})
