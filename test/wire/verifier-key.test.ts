/** Verifier keys of notes: C2SP `signed-note`. docs/choices.md, "Checkpoints of the ledger". */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { verifyNote } from '../../src/wire/ledger/signed-note.ts'
import { encodeVerifierKey, parseVerifierKey, parseWitnessKey } from '../../src/wire/ledger/verifier-key.ts'
import { generatePrivateJwk, importPrivateJwk, importPublicJwk } from '../../src/wire/signatures/keys.ts'

const GO = JSON.parse(readFileSync('test/wire/signed-notes.json', 'utf8')) as {
  notes: { name: string; x: string; text: string; note: string }[]
}
const key = importPrivateJwk(generatePrivateJwk())
const LINE = encodeVerifierKey({ name: 'witness.example', type: 'cosignature', key })
const [, ID = '', BASE64 = ''] = /^witness\.example\+([0-9a-f]{8})\+(.*)$/.exec(LINE) ?? []

describe('A verifier key', () => {
  it.each(GO.notes)('verifies what Go signed by it: $name', ({ name, x, text, note }) => {
    const own = importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x })
    const read = parseVerifierKey(encodeVerifierKey({ name, type: 'ed25519', key: own }))
    expect(read).toMatchObject({ name, type: 'ed25519' })
    expect(verifyNote(note, { name: read.name, keys: [read.key] })).toBe(text)
  })

  it('is written as name, id and key, of which the last begins with the type', () => {
    expect(LINE).toBe(`witness.example+${ID}+${BASE64}`)
    expect(ID).toMatch(/^[0-9a-f]{8}$/)
    expect(Buffer.from(BASE64, 'base64')).toEqual(Buffer.concat([Buffer.of(4), key.bytes]))
    expect(parseVerifierKey(LINE)).toEqual({
      name: 'witness.example',
      type: 'cosignature',
      keyId: Buffer.from(ID, 'hex'),
      key: importPublicJwk(key.jwk),
    })
  })

  it('has another id for each type, so that no signature of one passes as one of the other', () => {
    const log = encodeVerifierKey({ name: 'witness.example', type: 'ed25519', key })
    expect(log.split('+')[1]).not.toBe(ID)
    expect(parseVerifierKey(log).type).toBe('ed25519')
    expect(() => parseWitnessKey(log)).toThrow('it is not of a witness')
    expect(parseWitnessKey(LINE)).toEqual(parseVerifierKey(LINE))
  })

  const typed = (...bytes: number[]): string =>
    Buffer.concat([Buffer.from(bytes), key.bytes]).toString('base64')
  it.each<[string, string]>([
    ['without an id', `witness.example+${BASE64}`],
    ['with an empty name', `+${ID}+${BASE64}`],
    ['with a space in its name', `witness example+${ID}+${BASE64}`],
    ['with an id of another name', `witness.examples+${ID}+${BASE64}`],
    ['with an id of seven digits', `witness.example+${ID.slice(1)}+${BASE64}`],
    ['with a type that is not known', `witness.example+${ID}+${typed(6)}`],
    ['with a key that is too long', `witness.example+${ID}+${typed(4, 0)}`],
    ['with a key that is too short', `witness.example+${ID}+${Buffer.alloc(32, 4).toString('base64')}`],
    ['with a key in base64url', `witness.example+${ID}+${BASE64.slice(0, -1)}-`],
    [
      'with a key of small order',
      `witness.example+${ID}+${Buffer.of(4, 1, ...Buffer.alloc(31)).toString('base64')}`,
    ],
    ['with text behind it', `${LINE} `],
    ['with a newline behind it', `${LINE}\n`],
  ])('is none %s', (_what, line) => {
    expect(() => parseVerifierKey(line)).toThrow(/^invalid_request: /)
  })

  it('is not written under a name that no key may have', () => {
    expect(() => encodeVerifierKey({ name: 'a b', type: 'cosignature', key })).toThrow(RangeError)
  })
})
