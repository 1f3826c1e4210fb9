/** What of a ledger entry its leaf covers: docs/choices.md, "The tree of the ledger". */
import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deletedLeaf, ledgerLeaf, type LedgerRow } from '../../src/rules/ledger/ledger-leaf.ts'
import { leafHash } from '../../src/rules/ledger/merkle.ts'
import { encodeBase64url, s256Json } from '../../src/wire/encoding.ts'
import { canonicalize } from '../../src/wire/json.ts'
import { refusalOf } from '../support/refusals.ts'

const ROW: LedgerRow = {
  owner: 'alice',
  ts: '2026-11-28T18:00:00.123Z',
  kind: 'touched',
  salt: Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'),
  family: 'fam_1',
  handle: 'jkt:one',
  count: 1,
  data: '{"tool":"portfolio_read"}',
  prev: 7,
}

const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest()

describe('The leaf of an entry', () => {
  it.each<[string, Partial<LedgerRow>, string, string]>([
    [
      'with a handle names the entry before it',
      {},
      '{"count":1,"data":"{\\"tool\\":\\"portfolio_read\\"}","family":"fam_1","handle":"jkt:one","salt":"AAECAwQFBgcICQoLDA0ODw"}',
      '"kind":"touched","owner":"alice","prev":7,"ts":"2026-11-28T18:00:00.123Z","v":1}',
    ],
    [
      'with a handle names none by 0',
      { prev: 0 },
      '{"count":1,"data":"{\\"tool\\":\\"portfolio_read\\"}","family":"fam_1","handle":"jkt:one","salt":"AAECAwQFBgcICQoLDA0ODw"}',
      '"kind":"touched","owner":"alice","prev":0,"ts":"2026-11-28T18:00:00.123Z","v":1}',
    ],
    [
      'without a handle names none, and what is absent is null',
      { handle: null, family: null, data: '{}', kind: 'policy_changed', prev: 9 },
      '{"count":1,"data":"{}","family":null,"handle":null,"salt":"AAECAwQFBgcICQoLDA0ODw"}',
      '"kind":"policy_changed","owner":"alice","ts":"2026-11-28T18:00:00.123Z","v":1}',
    ],
    [
      'covers the text of its data, spaces and order and all',
      { data: '{ "b": 1.0,\n"a": "\\u00e9" }', count: 11 },
      '{"count":11,"data":"{ \\"b\\": 1.0,\\n\\"a\\": \\"\\\\u00e9\\" }","family":"fam_1","handle":"jkt:one","salt":"AAECAwQFBgcICQoLDA0ODw"}',
      '"kind":"touched","owner":"alice","prev":7,"ts":"2026-11-28T18:00:00.123Z","v":1}',
    ],
  ])('%s', (_what, change, body, rest) => {
    const text = `{"body_s256":"s256:${sha256(body).toString('base64url')}",${rest}`
    expect(ledgerLeaf({ ...ROW, ...change })).toEqual(sha256(`\0${text}`))
  })

  it.each<[keyof LedgerRow, LedgerRow[keyof LedgerRow]]>([
    ['owner', 'alicf'],
    ['ts', '2026-11-28T18:00:00.124Z'],
    ['kind', 'denied'],
    ['salt', Buffer.alloc(16)],
    ['family', null],
    ['handle', 'jkt:two'],
    ['count', 2],
    ['data', '{"tool":"portfolio_read" }'],
    ['prev', 8],
  ])('is another one where only the %s differs', (name, value) => {
    expect(ledgerLeaf({ ...ROW, [name]: value })).not.toEqual(ledgerLeaf(ROW))
  })

  it.each(['{', '', '{"a":1,"a":2}', '[1e999]', '\u0000', '{"deep":' + '['.repeat(100)])(
    'has a value though its data, %j, is no JSON that this program would read',
    data => {
      expect(ledgerLeaf({ ...ROW, data })).toHaveLength(32)
    },
  )

  it('is over the JCS of its members, whatever texts and numbers they are', () => {
    const text = fc.string({ unit: 'binary' })
    const row: fc.Arbitrary<LedgerRow> = fc.record({
      owner: text,
      ts: text,
      kind: text,
      salt: fc.uint8Array({ maxLength: 20 }),
      family: fc.option(text),
      handle: fc.option(text),
      count: fc.maxSafeInteger(),
      data: text,
      prev: fc.maxSafeNat(),
    })
    fc.assert(
      fc.property(row, ({ owner, ts, kind, prev, salt, ...body }) => {
        const body_s256 = s256Json({ ...body, salt: encodeBase64url(salt) })
        const chained = body.handle === null ? {} : { prev }
        const entry = canonicalize({ v: 1, owner, ts, kind, ...chained, body_s256 })
        expect(ledgerLeaf({ owner, ts, kind, prev, salt, ...body })).toEqual(leafHash(entry))
      }),
    )
  })

  it.each(['owner', 'ts', 'kind', 'family', 'handle', 'data'])(
    'is none where the %s has half of a surrogate pair, which no database holds',
    name => {
      expect(refusalOf(() => ledgerLeaf({ ...ROW, [name]: '\ud83d' })).code).toBe('invalid_request')
    },
  )

  it('that was deleted before there was a tree says at which position, and of which owner', () => {
    expect(deletedLeaf('alice', 3)).toEqual(sha256('\0{"deleted":3,"owner":"alice","v":1}'))
    expect(deletedLeaf('alice', 4)).not.toEqual(deletedLeaf('alice', 3))
    expect(deletedLeaf('bob', 3)).not.toEqual(deletedLeaf('alice', 3))
  })
})
