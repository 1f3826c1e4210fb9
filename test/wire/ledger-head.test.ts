/**
 * Heads of ledgers in receipts and introspection answers: docs/choices.md, "Heads that others keep". Notes
 * that Go wrote are the vectors.
 */
import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { originBase, signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import {
  checkpointOfHead,
  headOfCheckpoint,
  readLedgerHead,
  logOfOrigin,
  tagOfOrigin,
  verifyLedgerHead,
} from '../../src/wire/ledger/ledger-head.ts'
import { joinNote, parseNote } from '../../src/wire/ledger/signed-note.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import '../support/property-seed.ts'

const GO = JSON.parse(readFileSync('test/wire/signed-notes.json', 'utf8')) as {
  notes: { name: string; text: string; note: string }[]
}
const key = importPrivateJwk(generatePrivateJwk())
const other = importPrivateJwk(generatePrivateJwk())
const ISSUER = 'https://as.example/owners'
const ORIGIN = `${originBase(ISSUER)}AbCdEfGhIjKl`
const NOTE = signCheckpoint({ origin: ORIGIN, size: 300, root: Buffer.alloc(32, 7) }, key)
const HEAD = headOfCheckpoint(NOTE, key.kid)

describe('A ledger_head', () => {
  it('makes the signed note again byte for byte, whatever its origin, size and root', () => {
    fc.assert(
      fc.property(
        fc.maxSafeNat(),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.stringMatching(/^[A-Za-z0-9_-]{1,64}(\/[1-9][0-9]{0,9})?$/),
        (size, root, tag) => {
          const note = signCheckpoint({ origin: originBase(ISSUER) + tag, size, root }, key)
          const head = headOfCheckpoint(note, key.kid)
          // As a receipt carries it.
          const read = readLedgerHead(JSON.parse(JSON.stringify(head)))
          expect(read).toEqual(head)
          expect(checkpointOfHead(read, key)).toBe(note)
          expect(verifyLedgerHead(read, [other, key])).toMatchObject({ size, root: Buffer.from(root) })
        },
      ),
    )
  })

  it.each(GO.notes)(
    'takes the parts of a note that Go signed, and its lines come out again: $name',
    ({ note }) => {
      const { text, signatures } = parseNote(note)
      expect(joinNote(text, signatures[0]!)).toBe(note)
    },
  )

  it('has no member but origin, size, root, kid and sig', () => {
    expect(Object.keys(HEAD)).toEqual(['origin', 'size', 'root', 'kid', 'sig'])
    expect(readLedgerHead({ ...HEAD, more: 1 })).toEqual(HEAD)
  })

  it.each(['size', 'root', 'sig', 'origin'] as const)('does not hold with another %s', name => {
    const { root, sig } = headOfCheckpoint(
      signCheckpoint({ origin: ORIGIN, size: 301, root: Buffer.alloc(32, 8) }, key),
      key.kid,
    )
    const changed = { ...HEAD, size: 301, root, sig, origin: `${ORIGIN}/1` }
    const one = { ...HEAD, [name]: changed[name] }
    expect(() => verifyLedgerHead(one, [key])).toThrow(/^invalid_request: Send a note/)
  })

  it('does not hold by the keys of another log, or under the name of another key', () => {
    expect(() => verifyLedgerHead(HEAD, [other])).toThrow('the key of the log that the head names')
    const misnamed = { ...HEAD, kid: other.kid }
    expect(() => verifyLedgerHead(misnamed, [other, key])).toThrow(/^invalid_request: Send a note/)
  })

  it.each<[string, unknown]>([
    ['no object', 'head'],
    ['an array', [HEAD]],
    ['an origin that no key may be named by', { ...HEAD, origin: 'as.example/ledger/a b' }],
    ['an origin with a line of its own', { ...HEAD, origin: `${ORIGIN}\n5` }],
    ['no origin', { ...HEAD, origin: undefined }],
    ['a very long origin', { ...HEAD, origin: 'a'.repeat(3_000) }],
    ['a size that is text', { ...HEAD, size: '300' }],
    ['a size below 0', { ...HEAD, size: -1 }],
    ['a size that is no whole number', { ...HEAD, size: 0.5 }],
    ['a size above 2^53 - 1', { ...HEAD, size: 2 ** 53 }],
    ['a root of 31 bytes', { ...HEAD, root: Buffer.alloc(31).toString('base64url') }],
    ['a root in base64', { ...HEAD, root: Buffer.alloc(32, 255).toString('base64') }],
    ['a root in another spelling', { ...HEAD, root: `${HEAD.root.slice(0, -1)}d` }],
    ['a signature of 63 bytes', { ...HEAD, sig: Buffer.alloc(63).toString('base64url') }],
    ['no kid', { ...HEAD, kid: '' }],
  ])('is none with %s', (_what, value) => {
    expect(() => readLedgerHead(value)).toThrow(/^invalid_request: Give /)
  })
})

describe('The routing tag in an origin', () => {
  it.each<[string | undefined, string]>([
    ['AbCdEfGhIjKl', ORIGIN],
    ['AbCdEfGhIjKl', `${ORIGIN}/1764374400`],
    [undefined, `${ORIGIN}/0`],
    [undefined, `${ORIGIN}/`],
    [undefined, `${ORIGIN}/1/2`],
    [undefined, 'as.example/ledger/AbCdEfGhIjKl'],
    [undefined, `https://${ORIGIN}`],
    [undefined, originBase(ISSUER)],
  ])('is %s in %s, for its issuer', (tag, origin) => {
    expect(tagOfOrigin(origin, ISSUER)).toBe(tag)
  })
})

describe('The origins of one ledger', () => {
  it.each<[string, string]>([
    [ORIGIN, ORIGIN],
    [ORIGIN, `${ORIGIN}/1764374400`],
    ['as.example/ledger/1764374400', 'as.example/ledger/1764374400'],
    ['as.example/ledger/1764374400', 'as.example/ledger/1764374400/5'],
    ['as.example/ledger/tag/05', 'as.example/ledger/tag/05'],
  ])('have %s in common: %s', (log, origin) => {
    expect(logOfOrigin(origin)).toBe(log)
  })
})
